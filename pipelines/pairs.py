"""Segment pairs with next-sentence labels: google-research/bert create_instances_from_document, for many documents at once.

Google's code walks each document sentence by sentence. Here every sentence is treated as if a pair began there: its end,
split, random partner and successor are drawn for all sentences in parallel, and the chain of sentences that pairs
really begin at is then found from each document's first one by pointer doubling. The result is distributed the same.

Dimensions: D documents, M sentences, T tokens, N pairs.
"""

import typing

import tensorflow as tf

NEXT, RANDOM = 0, 1  # next_sentence_labels


class SegmentPairs(typing.NamedTuple):
    """N pairs as spans of one flat token array; all int32 [N]."""

    a_start: tf.Tensor
    a_length: tf.Tensor
    b_start: tf.Tensor
    b_length: tf.Tensor
    next_sentence_labels: tf.Tensor


def uniform_int(seed, low, high):
    """One integer per entry in [low, high), both int32 [n]; where high <= low the result is low."""
    draws = tf.random.stateless_uniform(tf.shape(low), seed, dtype=tf.float64)
    return low + tf.cast(tf.floor(draws * tf.cast(tf.maximum(high - low, 0), tf.float64)), tf.int32)


def next_sentence_pairs(sentence_lengths, document_splits, seed, max_num_tokens, short_seq_prob=0.1):
    """All pairs of one pass over D documents, in the order of the text.

    Args:
        sentence_lengths: int32 [M], tokens of each sentence, none of them 0.
        document_splits: int32 [D + 1], the sentence at which each document begins; no document is empty.
        seed: int [2]; the pairs are a pure function of it and of the text.
        max_num_tokens: the most tokens that A and B have together (sequence length - 3).
        short_seq_prob: share of documents whose target length is drawn from [2, max_num_tokens].

    Returns:
        SegmentPairs, truncated to max_num_tokens.
    """
    seeds = tf.unstack(tf.random.experimental.stateless_split(seed, 8))
    num_sentences = tf.size(sentence_lengths)
    num_documents = tf.size(document_splits) - 1
    # [M + 1] tokens before each sentence
    token_splits = tf.concat([[0], tf.cumsum(sentence_lengths)], axis=0)
    # [M]
    sentence = tf.range(num_sentences)
    document = tf.searchsorted(document_splits, sentence, side="right") - 1
    last_sentence = tf.gather(document_splits, document + 1) - 1

    # [D] drawn once per pass over a document, as there.
    full = tf.fill([num_documents], max_num_tokens)
    is_short = tf.random.stateless_uniform([num_documents], seeds[0]) < short_seq_prob
    target = tf.where(is_short, uniform_int(seeds[1], tf.fill([num_documents], 2), full + 1), full)
    target = tf.gather(target, document)

    # [M] the chunk that begins at each sentence: up to the first sentence at which the target is reached.
    chunk_end = tf.minimum(_sentence_reaching(token_splits, sentence, target), last_sentence)
    chunk_size = chunk_end - sentence + 1
    a_size = uniform_int(seeds[2], tf.ones_like(sentence), chunk_size)
    a_end = sentence + a_size
    is_random = (chunk_size == 1) | (tf.random.stateless_uniform([num_sentences], seeds[3]) < 0.5)
    # The sentences that a random B displaces go back into the document.
    following = tf.where(is_random, a_end, chunk_end + 1)

    starts = _chain(following)
    (sentence, target, chunk_end, a_end, is_random, document) = (
        tf.gather(values, starts) for values in (sentence, target, chunk_end, a_end, is_random, document))

    # [N] from here on
    a_start, a_stop = tf.gather(token_splits, sentence), tf.gather(token_splits, a_end)
    # Ten tries for a document other than this one fail so seldom that they are one draw among the others;
    # where there is no other document, B comes from this one, as there.
    other = document + 1 + uniform_int(seeds[4], tf.zeros_like(document), tf.fill(tf.shape(document), num_documents - 1))
    other = other % num_documents
    random_start = uniform_int(seeds[5], tf.gather(document_splits, other), tf.gather(document_splits, other + 1))
    random_end = tf.minimum(_sentence_reaching(token_splits, random_start, target - (a_stop - a_start)),
                            tf.gather(document_splits, other + 1) - 1)
    b_start = tf.gather(token_splits, tf.where(is_random, random_start, a_end))
    b_stop = tf.gather(token_splits, tf.where(is_random, random_end, chunk_end) + 1)

    a_length, b_length = truncated_lengths(a_stop - a_start, b_stop - b_start, max_num_tokens)
    a_start += _removed_from_front(seeds[6], a_stop - a_start - a_length)
    b_start += _removed_from_front(seeds[7], b_stop - b_start - b_length)
    return SegmentPairs(a_start, a_length, b_start, b_length, tf.where(is_random, RANDOM, NEXT))


def truncated_lengths(a_length, b_length, max_num_tokens):
    """What is left of A and B when tokens are taken one by one from the longer (from B when they are equal)."""
    a_kept = tf.minimum(a_length, tf.maximum(max_num_tokens - b_length, (max_num_tokens + 1) // 2))
    b_kept = tf.minimum(b_length, tf.maximum(max_num_tokens - a_length, max_num_tokens // 2))
    return a_kept, b_kept


def shuffle_pairs(pairs, seed):
    """The pairs in a random order that is a pure function of the seed."""
    order = tf.random.experimental.stateless_shuffle(tf.range(tf.size(pairs.a_start)), seed)
    return SegmentPairs(*(tf.gather(values, order) for values in pairs))


def _sentence_reaching(token_splits, start, num_tokens):
    """[n] the first sentence from `start` on with which at least num_tokens (and one sentence) are gathered."""
    wanted = tf.gather(token_splits, start) + tf.maximum(num_tokens, 1)
    return tf.searchsorted(token_splits[1:], wanted, side="left")


def _removed_from_front(seed, removed):
    """Of the tokens removed, how many go from the front: a fair coin for each, as there."""
    draws = tf.random.stateless_binomial(tf.shape(removed), seed, tf.cast(removed, tf.float32), 0.5, tf.int32)
    return tf.where(removed > 0, draws, 0)


def _chain(following):
    """The sentences met when the text is walked from its first sentence along `following`.

    Args:
        following: int32 [M], the sentence after each one and greater than it. It never skips a document's first
            sentence, so that one walk passes through all documents.

    Returns:
        int32 [N] sentences in ascending order.
    """
    num_sentences = tf.size(following)
    # One place past the end, where every walk stays. The segment maximum of an empty segment is the least int32.
    met = tf.concat([[1], tf.zeros([num_sentences], tf.int32)], axis=0)
    jump = tf.concat([following, [num_sentences]], axis=0)

    def double(distance, met, jump):
        met = tf.maximum(met, tf.math.unsorted_segment_max(met, jump, num_sentences + 1))
        return distance * 2, met, tf.gather(jump, jump)

    # All sentences fewer than `distance` steps from the first one are met.
    _, met, _ = tf.while_loop(lambda distance, *_: distance <= num_sentences, double, (1, met, jump))
    return tf.cast(tf.where(met[:-1] > 0)[:, 0], tf.int32)
