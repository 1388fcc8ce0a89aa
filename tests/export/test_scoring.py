"""Pseudo-log-likelihoods against an explicit loop, next sentence against the live model, and masks of long texts."""

import numpy as np
import pytest
import tensorflow as tf

from keras_bert_app.export import fill_mask_signatures, masked_lm_scoring
from keras_bert_app.export.chunks import in_chunks
from keras_bert_app.interop import load
from keras_bert_app.tasks.features import truncated
from tests.export.small_model import ONE_LAYER, PIECES, TEXTS, TOKENIZER, rows_of


@pytest.fixture(scope="module")
def model():
    return load.build_model(ONE_LAYER)


@pytest.fixture(scope="module")
def module(model):
    return fill_mask_signatures.FillMaskModule(model, TOKENIZER, top_k=3)


def call(model, ids, types=None):
    ids = np.array([ids])
    types = ids * 0 if types is None else types
    return model({"input_word_ids": ids, "input_mask": ids * 0 + 1, "input_type_ids": types})


def by_hand(model, row):
    """Computes log p of each piece of a row, with that piece masked."""
    log_p = []
    for place in range(1, len(row) - 1):
        masked = [*row[:place], TOKENIZER.mask_id, *row[place + 1 :]]
        log_p.append(tf.nn.log_softmax(call(model, masked)["mlm_logits"][0, place]).numpy()[row[place]])
    return log_p


@pytest.fixture(scope="module")
def scores_by_hand(model):
    return [by_hand(model, row) for row in rows_of(TEXTS)]


@pytest.mark.parametrize("places_at_a_time", [4096, 40], ids=["one part", "parts of one row and of several texts"])
def test_a_text_is_scored_by_masking_each_of_its_pieces_in_turn(model, scores_by_hand, monkeypatch, places_at_a_time):
    monkeypatch.setattr(masked_lm_scoring, "_PLACES_AT_A_TIME", places_at_a_time)
    outputs = masked_lm_scoring.pseudo_log_likelihood(
        model, TOKENIZER, tf.constant(PIECES), TOKENIZER.tokenize(TEXTS), 23
    )
    assert outputs["truncated"].numpy().tolist() == [False] * 4 + [True]
    for index, row in enumerate(rows_of(TEXTS)):
        expected, count = scores_by_hand[index], len(row) - 2
        assert outputs["num_tokens"][index] == count
        assert outputs["tokens"][index].numpy().tolist() == [PIECES[i].encode() for i in row[1:-1]] + [b""] * (
            21 - count
        )
        np.testing.assert_allclose(
            outputs["token_log_probabilities"][index], expected + [0.0] * (21 - count), atol=1e-5
        )
        np.testing.assert_allclose(outputs["score"][index], sum(expected), atol=1e-4)


def test_a_mask_in_a_scored_text_is_ordinary_text(module):
    outputs = module.exported["pseudo_log_likelihood"](tf.constant(["a [MASK]"]))
    assert outputs["tokens"][0].numpy().tolist() == [b"a", b"[", b"[UNK]", b"]"]


@pytest.mark.parametrize(
    "texts", [[], [""], ["", "a"], ["x" * 1_000_000], [b"\xff a"]], ids=["empty", "blank", "mixed", "1 MB", "bad utf-8"]
)
def test_odd_batches_are_scored(module, texts):
    outputs = module.exported["pseudo_log_likelihood"](tf.constant(texts, tf.string))
    assert outputs["score"].shape == (len(texts),) and np.isfinite(outputs["score"]).all()
    pairs = module.exported["next_sentence"](tf.constant(texts, tf.string), tf.constant(texts, tf.string))
    assert pairs["is_next_probability"].shape == (len(texts),) and np.isfinite(pairs["is_next_probability"]).all()


def test_next_sentence_equals_the_live_model_and_pairs_lose_the_end_of_the_longer_text(model, module):
    firsts = ["a b", "", "ab. " * 9, "a b c d e f g h a b c", "d"]
    seconds = ["c d", "c", "d", "h g f e d c b a h g", "e f " * 20]
    outputs = module.exported["next_sentence"](tf.constant(firsts), tf.constant(seconds))
    assert outputs["truncated"].numpy().tolist() == [False, False, True, True, True]
    for index, pair in enumerate(zip(firsts, seconds, strict=True)):
        a, b = truncated(TOKENIZER.tokenize(list(pair)).to_list(), 20)
        ids = [TOKENIZER.cls_id, *a, TOKENIZER.sep_id, *b, TOKENIZER.sep_id]
        types = np.array([[0] * (len(a) + 2) + [1] * (len(b) + 1)])
        expected = tf.nn.softmax(call(model, ids, types)["nsp_logits"])[0, 0]
        np.testing.assert_allclose(outputs["is_next_probability"][index], expected, atol=1e-6)


def test_a_pair_of_unequal_batches_is_refused(module):
    with pytest.raises(tf.errors.InvalidArgumentError):
        module.exported["next_sentence"](tf.constant(["a", "b"]), tf.constant(["c"]))


def test_masks_get_the_same_pieces_in_one_part_and_in_many(model, module, monkeypatch):
    texts = tf.constant(["[MASK] a [MASK]", "b", "[MASK] " * 30])
    in_one_part = module.exported["serving_default"](texts)
    assert in_one_part["tokens"].shape == (3, 21, 3) and in_one_part["truncated"].numpy().tolist() == [
        False,
        False,
        True,
    ]
    assert [int((row[:, 0] != b"").sum()) for row in in_one_part["tokens"].numpy()] == [2, 0, 21]
    monkeypatch.setattr(fill_mask_signatures, "_MASKS_AT_A_TIME", 5)
    parts = fill_mask_signatures.FillMaskModule(model, TOKENIZER, top_k=3)
    in_parts = parts.exported["serving_default"](texts)
    assert (in_parts["tokens"].numpy() == in_one_part["tokens"].numpy()).all()
    np.testing.assert_allclose(in_parts["probabilities"], in_one_part["probabilities"], atol=1e-6)


def test_the_example_of_every_signature_runs_unchanged(module):
    assert set(module.about.examples) == set(module.exported)
    for name, inputs in module.about.examples.items():
        module.exported[name](**{key: tf.constant(value) for key, value in inputs.items()})


def test_parts_are_joined_in_order_and_no_items_give_empty_results():
    specs = [tf.TensorSpec([None], tf.int32), tf.TensorSpec([None, 2], tf.int32)]

    @tf.function
    def squares(count):
        def part(start, end):
            numbers = tf.range(start, end)
            return [numbers**2, tf.stack([numbers, end - start + 0 * numbers], axis=1)]

        return in_chunks(part, count, 3, specs)

    values, pairs = squares(tf.constant(7))
    assert values.numpy().tolist() == [0, 1, 4, 9, 16, 25, 36]
    assert pairs.numpy().tolist() == [[0, 3], [1, 3], [2, 3], [3, 3], [4, 3], [5, 3], [6, 1]]
    assert [result.shape[0] for result in squares(tf.constant(0))] == [0, 0]
