"""Checks that a vocabulary can work with a tokenizer. The module does not load TensorFlow."""

import os
import re
from collections.abc import Sequence

from pipelines.data_error import DataError
from pipelines.wordpiece import casing

MAX_BYTES_OF_SYMBOL = 256  # the longest entry that tf_text.FastWordpieceTokenizer takes
SPACES = " \t\n\v\f\r"  # the characters that separate symbols
_CONTINUATION = "##"


def verify(pieces: Sequence[str], tokenizer: str, do_lower_case: bool, name: str | os.PathLike) -> None:
    """Refuses a vocabulary that cannot work with a tokenizer.

    Args:
        pieces: the entries.
        tokenizer: one of choices.TOKENIZERS.
        do_lower_case: whether a WordPiece vocabulary is uncased.
        name: the name of the vocabulary in the message.

    Raises:
        DataError: see casing.verify and check_symbols.
    """
    if tokenizer == "symbols":
        check_symbols(pieces, name)
    else:
        casing.verify(pieces, do_lower_case, str(name))


def split_symbols(text: str) -> list[str]:
    """Splits a text into its symbols.

    Args:
        text: the text.
    """
    return [symbol for symbol in re.split(f"[{SPACES}]+", text) if symbol]


def check_symbols(pieces: Sequence[str], name: str | os.PathLike) -> None:
    """Refuses a vocabulary with an entry that no symbol of a text can be.

    Args:
        pieces: the entries.
        name: the name of the vocabulary in the message.

    Raises:
        DataError: an entry has a space, is longer than MAX_BYTES_OF_SYMBOL, or begins with "##", which in WordPiece
            vocabularies continues a word.
    """
    for number, piece in enumerate(pieces, start=1):
        fault = symbol_fault(piece)
        if fault:
            raise DataError(f"vocabulary {name}, line {number}: {piece[:60]!r} {fault}")


def symbol_fault(symbol: str) -> str:
    """Says why a string cannot be a symbol; "" if it can.

    Args:
        symbol: the string.
    """
    if any(space in symbol for space in SPACES):
        return "has a space, which separates symbols; replace it by another character"
    if symbol.startswith(_CONTINUATION):
        return f"begins with {_CONTINUATION}, which continues a word in WordPiece vocabularies; rename the symbol"
    if len(symbol.encode()) > MAX_BYTES_OF_SYMBOL:
        return f"has more than {MAX_BYTES_OF_SYMBOL:,} bytes; rename the symbol"
    return ""
