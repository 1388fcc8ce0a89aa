"""The place of each piece in the original text, computed with TensorFlow operations.

Normalization changes each character separately. The only exception is the form of a final sigma, whose length is the
same. This module therefore also normalizes every distinct character separately. The lengths of the results give the
original character of each byte of the normalized text. NFD sorts some marks that stay in the text; their places follow
the new order.
"""

import tensorflow as tf
import tensorflow_text as tf_text

from pipelines.ragged import row_ids
from pipelines.wordpiece import normalize


def pieces_with_offsets(
    strings, do_lower_case: bool, wordpiece, unk_id: int, max_characters_per_word: int, unknown_word: str
):
    """Tokenizes strings and finds the span of each piece in the original string.

    Args:
        strings: string [B].
        do_lower_case: whether the vocabulary is uncased.
        wordpiece: tf_text.FastWordpieceTokenizer with no_pretokenization, which cuts single words.
        unk_id: the id of [UNK].
        max_characters_per_word: the length of the longest word that is not [UNK].
        unknown_word: a word that becomes [UNK]. It replaces words longer than max_characters_per_word.

    Returns:
        (ids, start_bytes, end_bytes, start_chars, end_chars): RaggedTensors int32 [B, (pieces)]; ends are exclusive.
    """
    # [B, (characters)], flat [C]
    characters, first_bytes = tf.strings.unicode_decode_with_offsets(strings, "UTF-8", errors="replace")
    row_of_character = row_ids(characters.row_splits)
    distinct, place = tf.unique(characters.flat_values)
    lengths = tf.strings.length(
        normalize.space_out(tf.strings.unicode_encode(distinct[:, None], "UTF-8"), do_lower_case)
    )
    lengths = tf.gather(lengths, place)
    # [bytes of all normalized strings] the original character of each byte
    owner = row_ids(tf.concat([[0], tf.cumsum(lengths)], axis=0))
    row_start = tf.cumsum(tf.math.unsorted_segment_sum(lengths, row_of_character, tf.size(strings)), exclusive=True)

    words, word_starts, word_ends = tf_text.WhitespaceTokenizer().tokenize_with_offsets(
        normalize.space_out(strings, do_lower_case)
    )
    too_long = tf.strings.length(words.flat_values, unit="UTF8_CHAR") > max_characters_per_word
    pieces, starts, ends = wordpiece.tokenize_with_offsets(tf.where(too_long, unknown_word, words.flat_values))
    # [(pieces)] spans in a word become spans in all normalized strings; an unknown word is one span.
    word = row_ids(pieces.row_splits)
    base = tf.gather(row_start, row_ids(words.row_splits)) + tf.cast(word_starts.flat_values, tf.int32)
    sizes = tf.cast(word_ends.flat_values - word_starts.flat_values, tf.int32)
    is_unknown = pieces.flat_values == unk_id
    starts = tf.gather(base, word) + tf.where(is_unknown, 0, tf.cast(starts.flat_values, tf.int32))
    ends = tf.gather(base, word) + tf.where(is_unknown, tf.gather(sizes, word), tf.cast(ends.flat_values, tf.int32))

    first, last = tf.gather(owner, starts), tf.gather(owner, ends - 1)
    first_byte = tf.cast(first_bytes.flat_values, tf.int32)
    # A character ends where the next character of its string starts, or at the end of the string.
    row_ends = tf.gather(tf.strings.length(strings), row_of_character)
    is_last_of_row = tf.concat([row_of_character[1:] != row_of_character[:-1], [True]], axis=0)[: tf.size(lengths)]
    byte_end = tf.where(is_last_of_row, row_ends, tf.concat([first_byte[1:], [0]], axis=0)[: tf.size(lengths)])
    character_row_start = tf.gather(tf.cast(characters.row_splits[:-1], tf.int32), row_of_character)

    spans = (
        pieces.flat_values,
        tf.gather(first_byte, first),
        tf.gather(byte_end, last),
        first - tf.gather(character_row_start, first),
        last - tf.gather(character_row_start, last) + 1,
    )
    return tuple(words.with_flat_values(pieces.with_flat_values(values)).merge_dims(1, 2) for values in spans)
