"""BertTokenizer: google-research/bert's FullTokenizer in graph, on batches of strings."""

import tensorflow as tf
import tensorflow_text as tf_text

from pipelines import normalize
from pipelines.offsets import pieces_with_offsets
from pipelines.vocab import load_vocabulary

MAX_CHARACTERS_PER_WORD = 200  # tokenization.WordpieceTokenizer: a longer word is [UNK]
_MAX_BYTES_PER_CHARACTER = 4
# Cleaning removes NUL from every text, so that no vocabulary entry can match it.
_UNKNOWN_WORD = "\x00"


class BertTokenizer(tf.Module):
    """Cuts text into WordPiece ids exactly as google-research/bert does, inside tf.data graphs and SavedModels.

    Args:
        vocab_file: one piece a line, [PAD] first.
        do_lower_case: whether the vocabulary is uncased (lower case, accents stripped).
        special_tokens_in_text: whether a literal "[MASK]" in a text is the mask (fill-mask input) instead of the
            three ordinary words that it is in training text.

    Raises:
        DataError: the vocabulary is not usable; the message names the lines.
    """

    def __init__(self, vocab_file, do_lower_case=True, special_tokens_in_text=False):
        super().__init__(name="bert_tokenizer")
        self.vocabulary = load_vocabulary(vocab_file)
        self.do_lower_case = do_lower_case
        self.special_tokens_in_text = special_tokens_in_text
        self.vocab_size = len(self.vocabulary)
        index = {piece: i for i, piece in enumerate(self.vocabulary)}
        self.pad_id, self.unk_id, self.cls_id, self.sep_id, self.mask_id = (
            index[piece] for piece in ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"))
        # Of plain ASCII, tf.text's own splitting is exact and several times as fast.
        self._ascii_wordpiece = tf_text.FastWordpieceTokenizer(
            self.vocabulary, token_out_type=tf.int32, max_bytes_per_word=MAX_CHARACTERS_PER_WORD)
        self._wordpiece = tf_text.FastWordpieceTokenizer(
            self.vocabulary, token_out_type=tf.int32, no_pretokenization=True,
            max_bytes_per_word=MAX_CHARACTERS_PER_WORD * _MAX_BYTES_PER_CHARACTER)

    def tokenize(self, strings):
        """Piece ids of each string, without [CLS] and [SEP].

        Args:
            strings: string tensor [B]; invalid UTF-8 is dropped like other characters that BERT removes.

        Returns:
            RaggedTensor int32 [B, (pieces)].
        """
        strings = tf.ensure_shape(tf.convert_to_tensor(strings, tf.string), [None])
        if not self.special_tokens_in_text:
            return self._tokenize_plain(strings)
        # [B, (parts)]: what stands between the masks
        parts = tf.strings.split(strings, "[MASK]")
        return _join_parts(parts, self._tokenize_plain(parts.flat_values),
                           tf.fill([tf.size(parts.flat_values)], self.mask_id))

    def tokenize_with_offsets(self, strings):
        """Piece ids with the part of the original string that each came from.

        Args:
            strings: string tensor [B].

        Returns:
            (ids, start_bytes, end_bytes, start_chars, end_chars): RaggedTensors int32 [B, (pieces)]; ends are
            exclusive. Characters that normalization removes at the edge of a piece are not part of its span.
        """
        strings = tf.ensure_shape(tf.convert_to_tensor(strings, tf.string), [None])
        if not self.special_tokens_in_text:
            return self._plain_with_offsets(strings)
        parts = tf.strings.split(strings, "[MASK]")
        ids, *spans = self._plain_with_offsets(parts.flat_values)
        joined = [_join_parts(parts, ids, tf.fill([tf.size(parts.flat_values)], self.mask_id))]
        # A part begins after the parts and masks before it in its string.
        for unit, (starts, ends) in zip(("BYTE", "UTF8_CHAR"), (spans[:2], spans[2:])):
            lengths = parts.with_flat_values(tf.strings.length(parts.flat_values, unit=unit))
            end_of_part = tf.cumsum(lengths.flat_values + len("[MASK]")) - len("[MASK]")
            row_base = tf.gather(end_of_part - lengths.flat_values, tf.cast(parts.row_splits[:-1], tf.int32))
            end_of_part -= tf.gather(row_base, tf.cast(parts.value_rowids(), tf.int32))
            base = tf.cast(end_of_part - lengths.flat_values, tf.int32)[:, None]
            joined.append(_join_parts(parts, starts + base, end_of_part))
            joined.append(_join_parts(parts, ends + base, end_of_part + len("[MASK]")))
        return tuple(joined)

    def _plain_with_offsets(self, strings):
        return pieces_with_offsets(strings, self.do_lower_case, self._wordpiece, self.unk_id,
                                   MAX_CHARACTERS_PER_WORD, _UNKNOWN_WORD)

    def _tokenize_plain(self, strings):
        is_ascii = tf.strings.regex_full_match(strings, normalize.PLAIN_ASCII)
        ascii_rows, other_rows = tf.where(is_ascii)[:, 0], tf.where(~is_ascii)[:, 0]
        pieces = tf.concat([self._tokenize_ascii(tf.gather(strings, ascii_rows)),
                            self._tokenize_unicode(tf.gather(strings, other_rows))], axis=0)
        # The two kinds of rows go back into the order in which they came.
        order = tf.math.invert_permutation(tf.concat([ascii_rows, other_rows], axis=0))
        return tf.gather(pieces, order)

    def _tokenize_ascii(self, strings):
        if self.do_lower_case:
            strings = tf.strings.lower(strings)
        return self._ascii_wordpiece.tokenize(strings)

    def _tokenize_unicode(self, strings):
        words = tf.strings.split(normalize.space_out(strings, self.do_lower_case))
        too_long = tf.strings.length(words.flat_values, unit="UTF8_CHAR") > MAX_CHARACTERS_PER_WORD
        words = words.with_flat_values(tf.where(too_long, _UNKNOWN_WORD, words.flat_values))
        return words.with_flat_values(self._wordpiece.tokenize(words.flat_values)).merge_dims(1, 2)


def _join_parts(parts, values, between):
    """Values of the parts of each string in a row, with one value between each part and the next.

    Args:
        parts: RaggedTensor [B, (parts)], every row with one part or more. values: RaggedTensor [parts, (values)].
        between: [parts], what follows each part; the last one's is dropped.
    """
    values = tf.concat([values, tf.RaggedTensor.from_tensor(between[:, None])], axis=1)
    return parts.with_flat_values(values).merge_dims(1, 2)[:, :-1]
