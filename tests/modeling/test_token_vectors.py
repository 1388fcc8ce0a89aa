"""Vectors of pieces from groups and from given matrices."""

import numpy as np
import pytest
import tensorflow as tf

from keras_bert_app.config import weight_shapes
from keras_bert_app.config.bert_config import BertConfig
from keras_bert_app.config.pretraining_config import PretrainingConfig
from keras_bert_app.errors import UserError
from keras_bert_app.interop import surgery
from keras_bert_app.interop.weights import Weights
from keras_bert_app.modeling.pretrainer import BertPretrainer
from keras_bert_app.modeling.token_vectors import TokenVectors
from keras_bert_app.training import token_sources

SIZES = {
    "vocab_size": 7,
    "hidden_size": 4,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "intermediate_size": 5,
    "max_position_embeddings": 6,
    "hidden_dropout_prob": 0.0,
    "attention_probs_dropout_prob": 0.0,
    "initializer_range": 0.5,
}
GROUPS = {"token_vectors": "groups", "token_vectors_shape": (3, 2)}
GIVEN = {"token_vectors": "given", "token_vectors_shape": (3,)}
PIECES = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "E11.9", "I10"]
WORDS = np.random.RandomState(3).randn(7, 4).astype(np.float32)


def layer_of(**changes):
    layer = TokenVectors(BertConfig(**SIZES, **changes), seed=5)
    layer.build()
    return layer, {weight.name: weight.numpy() for weight in layer.weights}


def softmax(x):
    return np.exp(x) / np.exp(x).sum()


def test_a_vector_from_groups_is_gram_s_sum_over_the_piece_and_its_groups():
    layer, values = layer_of(**GROUPS)
    numbers = np.zeros((7, 2), np.float32)
    numbers[5], numbers[6] = [3, 1], [2, 0]
    layer.groups_of_pieces.assign(numbers)
    table = layer(tf.constant(WORDS)).numpy()
    np.testing.assert_allclose(table[:5], WORDS[:5])  # pieces without a group
    for piece, groups in ((5, [2, 0]), (6, [1])):
        candidates = [WORDS[piece], *values["groups"][groups]]
        hidden = [
            np.tanh(WORDS[piece] @ values["query"] + candidate @ values["key"] + values["attention_bias"])
            for candidate in candidates
        ]
        shares = softmax(np.array([vector @ values["score"][:, 0] for vector in hidden]))
        np.testing.assert_allclose(table[piece], shares @ np.array(candidates), atol=1e-5)


@pytest.mark.parametrize("fusion", ["replace", "add", "gate"])
def test_a_given_vector_is_projected_and_fused_with_the_learned_one(fusion):
    layer, values = layer_of(**GIVEN, token_fusion=fusion)
    given = np.zeros((7, 3), np.float32)
    given[5] = [1.0, -2.0, 0.5]
    layer.given.assign(given)
    table, outside = layer(tf.constant(WORDS)).numpy(), given[5] @ values["projection"]
    expected = {"replace": outside, "add": WORDS[5] + outside}
    if fusion == "gate":
        gate = 1 / (1 + np.exp(-(np.concatenate([WORDS[5], outside]) @ values["gate_kernel"] + values["gate_bias"])))
        expected["gate"] = gate * WORDS[5] + (1 - gate) * outside
    np.testing.assert_allclose(table[5], expected[fusion], atol=1e-5)
    np.testing.assert_allclose(np.delete(table, 5, axis=0), np.delete(WORDS, 5, axis=0))


