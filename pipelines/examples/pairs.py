"""Segment pairs for next-sentence prediction, sentence order and full sentences.

The reference for next-sentence prediction is Google's create_instances_from_document.

Google's code reads each document sentence by sentence. This module works on many documents at once, and treats every
sentence as if a pair began there. It draws the end, split, random partner and successor of all sentences in parallel.
Pointer jumping then finds the sentences at which pairs really begin, from the first sentence of each document on. The
result has the same distribution.

Dimensions: D documents, M sentences, T tokens, N pairs.
"""

import typing

import tensorflow as tf

from pipelines.examples.pointer_jumping import visited_positions
from pipelines.ragged import row_ids

NEXT, RANDOM = 0, 1  # next_sentence_labels; for the sentence order 0 is "in order" and 1 is "swapped"


class SegmentPairs(typing.NamedTuple):
    """N pairs as spans of one flat token array; all int32 [N]."""

    a_start: tf.Tensor
    a_length: tf.Tensor
    b_start: tf.Tensor
    b_length: tf.Tensor
    next_sentence_labels: tf.Tensor


def uniform_int(seed, low, high):
    """Draws one integer for each entry.

    Args:
        seed: int [2].
        low: int32 [n]. The least integer.
        high: int32 [n]. The end of the range, exclusive; where high <= low the result is low.

    Returns:
        int32 [n].
    """
    draws = tf.random.stateless_uniform(tf.shape(low), seed, dtype=tf.float64)
    return low + tf.cast(tf.floor(draws * tf.cast(tf.maximum(high - low, 0), tf.float64)), tf.int32)


def next_sentence_pairs(
    sentence_lengths,
    document_splits,
    seed,
    max_num_tokens: int,
    short_seq_prob: float = 0.1,
    num_paired=None,
) -> SegmentPairs:
    """Makes all pairs of one pass over D documents, with Google's next-sentence labels.

    The pairs are in the order of the text. A random second segment always comes from another document. If there is one
    document only, no pair is random, and a chunk of one sentence gets an empty second segment.

    Args:
        sentence_lengths: int32 [M]. The tokens of each sentence, at least 1.
        document_splits: int32 [D + 1]. The first sentence of each document; no document is empty.
        seed: int [2]. The pairs are a pure function of the seed and the text.
        max_num_tokens: the most tokens of A and B together (sequence length - 3).
        short_seq_prob: the share of documents whose target length is drawn from [2, max_num_tokens].
        num_paired: int32 scalar. Pairs are made of the first num_paired documents; the remaining documents only serve
            as random second segments. None: all documents are paired.

    Returns:
        SegmentPairs, truncated to max_num_tokens.
    """
    seeds = tf.unstack(tf.random.experimental.stateless_split(seed, 8))
    paired_splits = document_splits if num_paired is None else document_splits[: num_paired + 1]
    token_splits, sentence, document, target, chunk_end = _chunks(
        sentence_lengths, paired_splits, seeds[:2], max_num_tokens, short_seq_prob
    )
    # [M], without the sentences of documents that are not paired
    chunk_size = chunk_end - sentence + 1
    a_size = uniform_int(seeds[2], tf.ones_like(sentence), chunk_size)
    a_end = sentence + a_size
    is_random = (chunk_size == 1) | (tf.random.stateless_uniform(tf.shape(sentence), seeds[3]) < 0.5)
    is_random &= tf.size(document_splits) > 2  # a random B needs a second document
    # If B is random, the next pair begins right after A, so that the text after A is not lost.
    following = tf.where(is_random, a_end, chunk_end + 1)

    starts = visited_positions(following)
    (sentence, target, chunk_end, a_end, is_random, document) = (
        tf.gather(values, starts) for values in (sentence, target, chunk_end, a_end, is_random, document)
    )

    # [N] from here on
    a_start, a_stop = tf.gather(token_splits, sentence), tf.gather(token_splits, a_end)
    random_start, random_end = _random_sides(
        token_splits, document_splits, document, target - (a_stop - a_start), seeds[4:6]
    )
    b_start = tf.gather(token_splits, tf.where(is_random, random_start, a_end))
    b_stop = tf.gather(token_splits, tf.where(is_random, random_end, chunk_end) + 1)

    a_length, b_length = truncated_lengths(a_stop - a_start, b_stop - b_start, max_num_tokens)
    a_start += _removed_from_front(seeds[6], a_stop - a_start - a_length)
    b_start += _removed_from_front(seeds[7], b_stop - b_start - b_length)
    return SegmentPairs(a_start, a_length, b_start, b_length, tf.where(is_random, RANDOM, NEXT))


