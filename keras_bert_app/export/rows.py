"""Rows of token ids in graph: for texts that a model is asked about what tasks.features does for files.

Dimensions: B examples, N rows, S the longest row, T tokens of all texts. Core TensorFlow ops only.
"""

import tensorflow as tf

from pipelines.examples import packing
from pipelines.examples.pairs import SegmentPairs
from pipelines.ragged import row_ids


def spans(pieces):
    """(first token, number of tokens), both int32 [B], of a RaggedTensor's rows in its flat values."""
    return tf.cast(pieces.row_starts(), tf.int32), tf.cast(pieces.row_lengths(), tf.int32)


def kept_lengths(lengths, room):
    """How many tokens each part of a row may keep, as tasks.features.truncated.

    Args:
        lengths: list of k int32 [B], tokens of each part. room: int32 [B], the most tokens together.

    Returns:
        list of k int32 [B].
    """
    # What the longest may keep at most: found from the shortest part up, as those that fit leave their room to the rest.
    left, level = room, tf.fill(tf.shape(room), tf.int32.max)
    rest = tf.zeros_like(room)
    for at, length in enumerate(tf.unstack(tf.sort(tf.stack(lengths), axis=0))):
        count = len(lengths) - at
        is_found = level < tf.int32.max
        is_level = ~is_found & (length > left // count)
        rest = tf.where(is_level, left % count, rest)
        level = tf.where(is_level, left // count, level)
        left = tf.where(is_found | is_level, left, left - length)
    kept = []
    for length in lengths:
        is_longer = length > level
        kept.append(tf.where(is_longer, level + tf.cast(rest > 0, tf.int32), length))
        rest -= tf.cast(is_longer, tf.int32)
    return kept


def windows(lengths, room, stride, most):
    """The windows over texts, the first at the beginning, each `stride` tokens after the one before; at least one a text.

    Args:
        lengths: int32 [B]. room: int32 [B], tokens of a window. stride: int32 [B], at most room. most: int, of a text.

    Returns:
        (example, start, length), each int32 [N], and the number of windows int32 [B].
    """
    counts = 1 + (tf.maximum(lengths - room, 0) + stride - 1) // stride
    counts = tf.minimum(counts, most)
    before = tf.concat([[0], tf.cumsum(counts)], axis=0)
    example = row_ids(before)
    start = (tf.range(tf.size(example)) - tf.gather(before, example)) * tf.gather(stride, example)
    return example, start, tf.minimum(tf.gather(room, example), tf.gather(lengths, example) - start), counts


def pack(tokenizer, tokens, a, b=None):
    """The inputs of an encoder, dict of int32 [N, S], from spans of flat tokens.

    Args:
        tokens: int32 [T]. a, b: (first token, number of tokens), int32 [N] each; b None for rows of one segment.
    """
    has_b = b is not None
    b = b or (tf.zeros_like(a[0]), tf.zeros_like(a[1]))
    lengths = a[1] + b[1] + (3 if has_b else 2)
    # A table of no tokens cannot be gathered from, and of no rows nothing is the longest.
    tokens = tf.concat([tokens, [tokenizer.pad_id]], axis=0)
    ids, mask, types, _ = packing.pack_pairs(
        tokens,
        SegmentPairs(*a, *b, None),
        tf.reduce_max(tf.concat([lengths, [3]], axis=0)),
        tokenizer.cls_id,
        tokenizer.sep_id,
        tokenizer.pad_id,
        has_b,
    )
    return {"input_word_ids": ids, "input_mask": mask, "input_type_ids": types}


def grouped(inputs, counts):
    """Rows [N, S] of B examples as [B, G, S]; a row that is not there has a mask of zeros. Args: counts: int32 [B]."""
    splits = tf.concat([[0], tf.cumsum(counts)], axis=0)
    # An LSTM over groups wants one step at least, also in a batch of no examples.
    missing = tf.cast(tf.size(counts) == 0, tf.int32)
    return {
        name: tf.pad(
            tf.RaggedTensor.from_row_splits(rows, splits, validate=False).to_tensor(), [[0, 0], [0, missing], [0, 0]]
        )
        for name, rows in inputs.items()
    }


def substrings(text, row, starts, ends):
    """Parts of texts, string [W], in memory that does not grow with the product of parts and texts.

    Args:
        text: string [B]. row: int32 [W], which text. starts, ends: int32 [W], in characters, the end exclusive.
    """
    characters = tf.strings.unicode_split(text, "UTF-8")
    first = tf.gather(tf.cast(characters.row_starts(), tf.int32), row)
    places = tf.ragged.range(first + starts, first + ends)
    return tf.strings.unsorted_segment_join(
        tf.gather(characters.flat_values, places.flat_values), row_ids(places.row_splits), tf.size(row)
    )
