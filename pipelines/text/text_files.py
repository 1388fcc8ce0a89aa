"""Finds text files, and opens them."""

import contextlib
import dataclasses
import glob
import gzip
import io
import os
import zlib
from collections.abc import Iterator, Sequence

from pipelines import storage
from pipelines.data_error import DataError

CHUNK_BYTES = 1 << 20
_OTHER_FORMATS = {
    b"BZh": "bzip2",
    b"\xfd7zXZ": "xz",
    b"PK\x03\x04": "zip",
    b"\x28\xb5\x2f\xfd": "zstandard",
    b"PAR1": "Parquet",
    b"%PDF": "PDF",
    b"\xff\xfe": "UTF-16",
    b"\xfe\xff": "UTF-16",
}


@dataclasses.dataclass
class ReaderCounts:
    """Counts of the text that a reader has read so far; updated in place.

    Attributes:
        files: files opened.
        documents: documents returned.
        sentences: sentences returned.
        bytes: bytes of text read, after decompression.
        invalid_utf8_lines: lines in which U+FFFD replaces bytes that are not UTF-8 (or, in JSON, a lone surrogate).
        capped_lines: lines over the size limit, cut into pieces.
        bad_records: JSON records over the size limit, left out.
        capped_documents: documents over the size limit, returned as several.
        empty_lines: lines of a JSON record, or whole records of FASTA, that have no symbol and are left out.
    """

    files: int = 0
    documents: int = 0
    sentences: int = 0
    bytes: int = 0
    invalid_utf8_lines: int = 0
    capped_lines: int = 0
    bad_records: int = 0
    capped_documents: int = 0
    empty_lines: int = 0


def expand_files(patterns: Sequence[str]) -> list[str]:
    """Finds the files that patterns name.

    A pattern is a file, a directory or a glob, in which ** stands for any number of directories. A directory stands for
    all its files, except those whose names start with a dot. An existing name is taken literally even if it holds glob
    characters. A remote name goes through tf.io.gfile.

    Args:
        patterns: list of str.

    Returns:
        list of str. Sorted paths, each once.

    Raises:
        DataError: no pattern is given, or a pattern matches no file.
    """
    patterns = [patterns] if isinstance(patterns, (str, os.PathLike)) else list(patterns)
    if not patterns:
        raise DataError("no input files given; expected a file, a directory or a glob")
    files = set()
    for pattern in map(os.fspath, patterns):
        matches = _expand_remote(pattern) if storage.is_remote(pattern) else _expand_local(pattern)
        if not matches:
            shown = pattern if storage.is_remote(pattern) else os.path.abspath(pattern)
            raise DataError(
                f"input pattern {pattern!r} matches no file (looked for {shown}); give an "
                "existing file, a directory that holds files, or a glob such as 'text/*.txt'"
            )
        files.update(matches)
    return sorted(files)


def _expand_local(pattern):
    matches = [pattern] if os.path.exists(pattern) else glob.glob(pattern, recursive=True)
    files = []
    for match in matches:
        files += _walk(match, os.walk) if os.path.isdir(match) else [os.path.normpath(match)]
    return files


def _expand_remote(pattern):
    import tensorflow as tf

    files = []
    for match in [pattern] if tf.io.gfile.exists(pattern) else tf.io.gfile.glob(pattern):
        files += _walk(match, tf.io.gfile.walk) if tf.io.gfile.isdir(match) else [match]
    return files


def _walk(directory, walk):
    files = []
    for folder, subfolders, names in walk(directory):
        subfolders[:] = [name for name in subfolders if not name.startswith(".")]
        files += [os.path.join(folder, name) for name in names if not name.startswith(".")]
    return files if storage.is_remote(directory) else [os.path.normpath(name) for name in files]


class _GFileReader(io.RawIOBase):
    """The reader of tf.io.gfile as a Python stream, for io.BufferedReader and gzip."""

    def __init__(self, path):
        self._file = storage.open_file(path)

    def readable(self):
        return True

    def readinto(self, buffer):
        data = self._file.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)

    def close(self):
        self._file.close()
        super().close()


@contextlib.contextmanager
def open_text(path: str) -> Iterator[io.BufferedIOBase]:
    """Opens a file for reading bytes; a file with gzip content is decompressed, whatever its name is.

    Args:
        path: the file.

    Yields:
        A binary stream.

    Raises:
        DataError: the file cannot be read, or has another compression or encoding.
    """
    with contextlib.ExitStack() as stack:
        with readable(path):
            raw = (
                io.BufferedReader(_GFileReader(path), CHUNK_BYTES)
                if storage.is_remote(path)
                else open(path, "rb", buffering=CHUNK_BYTES)
            )
            stack.enter_context(raw)
            start = raw.peek(8)
        for magic, name in _OTHER_FORMATS.items():
            if start.startswith(magic):
                raise DataError(f"{path}: holds {name} data; expected UTF-8 text, plain or gzip: convert it first")
        yield stack.enter_context(gzip.GzipFile(fileobj=raw)) if start[:2] == b"\x1f\x8b" else raw


@contextlib.contextmanager
def readable(path: str) -> Iterator[None]:
    """Turns errors on reading a file into a DataError that names the file.

    Args:
        path: str. The name of the file in the message.

    Raises:
        DataError: the block could not read the file.
    """
    try:
        yield
    except (OSError, EOFError, zlib.error) as error:
        reason = getattr(error, "strerror", None) or error
        raise DataError(f"{path}: cannot be read ({reason}); expected a whole, readable file") from error
    except Exception as error:  # an error of tf.errors, which is not imported for local files
        if not type(error).__module__.startswith("tensorflow"):
            raise
        raise DataError(f"{path}: cannot be read ({error})") from error
