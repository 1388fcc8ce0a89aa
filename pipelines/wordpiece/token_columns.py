"""Tokens with further inputs beside their ids: values of channels, and positions that count lines.

Such a token is a row of int32 columns: its id, then its line, then the columns of each channel. Packing moves whole
rows, whatever their columns mean. Special pieces and padding have zeros in all columns but the first.

- Line: 1 for a token in the first line of its text, 2 in the second one. The column is there only if positions count
  lines.
- Numbers: v + 1 for the value v, 0 for none.
- Vectors: the bits of float32 numbers, zeros for none.

Dimensions: N rows, S positions, T tokens, C columns without the id.
"""

from collections.abc import Sequence

import tensorflow as tf

from pipelines.channels import NUMBER, NUMBERS_SEPARATOR, SEPARATOR, Channel
from pipelines.ragged import row_ids

POSITIONS = "input_positions"


class TokenColumns:
    """The columns of a tokenizer's tokens.

    Args:
        channels: the channels of the texts.
        counts_lines: whether all symbols of a line have one position.
        mask_id: the id of [MASK].
    """

    def __init__(self, channels: Sequence[Channel], counts_lines: bool, mask_id: int):
        self.channels, self.counts_lines, self.mask_id = tuple(channels), counts_lines, mask_id
        self.size = counts_lines + sum(channel.num_columns for channel in channels)

    def split(self, symbols):
        """Splits symbols from their values.

        Args:
            symbols: string [T], each SYMBOL or SYMBOL|VALUE|VALUE with a value for each channel. A value may be empty.

        Returns:
            (string [T] the symbols, int32 [T, columns of the channels]).

        Raises:
            tf.errors.InvalidArgumentError: a symbol has another number of values, a value is no number or out of
                range, or a vector has another length. It is raised when the op runs.
        """
        if not self.channels:
            return symbols, tf.zeros([tf.size(symbols), 0], tf.int32)
        fields = tf.strings.split(symbols, SEPARATOR)
        counts, expected = fields.row_lengths(), 1 + len(self.channels)
        names = ", ".join(channel.name for channel in self.channels)
        is_good = (counts == 1) | (counts == expected)
        wanted = f"a symbol alone, or with values for {names}, each after a {SEPARATOR}"
        with tf.control_dependencies([_check(is_good, symbols, wanted)]):
            table = fields.to_tensor("", shape=[None, expected])
        values = [_columns_of(table[:, 1 + number], channel) for number, channel in enumerate(self.channels)]
        return table[:, 0], tf.concat(values, axis=1)

    def hidden_at_masks(self, inputs: dict) -> dict:
        """Removes the values of masked channels where the input has [MASK].

        Args:
            inputs: dict of the inputs of a model, with input_word_ids int32 [..., S].

        Returns:
            dict with the same names.
        """
        is_mask, hidden = inputs["input_word_ids"] == self.mask_id, {}
        for channel in self.channels:
            if channel.is_masked:
                values = inputs[channel.input_name]
                is_hidden = is_mask if channel.size else is_mask[..., None]
                hidden[channel.input_name] = tf.where(is_hidden, tf.zeros_like(values), values)
        return inputs | hidden

    def inputs(self, columns) -> dict:
        """Turns the columns of rows into inputs of a model.

        Args:
            columns: int32 [..., S, C]. Zeros at special pieces and padding.

        Returns:
            dict input_NAME -> int32 [..., S] for numbers, v + 1 for the value v and 0 for none; float32
            [..., S, width] for vectors. If positions count lines also input_positions, int32 [..., S]: 0 for [CLS], 1
            for the tokens of the row's first line, 2 for those of the second one. A special piece has the position of
            the token before it.
        """
        inputs = {POSITIONS: _line_positions(columns[..., 0])} if self.counts_lines else {}
        place = int(self.counts_lines)
        for channel in self.channels:
            part = columns[..., place : place + channel.num_columns]
            place += channel.num_columns
            inputs[channel.input_name] = part[..., 0] if channel.size else tf.bitcast(part, tf.float32)
        return inputs


def _columns_of(values, channel):
    """int32 [T, num_columns] of the values of one channel, string [T]."""
    is_empty = values == ""
    zeros = NUMBERS_SEPARATOR.join(["0"] * channel.num_columns)
    filled = tf.where(is_empty, zeros, values)
    if channel.size:
        is_number = tf.strings.regex_full_match(filled, "[0-9]{1,9}")
        numbers = tf.strings.to_number(tf.where(is_number, filled, "0"), tf.int32)
        wanted = f"as {channel.name} a whole number from 0 to {channel.size - 1}, or nothing"
        with tf.control_dependencies([_check(is_number & (numbers < channel.size), values, wanted)]):
            return tf.where(is_empty, 0, numbers + 1)[:, None]
    numbers = tf.strings.split(filled, NUMBERS_SEPARATOR)
    are_numbers = numbers.with_flat_values(tf.strings.regex_full_match(numbers.flat_values, NUMBER))
    is_vector = (numbers.row_lengths() == channel.width) & tf.reduce_all(are_numbers, axis=1)
    wanted = f"as {channel.name} {channel.width} numbers with {NUMBERS_SEPARATOR} between them, or nothing"
    with tf.control_dependencies([_check(is_vector, values, wanted)]):
        numbers = tf.strings.to_number(numbers.flat_values, tf.float32)
    return tf.bitcast(tf.reshape(numbers, [-1, channel.width]), tf.int32)


def _check(is_good, values, wanted):
    """The op that fails at the first value [T] that is not good."""
    fault = tf.strings.join(
        ["expected ", wanted, "; got ", tf.strings.reduce_join(tf.boolean_mask(values, ~is_good)[:1])]
    )
    return tf.debugging.Assert(tf.reduce_all(is_good), [fault])


def _line_positions(lines):
    """int32 [..., S] the number of lines that have begun up to each place, from the line of each token, 0 for none."""
    before = tf.concat([tf.zeros_like(lines[..., :1]), lines[..., :-1]], axis=-1)
    return tf.cumsum(tf.cast((lines > 0) & (lines != before), tf.int32), axis=-1)


def with_lines(tokens, line_numbers):
    """Replaces the column of lines.

    Args:
        tokens: int32 [T, 1 + C]. The tokens, with a column of lines.
        line_numbers: int32 [T]. 1 or more.

    Returns:
        int32 [T, 1 + C].
    """
    return tf.concat([tokens[:, :1], line_numbers[:, None], tokens[:, 2:]], axis=1)


def numbered_lines(lines):
    """Numbers the lines of each text from 1 on.

    Args:
        lines: RaggedTensor string [B, (lines)].

    Returns:
        int32 [number of lines of all texts].
    """
    places = tf.range(tf.size(lines.flat_values))
    starts = tf.gather(tf.cast(lines.row_starts(), tf.int32), row_ids(lines.row_splits))
    return places - starts + 1


def split_columns(tokens):
    """Separates ids from columns.

    Args:
        tokens: int32 [T], or [T, 1 + C] with columns.

    Returns:
        (int32 [T], int32 [T, C] or None).
    """
    return (tokens, None) if tokens.shape.rank == 1 else (tokens[:, 0], tokens[:, 1:])


def at_places(columns, source):
    """Gathers the columns of the tokens of rows.

    Args:
        columns: int32 [T, C].
        source: int32 [N, S]. The token of each place, -1 for special pieces and padding.

    Returns:
        int32 [N, S, C].
    """
    columns = tf.pad(columns, [[1, 0], [0, 0]])  # row 0 serves the places without a token
    return tf.gather(columns, source + 1)
