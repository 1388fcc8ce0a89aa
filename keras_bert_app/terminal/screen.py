"""Terminals and standard streams: colours, width, encoding, and readers that leave early."""

import contextlib
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from typing import TextIO

COLORS = ("auto", "always", "never")
_DEFAULT_WIDTH = 100  # columns, for a file or a pipe, which has no width


def wants_color(choice: str, stream: TextIO) -> bool:
    """Returns whether to write colours to a stream.

    Args:
        choice: str. One of COLORS. "auto" means colours on a terminal, unless NO_COLOR is set (no-color.org).
        stream: TextIO. The output.
    """
    if choice != "auto":
        return choice == "always"
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def columns() -> int:
    """Returns the width of the terminal. The environment variable COLUMNS overrides the measured width."""
    return shutil.get_terminal_size((_DEFAULT_WIDTH, 24)).columns


def can_write(text: str, stream: TextIO) -> bool:
    """Returns whether the encoding of a stream has all characters of a text.

    Args:
        text: str. Any text.
        stream: TextIO. The output.
    """
    try:
        text.encode(stream.encoding or "ascii")
    except UnicodeEncodeError:
        return False
    return True


@contextlib.contextmanager
def hidden_chatter() -> Iterator[None]:
    """Hides output on file descriptor 2, also that of native code. A block that fails shows the output."""
    sys.stderr.flush()
    stderr_copy = os.dup(2)
    with tempfile.TemporaryFile() as chatter:
        os.dup2(chatter.fileno(), 2)
        try:
            yield
        except BaseException:
            sys.stderr.flush()
            chatter.seek(0)
            os.write(stderr_copy, chatter.read())
            raise
        finally:
            sys.stderr.flush()
            os.dup2(stderr_copy, 2)
            os.close(stderr_copy)


@contextlib.contextmanager
def until_reader_leaves() -> Iterator[None]:
    """Ends the block quietly when standard output is a pipe and its reader, such as head, closes it."""
    _escape_what_cannot_be_written()
    try:
        yield
        sys.stdout.flush()
    except BrokenPipeError:
        _redirect_to_null(sys.stdout)


@contextlib.contextmanager
def read_or_not(*names: str) -> Iterator[None]:
    """Lets the block go on when the reader of a stream leaves. Later output to that stream is lost.

    Args:
        *names: str. "stdout", "stderr" or both.
    """
    _escape_what_cannot_be_written()
    originals = {name: getattr(sys, name) for name in names}
    replacements = {name: _UnbreakableStream(stream) for name, stream in originals.items()}
    for name, stream in replacements.items():
        setattr(sys, name, stream)
    try:
        yield
    finally:
        for name, stream in replacements.items():
            stream.flush()
            if getattr(sys, name) is stream:
                setattr(sys, name, originals[name])


class _UnbreakableStream:
    """A stream that accepts output even when its reader has left."""

    def __init__(self, stream):
        self._stream = stream

    def __getattr__(self, name):
        return getattr(self._stream, name)

    def write(self, text):
        try:
            return self._stream.write(text)
        except BrokenPipeError:
            _redirect_to_null(self._stream)
            return len(text)

    def flush(self):
        try:
            self._stream.flush()
        except BrokenPipeError:
            _redirect_to_null(self._stream)


def _escape_what_cannot_be_written():
    """Makes standard output write an escape for each character that its encoding lacks."""
    if hasattr(sys.stdout, "reconfigure"):
        sys.stdout.reconfigure(errors="backslashreplace")


def _redirect_to_null(stream):
    """Sends the buffered and all later output of a stream to the null device."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, stream.fileno())
    os.close(null)
