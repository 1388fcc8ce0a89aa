"""The text-to-text model equals transformers' EncoderDecoderModel (tests/golden/generate_text_to_text.py)."""

import json

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_bert_app.config.bert_config import BertConfig
from keras_bert_app.errors import UserError
from keras_bert_app.modeling.execution import PLAIN, UNCOMPILED
from keras_bert_app.modeling.text_decoding import DecodingOptions
from keras_bert_app.modeling.text_to_text_model import Decoder, TextToTextModel
from tests.conftest import GOLDEN

BEGIN, END = 2, 3
# Path of a layer's part -> name of this part in the reference.
LAYER_NAMES = {
    "cross_attention_layer_norm": "crossattention.output.LayerNorm",
    "cross_attention/output": "crossattention.output.dense",
    "attention_layer_norm": "attention.output.LayerNorm",
    "attention/output": "attention.output.dense",
    "output_layer_norm": "output.LayerNorm",
    "intermediate": "intermediate.dense",
    "output": "output.dense",
}
KINDS = {"kernel": "weight", "gamma": "weight", "beta": "bias", "bias": "bias"}
OTHERS = {
    "embeddings/word_embeddings": "bert.embeddings.word_embeddings.weight",
    "embeddings/position_embeddings": "bert.embeddings.position_embeddings.weight",
    "embeddings/token_type_embeddings": "bert.embeddings.token_type_embeddings.weight",
    "embeddings/layer_norm/gamma": "bert.embeddings.LayerNorm.weight",
    "embeddings/layer_norm/beta": "bert.embeddings.LayerNorm.bias",
    "masked_lm/transform/kernel": "cls.predictions.transform.dense.weight",
    "masked_lm/transform/bias": "cls.predictions.transform.dense.bias",
    "masked_lm/layer_norm/gamma": "cls.predictions.transform.LayerNorm.weight",
    "masked_lm/layer_norm/beta": "cls.predictions.transform.LayerNorm.bias",
    "masked_lm/output_bias": "cls.predictions.bias",
}


def reference_value(path, arrays):
    """The reference's value of the variable with a path."""
    side, rest = path.split("/", 1)
    side, rest = ("decoder", path) if side == "masked_lm" else (side, rest)
    stem = f"state_dict/{side}." + ("bert." if side == "decoder" else "")
    if rest in OTHERS:
        value = arrays[
            f"state_dict/{side}." + (OTHERS[rest] if side == "decoder" else OTHERS[rest].removeprefix("bert."))
        ]
        return value.T if rest.endswith("kernel") else value
    layer, rest = rest.split("/", 1)
    part, kind = rest.rsplit("/", 1)
    stem += f"encoder.layer.{layer.removeprefix('layer_')}."

    def array(name):
        value = arrays[f"{stem}{name}.{KINDS[kind]}"]
        return value.T if kind == "kernel" else value

    fused = {
        "attention/query_key_value": ("attention", "query", "key", "value"),
        "cross_attention/query": ("crossattention", "query"),
        "cross_attention/key_value": ("crossattention", "key", "value"),
    }
    if part in fused:
        attention, *names = fused[part]
        return np.concatenate([array(f"{attention}.self.{name}") for name in names], axis=-1)
    return array(LAYER_NAMES[part])


@pytest.fixture(scope="module")
def case():
    """(model with the reference's weights, the reference's arrays, tensors of the batch)."""
    arrays = np.load(GOLDEN / "text_to_text.npz")
    config = BertConfig(**json.loads(str(arrays["metadata"]))["config"], hidden_act="gelu_exact")
    model = TextToTextModel(config, Decoder("transformer", 0, "nothing", BEGIN, END))
    for variable in model.weights:
        variable.assign(reference_value(variable.path, arrays))
    inputs = {
        name.removeprefix("inputs/"): tf.constant(arrays[name]) for name in arrays.files if name.startswith("inputs/")
    }
    return model, arrays, inputs


def source_of(inputs):
    return {name: values for name, values in inputs.items() if name != "target_word_ids"}


def test_logits_and_attention_to_the_encoder_are_those_of_the_reference(case):
    model, arrays, inputs = case
    outputs = model(inputs, return_attention_scores=True)
    is_piece = arrays["inputs/target_word_ids"][:, :-1] > 0
    np.testing.assert_allclose(
        outputs["logits"].numpy()[is_piece], arrays["outputs/logits"][is_piece], atol=2e-5, rtol=0
    )
    for layer, probabilities in enumerate(outputs["attention_scores"]):
        ours = np.moveaxis(probabilities.numpy(), 2, 1)[is_piece]
        right = np.moveaxis(arrays[f"outputs/attention_{layer}"], 2, 1)[is_piece]
        np.testing.assert_allclose(ours, right, atol=1e-5, rtol=0)


def test_alignments_are_the_mean_over_the_heads_of_the_last_layer_and_zero_at_padding(case):
    model, arrays, inputs = case
    ids = inputs["target_word_ids"][:, 1:]
    assert model.has_attention
    shares = model.alignments(source_of(inputs), ids).numpy()
    expected = arrays["outputs/attention_1"].mean(axis=1) * (ids.numpy() > 0)[:, :, None]
    np.testing.assert_allclose(shares, expected, atol=1e-5, rtol=0)
    np.testing.assert_allclose(shares.sum(axis=2), ids.numpy() > 0, atol=1e-5)
    assert not shares[inputs["input_mask"].numpy()[:, None].repeat(shares.shape[1], 1) == 0].any()


