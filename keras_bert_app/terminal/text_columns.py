"""Text in the columns of a terminal: safe characters, widths, styles and wrapped lines."""

import unicodedata
from collections.abc import Sequence

_ISOLATE, _END_OF_ISOLATE = "\u2068", "\u2069"


def printable(text: str) -> str:
    """Replaces control characters, and others that would move the cursor, by escapes.

    An uncased vocabulary holds Hangul syllables in parts. NFC joins the parts.

    Args:
        text: str. Any text.

    Returns:
        str: the safe text.
    """
    text = unicodedata.normalize("NFC", text)
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def isolated(text: str) -> str:
    """Puts Unicode isolates around a text that runs from right to left. Its neighbours keep their order.

    Args:
        text: str. Any text.

    Returns:
        str: the text, with isolates if it needs them.
    """
    if any(unicodedata.bidirectional(c) in ("R", "AL", "AN") for c in text):
        return f"{_ISOLATE}{text}{_END_OF_ISOLATE}"
    return text


def width(text: str) -> int:
    """Counts the columns of a text on a terminal.

    Args:
        text: str. Any text.

    Returns:
        int: columns. A wide character takes two, and a mark or a Hangul vowel takes none.
    """
    return sum(_width(c) for c in text)


def _width(character):
    if unicodedata.category(character) in ("Mn", "Me", "Cf") or "\u1160" <= character <= "\u11ff":
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def painted(text: str, style: str, color: bool) -> str:
    """Returns the text in a style if `color` is true, else the plain text.

    Args:
        text: str. Any text.
        style: str. The numbers of an SGR sequence, such as "1;31"; "" for no style.
        color: bool. Whether the output shows styles.
    """
    return f"\x1b[{style}m{text}\x1b[0m" if color and style else text


def wrapped(words: Sequence[tuple[str, str]], head: str, line_width: int, color: bool) -> list[str]:
    """Wraps words into lines. All lines but the first are indented by the width of `head`.

    Args:
        words: sequence of (text, style). One space joins two words.
        head: str. The beginning of the first line.
        line_width: int. Columns of a line. A longer word gets a line of its own.
        color: bool. Whether the output shows styles.

    Returns:
        list of str: lines.
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
