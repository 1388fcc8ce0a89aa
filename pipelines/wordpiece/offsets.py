"""Where in the original text each piece came from, in graph, through every step of normalization.

Normalization works character by character but for the form of a final sigma, which does not change its length. So
every distinct character is normalized alone as well, and the lengths of the results say which character any byte of the
normalized text came from. Where marks that are kept change places (NFD sorts some of them), their places are taken in the new
order.
"""

import tensorflow as tf
import tensorflow_text as tf_text

from pipelines.ragged import row_ids
from pipelines.wordpiece import normalize


def pieces_with_offsets(strings, do_lower_case, wordpiece, unk_id, max_characters_per_word, unknown_word):
    """Piece ids with spans of the original strings.

    Args:
        strings: string [B]. wordpiece: FastWordpieceTokenizer over words. The rest as in pipelines.wordpiece.tokenizer.

    Returns:
        (ids, start_bytes, end_bytes, start_chars, end_chars): RaggedTensors int32 [B, (pieces)]; ends are exclusive.
    """
    # [B, (characters)] and, flat, [C]
    characters, first_bytes = tf.strings.unicode_decode_with_offsets(strings, "UTF-8", errors="replace")
    row_of_character = row_ids(characters.row_splits)
    distinct, place = tf.unique(characters.flat_values)
    lengths = tf.strings.length(
        normalize.space_out(tf.strings.unicode_encode(distinct[:, None], "UTF-8"), do_lower_case)
    )
    lengths = tf.gather(lengths, place)
    # [bytes of all normalized strings] the character that each byte came from
    owner = row_ids(tf.concat([[0], tf.cumsum(lengths)], axis=0))
    row_start = tf.cumsum(tf.math.unsorted_segment_sum(lengths, row_of_character, tf.size(strings)), exclusive=True)

    words, word_starts, word_ends = tf_text.WhitespaceTokenizer().tokenize_with_offsets(
        normalize.space_out(strings, do_lower_case)
    )
    too_long = tf.strings.length(words.flat_values, unit="UTF8_CHAR") > max_characters_per_word
    pieces, starts, ends = wordpiece.tokenize_with_offsets(tf.where(too_long, unknown_word, words.flat_values))
    # [(pieces)] flat: spans within the word become spans within all normalized strings; an unknown word is one span.
    word = row_ids(pieces.row_splits)
    base = tf.gather(row_start, row_ids(words.row_splits)) + tf.cast(word_starts.flat_values, tf.int32)
    sizes = tf.cast(word_ends.flat_values - word_starts.flat_values, tf.int32)
    is_unknown = pieces.flat_values == unk_id
    starts = tf.gather(base, word) + tf.where(is_unknown, 0, tf.cast(starts.flat_values, tf.int32))
    ends = tf.gather(base, word) + tf.where(is_unknown, tf.gather(sizes, word), tf.cast(ends.flat_values, tf.int32))

    first, last = tf.gather(owner, starts), tf.gather(owner, ends - 1)
    first_byte = tf.cast(first_bytes.flat_values, tf.int32)
    # A character ends where the next one of its string begins, or with the string.
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
