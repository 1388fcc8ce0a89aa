"""Counts words as BERT's tokenizer splits text.

A word, a punctuation mark and a Chinese character each count as one word.

words.split_words gives the same counts for an uncased vocabulary. This module counts many lines at once with numpy,
which is many times as fast.
"""

import functools
import re
import unicodedata

import numpy as np

from pipelines.wordpiece import unicode_14_classes as unicode_classes

_SPACE, _WORD, _ALONE, _REMOVED = range(4)
_NEWLINE = 10
_FIRST_NON_ASCII = 0x80
# The same ranges as normalize._WHITE_SPACE, _CJK, _PUNCTUATION and _REMOVED; accents are removed too.
_OTHER_SPACE = ((0x9, 0xA), (0xD, 0xD), (0x2028, 0x2029))
_CJK = (
    (0x3400, 0x4DBF),
    (0x4E00, 0x9FFF),
    (0xF900, 0xFAFF),
    (0x20000, 0x2A6DF),
    (0x2A700, 0x2CEAF),
    (0x2F800, 0x2FA1F),
)
_ASCII_PUNCTUATION = ((0x21, 0x2F), (0x3A, 0x40), (0x5B, 0x60), (0x7B, 0x7E))
_CONTROL = ((0x0, 0x8), (0xB, 0xC), (0xE, 0x1F), (0x7F, 0x9F), (0xFFFD, 0xFFFD))
_DECOMPOSED = range(0xC0, 0x3000)  # all characters that decompose to punctuation are in this range


def count_symbols(record: bytes) -> int:
    """Counts the symbols of a document; see pipelines.wordpiece.symbols.

    Args:
        record: the lines of the document.
    """
    return len(record.split())


def words_of_lines(block: np.ndarray) -> np.ndarray:
    """Counts the words of each line.

    Args:
        block: uint8 [bytes]. UTF-8 that ends with a newline.

    Returns:
        int64 [lines].
    """
    codes = block
    if block.max(initial=0) >= _FIRST_NON_ASCII:
        codes = np.frombuffer(block.tobytes().decode("utf-8", "replace").encode("utf-32-le"), "<u4")
    classes = _classes()[codes]
    is_kept = classes != _REMOVED
    if not is_kept.all():
        codes, classes = codes[is_kept], classes[is_kept]
    begins_word = classes == _WORD
    begins_word[1:] &= classes[:-1] != _WORD
    begins_word |= classes == _ALONE
    ends = np.flatnonzero(codes == _NEWLINE) + 1
    return np.diff(np.searchsorted(np.flatnonzero(begins_word), ends), prepend=0)


def count_words(text: bytes) -> int:
    """Counts the words of a text in UTF-8.

    Args:
        text: bytes in UTF-8.

    Returns:
        int.
    """
    return int(words_of_lines(np.frombuffer(text + b"\n", np.uint8)).sum())


@functools.cache
def _classes():
    """Computes the class of each code point, uint8 [0x110000]."""
    classes = np.full(0x110000, _WORD, np.uint8)
    for kind, ranges in (
        (_SPACE, (*_OTHER_SPACE, *_ranges(unicode_classes.SPACE_SEPARATOR))),
        (_ALONE, (*_CJK, *_ASCII_PUNCTUATION, *_ranges(unicode_classes.PUNCTUATION))),
        (_REMOVED, (*_CONTROL, *_ranges(unicode_classes.FORMAT), *_ranges(unicode_classes.NONSPACING_MARK))),
    ):
        for first, last in ranges:
            classes[first : last + 1] = kind
    for code in _DECOMPOSED:  # for example U+2260 (not equal) becomes "=" without its stroke
        parts = classes[[ord(part) for part in unicodedata.normalize("NFD", chr(code))]]
        classes[code] = next((part for part in parts if part != _REMOVED), _REMOVED)
    return classes


def _ranges(character_class):
    """Yields (first, last) of the ranges in a class of unicode_14_classes."""
    for first, last in re.findall(r"\\x\{(\w+)\}-\\x\{(\w+)\}", character_class):
        yield int(first, 16), int(last, 16)
