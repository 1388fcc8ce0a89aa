"""Next-sentence pairs, sentence-order pairs and full sentences follow their rules and expected statistics."""

import collections

import numpy as np
import pytest
import tensorflow as tf

from pipelines.examples import pairs, pointer_jumping

MAX_NUM_TOKENS = 29


def make_pairs(
    documents,
    seed=(3, 5),
    max_num_tokens=MAX_NUM_TOKENS,
    short_seq_prob=0.1,
    find=pairs.next_sentence_pairs,
    **more,
):
    """Makes SegmentPairs as numpy arrays, from documents given as lists of sentence lengths."""
    lengths = [length for document in documents for length in document]
    splits = np.cumsum([0] + [len(document) for document in documents])
    made = find(
        tf.constant(lengths, tf.int32),
        tf.constant(splits, tf.int32),
        tf.constant(seed),
        max_num_tokens,
        short_seq_prob,
        **more,
    )
    return pairs.SegmentPairs(*(values.numpy() for values in made))


def random_documents(number, generator=None):
    generator = generator or np.random.RandomState(11)
    return [list(generator.randint(1, 17, size=generator.randint(1, 23))) for _ in range(number)]


def test_the_sentences_of_actual_next_pairs_follow_each_other_and_lose_nothing():
    # For a target of 15 tokens, a document of 7 sentences with 5 tokens each has chunks of 3 sentences.
    made = make_pairs([[5] * 7, [5] * 50], max_num_tokens=15, short_seq_prob=0.0)
    position = 0
    for i in range(len(made.a_start)):
        if made.a_start[i] >= 35:
            break
        assert made.a_start[i] == position
        if made.next_sentence_labels[i] == pairs.NEXT:
            assert made.b_start[i] == made.a_start[i] + made.a_length[i]
            assert made.a_length[i] + made.b_length[i] in (15, 10)  # three sentences, or the two left at the end
            position = made.b_start[i] + made.b_length[i]
        else:  # the replaced sentences are used again, so the next pair begins right after A
            assert made.b_start[i] >= 35
            position += made.a_length[i]
    assert position == 35


def test_every_pair_fits_and_neither_side_is_empty():
    documents = random_documents(211)
    made = make_pairs(documents)
    assert (made.a_length + made.b_length <= MAX_NUM_TOKENS).all()
    assert made.a_length.min() >= 1 and made.b_length.min() >= 1


def test_both_sides_stay_inside_one_document_and_a_random_side_comes_from_another():
    documents = random_documents(53)
    token_splits = np.cumsum([0] + [sum(document) for document in documents])
    made = make_pairs(documents, seed=(1, 2))

    def document_of(position):
        return np.searchsorted(token_splits, position, side="right") - 1

    for start, length in ((made.a_start, made.a_length), (made.b_start, made.b_length)):
        np.testing.assert_array_equal(document_of(start), document_of(start + length - 1))
    same = document_of(made.a_start) == document_of(made.b_start)
    np.testing.assert_array_equal(same, made.next_sentence_labels == pairs.NEXT)


def test_a_lone_document_has_no_random_side_and_loses_nothing():
    made = make_pairs([[4] * 83], max_num_tokens=40, short_seq_prob=0.0)
    assert len(made.a_start) > 5 and (made.next_sentence_labels == pairs.NEXT).all()
    np.testing.assert_array_equal(made.b_start, made.a_start + made.a_length)
    assert made.a_start[0] == 0 and made.b_start[-1] + made.b_length[-1] == 4 * 83


def test_documents_beyond_num_paired_serve_only_as_random_sides():
    own, others = [[5] * 41], [[5] * 7, [5] * 11]
    alone = make_pairs(own * 2, max_num_tokens=30, short_seq_prob=0.0, num_paired=1)
    made = make_pairs(own + others, max_num_tokens=30, short_seq_prob=0.0, num_paired=1)
    is_random = made.next_sentence_labels == pairs.RANDOM
    assert (made.a_start < 205).all() and 0.2 < is_random.mean() < 0.8
    assert (made.b_start[is_random] >= 205).all() and (made.b_start[~is_random] < 205).all()
    assert {int(start) < 205 + 35 for start in made.b_start[is_random]} == {True, False}  # both others are used
    np.testing.assert_array_equal(made.a_start, alone.a_start)  # the other documents move no pair


def test_a_lone_sentence_is_always_paired_with_a_random_one():
    made = make_pairs([[9]] * 100)
    assert len(made.a_start) == 100 and (made.next_sentence_labels == pairs.RANDOM).all()


def test_half_of_the_chunks_with_two_sentences_get_a_random_side():
    # With sentences of 10 tokens and a target of 20, each chunk has two sentences. Only the last sentence of a document
    # may be alone.
    made = make_pairs([[10] * 40] * 500, max_num_tokens=20, short_seq_prob=0.0)
    has_two = (made.a_start + 10) % 400 != 0
    share = (made.next_sentence_labels[has_two] == pairs.RANDOM).mean()
    assert abs(share - 0.5) < 4 * 0.5 / np.sqrt(has_two.sum())


