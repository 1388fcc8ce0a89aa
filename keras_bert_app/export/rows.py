"""Rows of token ids in graph.

This module does for texts in a request what tasks.features does for files. It uses core TensorFlow ops only.

Dimensions: B examples, N rows, S the longest row, T tokens of all texts.
"""

import tensorflow as tf

from pipelines.examples import packing
from pipelines.examples.pairs import SegmentPairs
from pipelines.ragged import row_ids

spans, kept_lengths = packing.spans, packing.kept_lengths


def windows(lengths, room, stride, most: int):
    """Lays windows over texts.

    The first window starts at the beginning, and each text has at least one window.

    Args:
        lengths: int32 [B]. The tokens of each text.
        room: int32 [B]. The tokens of a window.
        stride: int32 [B]. The distance between the starts of two windows, at most `room`.
        most: int. The most windows of a text.

    Returns:
        (example, start, length, each int32 [N]; the number of windows of each text, int32 [B]).
    """
    counts = 1 + (tf.maximum(lengths - room, 0) + stride - 1) // stride
    counts = tf.minimum(counts, most)
    before = tf.concat([[0], tf.cumsum(counts)], axis=0)
    example = row_ids(before)
    start = (tf.range(tf.size(example)) - tf.gather(before, example)) * tf.gather(stride, example)
    return example, start, tf.minimum(tf.gather(room, example), tf.gather(lengths, example) - start), counts


def pack(tokenizer, tokens, a: tuple, b: tuple | None = None) -> dict:
    """Makes the inputs of an encoder from spans of flat tokens.

    Args:
        tokenizer: BertTokenizer. The tokenizer of the model.
        tokens: int32 [T], or [T, 1 + C] if the tokenizer has columns.
        a: (first token, number of tokens) of the first segment, int32 [N] each.
        b: the same for the second segment, or None for rows of one segment.

    Returns:
        dict of int32 [N, S], and the inputs of the tokenizer's columns.
    """
    has_b = b is not None
    b = b or (tf.zeros_like(a[0]), tf.zeros_like(a[1]))
    lengths = a[1] + b[1] + (3 if has_b else 2)
    return packing.encoder_inputs(
        tokens,
        SegmentPairs(*a, *b, None),
        tf.reduce_max(tf.concat([lengths, [3]], axis=0)),  # the length 3 keeps reduce_max defined without rows
        tokenizer.cls_id,
        tokenizer.sep_id,
        tokenizer.pad_id,
        has_b,
        tokenizer.columns,
    )


def of_pairs(tokenizer, a, b, max_seq_length: int) -> tuple:
    """Makes the rows [CLS] A [SEP] B [SEP] of pieces. If a row is too long, the longer text loses its end.

    Args:
        tokenizer: BertTokenizer. The tokenizer of the model.
        a: RaggedTensor int32 [B, (pieces)], or [B, (pieces), 1 + C] with columns.
        b: the same for the second texts.
        max_seq_length: int. The most tokens of a row.

    Returns:
        (inputs of the encoder; bool [B], whether a part of a text is in no row).
    """
    (a_start, a_length), (b_start, b_length) = spans(a), spans(b)
    room = tf.fill(tf.shape(a_length), max_seq_length - 3)
    a_kept, b_kept = kept_lengths([a_length, b_length], room)
    tokens = tf.concat([a.flat_values, b.flat_values], axis=0)
    b_start += tf.shape(a.flat_values)[0]
    return pack(tokenizer, tokens, (a_start, a_kept), (b_start, b_kept)), a_kept + b_kept < a_length + b_length


def grouped(inputs: dict, counts) -> dict:
    """Groups rows [N, S] by example as [B, G, S]. Missing rows have a mask of zeros.

    Args:
        inputs: dict of [N, S, ...]. The inputs of an encoder.
        counts: int32 [B]. The rows of each example.

    Returns:
        dict of [B, G, S, ...].
    """
    splits = tf.concat([[0], tf.cumsum(counts)], axis=0)
    # An LSTM over groups needs at least one step, even in a batch without examples.
    missing = tf.cast(tf.size(counts) == 0, tf.int32)
    return {
        name: tf.pad(
            tf.RaggedTensor.from_row_splits(rows, splits, validate=False).to_tensor(),
            [[0, 0], [0, missing]] + [[0, 0]] * (rows.shape.rank - 1),
        )
        for name, rows in inputs.items()
    }


def substrings(text, row, starts, ends):
    """Cuts parts out of texts. The memory does not grow with the product of parts and texts.

    Args:
        text: string [B].
        row: int32 [W]. The text of each part.
        starts: int32 [W]. The first character of each part.
        ends: int32 [W]. The end of each part in characters, exclusive.

    Returns:
        string [W].
    """
    characters = tf.strings.unicode_split(text, "UTF-8")
    first = tf.gather(tf.cast(characters.row_starts(), tf.int32), row)
    places = tf.ragged.range(first + starts, first + ends)
    return tf.strings.unsorted_segment_join(
        tf.gather(characters.flat_values, places.flat_values), row_ids(places.row_splits), tf.size(row)
    )
