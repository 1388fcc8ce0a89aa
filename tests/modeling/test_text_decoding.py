"""A wide beam search finds the best of all texts. Greedy and drawn texts follow the probabilities of the pieces."""

import itertools

import numpy as np
import pytest
import tensorflow as tf

from keras_bert_app.modeling import backend
from keras_bert_app.modeling.text_decoding import DecodingOptions, decode, length_penalty

BEGIN, END, NUM_PIECES, LENGTH, NUM_TEXTS = 1, 2, 4, 4, 3


@pytest.fixture(scope="module")
def tables():
    """float32 [B, T, V, V]: logits of the next piece, by text, place and the piece before. Padding never occurs."""
    tables = np.random.default_rng(7).normal(0.0, 1.5, (NUM_TEXTS, LENGTH, NUM_PIECES, NUM_PIECES)).astype(np.float32)
    tables[..., 0] = -30.0
    return tables


@pytest.mark.parametrize(
    "num_values, k, block", [(5 * 8000, 10, 64), (5 * 1023, 4, 33), (5 * 1009, 10, 5), (1009, 10, 0), (20, 10, 0)]
)
@pytest.mark.parametrize("num_kinds", [1, 3, 50, 10**9])
def test_the_largest_by_blocks_are_the_largest_of_all_and_the_first_of_equal_ones(num_values, k, block, num_kinds):
    assert backend._block_size(num_values, k) == block
    generator = np.random.default_rng(num_kinds)
    values = generator.integers(-num_kinds, 0, (7, num_values)).astype(np.float32)
    # The block of the largest number also has the second of two equal numbers. The first one is in an earlier block.
    values[0, [num_values // 4, num_values - 2, num_values - 1]] = 1.0, 2.0, 1.0
    for ours, expected in zip(backend.top_k(values, k), tf.math.top_k(values, k), strict=True):
        np.testing.assert_array_equal(ours, expected)


@pytest.mark.parametrize("axis", [1, 2])
def test_one_place_of_an_axis_is_written(axis):
    values = np.random.default_rng(1).normal(size=(3, 5, 4, 2)).astype(np.float32)
    new = -values.take([0], axis=axis)
    for place in range(values.shape[axis]):
        expected = np.array(values)
        np.moveaxis(expected, axis, 0)[place] = new.take(0, axis=axis)
        for is_for_xla in (False, True):
            write = tf.function(backend.with_place, autograph=False, jit_compile=is_for_xla)
            np.testing.assert_array_equal(write(values, new, tf.constant(place), axis, is_for_xla), expected)


def step_of(tables, num_beams):
    """A step whose logits depend on text, place and the two pieces before. The cache holds the earlier piece."""
    rows = tf.repeat(tf.constant(tables), num_beams, axis=0)

    def step(ids, place, cache):
        (earlier,) = cache
        here = tf.gather(rows, place, axis=1)
        logits = tf.gather(here, ids, batch_dims=1) + 0.5 * tf.gather(here, earlier, batch_dims=1)
        return logits, [ids]

    return step, [tf.fill([len(tables) * num_beams], BEGIN)]


def decoded(tables, **options):
    options = DecodingOptions(LENGTH, **options)
    step, cache = step_of(tables, options.num_beams)
    numbers = tf.range(len(tables))[:, None]
    seeds = backend.seeds_of_texts(numbers, tf.ones_like(numbers), options.seed)
    return decode(step, cache, len(tables), BEGIN, END, options, seeds)


def all_texts(table, alpha):
    """(score, ids) of every text that ends, best first."""
    texts = []
    for length in range(1, LENGTH + 1):
        for pieces in itertools.product([piece for piece in range(NUM_PIECES) if piece != END], repeat=length - 1):
            ids, score = (*pieces, END), 0.0
            before = (BEGIN, BEGIN, *ids)
            for place, piece in enumerate(ids):
                logits = table[place, before[place + 1]] + 0.5 * table[place, before[place]]
                score += logits[piece] - np.log(np.exp(logits).sum())
            texts.append((score / ((5 + length) / 6) ** alpha, [*ids, *[0] * (LENGTH - length)]))
    return sorted(texts, reverse=True)


@pytest.mark.parametrize("alpha", [0.0, 0.6, 2.0])
def test_a_beam_search_as_wide_as_all_texts_finds_the_best_ones(tables, alpha):
    num_beams = NUM_PIECES ** (LENGTH - 1)
    ids, scores = decoded(tables, num_beams=num_beams, length_penalty=alpha)
    for row in range(NUM_TEXTS):
        right = all_texts(tables[row], alpha)[:8]
        np.testing.assert_allclose(scores[row, :8], [score for score, _ in right], atol=1e-5)
        assert ids[row, :8].numpy().tolist() == [text for _, text in right]


def test_a_search_in_a_graph_takes_any_number_of_texts(tables):
    eager = decoded(tables, num_beams=3)

    @tf.function(input_signature=[tf.TensorSpec([None, LENGTH, NUM_PIECES, NUM_PIECES])])
    def search(tables):
        options = DecodingOptions(LENGTH, num_beams=3)
        rows = tf.repeat(tables, 3, axis=0)

        def step(ids, place, cache):
            here = tf.gather(rows, place, axis=1)
            logits = tf.gather(here, ids, batch_dims=1) + 0.5 * tf.gather(here, cache[0], batch_dims=1)
            return logits, [ids]

        first = tf.fill([3 * tf.shape(tables)[0]], BEGIN)
        return decode(step, [first], tf.shape(tables)[0], BEGIN, END, options)

    for batch in (tables, tables[:1]):
        ids, scores = search(batch)
        np.testing.assert_array_equal(ids, eager.ids[: len(batch)])
        np.testing.assert_allclose(scores, eager.scores[: len(batch)], atol=1e-6)


def test_greedy_decoding_takes_the_most_probable_piece_at_each_place(tables):
    ids, scores = decoded(tables, num_beams=1, length_penalty=0.0)
    for row, table in enumerate(tables):
        before, score, text = [BEGIN, BEGIN], 0.0, []
        while len(text) < LENGTH and END not in text:
            logits = table[len(text), before[-1]] + 0.5 * table[len(text), before[-2]]
            text.append(int(logits.argmax()))
            score += logits.max() - np.log(np.exp(logits).sum())
            before.append(text[-1])
        assert ids[row, 0].numpy().tolist() == text + [0] * (LENGTH - len(text))
        np.testing.assert_allclose(scores[row, 0], score, atol=1e-5)


def test_draws_follow_the_probabilities_and_repeat_with_their_seed(tables):
    many = np.repeat(tables[:1], 4000, axis=0)
    ids = decoded(many, temperature=1.0, seed=5).ids[:, 0, 0].numpy()
    np.testing.assert_array_equal(ids, decoded(many, temperature=1.0, seed=5).ids[:, 0, 0])
    assert np.any(ids != decoded(many, temperature=1.0, seed=6).ids[:, 0, 0])
    logits = 1.5 * tables[0, 0, BEGIN]
    shares = np.exp(logits) / np.exp(logits).sum()
    np.testing.assert_allclose(np.bincount(ids, minlength=NUM_PIECES) / len(ids), shares, atol=0.03)


def test_the_seed_of_a_text_depends_on_its_pieces_and_the_seed_only():
    ids = tf.constant([[2, 7, 9, 3], [2, 9, 7, 3], [2, 7, 9, 0], [2, 7, 3, 0]])
    mask = tf.cast(ids > 0, tf.int32)
    seeds = backend.seeds_of_texts(ids, mask, 5).numpy()
    assert len(set(seeds) | set(backend.seeds_of_texts(ids, mask, 6).numpy())) == 8
    for row, seed in zip(ids.numpy(), seeds, strict=True):
        row = row[row > 0]
        padded = np.append(row, [0, 0]).reshape(1, -1)
        assert backend.seeds_of_texts(padded, (padded > 0).astype(np.int32), 5).numpy() == seed


@pytest.mark.parametrize("limits, count", [({"top_k": 1}, 1), ({"top_k": 2}, 2), ({"top_p": 1e-6}, 1)])
def test_a_limited_draw_takes_only_the_most_probable_pieces(tables, limits, count):
    many = np.repeat(tables, 200, axis=0)
    ids = decoded(many, temperature=1.0, **limits).ids[:, 0, 0].numpy().reshape(NUM_TEXTS, -1)
    for row, table in zip(ids, tables, strict=True):
        assert set(row) <= set(np.argsort(-table[0, BEGIN])[:count])


def test_a_draw_with_top_p_takes_the_fewest_pieces_with_this_probability():
    tables = np.log(np.broadcast_to(np.float32([1e-6, 0.5, 0.3, 0.2]), (500, LENGTH, NUM_PIECES, NUM_PIECES))) / 1.5
    for top_p, pieces in ((0.4, {1}), (0.6, {1, 2}), (0.9, {1, 2, 3})):
        assert set(decoded(tables, temperature=1.0, top_p=top_p).ids[:, 0, 0].numpy()) == pieces


def test_the_length_penalty_is_that_of_gnmt():
    assert float(length_penalty(7, 0.6)) == pytest.approx(2.0**0.6)


@pytest.mark.parametrize("options", [{"max_length": 0}, {"num_beams": 2, "temperature": 1.0}, {"top_p": 0.0}])
def test_options_that_contradict_each_other_are_refused(options):
    with pytest.raises(ValueError, match="expected|draws nothing"):
        DecodingOptions(**{"max_length": 3, **options})
