"""The lines of a text file, in bounded memory and in valid UTF-8."""

import itertools
from collections.abc import Iterator

from pipelines.data_error import DataError
from pipelines.text.text_files import CHUNK_BYTES, ReaderCounts, readable

MAX_LINE_BYTES = 1 << 20  # a longer line is cut into pieces of at most this size
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


def read_lines(
    stream,
    path: str,
    counts: ReaderCounts,
    max_line_bytes: int = MAX_LINE_BYTES,
    strict: bool = False,
    head: bytes = b"",
) -> Iterator[tuple[int, bytes, int]]:
    r"""Reads the lines of a stream; max_line_bytes limits the memory.

    Lines end at \n alone, so U+2028 and \x0c stay inside lines. A \r before the \n and a byte order mark at the start
    are dropped. Invalid UTF-8 becomes U+FFFD.

    Args:
        stream: a binary stream.
        path: the name of the file, for messages.
        counts: ReaderCounts, updated while lines are taken.
        max_line_bytes: the size of the longest line that is not cut.
        strict: whether to refuse invalid UTF-8.
        head: bytes that were read from the stream before.

    Yields:
        (line number from 1, valid UTF-8, part). part is 0 for a whole line. A line longer than max_line_bytes comes in
        parts 1, 2, ..., cut at a space if possible.

    Raises:
        DataError: the file cannot be read to its end, or strict is set and a line is not UTF-8.
    """
    number, part, pending, chunk = 1, 0, b"", head
    repair = _Repair(path, counts, strict)
    while True:
        if not chunk:
            with readable(path):
                chunk = stream.read(CHUNK_BYTES)
        counts.bytes += len(chunk)
        data = pending + chunk
        *lines, pending = data.split(b"\n")
        if not chunk and pending:
            lines, pending = [pending], b""
        if lines and not part and len(max(lines, key=len)) <= max_line_bytes:
            lines = repair.whole_lines(data[: len(data) - len(pending)], lines, number)
            yield from zip(itertools.count(number), lines, itertools.repeat(0))
            number += len(lines)
        else:
            for line in lines:
                for piece, ends_line in line_pieces(line, max_line_bytes):
                    part += bool(part or not ends_line)
                    yield number, repair.piece(piece, number, part, ends_line), part
                number, part = number + 1, 0
        if not chunk:
            return
        while len(pending) > max_line_bytes:
            part, cut = part + 1, _cut(pending, max_line_bytes)
            yield number, repair.piece(pending[:cut], number, part, False), part
            pending = pending[cut:]
        chunk = b""


class _Repair:
    """Makes lines valid UTF-8, and drops the byte order mark and carriage returns before newlines.

    The object counts the bytes of the file so far, because messages name the place of a fault.
    """

    def __init__(self, path, counts, strict):
        self._path, self._counts, self._strict = path, counts, strict
        self._offset = self._last_invalid = 0

    def whole_lines(self, data, lines, number):
        """Repairs the lines of `data`, which includes their newlines; lines without a fault take a fast path."""
        starts_with_mark = not self._offset and data.startswith(_BYTE_ORDER_MARK)
        if starts_with_mark or b"\r" in data or not _is_utf8(data):
            return [self.piece(line, number + index, 0, True) for index, line in enumerate(lines)]
        self._offset += len(data)
        return lines

    def piece(self, data, number, part, ends_line):
        """Repairs a line or a part of one."""
        start = self._offset
        self._offset += len(data) + ends_line
        self._counts.capped_lines += part == 1
        try:
            data.decode()
        except UnicodeDecodeError as error:
            if self._strict:
                raise DataError(
                    f"{self._path}:{number}: invalid UTF-8 at byte {start + error.start}; expected "
                    "UTF-8 (without strict, U+FFFD replaces invalid bytes)"
                ) from error
            self._counts.invalid_utf8_lines += self._last_invalid != number
            self._last_invalid = number
            data = data.decode("utf-8", "replace").encode()
        if not start:
            data = data.removeprefix(_BYTE_ORDER_MARK)
        return data.removesuffix(b"\r") if ends_line else data


def _is_utf8(data):
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def line_pieces(line: bytes, limit: int) -> Iterator[tuple[bytes, bool]]:
    """Cuts a line into pieces.

    Args:
        line: bytes.
        limit: the size of the longest piece.

    Yields:
        (piece, whether it is the last piece of the line).
    """
    while len(line) > limit:
        cut = _cut(line, limit)
        yield line[:cut], False
        line = line[cut:]
    yield line, True


def _cut(line, limit):
    """Returns where to cut a line longer than limit: after a space, otherwise between two characters."""
    space = line.rfind(b" ", limit // 2, limit)
    if space >= 0:
        return space + 1
    for cut in range(limit, limit - 4, -1):
        if line[cut] & 0xC0 != 0x80:
            return cut
    return limit
