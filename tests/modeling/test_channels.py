"""The embeddings of channels and of positions that count lines."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_bert_app.config import weight_shapes
from keras_bert_app.config.bert_config import BertConfig
from keras_bert_app.errors import UserError
from keras_bert_app.modeling.embeddings import BertEmbeddings
from keras_bert_app.modeling.encoder import BertEncoder
from keras_bert_app.modeling.pretrainer import BertPretrainer
from keras_bert_app.tasks import mlm_tuning

CONFIG = BertConfig(
    vocab_size=11,
    hidden_size=6,
    num_hidden_layers=1,
    num_attention_heads=2,
    intermediate_size=7,
    max_position_embeddings=5,
    hidden_dropout_prob=0.0,
    attention_probs_dropout_prob=0.0,
    tokenizer="symbols",
    channels=("age:3", "dose:v2"),
    positions="lines",
)
INPUTS = {
    "input_word_ids": tf.constant([[2, 7, 9, 3]]),
    "input_mask": tf.constant([[1, 1, 1, 1]]),
    "input_type_ids": tf.constant([[0, 0, 0, 1]]),
    "input_positions": tf.constant([[0, 1, 1, 1]]),
    "input_age": tf.constant([[0, 3, 1, 0]]),
    "input_dose": tf.constant([[[0.0, 0.0], [0.5, -2.0], [1.0, 0.0], [0.0, 0.0]]]),
}


def test_embeddings_are_the_normalized_sum_of_all_tables_and_of_the_projected_vector():
    layer = BertEmbeddings(CONFIG, seed=3, dropout_place=0)
    layer.build()
    values = {weight.path.split("/")[-1]: weight.numpy() for weight in layer.weights}
    total = (
        values["word_embeddings"][[2, 7, 9, 3]]
        + values["position_embeddings"][[0, 1, 1, 1]]
        + values["token_type_embeddings"][[0, 0, 0, 1]]
        + values["channel_age"][[0, 3, 1, 0]]
        + INPUTS["input_dose"][0].numpy() @ values["channel_dose"]
    )
    centred = total - total.mean(axis=1, keepdims=True)
    expected = centred / np.sqrt((centred**2).mean(axis=1, keepdims=True) + CONFIG.layer_norm_eps)
    channels = {"age": INPUTS["input_age"], "dose": INPUTS["input_dose"]}
    outputs = layer(
        INPUTS["input_word_ids"], INPUTS["input_type_ids"], positions=INPUTS["input_positions"], channels=channels
    )
    np.testing.assert_allclose(outputs[0], expected, atol=1e-5)
    assert values["channel_age"].shape == (4, 6) and values["channel_dose"].shape == (2, 6)


def test_the_paths_of_the_weights_are_those_of_the_configuration_and_each_gets_a_gradient():
    model = BertPretrainer(CONFIG)
    shapes = {weight.path: tuple(weight.shape) for weight in model.weights}
    assert shapes == weight_shapes.shapes(CONFIG)
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(model(INPUTS)["mlm_logits"] ** 2)
    tables = [weight.value for weight in model.trainable_weights if "/channel_" in weight.path]
    assert len(tables) == 2 and all(tf.reduce_max(tf.abs(part)) > 0 for part in tape.gradient(loss, tables))


def test_keras_saves_and_loads_a_model_with_channels(tmp_path):
    encoder = BertEncoder(CONFIG, seed=2)
    encoder.save(tmp_path / "encoder.keras")
    again = keras.models.load_model(tmp_path / "encoder.keras")
    assert again.config == CONFIG
    np.testing.assert_array_equal(again(INPUTS)["sequence_output"], encoder(INPUTS)["sequence_output"])


def test_texts_for_the_tuning_of_a_language_model_keep_lines_that_have_positions():
    texts = ["a b\n\n c ", "d\ne"]
    assert mlm_tuning.documents_of(texts, CONFIG) == "a b\nc\n\nd\ne\n\n"
    assert mlm_tuning.documents_of(texts, CONFIG.replace(positions="tokens")) == "a b c\nd e\n"


def test_an_input_that_is_missing_is_named():
    inputs = {name: values for name, values in INPUTS.items() if name not in ("input_age", "input_positions")}
    with pytest.raises(ValueError, match="inputs: input_positions, input_age is missing"):
        BertEncoder(CONFIG)(inputs)


def test_the_order_of_a_line_makes_no_difference_to_its_symbols():
    swapped = {name: tf.gather(values, [0, 2, 1, 3], axis=1) for name, values in INPUTS.items()}
    encoder = BertEncoder(CONFIG, seed=4)
    states, others = encoder(INPUTS)["sequence_output"], encoder(swapped)["sequence_output"]
    np.testing.assert_allclose(tf.gather(others, [0, 2, 1, 3], axis=1), states, atol=1e-6)


def test_a_configuration_with_channels_comes_back_from_its_file_and_others_do_not_name_them():
    values = CONFIG.to_dict()
    assert values["channels"] == ("age:3", "dose:v2") and values["positions"] == "lines"
    assert BertConfig.from_dict({**values, "channels": ["age:3", "dose:v2"]}) == CONFIG
    assert not {"channels", "positions"} & set(BertConfig.of_size("tiny").to_dict())
    assert CONFIG.input_names == ("input_word_ids", "input_mask", "input_type_ids", *list(INPUTS)[3:])


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"tokenizer": "wordpiece"}, "'channels': only texts of symbols have it; give --tokenizer=symbols"),
        ({"tokenizer": "wordpiece", "channels": ()}, "'positions': only texts of symbols have it"),
        ({"architecture": "gpt"}, "'channels': a gpt does not read it"),
        ({"channels": "age:3"}, "'channels' is 'age:3'; expected a list"),
        ({"channels": ["age"]}, "config channel 'age': expected NAME:SIZE"),
        ({"positions": "line"}, "config positions 'line' is not known"),
    ],
)
def test_channels_that_a_model_cannot_have_are_refused_in_one_line(changes, words):
    with pytest.raises(UserError, match=words) as caught:
        CONFIG.replace(**changes)
    assert "\n" not in str(caught.value)