def _random_sides(token_splits, document_splits, document, num_tokens, seeds):
    """Draws the first and last sentence, int32 [N] each, of a random B of about num_tokens from another document.

    Google's code tries ten times to draw another document, and almost never fails. This function draws directly among
    all other documents.
    """
    num_documents = tf.size(document_splits) - 1
    distance = uniform_int(seeds[0], tf.zeros_like(document), tf.fill(tf.shape(document), num_documents - 1))
    other = (document + 1 + distance) % num_documents
    start = uniform_int(seeds[1], tf.gather(document_splits, other), tf.gather(document_splits, other + 1))
    end = tf.minimum(_sentence_reaching(token_splits, start, num_tokens), tf.gather(document_splits, other + 1) - 1)
    return start, end


def sentence_order_pairs(
    sentence_lengths, document_splits, seed, max_num_tokens: int, short_seq_prob: float = 0.1
) -> SegmentPairs:
    """Makes pairs of neighbouring segments, half of them swapped: ALBERT's sentence order.

    The reference is Lan et al. 2020, section 3.1. Segments are gathered as for next_sentence_pairs. ALBERT's code gives
    a chunk of one sentence a random second segment. This function cuts such a sentence at a random piece, so that the
    label always describes the order. A sentence of one piece has no order and becomes A with an empty B.

    Args:
        sentence_lengths: as in next_sentence_pairs.
        document_splits: as in next_sentence_pairs.
        seed: as in next_sentence_pairs.
        max_num_tokens: as in next_sentence_pairs.
        short_seq_prob: as in next_sentence_pairs.

    Returns:
        SegmentPairs; the label is 1 where A and B are swapped.
    """
    seeds = tf.unstack(tf.random.experimental.stateless_split(seed, 7))
    token_splits, sentence, _, _, chunk_end = _chunks(
        sentence_lengths, document_splits, seeds[:2], max_num_tokens, short_seq_prob
    )
    starts = visited_positions(chunk_end + 1)
    # [N] from here on
    sentence, chunk_end = tf.gather(sentence, starts), tf.gather(chunk_end, starts)
    start, stop = tf.gather(token_splits, sentence), tf.gather(token_splits, chunk_end + 1)
    a_size = uniform_int(seeds[2], tf.ones_like(sentence), chunk_end - sentence + 1)
    middle = tf.where(
        chunk_end > sentence, tf.gather(token_splits, sentence + a_size), uniform_int(seeds[3], start + 1, stop)
    )
    first_length, second_length = truncated_lengths(middle - start, stop - middle, max_num_tokens)
    first = start + _removed_from_front(seeds[4], middle - start - first_length)
    second = middle + _removed_from_front(seeds[5], stop - middle - second_length)
    is_swapped = (tf.random.stateless_uniform(tf.shape(start), seeds[6]) < 0.5) & (second_length > 0)
    a_start, b_start = tf.where(is_swapped, second, first), tf.where(is_swapped, first, second)
    a_length = tf.where(is_swapped, second_length, first_length)
    b_length = tf.where(is_swapped, first_length, second_length)
    return SegmentPairs(a_start, a_length, b_start, b_length, tf.where(is_swapped, RANDOM, NEXT))


def full_sentences(sentence_lengths, seed, max_num_tokens: int, short_seq_prob: float = 0.1) -> SegmentPairs:
    """Makes rows of consecutive whole sentences, across documents: RoBERTa's FULL-SENTENCES.

    The reference is Liu et al. 2019. A sentence that is longer than a row is cut into several parts. The target length
    is drawn for each row.

    Args:
        sentence_lengths: int32 [M]. The tokens of each sentence, separators between documents included.
        seed: int [2].
        max_num_tokens: the most tokens of a row (sequence length - 2).
        short_seq_prob: the share of rows whose target length is drawn from [2, max_num_tokens].

    Returns:
        SegmentPairs with an empty B.
    """
    is_short_seed, length_seed = tf.unstack(tf.random.experimental.stateless_split(seed, 2))
    # Cut sentences that are too long: [M] the number of parts of each, and the last part.
    num_cuts = (sentence_lengths + max_num_tokens - 1) // max_num_tokens
    sentence = row_ids(tf.concat([[0], tf.cumsum(num_cuts)], axis=0))
    last_cut = tf.cumsum(num_cuts) - 1
    token_ends = tf.cumsum(sentence_lengths)
    cut = tf.range(tf.size(sentence)) - tf.gather(last_cut - num_cuts + 1, sentence)
    token_starts = tf.gather(token_ends - sentence_lengths, sentence) + cut * max_num_tokens
    # From here on M is the number of parts: [M + 1]
    token_splits = tf.concat([token_starts, token_ends[-1:]], axis=0)
    target = _target_lengths(tf.size(token_starts), max_num_tokens, short_seq_prob, (is_short_seed, length_seed))
    following = tf.searchsorted(token_splits, token_starts + target, side="right") - 1
    following = tf.maximum(following, tf.range(tf.size(token_starts)) + 1)
    starts = visited_positions(following)
    a_start = tf.gather(token_splits, starts)
    a_length = tf.gather(token_splits, tf.gather(following, starts)) - a_start
    nothing = tf.zeros_like(a_start)
    return SegmentPairs(a_start, a_length, nothing, nothing, nothing)


