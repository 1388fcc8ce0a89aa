"""BertTokenizer: google-research/bert's FullTokenizer as TensorFlow operations on batches of strings."""

from collections.abc import Callable
from typing import Any

import tensorflow as tf
import tensorflow_text as tf_text

from pipelines.data_error import DataError
from pipelines.examples import packing
from pipelines.ragged import keep, row_ids
from pipelines.wordpiece import casing, detokenizing, normalize, special_tokens
from pipelines.wordpiece.offsets import pieces_with_offsets
from pipelines.wordpiece.texts import as_batch
from pipelines.wordpiece.vocabulary import SPECIAL_PIECES, UNUSED_PIECE, checked_pieces, read_bytes
from pipelines.wordpiece.words import MAX_CHARACTERS_PER_WORD

_MAX_BYTES_PER_CHARACTER = 4
# Cleaning removes NUL from every text, so no vocabulary entry can match this word.
_UNKNOWN_WORD = "\x00"
# tf.data traces the methods that a dataset maps. With AutoGraph, which rewrites their code, tracing would take six
# times as long.
_do_not_convert = tf.autograph.experimental.do_not_convert


class BertTokenizer(tf.Module):
    """Cuts text into WordPiece ids exactly as google-research/bert does.

    The tokenizer works inside tf.data graphs and SavedModels.

    Args:
        vocab_file: one piece a line, [PAD] first; a path, or the bytes of such a file.
        do_lower_case: whether the vocabulary is uncased (lower case, accents stripped).
        special_tokens_in_text: whether "[MASK]", or another special piece that a text spells out, becomes that piece,
            as in fill-mask input. Otherwise "[MASK]" becomes three ordinary words, as in training text.
        max_characters_per_word: a longer word is [UNK]. 200 in google-research/bert, 100 in Hugging Face's tokenizers.
        verify_casing: whether to refuse a do_lower_case under which the vocabulary cannot work.

    Raises:
        DataError: the vocabulary is not usable (the message gives line numbers), or it contradicts the casing.
    """

    kind = "wordpiece"  # one of choices.TOKENIZERS
    columns = None  # token_columns.TokenColumns if tokens have further inputs beside their ids
    _splits_words = True

    def __init__(
        self,
        vocab_file: str | bytes,
        do_lower_case: bool = True,
        special_tokens_in_text: bool = False,
        max_characters_per_word: int = MAX_CHARACTERS_PER_WORD,
        verify_casing: bool = True,
    ):
        super().__init__(name="bert_tokenizer")
        if max_characters_per_word < 1:
            raise DataError(f"max_characters_per_word is {max_characters_per_word}; expected 1 or more")
        data, name = (
            (vocab_file, "vocab.txt") if isinstance(vocab_file, bytes) else (read_bytes(vocab_file), vocab_file)
        )
        self.vocabulary = checked_pieces(data, name)
        if verify_casing:
            self._verify(do_lower_case, name)
        self.do_lower_case = do_lower_case
        self.special_tokens_in_text = special_tokens_in_text
        self.max_characters_per_word = max_characters_per_word
        self.vocab_size = len(self.vocabulary)
        index = {piece: i for i, piece in enumerate(self.vocabulary)}
        self._special_ids = [index[piece] for piece in SPECIAL_PIECES]
        self.pad_id, self.unk_id, self.cls_id, self.sep_id, self.mask_id = self._special_ids
        self._wordpiece = self._fast_wordpiece(no_pretokenization=True)
        # For plain text, tf.text itself splits as Google's code does, several times as fast as normalize.space_out.
        self._splitting_wordpiece = self._fast_wordpiece() if self._splits_words else None

    def _fast_wordpiece(self, **arguments):
        limit = self.max_characters_per_word * _MAX_BYTES_PER_CHARACTER
        return tf_text.FastWordpieceTokenizer(
            self.vocabulary, token_out_type=tf.int32, max_bytes_per_word=limit, **arguments
        )

    @classmethod
    def from_directory(cls, directory: str, do_lower_case: bool | None = None, **arguments) -> "BertTokenizer":
        """Loads the tokenizer of a directory with vocab.txt and a configuration that gives the casing.

        If config.json has "tokenizer": "symbols", the result is a SymbolTokenizer.

        Args:
            directory: a run, the assets of an export, or a published checkpoint of google-research/bert or Hugging
                Face.
            do_lower_case: replaces the casing of the configuration; None reads the configuration.
            arguments: further keyword arguments of the constructor.

        Returns:
            BertTokenizer.

        Raises:
            DataError: no configuration gives the casing, or the vocabulary is not usable.
        """
        if casing.configuration_of_symbols(directory) is not None:
            from pipelines.wordpiece.symbols import SymbolTokenizer  # a subclass of this class

            return SymbolTokenizer.from_directory(directory, **arguments)
        if do_lower_case is None:
            do_lower_case = casing.from_configuration(directory)
        return cls(f"{directory}/vocab.txt", do_lower_case, **arguments)

    @property
    def never_written(self) -> tuple[int, ...]:
        """The ids that no text should have: [PAD], [UNK], [CLS], [MASK] and unused pieces."""
        unused = [number for number, piece in enumerate(self.vocabulary) if UNUSED_PIECE.fullmatch(piece)]
        return (self.pad_id, self.unk_id, self.cls_id, self.mask_id, *unused)

    @_do_not_convert
    def tokenize(self, strings):
        """Tokenizes each string, without [CLS] and [SEP].

        Args:
            strings: string [B], or one string. A list, an array or a pandas column of strings also works. The tokenizer
                drops invalid UTF-8, like other characters that BERT removes.

        Returns:
            RaggedTensor int32 [B, (pieces)]; for one string int32 [pieces].

        Raises:
            DataError: an item is no string.

        Example:
            tokenizer.tokenize("A text.")  # its ids
            tokenizer.tokenize(["A text.", "Another text."])  # the ids of each
        """
        strings, is_one = as_batch(strings)
        if not self._cuts_out_special_pieces():
            ids = self._tokenize_text(strings)
        else:
            parts = special_tokens.split(strings, self._special_ids)
            ids = parts.join(self._tokenize_text(parts.texts), parts.special_ids)
        return ids[0] if is_one else ids

    def tokenize_with_columns(self, strings):
        """Tokenizes each string, and adds the columns of the tokens if the tokenizer has columns.

        Args:
            strings: string [B].

        Returns:
            RaggedTensor int32 [B, (pieces)]; with columns [B, (pieces), 1 + C], see token_columns.
        """
        return self.tokenize(strings)

    @_do_not_convert
    def pack(self, texts: Any, text_pairs: Any = None, seq_length: int = 128) -> dict[str, tf.Tensor]:
        """Makes the inputs of an encoder: rows [CLS] text [SEP], or [CLS] text [SEP] other text [SEP].

        If a row is too long, its longer text loses pieces at the end, one by one.

        Args:
            texts: string [B], or one string. See tokenize.
            text_pairs: the second text of each pair, one for each of `texts`; None for single texts.
            seq_length: the length S of every row.

        Returns:
            dict of input_word_ids, input_mask and input_type_ids, int32 [B, S]; for one string int32 [S]. With columns
            also the inputs of token_columns.TokenColumns.

        Raises:
            DataError: an item is not a string, the numbers of texts and text_pairs differ, or seq_length has no room
                for the special pieces and some text.

        Example:
            encoder(tokenizer.pack(["A text.", "Another text."]))["pooled_output"]
            tf.data.Dataset.from_tensor_slices((texts, labels)).batch(32).map(lambda x, y: (tokenizer.pack(x), y))
        """
        segments = [as_batch(strings) for strings in ((texts,) if text_pairs is None else (texts, text_pairs))]
        least = len(segments) + 2
        if seq_length < least:
            raise DataError(f"seq_length={seq_length}: expected {least} or more, for [CLS], [SEP] and some text")
        counts = [None if is_one else strings.shape[0] for strings, is_one in segments]
        if len({is_one for _, is_one in segments}) > 1 or len(set(counts) - {None}) > 1:
            given = ["one string" if is_one else count for count, (_, is_one) in zip(counts, segments, strict=True)]
            raise DataError(f"texts: {given[0]}, text_pairs: {given[1]}; expected a second text for each text")
        rows = packing.pack_segments(
            [self.tokenize_with_columns(strings) for strings, _ in segments],
            seq_length,
            self.cls_id,
            self.sep_id,
            self.pad_id,
            self.columns,
        )
        return {name: values[0] for name, values in rows.items()} if segments[0][1] else rows

    @_do_not_convert
    def tokenize_with_offsets(self, strings):
        """Tokenizes each string and finds the span of each piece in the original string.

        Characters that normalization removes at the edge of a piece are not part of its span. In invalid UTF-8, the
        characters are counted after bytes.decode("utf-8", errors="replace").

        Args:
            strings: string [B], or one string. See tokenize.

        Returns:
            (ids, start_bytes, end_bytes, start_chars, end_chars): RaggedTensors int32 [B, (pieces)], for one string
            int32 [pieces]; ends are exclusive.

        Raises:
            DataError: an item is no string.
        """
        strings, is_one = as_batch(strings)
        if not self._cuts_out_special_pieces():
            ids_and_spans = self._tokenize_text_with_offsets(strings)
        else:
            parts = special_tokens.split(strings, self._special_ids)
            ids, *spans = self._tokenize_text_with_offsets(parts.texts)
            ids_and_spans = parts.join(ids, parts.special_ids), *parts.join_spans(spans)
        return tuple(values[0] for values in ids_and_spans) if is_one else ids_and_spans

    def tokenize_words_with_offsets(self, words):
        """Tokenizes words that are already split, and finds the span of each piece in its word.

        Args:
            words: RaggedTensor string [B, (words)]. A word may give no piece, if cleaning removes all of it.

        Returns:
            (ids, start_bytes, end_bytes, start_chars, end_chars): RaggedTensors int32 [B, (words), (pieces)].
        """
        return tuple(words.with_flat_values(values) for values in self.tokenize_with_offsets(words.flat_values))

    def pieces(self, ids):
        """Looks up the pieces of ids.

        Args:
            ids: int tensor or RaggedTensor of any shape.

        Returns:
            string tensor or RaggedTensor of the same shape.
        """
        return tf.ragged.map_flat_values(lambda values: tf.gather(tf.constant(self.vocabulary), values), ids)

    def detokenize(self, ids):
        """Joins pieces to text, with single spaces between words.

        Characters that normalization removed do not come back.

        Args:
            ids: RaggedTensor int32 [B, (pieces)] or int tensor [B, S]. Special pieces stay, except [PAD].

        Returns:
            string [B].
        """
        if not isinstance(ids, tf.RaggedTensor):
            ids = tf.RaggedTensor.from_tensor(ids)
        pieces = self.pieces(keep(ids, ids.flat_values != self.pad_id))
        text = tf.strings.unsorted_segment_join(pieces.flat_values, row_ids(pieces.row_splits), pieces.nrows(), " ")
        return tf.strings.regex_replace(text, " ##", "")

    def readable(self, pieces):
        """Joins pieces to readable texts; see pipelines.wordpiece.detokenizing.

        Args:
            pieces: RaggedTensor of string [B, (pieces)], without special pieces.

        Returns:
            string [B].
        """
        return detokenizing.detokenize(pieces)

    def _verify(self, do_lower_case, name):
        casing.verify(self.vocabulary, do_lower_case, name)

    def _cuts_out_special_pieces(self):
        return self.special_tokens_in_text

    def _tokenize_text(self, strings):
        """Tokenizes each string by the fastest exact method for it; most strings of most corpora are plain."""
        limit = self.max_characters_per_word

        def split_and_cut(texts):
            return [self._splitting_wordpiece.tokenize(texts)]

        def cut_plain(texts):
            return split_and_cut(normalize.lower_and_strip_accents_of_plain(texts) if self.do_lower_case else texts)

        def cut_others(texts):
            return in_two_ways(
                texts, normalize.is_plain(texts, limit), cut_plain, lambda rest: [self._tokenize_any(rest)]
            )

        if not self.do_lower_case:
            return cut_others(strings)[0]
        return in_two_ways(
            strings,
            normalize.is_plain_ascii(strings, limit),
            lambda texts: split_and_cut(tf.strings.lower(texts)),
            cut_others,
        )[0]

    def _tokenize_text_with_offsets(self, strings):
        def cut_ascii(texts):
            texts = tf.strings.lower(texts) if self.do_lower_case else texts
            ids, *spans = self._splitting_wordpiece.tokenize_with_offsets(texts)
            starts, ends = (tf.cast(edges, tf.int32) for edges in spans)
            return ids, starts, ends, starts, ends  # an ASCII character is one byte, also in lower case

        def cut_others(texts):
            return pieces_with_offsets(
                texts, self.do_lower_case, self._wordpiece, self.unk_id, self.max_characters_per_word, _UNKNOWN_WORD
            )

        return in_two_ways(
            strings, normalize.is_plain_ascii(strings, self.max_characters_per_word), cut_ascii, cut_others
        )

    def _tokenize_any(self, strings):
        words = tf.strings.split(normalize.space_out(strings, self.do_lower_case))
        too_long = tf.strings.length(words.flat_values, unit="UTF8_CHAR") > self.max_characters_per_word
        words = words.with_flat_values(tf.where(too_long, _UNKNOWN_WORD, words.flat_values))
        return words.with_flat_values(self._wordpiece.tokenize(words.flat_values)).merge_dims(1, 2)


def in_two_ways(strings, is_first, first: Callable, second: Callable) -> tuple[tf.RaggedTensor, ...]:
    """Applies one function to some strings and another to the rest; rows keep their order.

    Args:
        strings: string [B].
        is_first: bool [B]. Which strings the first function gets.
        first: function of strings [N]. It returns a sequence of RaggedTensors [N, (values)].
        second: function like `first`, for the rest.

    Returns:
        Tuple of RaggedTensors [B, (values)].
    """
    rows = tf.where(is_first)[:, 0], tf.where(~is_first)[:, 0]
    results = [way(tf.gather(strings, chosen)) for way, chosen in zip((first, second), rows, strict=True)]
    order = tf.math.invert_permutation(tf.concat(rows, axis=0))
    return tuple(tf.gather(tf.concat(pair, axis=0), order) for pair in zip(*results, strict=True))
