"""Text in the columns of a terminal: safe characters, widths, styles and wrapped lines."""

import unicodedata
from collections.abc import Sequence

_ISOLATE, _END_OF_ISOLATE = "\u2068", "\u2069"


def printable(text: str) -> str:
    """The text with escapes for control characters and for others that would move the cursor.

    An uncased vocabulary holds Hangul syllables in parts; NFC joins them.
    """
    text = unicodedata.normalize("NFC", text)
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def isolated(text: str) -> str:
    """The text with Unicode isolates if it is written from right to left, so that its neighbours keep their order."""
    if any(unicodedata.bidirectional(c) in ("R", "AL", "AN") for c in text):
        return f"{_ISOLATE}{text}{_END_OF_ISOLATE}"
    return text


def width(text: str) -> int:
    """The columns that a text takes on a terminal: two for a wide character, none for a mark or a Hangul vowel."""
    return sum(_width(c) for c in text)


def _width(character):
    if unicodedata.category(character) in ("Mn", "Me", "Cf") or "\u1160" <= character <= "\u11ff":
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def painted(text: str, style: str, color: bool) -> str:
    """The text in a style if `color` is true, else the plain text.

    Args:
        text: any text.
        style: the numbers of an SGR sequence, such as "1;31"; "" for no style.
        color: whether the output shows styles.
    """
    return f"\x1b[{style}m{text}\x1b[0m" if color and style else text


def wrapped(words: Sequence[tuple[str, str]], head: str, line_width: int, color: bool) -> list[str]:
    """Wraps words into lines. All lines but the first are indented by the width of `head`.

    Args:
        words: (text, style) of each word. Words are joined by one space.
        head: the beginning of the first line.
        line_width: columns. A longer word gets a line of its own.
        color: whether the output shows styles.
    """
    lines, line, used = [], head, width(head)
    indent, is_empty = " " * width(head), True
    for text, style in words:
        needed = width(text)
        if not is_empty and used + 1 + needed > line_width:
            lines.append(line)
            line, used, is_empty = indent, len(indent), True
        line += ("" if is_empty else " ") + painted(text, style, color)
        used += needed + (not is_empty)
        is_empty = False
    return [*lines, line.rstrip()]
