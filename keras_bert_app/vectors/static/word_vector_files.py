"""Files of word vectors: GloVe's text format (read and written), word2vec's text format (read), and subwords.

A line of GloVe's format has a word and its numbers, with one space between them. Word2vec's format has one line more at
the top: the number of words and the size of the vectors. fastText's .vec files have this format, too. The subwords of a
fastText training are a NumPy file beside the text file.
"""

import dataclasses
import functools
import io
from collections.abc import Iterable, Iterator

import numpy as np

from keras_bert_app.errors import UserError
from keras_bert_app.files import read_whole
from pipelines import storage
from pipelines.text.text_files import open_text, readable

SUBWORDS_SUFFIX = ".subwords.npz"
_FASTTEXT_BINARY = b"\xba\x16\x4f\x2f"  # FASTTEXT_FILEFORMAT_MAGIC_INT32 of fastText's fasttext.cc
_LINES_AT_A_TIME = 1000
_MOST_LINE_BYTES = 1 << 20
_MOST_SUBWORD_BYTES = 1 << 33
_LARGEST = float(np.finfo(np.float32).max)
_SHOWN = 40  # characters of a wrong value that a message shows
_EXPECTED = "expected a word and its numbers, with one space between them"


@dataclasses.dataclass(frozen=True)
class Subwords:
    """The vectors of character n-grams from a fastText training.

    Attributes:
        rows: dict n-gram -> its row in `vectors`.
        vectors: float32 [R, D]. Two n-grams share a row if their hashes are equal.
        lengths: (int, int). The fewest and the most characters of an n-gram.
    """

    rows: dict[str, int]
    vectors: np.ndarray
    lengths: tuple[int, int]


@dataclasses.dataclass(frozen=True)
class WordVectors:
    """The vectors of words.

    Attributes:
        words: list of str, each once. In files of GloVe, word2vec and fastText the most frequent word is the first.
        vectors: float32 [N, D]. One row for each word.
        num_duplicates: int. Further lines of the file for a word that it has already. The first line counts.
        subwords: Subwords of a fastText training, or None.
    """

    words: list[str]
    vectors: np.ndarray
    num_duplicates: int = 0
    subwords: Subwords | None = None

    @functools.cached_property
    def rows(self) -> dict[str, int]:
        """The row of each word."""
        return {word: row for row, word in enumerate(self.words)}


def read_word_vectors(path: str, size: int = 0, size_hint: str = "") -> WordVectors:
    """Reads a file of word vectors, and its subwords if there is such a file beside it.

    Args:
        path: str. A text file in GloVe's or word2vec's format, plain or gzip.
        size: int. The expected size of the vectors; 0 for any size.
        size_hint: str. The reason for the expected size, and the remedy, for the message.

    Returns:
        WordVectors.

    Raises:
        UserError: a line has the wrong form. The message names the line, what it has and what was expected.
        DataError: the file cannot be read.
    """
    words, blocks, num_duplicates = {}, [], 0
    with open_text(path) as stream, readable(path):
        lines = _Lines(path, stream)
        if lines.size and size and lines.size != size:
            raise UserError(f"{path}: has vectors of {lines.size:,} numbers, expected {size:,}{size_hint}")
        for names, values in lines.blocks():
            is_new = []
            for name in names:
                is_new.append(name not in words)
                words.setdefault(name, len(words))
            num_duplicates += is_new.count(False)
            blocks.append(values if all(is_new) else values[is_new])
    if not words:
        raise UserError(f"{path}: has no vectors; {_EXPECTED} in each line, as learn_vectors and GloVe write them")
    lines.check_header(len(words) + num_duplicates)
    vectors = np.concatenate(blocks)
    return WordVectors(list(words), vectors, num_duplicates, _read_subwords(path, vectors.shape[1]))