def test_a_beam_search_finds_the_texts_and_scores_of_the_reference(case):
    model, arrays, inputs = case
    num_beams, length = arrays["beams/ids"].shape[1:]
    decoded = model.decoded(source_of(inputs), DecodingOptions(length, num_beams, length_penalty=0.0))
    np.testing.assert_array_equal(decoded.ids, arrays["beams/ids"])
    np.testing.assert_allclose(decoded.scores, arrays["beams/scores"], atol=1e-5, rtol=0)


@pytest.mark.parametrize("execution", [PLAIN, UNCOMPILED])
def test_decoding_place_by_place_gives_the_logits_of_the_whole_target(case, execution):
    model, _, inputs = case
    whole = model(inputs, execution=execution)["logits"]
    states = model.encoder(inputs)["sequence_output"]
    cache, read_by_all = model.decoder.start(states, inputs["input_mask"], whole.shape[1], execution)
    is_piece = inputs["target_word_ids"][:, :-1] > 0
    for place in range(whole.shape[1]):
        ids = inputs["target_word_ids"][:, place]
        x, cache, _ = model.decoder.step(ids, tf.constant(place), cache, read_by_all, execution)
        logits = model.output_head(x, model.decoder.embeddings.word_table, execution=execution)[:, 0]
        shown = is_piece[:, place]
        np.testing.assert_allclose(logits[shown], whole[:, place][shown], atol=1e-5, rtol=0)


def test_a_decoder_shares_the_embeddings_or_the_layers_of_the_encoder():
    config = BertConfig(
        vocab_size=29, hidden_size=12, num_attention_heads=2, num_hidden_layers=3, intermediate_size=17,
        max_position_embeddings=13,
    )  # fmt: skip
    models = {
        shares: TextToTextModel(config, Decoder("transformer", 2, shares, BEGIN, END))
        for shares in ("nothing", "embeddings", "all")
    }
    paths = {shares: [variable.path for variable in model.weights] for shares, model in models.items()}
    for paths_of_model in paths.values():
        assert len(paths_of_model) == len(set(paths_of_model))
    own = set(paths["nothing"]) - set(paths["embeddings"])
    assert own and all(path.startswith("decoder/embeddings/") for path in own)
    assert all("cross_attention" in path for path in paths["all"] if path.startswith("decoder/"))
    all_shared = models["all"]
    assert all_shared.decoder.decoder_layers[1].attention is all_shared.encoder.transformer_layers[1].attention
    ids = tf.ones((2, 5), tf.int32)
    source = {"input_word_ids": ids, "input_mask": ids, "input_type_ids": 0 * ids}
    assert all_shared.decoded(source, DecodingOptions(4, 2)).ids.shape == (2, 2, 4)
    again = TextToTextModel.from_config(all_shared.get_config())
    assert [variable.path for variable in again.weights] == paths["all"]


@pytest.mark.parametrize("shares", ["nothing", "embeddings", "all"])
def test_every_weight_has_a_gradient_and_no_place_sees_a_later_one(case, shares):
    model, _, inputs = case
    model = TextToTextModel(model.config, Decoder("transformer", 0, shares, BEGIN, END), seed=3)
    with tf.GradientTape() as tape:
        logits = model(inputs, dropout_seed=tf.constant([1, 2]), execution=UNCOMPILED)["logits"]
        loss = tf.reduce_sum(tf.nn.log_softmax(logits)[..., 5])
    for variable, gradient in zip(model.trainable_weights, tape.gradient(loss, model.trainable_variables), strict=True):
        assert np.any(tf.convert_to_tensor(gradient)), variable.path
    changed = {
        **inputs,
        "target_word_ids": tf.concat([inputs["target_word_ids"][:, :4], inputs["target_word_ids"][:, 4:] // 2], 1),
    }
    np.testing.assert_allclose(model(changed)["logits"][:, :4], model(inputs)["logits"][:, :4], atol=1e-6)
    assert keras.ops.any(keras.ops.abs(model(changed)["logits"][:, 4:] - model(inputs)["logits"][:, 4:]) > 1e-3)


def test_pieces_that_the_vocabulary_lacks_are_never_written(case):
    model, _, inputs = case
    head = Decoder("transformer", 0, "nothing", BEGIN, END, never_ids=(END,), num_pieces=9)
    limited = TextToTextModel(model.config, head)
    limited.set_weights(model.get_weights())
    ids = limited.decoded(source_of(inputs), DecodingOptions(5, 3)).ids.numpy()
    assert ids.max() < 9 and not np.any(ids == END)


def test_a_decoder_without_layers_is_refused():
    config = BertConfig.of_size("tiny", vocab_size=29, num_hidden_layers=0)
    with pytest.raises(UserError, match="--decoder_layers is missing: the encoder has no layers"):
        TextToTextModel(config, Decoder("transformer", 0, "nothing", BEGIN, END))
