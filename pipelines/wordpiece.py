"""BertTokenizer: google-research/bert's FullTokenizer in graph, on batches of strings."""

import tensorflow as tf
import tensorflow_text as tf_text

from pipelines import normalize
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
        # [B, (parts)]: what stands between the masks; a mask goes after each part but the last.
        parts = tf.strings.split(strings, "[MASK]")
        pieces = parts.with_flat_values(self._tokenize_plain(parts.flat_values))
        masks = parts.with_flat_values(
            tf.RaggedTensor.from_tensor(tf.fill([tf.size(parts.flat_values), 1], self.mask_id)))
        pieces = tf.concat([pieces, masks], axis=2)
        return pieces.merge_dims(1, 2)[:, :-1]

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
