"""Packing of segment pairs into [CLS] A [SEP] B [SEP], with TensorFlow's core operations only.

KerasHub's packer uses the operation TFText>RoundRobinTrim, which some serving binaries refuse. tf.gather works in all
of them.
"""

import tensorflow as tf

from pipelines.examples.pairs import SegmentPairs
from pipelines.wordpiece import token_columns


def pack_pairs(tokens, pairs, seq_length: int, cls_id: int, sep_id: int, pad_id: int = 0, has_b: bool = True):
    """Makes rows of fixed length from spans of one flat token array.

    Args:
        tokens: int32 [T].
        pairs: pipelines.examples.pairs.SegmentPairs. N pairs of at most seq_length - 3 tokens.
        seq_length: the length S of a row.
        cls_id: the id of [CLS].
        sep_id: the id of [SEP].
        pad_id: the id of [PAD].
        has_b: False for rows of one segment, [CLS] A [SEP], of at most seq_length - 2 tokens.

    Returns:
        (input_word_ids, input_mask, input_type_ids, source), each int32 [N, S]. source is the index in `tokens` of each
        piece, -1 at special pieces and padding.
    """
    # column is [S], lengths are [N, 1]
    column = tf.range(seq_length)
    a_length, b_length = pairs.a_length[:, None], pairs.b_length[:, None]
    first_sep = a_length + 1
    last_sep = first_sep + b_length + 1 if has_b else first_sep
    # [N, S]
    in_a = (column >= 1) & (column < first_sep)
    in_b = (column > first_sep) & (column < last_sep)
    source = tf.where(
        in_a, pairs.a_start[:, None] + column - 1, tf.where(in_b, pairs.b_start[:, None] + column - first_sep - 1, -1)
    )
    ids = tf.where(source >= 0, tf.gather(tokens, tf.maximum(source, 0)), pad_id)
    ids = tf.where((column == first_sep) | (column == last_sep), sep_id, ids)
    ids = tf.where(column == 0, cls_id, ids)
    input_mask = tf.cast(column <= last_sep, tf.int32)
    input_type_ids = tf.cast((column > first_sep) & (column <= last_sep), tf.int32)
    return ids, input_mask, input_type_ids, source


def pack_rows(tokens, spans, seq_length: int, cls_id: int, pad_id: int = 0):
    """Makes rows of fixed length, [CLS] and a span of a flat token array.

    Args:
        tokens: int32 [T].
        spans: (first token, number of tokens), int32 [N] each. At most seq_length - 1 tokens.
        seq_length: the length S of a row.
        cls_id: the id of [CLS].
        pad_id: the id of [PAD].

    Returns:
        (input_word_ids, input_mask), int32 [N, S] each.
    """
    starts, lengths = spans
    column = tf.range(seq_length)
    source = tf.minimum(tf.maximum(starts[:, None] + column - 1, 0), tf.maximum(tf.size(tokens) - 1, 0))
    is_inside = column <= lengths[:, None]
    ids = tf.where(column == 0, cls_id, tf.where(is_inside, tf.gather(tokens, source), pad_id))
    return ids, tf.cast(is_inside, tf.int32)


def pack_stream(tokens, seq_length: int, pad_id: int = 0):
    """Makes rows of fixed length from a flat token array. Each row begins with the last token of the row before.

    Args:
        tokens: int32 [T].
        seq_length: the length S of a row.
        pad_id: the id of [PAD], which fills the last row.

    Returns:
        (input_word_ids, input_mask), int32 [N, S] each. N is 0 for fewer than two tokens.
    """
    step = seq_length - 1
    num_rows = (tf.maximum(tf.size(tokens) - 1, 0) + step - 1) // step
    source = tf.range(num_rows)[:, None] * step + tf.range(seq_length)
    is_inside = source < tf.size(tokens)
    ids = tf.where(is_inside, tf.gather(tokens, tf.where(is_inside, source, 0)), pad_id)
    return ids, tf.cast(is_inside, tf.int32)


def pack_segments(segments, seq_length, cls_id: int, sep_id: int, pad_id: int = 0, columns=None) -> dict:
    """Makes rows [CLS] A [SEP] or [CLS] A [SEP] B [SEP] of one length.

    In a row that is too long, the longer segment is cut.

    Args:
        segments: one or two RaggedTensors int32 [B, (pieces)], or [B, (pieces), 1 + C] with columns.
        seq_length: int or int32 scalar. The length S of a row.
        cls_id: the id of [CLS].
        sep_id: the id of [SEP].
        pad_id: the id of [PAD].
        columns: token_columns.TokenColumns of the tokens, or None.

    Returns:
        dict of input_word_ids, input_mask and input_type_ids, int32 [B, S], and the inputs of the columns.
    """
    tokens = tf.concat([segment.flat_values for segment in segments], axis=0)
    places = [spans(segment) for segment in segments]
    lengths = [length for _, length in places]
    room = tf.fill(tf.shape(lengths[0]), tf.maximum(seq_length - len(segments) - 1, 0))
    kept = kept_lengths(lengths, room)
    num_first = tf.shape(segments[0].flat_values)[0]
    pairs = SegmentPairs(places[0][0], kept[0], places[-1][0] + num_first, kept[-1], None)
    return encoder_inputs(tokens, pairs, seq_length, cls_id, sep_id, pad_id, len(segments) == 2, columns)


def encoder_inputs(tokens, pairs, seq_length, cls_id: int, sep_id: int, pad_id: int, has_b: bool, columns=None) -> dict:
    """Makes the inputs of an encoder from spans of flat tokens.

    Args:
        tokens: int32 [T], or [T, 1 + C] with columns. T may be 0.
        pairs: as in pack_pairs.
        seq_length: as in pack_pairs.
        cls_id: as in pack_pairs.
        sep_id: as in pack_pairs.
        pad_id: as in pack_pairs.
        has_b: as in pack_pairs.
        columns: token_columns.TokenColumns of the tokens, or None.

    Returns:
        dict of input_word_ids, input_mask and input_type_ids, int32 [N, S], and the inputs of the columns.
    """
    ids, values = token_columns.split_columns(tokens)
    # The padding id keeps tf.gather defined for a batch without tokens.
    ids, input_mask, input_type_ids, source = pack_pairs(
        tf.concat([ids, [pad_id]], axis=0), pairs, seq_length, cls_id, sep_id, pad_id, has_b
    )
    inputs = {"input_word_ids": ids, "input_mask": input_mask, "input_type_ids": input_type_ids}
    if columns is None:
        return inputs
    return columns.hidden_at_masks(inputs | columns.inputs(token_columns.at_places(values, source)))


def spans(pieces):
    """Finds the rows of a RaggedTensor in its flat values.

    Args:
        pieces: RaggedTensor [B, (pieces)].

    Returns:
        (first token, number of tokens), both int32 [B].
    """
    return tf.cast(pieces.row_starts(), tf.int32), tf.cast(pieces.row_lengths(), tf.int32)


def kept_lengths(lengths: list, room) -> list:
    """Computes how many tokens each part of a row may keep, by the rule of google-research/bert for pairs.

    Args:
        lengths: list of k int32 [B]. The tokens of each part.
        room: int32 [B]. The most tokens of all parts together.

    Returns:
        list of k int32 [B].
    """
    # `level` is the most that a long part may keep. The loop begins with the shortest part: a part that fits leaves its
    # unused room to the longer parts.
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