def test_short_targets_are_drawn_once_for_a_document():
    # Sentences of one token reach any target exactly. All actual pairs of a document, except the last, have its target.
    made = make_pairs([[1] * 300] * 400, max_num_tokens=60)
    lengths = collections.defaultdict(set)
    for start, a, b, label in zip(made.a_start, made.a_length, made.b_length, made.next_sentence_labels, strict=True):
        if label == pairs.NEXT and start % 300 + a + b < 300:
            lengths[start // 300].add(a + b)
    assert all(len(targets) == 1 for targets in lengths.values())
    is_short = np.array([targets != {60} for targets in lengths.values()])
    assert abs(is_short.mean() - 0.1 * 58 / 59) < 4 * np.sqrt(0.09 / len(is_short))


def test_the_longer_of_a_and_b_loses_one_token_at_a_time():
    for limit in (16, 17):
        for a in range(1, 40):
            for b in range(1, 40):
                kept_a, kept_b = a, b
                while kept_a + kept_b > limit:
                    if kept_a > kept_b:
                        kept_a -= 1
                    else:
                        kept_b -= 1
                actual = pairs.truncated_lengths(tf.constant(a), tf.constant(b), limit)
                assert (int(actual[0]), int(actual[1])) == (kept_a, kept_b)


def test_tokens_are_cut_from_the_front_and_the_back_equally_often():
    # Two sentences of 100 tokens are cut to 21 tokens together. A loses 89 or 90 tokens. The number of tokens that it
    # loses at its start has a binomial distribution with p = 1/2.
    made = make_pairs([[100, 100]] * 2000, max_num_tokens=21, short_seq_prob=0.0)
    moved = (made.a_start % 100)[made.a_length == 11]
    assert len(moved) > 1000
    assert abs(moved.mean() - 89 / 2) < 4 * np.sqrt(89 / 4 / len(moved))
    assert 0.8 < moved.var() / (89 / 4) < 1.2


def test_pairs_are_a_function_of_the_seed_alone():
    documents = random_documents(31)
    first, again, other = make_pairs(documents), make_pairs(documents), make_pairs(documents, seed=(3, 6))
    np.testing.assert_array_equal(np.stack(first), np.stack(again))
    assert len(first.a_start) != len(other.a_start) or (np.stack(first) != np.stack(other)).any()


@pytest.mark.parametrize("seed", range(3))
def test_pointer_jumping_visits_the_positions_that_a_loop_visits(seed):
    generator = np.random.RandomState(seed)
    following = np.minimum(np.arange(997) + generator.randint(1, 7, 997), 997)
    expected, sentence = [], 0
    while sentence < 997:
        expected.append(sentence)
        sentence = following[sentence]
    assert pointer_jumping.visited_positions(tf.constant(following, tf.int32)).numpy().tolist() == expected


def test_sentence_order_takes_neighbours_and_swaps_half_of_them():
    documents = random_documents(997)
    made = make_pairs(documents, find=pairs.sentence_order_pairs)
    token_splits = np.cumsum([0] + [sum(document) for document in documents])
    swapped = made.next_sentence_labels == 1
    first = np.where(swapped, made.b_start, made.a_start)
    second = np.where(swapped, made.a_start, made.b_start)
    first_end = first + np.where(swapped, made.b_length, made.a_length)
    whole = made.b_length > 0
    assert (first_end <= second)[whole].all() and not swapped[~whole].any()
    document = np.searchsorted(token_splits, first, side="right")
    np.testing.assert_array_equal(document[whole], np.searchsorted(token_splits, second, side="right")[whole])
    assert (made.a_length + made.b_length <= MAX_NUM_TOKENS).all() and made.a_length.min() >= 1
    assert abs(swapped[whole].mean() - 0.5) < 4 * 0.5 / np.sqrt(whole.sum())


def test_sentence_order_uses_no_token_twice_and_loses_only_truncated_tokens():
    documents = [[3, 4, 2], [5], [1], [6, 6, 6, 6]]
    made = make_pairs(documents, max_num_tokens=13, short_seq_prob=0.0, find=pairs.sentence_order_pairs)
    used = sorted(
        token
        for start, length in ((made.a_start, made.a_length), (made.b_start, made.b_length))
        for a, n in zip(start, length, strict=True)
        for token in range(a, a + n)
    )
    # The chunk 6 + 6 + 6 loses 5 of its 18 tokens to truncation.
    assert len(used) == len(set(used)) == 39 - 5
    # The sentence of 5 tokens was cut in two. The sentence of one token has no order.
    by_start = {
        min(a, b) if n else a: (m, n)
        for a, m, b, n in zip(made.a_start, made.a_length, made.b_start, made.b_length, strict=True)
    }
    assert sum(by_start[9]) == 5 and by_start[9][1] > 0
    assert by_start[14] == (1, 0)


def test_full_sentences_fill_rows_and_lose_no_token():
    generator = np.random.RandomState(3)
    lengths = generator.randint(1, 40, 503)
    made = pairs.full_sentences(tf.constant(lengths, tf.int32), tf.constant([1, 2]), 29, 0.0)
    starts, sizes = made.a_start.numpy(), made.a_length.numpy()
    np.testing.assert_array_equal(starts, np.cumsum(sizes) - sizes)
    assert sizes.sum() == lengths.sum() and sizes.max() <= 29 and not made.b_length.numpy().any()
    # The next whole sentence, or the next part of a sentence that is too long, does not fit into the row.
    parts = np.concatenate([[29] * (n // 29) + [n % 29] * int(n % 29 > 0) for n in lengths])
    part_starts = np.cumsum(parts) - parts
    following = dict(zip(part_starts, parts, strict=True))
    assert all(size + following.get(start + size, 29) > 29 for start, size in zip(starts, sizes, strict=True))
    assert set(starts) <= set(part_starts)


def test_rows_of_full_sentences_are_shortened_with_the_given_probability():
    lengths = tf.ones([40_000], tf.int32)
    sizes = pairs.full_sentences(lengths, tf.constant([1, 2]), 30, 0.2).a_length.numpy()
    # Lengths from 2 to 30 are equally likely, so one draw in 29 also gives a full row.
    assert abs((sizes < 30).mean() - 0.2 * 28 / 29) < 0.03