class _Lines:
    """The lines of a file of word vectors, and the checks of their form."""

    def __init__(self, path, stream):
        self.path, self.stream, self.number = path, stream, 0
        self.announced, self.size, self.first = None, 0, None
        first = self._next()
        if first is not None and first.startswith(_FASTTEXT_BINARY):
            raise UserError(f"{path}: is a binary model of fastText; give the text file of its vectors (.vec)")
        fields = first.split(b" ") if first is not None else []
        if len(fields) == 2 and all(field.isdigit() for field in fields):
            self.announced, self.size = int(fields[0]), int(fields[1])
            if not self.size:
                raise UserError(f"{path}:1: the first line gives vectors of 0 numbers; expected 1 or more")
        elif first is not None:
            self.size = len(fields) - 1
            self.first = first
            if self.size < 1:
                raise UserError(f"{path}:1: has {_shown(first)}; {_EXPECTED}")

    def _next(self):
        """The next line that is not empty; None at the end of the file."""
        while line := self.stream.readline(_MOST_LINE_BYTES + 1):
            self.number += 1
            if len(line) > _MOST_LINE_BYTES:
                raise UserError(f"{self.path}:{self.number}: has more than {_MOST_LINE_BYTES >> 20} MB; {_EXPECTED}")
            if line := line.rstrip(b" \r\n"):  # word2vec and fastText end their lines with a space
                return line
        return None

    def blocks(self) -> Iterator[tuple[list[str], np.ndarray]]:
        """Yields the words and vectors of some lines at a time."""
        lines, numbers = ([self.first], [self.number]) if self.first else ([], [])
        while (line := self._next()) is not None:
            lines.append(line)
            numbers.append(self.number)
            if len(lines) >= _LINES_AT_A_TIME:
                yield self._parsed(lines, numbers)
                lines, numbers = [], []
        if lines:
            yield self._parsed(lines, numbers)

    def _parsed(self, lines, numbers):
        parts = [line.rsplit(b" ", self.size) for line in lines]  # a word may hold spaces, as in glove.840B.300d
        try:
            names = [fields[0].decode("utf-8") for fields in parts]
            with np.errstate(over="ignore"):  # the check names numbers that are too large
                values = np.array([fields[1:] for fields in parts], dtype=np.float32)
            is_right = values.shape == (len(lines), self.size) and np.isfinite(values).all()
        except ValueError:
            is_right = False
        if not is_right or not all(names) or any(b" " in fields[0] for fields in parts):
            for fields, number in zip(parts, numbers, strict=True):
                self._check_line(fields, number)
        return names, values

    def _check_line(self, fields, number):
        """Raises UserError if a line has the wrong form."""
        place = f"{self.path}:{number}"
        # Numbers before the last `size` fields belong to a vector that is too long. Other texts belong to the word.
        others = fields[0].split(b" ")[1:] if len(fields) > self.size else fields[1:]
        num_numbers = len(fields) - 1 + (len(others) if len(fields) > self.size and all(map(_is_number, others)) else 0)
        if num_numbers != self.size:
            source = "line 1 says" if self.announced is not None else "line 1 has"
            raise UserError(f"{place}: has {num_numbers:,} numbers after the word, expected {self.size:,}, as {source}")
        for field in fields[1:]:
            if not _is_number(field):
                raise UserError(f"{place}: has {_shown(field)} where a number was expected; {_EXPECTED}")
            if not abs(float(field)) <= _LARGEST:
                raise UserError(f"{place}: has the number {_shown(field)}; expected finite numbers of 32 bits")
        try:
            word = fields[0].decode("utf-8")
        except UnicodeDecodeError:
            raise UserError(f"{place}: its word {_shown(fields[0])} is not UTF-8; convert the file to UTF-8") from None
        if not word:
            raise UserError(f"{place}: begins with a space and has no word; {_EXPECTED}")

    def check_header(self, num_lines):
        """Raises UserError if the first line gives another number of words than the file has."""
        if self.announced not in (None, num_lines):
            raise UserError(
                f"{self.path}: has {num_lines:,} vectors, but its first line says {self.announced:,}; the file may be "
                "cut off: copy it again"
            )


def _is_number(field):
    try:
        float(field)
    except ValueError:
        return False
    return True


def _shown(field):
    text = field.decode("utf-8", "backslashreplace")
    return repr(text if len(text) <= _SHOWN else text[:_SHOWN] + "...")


def write_word_vectors(path: str, words: Iterable[str], vectors: np.ndarray) -> None:
    """Writes word vectors in GloVe's text format, whole or not at all.

    Args:
        path: str. The file.
        words: iterable of N str.
        vectors: [N, D]. Nine digits restore every float32.

    Raises:
        UserError: a word is empty or holds white space that would end the word or the line.
    """
    pattern = " ".join(["%.9g"] * vectors.shape[1])

    def lines():
        for word, vector in zip(words, vectors, strict=True):
            if not word or any(space in word for space in " \n\r"):
                raise UserError(f"{path}: the word {word[:_SHOWN]!r} cannot be written; expected no space in it")
            yield f"{word} {pattern % tuple(vector.tolist())}\n".encode()

    storage.write_whole(path, lines())


def write_subwords(path: str, subwords: Subwords) -> None:
    """Writes the subwords of a fastText training, whole or not at all.

    Args:
        path: str. The text file of the word vectors. The subwords lie beside it.
        subwords: Subwords.
    """
    file = io.BytesIO()
    np.savez(
        file,
        ngrams=np.frombuffer("\n".join(subwords.rows).encode(), np.uint8),
        rows=np.fromiter(subwords.rows.values(), np.int32, len(subwords.rows)),
        vectors=subwords.vectors.astype(np.float32),
        lengths=np.array(subwords.lengths, np.int32),
    )
    storage.write_whole(f"{path}{SUBWORDS_SUFFIX}", file.getvalue())


def _read_subwords(path, size):
    """The Subwords beside a text file; None if there are none.

    Raises:
        UserError: the file is damaged, or belongs to vectors of another size.
    """
    name = f"{path}{SUBWORDS_SUFFIX}"
    if not storage.is_file(name):
        return None
    try:
        with np.load(io.BytesIO(read_whole(name, _MOST_SUBWORD_BYTES)), allow_pickle=False) as arrays:
            ngrams = arrays["ngrams"].tobytes().decode("utf-8").split("\n")
            rows, vectors, lengths = arrays["rows"].tolist(), arrays["vectors"], tuple(arrays["lengths"].tolist())
        is_right = (
            len(ngrams) == len(rows)
            and vectors.shape == (len(vectors), size)
            and vectors.dtype == np.float32
            and all(0 <= row < len(vectors) for row in rows)
            and len(lengths) == 2
            and bool(np.isfinite(vectors).all())
        )
    except UserError:  # UserError is a ValueError, too
        raise
    except Exception:  # a damaged zip file raises errors of several modules
        is_right = False
    if not is_right:
        raise UserError(f"{name}: does not hold the subwords of {path}; learn the vectors again, or remove this file")
    return Subwords(dict(zip(ngrams, rows, strict=True)), vectors, lengths)