@pytest.mark.parametrize(
    "changes",
    [GROUPS, {**GROUPS, "token_fusion": "gate"}, GIVEN, {**GIVEN, "train_token_vectors": True, "token_fusion": "gate"}],
)
def test_a_model_reads_and_predicts_with_the_table_and_trains_what_is_learned(changes):
    config = BertConfig(**SIZES, **changes)
    model = BertPretrainer(config)
    assert {weight.path: tuple(weight.shape) for weight in model.weights} == weight_shapes.shapes(config)
    frozen = [weight.name for weight in model.non_trainable_weights]
    source = "groups_of_pieces" if config.token_vectors == "groups" else "given"
    assert frozen == ([] if config.train_token_vectors else [source])
    assert BertConfig.from_dict(config.to_dict()) == config
    vectors = model.encoder.embeddings.token_vectors
    source = vectors.groups_of_pieces if config.token_vectors == "groups" else vectors.given
    source.assign(np.repeat([[0], [1]], [5, 2], axis=0) * np.ones(config.token_vectors_shape[-1]))
    batch = {"input_word_ids": [[2, 5, 6, 3]], "input_mask": [[1] * 4], "input_type_ids": [[0] * 4]}
    with tf.GradientTape() as tape:
        logits = model({name: tf.constant(values) for name, values in batch.items()})["mlm_logits"]
        loss = tf.reduce_sum(logits**2)
    trained = [weight.value for weight in vectors.trainable_weights]
    assert all(np.abs(gradient).max() > 0 for gradient in tape.gradient(loss, trained))


def test_the_head_of_such_a_model_has_no_table_to_untie():
    config = BertConfig(**SIZES, **GIVEN)
    tensors = {path: np.zeros(shape, np.float32) for path, shape in weight_shapes.shapes(config).items()}
    with pytest.raises(UserError, match="has no table to tie or untie"):
        surgery.untie(Weights(config, tensors, origin="tree"))


def test_groups_of_a_tree_are_all_names_above_a_symbol(tmp_path):
    path = tmp_path / "my tree.txt"
    path.write_text("E11.9 E11\nE11\tE08-E13\nI10 I10-I1A\n\nE08-E13 IV\nI10-I1A IX\nZ99 IX\n")
    config, run = BertConfig(**SIZES), PretrainingConfig(token_groups=str(path))
    source = token_sources.source_of(run, config, PIECES)
    assert source.config.token_vectors_shape == (5, 3)
    names = sorted(["E11", "E08-E13", "IV", "I10-I1A", "IX"])
    shown = [[names[int(number) - 1] for number in row if number] for row in source.values]
    assert shown == [[], [], [], [], [], ["E11", "E08-E13", "IV"], ["I10-I1A", "IX"]]
    assert "2 of 2 symbols are in 5 groups" in source.line
    model = BertPretrainer(source.config)
    source.assign(model)
    np.testing.assert_array_equal(model.encoder.embeddings.token_vectors.groups_of_pieces, source.values)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("E11.9 E11\nE11\n", "tree.txt:2: has 1 name; expected a symbol or a group"),
        ("a b\nb c\n", "has no group of a symbol of the vocabulary, such as 'I10'"),
        ("E11.9 a\na b\nb E11.9\n", "'a' is above itself|'E11.9' is above itself"),
    ],
)
def test_a_file_of_groups_that_cannot_be_used_is_named_in_one_line(tmp_path, text, words):
    (tmp_path / "tree.txt").write_text(text)
    run = PretrainingConfig(token_groups=str(tmp_path / "tree.txt"))
    with pytest.raises(UserError, match=words) as caught:
        token_sources.source_of(run, BertConfig(**SIZES), PIECES)
    assert "\n" not in str(caught.value)


def test_given_vectors_come_from_a_file_and_pieces_without_one_have_zeros(tmp_path):
    (tmp_path / "v.txt").write_text("I10 1 2\nother 3 4\n")
    run = PretrainingConfig(given_vectors=str(tmp_path / "v.txt"))
    source = token_sources.source_of(run, BertConfig(**SIZES), PIECES)
    np.testing.assert_array_equal(source.values, [[0, 0]] * 6 + [[1, 2]])
    assert source.config.token_vectors_shape == (2,) and "1 of 7 entries" in source.line
    with pytest.raises(UserError, match="has no entry of the vocabulary"):
        token_sources.source_of(run, BertConfig(**SIZES), PIECES[:6])
    with pytest.raises(UserError, match="need --token_groups or --given_vectors"):
        token_sources.source_of(PretrainingConfig(), BertConfig(**SIZES, token_fusion="gate"), PIECES)
