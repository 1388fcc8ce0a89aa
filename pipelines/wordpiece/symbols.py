"""SymbolTokenizer: texts that are symbols with spaces between them, such as codes or items."""

from collections.abc import Sequence

import tensorflow as tf
import tensorflow_text as tf_text

from pipelines.channels import SEPARATOR, Channel, parse_channels
from pipelines.ragged import keep, row_ids
from pipelines.wordpiece import casing
from pipelines.wordpiece.normalize import repair_utf8
from pipelines.wordpiece.token_columns import TokenColumns, numbered_lines
from pipelines.wordpiece.tokenizer import BertTokenizer
from pipelines.wordpiece.vocabulary import SPECIAL_PIECES
from pipelines.wordpiece.vocabulary_checks import MAX_BYTES_OF_SYMBOL, check_symbols

_SPACES = r"[ \t\n\v\f\r]+"  # the characters at which tf.strings.split cuts
_VALUES = rf"[{SEPARATOR}].*"


class SymbolTokenizer(BertTokenizer):
    """Turns each symbol of a text into its id. Nothing is lower-cased, split or normalized.

    ASCII white space separates symbols. A symbol that the vocabulary lacks is [UNK], as is a special piece that a text
    spells out, unless special_tokens_in_text is true.

    Args:
        vocab_file: one symbol a line, [PAD] first; a path, or the bytes of such a file.
        special_tokens_in_text: see BertTokenizer.
        channels: the channels whose values stand behind the symbols of a text; see pipelines.channels.
        positions: one of choices.POSITIONS. With "lines" all symbols of a line have one position.

    Raises:
        DataError: the vocabulary is not usable; see BertTokenizer and vocabulary_checks.
    """

    kind = "symbols"
    _splits_words = False

    def __init__(
        self,
        vocab_file: str | bytes,
        special_tokens_in_text: bool = False,
        channels: Sequence[Channel] = (),
        positions: str = "tokens",
    ):
        super().__init__(
            vocab_file,
            do_lower_case=False,
            special_tokens_in_text=special_tokens_in_text,
            max_characters_per_word=MAX_BYTES_OF_SYMBOL,
        )
        if channels or positions == "lines":
            self.columns = TokenColumns(channels, positions == "lines", self.mask_id)

    @classmethod
    def from_directory(cls, directory: str, do_lower_case: bool | None = None, **arguments) -> "SymbolTokenizer":
        del do_lower_case  # symbols have no casing
        configuration = casing.configuration_of_symbols(directory) or {}
        arguments.setdefault("channels", parse_channels(configuration.get("channels", ())))
        arguments.setdefault("positions", configuration.get("positions", "tokens"))
        return cls(f"{directory}/vocab.txt", **arguments)

    def readable(self, pieces):
        return tf.strings.reduce_join(pieces, axis=-1, separator=" ")

    def _verify(self, do_lower_case, name):
        check_symbols(self.vocabulary, name)

    def _cuts_out_special_pieces(self):
        return False  # a special piece is a symbol like any other; `_ids` knows it

    def tokenize_with_columns(self, strings):
        if self.columns is None:
            return self.tokenize(strings)
        lines = tf.strings.split(strings, "\n")
        symbols = tf.strings.split(lines.flat_values)
        names, values = self.columns.split(symbols.flat_values)
        columns = [self._ids(names)[:, None], values]
        if self.columns.counts_lines:
            line_numbers = tf.gather(numbered_lines(lines), row_ids(symbols.row_splits))
            columns.insert(1, line_numbers[:, None])
        tokens = symbols.with_flat_values(tf.concat(columns, axis=1))
        return lines.with_flat_values(tokens).merge_dims(1, 2)

    def _tokenize_text(self, strings):
        symbols = tf.strings.split(strings)
        return symbols.with_flat_values(self._ids(self._names(symbols.flat_values)))

    def _tokenize_text_with_offsets(self, strings):
        # regex_split treats NUL as the end of the string. No entry has NUL or this other control character.
        strings = tf.strings.regex_replace(strings, r"\x00", "\x01")
        parts, starts, ends = tf_text.regex_split_with_offsets(strings, _SPACES, _SPACES)
        texts = parts.flat_values
        # A part ends where the next part of its string begins.
        last_chars = tf.cumsum(tf.strings.length(repair_utf8(texts), unit="UTF8_CHAR"))
        before_row = tf.gather(tf.concat([[0], last_chars], axis=0), parts.row_starts())
        end_chars = last_chars - tf.gather(before_row, row_ids(parts.row_splits))
        start_chars = end_chars - tf.strings.length(repair_utf8(texts), unit="UTF8_CHAR")
        is_symbol = ~tf.strings.regex_full_match(texts, _SPACES)
        spans = (tf.cast(values.flat_values, tf.int32) for values in (starts, ends))
        return tuple(
            keep(parts.with_flat_values(values), is_symbol)
            for values in (self._ids(self._names(texts)), *spans, start_chars, end_chars)
        )

    def _names(self, symbols):
        """The symbols without the values of channels, string [N]."""
        if self.columns is None or not self.columns.channels:
            return symbols
        return tf.strings.regex_replace(symbols, _VALUES, "", replace_global=False)

    def _ids(self, symbols):
        """The id of each symbol, int32 [N]."""
        # Without entries that begin with "##", a word is an entry as a whole, or [UNK].
        ids = self._wordpiece.tokenize(symbols).values
        if self.special_tokens_in_text:
            return ids
        is_special = tf.reduce_any(symbols[:, None] == tf.constant(SPECIAL_PIECES), axis=1)
        return tf.where(is_special, self.unk_id, ids)
