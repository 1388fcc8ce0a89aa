"""Text on a terminal: columns of characters, colours, wrapped lines, and readers that have had enough."""

import contextlib
import os
import shutil
import sys
import tempfile
import unicodedata

COLORS = ("auto", "always", "never")
_DEFAULT_WIDTH = 100  # where nobody says how wide the output is: a file, a pipe
_ISOLATE, _END_OF_ISOLATE = "\u2068", "\u2069"


def wants_color(choice, stream):
    """Whether to colour what goes to a stream. "auto": on a terminal, unless NO_COLOR is set (no-color.org)."""
    if choice != "auto":
        return choice == "always"
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def columns():
    """Width of the terminal; COLUMNS, if set, is believed first."""
    return shutil.get_terminal_size((_DEFAULT_WIDTH, 24)).columns


def can_write(text, stream):
    """Whether the stream's encoding has all characters of a text."""
    try:
        text.encode(stream.encoding or "ascii")
    except UnicodeEncodeError:
        return False
    return True


@contextlib.contextmanager
def hidden_chatter():
    """Keeps from the terminal what native code writes to stderr within the block; shown only if the block fails."""
    sys.stderr.flush()
    kept = os.dup(2)
    with tempfile.TemporaryFile() as chatter:
        os.dup2(chatter.fileno(), 2)
        try:
            yield
        except BaseException:
            sys.stderr.flush()
            chatter.seek(0)
            os.write(kept, chatter.read())
            raise
        finally:
            sys.stderr.flush()
            os.dup2(kept, 2)
            os.close(kept)


def printable(text):
    """The text with control characters, and others that would move the cursor, as escapes.

    An uncased vocabulary holds Hangul in parts; they are put together again.
    """
    text = unicodedata.normalize("NFC", text)
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def isolated(text):
    """The text so that a right-to-left word keeps its place among others, its own letters from right to left."""
    if any(unicodedata.bidirectional(c) in ("R", "AL", "AN") for c in text):
        return f"{_ISOLATE}{text}{_END_OF_ISOLATE}"
    return text


def width(text):
    """Columns that a terminal takes for a text: two for a wide character, none for a mark or a Hangul vowel."""
    return sum(_width(c) for c in text)


def _width(character):
    if unicodedata.category(character) in ("Mn", "Me", "Cf") or "\u1160" <= character <= "\u11ff":
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def painted(text, style, color):
    """The text in a style, the numbers of an SGR sequence such as "1;31"; as it is when there is no colour."""
    return f"\x1b[{style}m{text}\x1b[0m" if color and style else text


def wrapped(words, head, line_width, color):
    """Lines of words between single spaces; those after the first begin below the end of `head`.

    Args:
        words: (text, style) of each. head: what the first line begins with. line_width: columns; a longer word has a
            line of its own.
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


@contextlib.contextmanager
def until_reader_leaves():
    """Ends the block quietly when standard output is a pipe whose reader, head say, has all it wanted."""
    _escape_what_cannot_be_written()
    try:
        yield
        sys.stdout.flush()
    except BrokenPipeError:
        _to_nowhere(sys.stdout)


@contextlib.contextmanager
def read_or_not(*names):
    """Within the block what is written to these streams of sys goes nowhere once its reader is gone, and the block goes on."""
    _escape_what_cannot_be_written()
    before = {name: getattr(sys, name) for name in names}
    heedless = {name: _Heedless(stream) for name, stream in before.items()}
    for name, stream in heedless.items():
        setattr(sys, name, stream)
    try:
        yield
    finally:
        for name, stream in heedless.items():
            stream.flush()
            if getattr(sys, name) is stream:
                setattr(sys, name, before[name])


class _Heedless:
    """A stream that takes all that is written, read or not."""

    def __init__(self, stream):
        self._stream = stream

    def __getattr__(self, name):
        return getattr(self._stream, name)

    def write(self, text):
        try:
            return self._stream.write(text)
        except BrokenPipeError:
            _to_nowhere(self._stream)
            return len(text)

    def flush(self):
        try:
            self._stream.flush()
        except BrokenPipeError:
            _to_nowhere(self._stream)


def _escape_what_cannot_be_written():
    if hasattr(sys.stdout, "reconfigure"):  # what the terminal cannot write it shows as an escape
        sys.stdout.reconfigure(errors="backslashreplace")


def _to_nowhere(stream):
    """What is still buffered, and all that follows."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, stream.fileno())
    os.close(nowhere)