def consecutive_rows(num_tokens, seed, max_num_tokens: int):
    """Cuts a text into rows that follow each other.

    The first row has a random length, so that each seed cuts the text at other places. Only the last row may also be
    shorter than the others.

    Args:
        num_tokens: int32 scalar. The tokens of the text.
        seed: int [2].
        max_num_tokens: the tokens of a full row.

    Returns:
        (first token, number of tokens) of each row, int32 [N] each. Every token is in one row.
    """
    first = uniform_int(seed, tf.ones([1], tf.int32), tf.fill([1], max_num_tokens + 1))
    others = tf.range(first[0], tf.maximum(num_tokens, first[0]), max_num_tokens)
    starts = tf.concat([tf.zeros([1], tf.int32), others], axis=0)[:num_tokens]  # no row without a token
    ends = tf.concat([starts[1:], [num_tokens]], axis=0)[: tf.size(starts)]
    return starts, ends - starts


def _chunks(sentence_lengths, document_splits, seeds, max_num_tokens, short_seq_prob):
    """Finds the chunk that starts at each sentence.

    A chunk ends where the target length is reached, or where the document ends.

    Returns:
        (token_splits, sentence, document, target, chunk_end). token_splits holds the number of tokens before each
        sentence of the text. The others are int32 [M], for each sentence of the documents: its number, its document,
        the target length, and the last sentence of its chunk.
    """
    token_splits = tf.concat([[0], tf.cumsum(sentence_lengths)], axis=0)
    sentence = tf.range(document_splits[-1])
    document = tf.searchsorted(document_splits, sentence, side="right") - 1
    # Google's code draws one target for each pass over a document.
    target = tf.gather(_target_lengths(tf.size(document_splits) - 1, max_num_tokens, short_seq_prob, seeds), document)
    chunk_end = tf.minimum(
        _sentence_reaching(token_splits, sentence, target), tf.gather(document_splits, document + 1) - 1
    )
    return token_splits, sentence, document, target, chunk_end


def _target_lengths(count, max_num_tokens, short_seq_prob, seeds):
    """Draws lengths [count]: max_num_tokens, or with probability short_seq_prob one from 2 to max_num_tokens."""
    full = tf.fill([count], max_num_tokens)
    is_short = tf.random.stateless_uniform([count], seeds[0]) < short_seq_prob
    return tf.where(is_short, uniform_int(seeds[1], tf.fill([count], 2), full + 1), full)


def truncated_lengths(a_length, b_length, max_num_tokens: int):
    """Computes the lengths of A and B after truncation.

    Tokens are removed one by one from the longer segment, or from B if both are equal.

    Args:
        a_length: int32 [N].
        b_length: int32 [N].
        max_num_tokens: the most tokens of A and B together.

    Returns:
        (int32 [N], int32 [N]).
    """
    a_kept = tf.minimum(a_length, tf.maximum(max_num_tokens - b_length, (max_num_tokens + 1) // 2))
    b_kept = tf.minimum(b_length, tf.maximum(max_num_tokens - a_length, max_num_tokens // 2))
    return a_kept, b_kept


def _sentence_reaching(token_splits, start, num_tokens):
    """Finds the sentence [n] that holds the last of num_tokens tokens (at least one) from `start` on."""
    wanted = tf.gather(token_splits, start) + tf.maximum(num_tokens, 1)
    return tf.searchsorted(token_splits[1:], wanted, side="left")


def _removed_from_front(seed, removed):
    """Draws how many [n] of the removed tokens come from the front.

    A fair coin decides for each token, as in Google's code.
    """
    draws = tf.random.stateless_binomial(tf.shape(removed), seed, tf.cast(removed, tf.float32), 0.5, tf.int32)
    return tf.where(removed > 0, draws, 0)
