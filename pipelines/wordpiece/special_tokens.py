"""Finds special pieces such as "[MASK]" in texts and keeps each whole, with TensorFlow operations."""

import typing
from collections.abc import Sequence

import tensorflow as tf
import tensorflow_text as tf_text

from pipelines.ragged import row_ids
from pipelines.wordpiece.normalize import repair_utf8
from pipelines.wordpiece.vocabulary import SPECIAL_PIECES

_PATTERN = "|".join(rf"\[{piece[1:-1]}\]" for piece in SPECIAL_PIECES)


class Parts(typing.NamedTuple):
    """Strings cut at their special pieces.

    Attributes:
        rows: RaggedTensor [B, (parts)]. Its row partition tells to which string each part belongs; ignore its values.
        texts: string [N]. Empty where the part is a special piece.
        special_ids: RaggedTensor int32 [N, (0 or 1)].
        spans: ((start_bytes, end_bytes), (start_chars, end_chars)) of the parts in their strings, int32 [N] each.
    """

    rows: tf.RaggedTensor
    texts: tf.Tensor
    special_ids: tf.RaggedTensor
    spans: tuple

    def join(self, text_values, special_values):
        """Joins the values of the parts in the order of the strings.

        Args:
            text_values: RaggedTensor [N, (values)].
            special_values: RaggedTensor [N, (values)].

        Returns:
            RaggedTensor [B, (values)].
        """
        return self.rows.with_flat_values(tf.concat([text_values, special_values], axis=1)).merge_dims(1, 2)

    def join_spans(self, starts_and_ends):
        """Turns spans within the parts into spans within the strings.

        Args:
            starts_and_ends: [start_bytes, end_bytes, start_chars, end_chars], each RaggedTensor int32 [N, (pieces)].

        Returns:
            list of the same, each RaggedTensor int32 [B, (pieces)].
        """
        bases = [starts for starts, _ in self.spans for _ in range(2)]
        edges = [edge for unit in self.spans for edge in unit]
        part = row_ids(self.special_ids.row_splits)
        return [
            self.join(_moved(within, base), self.special_ids.with_flat_values(tf.gather(edge, part)))
            for within, base, edge in zip(starts_and_ends, bases, edges, strict=True)
        ]


def _moved(values, by):
    """Adds a number [N] to each row of a RaggedTensor [N, (values)]."""
    return values.with_flat_values(values.flat_values + tf.gather(by, row_ids(values.row_splits)))


def split(strings, special_ids: Sequence[int]) -> Parts:
    """Cuts strings at their special pieces.

    Args:
        strings: string [B].
        special_ids: the ids of SPECIAL_PIECES, in their order.

    Returns:
        Parts.
    """
    # regex_split treats NUL as the end of the string, so another control character replaces NUL. Cleaning removes both
    # characters.
    strings = tf.strings.regex_replace(strings, r"\x00", "\x01")
    rows, start_bytes, end_bytes = tf_text.regex_split_with_offsets(strings, _PATTERN, _PATTERN)
    texts = rows.flat_values
    # [N, specials]
    matches = texts[:, None] == tf.constant(SPECIAL_PIECES)
    is_special = tf.reduce_any(matches, axis=1)
    ids = tf.gather(tf.constant(special_ids, tf.int32), tf.argmax(tf.cast(matches, tf.int32), axis=1))
    num_characters = tf.strings.length(repair_utf8(texts), unit="UTF8_CHAR")
    # A part starts where the part before it in its string ends.
    end_chars = tf.cumsum(num_characters)
    before_row = tf.gather(tf.concat([[0], end_chars], axis=0), rows.row_starts())
    end_chars -= tf.gather(before_row, row_ids(rows.row_splits))
    return Parts(
        rows,
        tf.where(is_special, "", texts),
        tf.RaggedTensor.from_row_lengths(ids[is_special], tf.cast(is_special, tf.int64)),
        (
            (tf.cast(start_bytes.flat_values, tf.int32), tf.cast(end_bytes.flat_values, tf.int32)),
            (end_chars - num_characters, end_chars),
        ),
    )
