"""WordPiece vocabulary files: load, check, write."""

import os
import re
from collections.abc import Iterable

from pipelines import storage
from pipelines.data_error import DataError

SPECIAL_PIECES = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
UNUSED_PIECE = re.compile(r"\[unused\d+\]")
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_FAULTS_SHOWN = 5


def read_bytes(path: str | os.PathLike) -> bytes:
    """Reads a file, local or remote.

    Args:
        path: the file.

    Returns:
        bytes.

    Raises:
        DataError: the file cannot be read.
    """
    try:
        with storage.open_file(path) as file:
            return file.read()
    except Exception as error:  # the errors of tf.io.gfile are not OSErrors
        raise DataError(
            f"vocabulary {path}: cannot be read ({type(error).__name__}); expected a text file "
            "with one piece a line, as learn_vocab writes"
        ) from None


def load_vocabulary(path: str | os.PathLike) -> list[str]:
    r"""Loads the pieces of a vocabulary file, in order of their ids.

    Lines end at "\n" alone: Google's Chinese vocabulary has U+2028 as an entry.

    Args:
        path: the file.

    Returns:
        list of str.

    Raises:
        DataError: a line is empty, repeated, not UTF-8 or ends with a carriage return; a special piece is missing; or
            [PAD] is not first. The message names the line numbers.
    """
    return checked_pieces(read_bytes(path), path)


def checked_pieces(data: bytes, name: str | os.PathLike) -> list[str]:
    """Returns the pieces in the bytes of a vocabulary file.

    Args:
        data: the bytes of the file.
        name: the name of the file in the message.

    Returns:
        list of str.

    Raises:
        DataError: as in load_vocabulary.
    """
    pieces, faults = parse_vocabulary(data)
    if faults:
        more = f"; and {len(faults) - _FAULTS_SHOWN} more" if len(faults) > _FAULTS_SHOWN else ""
        raise DataError(
            f"vocabulary {name}: {'; '.join(faults[:_FAULTS_SHOWN])}{more}; expected one UTF-8 piece a "
            "line, each once, with [PAD] first and [UNK], [CLS], [SEP], [MASK] among them (learn_vocab "
            "writes such a file)"
        )
    return pieces


def parse_vocabulary(data: bytes) -> tuple[list[str | None], list[str]]:
    """Finds the pieces in the bytes of a vocabulary file, and all faults.

    Args:
        data: the bytes of the file.

    Returns:
        (pieces, faults). pieces is a list of str, with None for a line that is not UTF-8. faults is a list of str. Each
        names a line, or the first and last of consecutive lines with the same fault. Without faults the vocabulary is
        usable.
    """
    lines = data.split(b"\n")
    if lines[-1] == b"":
        lines.pop()
    if not lines:
        return [], ["the file is empty", *(f"{special} is missing" for special in SPECIAL_PIECES)]
    faults, first_line, pieces = [], {}, []  # faults: [first line, last line, text]
    if lines[0].startswith(_BYTE_ORDER_MARK):
        faults.append([1, 1, "begin with a byte order mark"])
        lines[0] = lines[0].removeprefix(_BYTE_ORDER_MARK)
    for number, line in enumerate(lines, start=1):
        if line.endswith(b"\r"):
            _add_fault(faults, number, "end with a carriage return")
            line = line.removesuffix(b"\r")  # so that "[MASK]\r" has no second fault
        if not line:
            _add_fault(faults, number, "are empty")
        try:
            pieces.append(line.decode("utf-8"))
        except UnicodeDecodeError:
            _add_fault(faults, number, "are not UTF-8")
            pieces.append(None)
        if line and pieces[-1] is not None and first_line.setdefault(pieces[-1], number) != number:
            faults.append([number, number, f"repeat line {first_line[pieces[-1]]} ({pieces[-1]!r})"])
    shown = [_fault_text(*fault) for fault in faults]
    shown += [f"{special} is missing" for special in SPECIAL_PIECES if special not in first_line]
    if first_line.get("[PAD]", 1) != 1:
        shown.append(f"[PAD] is in line {first_line['[PAD]']}, not in line 1 (id 0)")
    return pieces, shown


def _add_fault(faults, number, what):
    """Extends the last fault of this kind to this line if its lines end just before, or adds a fault.

    A file of CRLF lines therefore has one fault.
    """
    last = next((fault for fault in reversed(faults) if fault[2] == what), None)
    if last and last[1] == number - 1:
        last[1] = number
    else:
        faults.append([number, number, what])


_SINGULAR = {"begin": "begins", "end": "ends", "are": "is", "repeat": "repeats"}


def _fault_text(first, last, what):
    verb, rest = what.split(" ", 1)
    return f"line {first} {_SINGULAR[verb]} {rest}" if first == last else f"lines {first} to {last} {verb} {rest}"


def never_produced(pieces: list[str], do_lower_case: bool) -> list[tuple[int, str]]:
    """Finds the entries that no text can give under a casing and BERT's normalization.

    Such an entry holds text that normalization changes or splits. In an uncased vocabulary this is an upper-case letter
    or an accent. In any vocabulary it is punctuation or a CJK character beside other characters ("##" counts as one).
    Special pieces and [unusedN] are left out, because they do not come from text.

    Args:
        pieces: list of str.
        do_lower_case: whether the vocabulary is uncased.

    Returns:
        list of (id, piece).
    """
    from pipelines.wordpiece.words import MAX_CHARACTERS_PER_WORD, split_words

    candidates = [
        (i, piece)
        for i, piece in enumerate(pieces)
        if piece not in SPECIAL_PIECES and not UNUSED_PIECE.fullmatch(piece)
    ]
    # An inner piece is tested behind a letter. No text gives the piece "##".
    as_words = ["a" + piece[2:] if piece.startswith("##") else piece for _, piece in candidates]
    words = split_words(as_words, do_lower_case).to_list()
    return [
        candidate
        for candidate, word, parts in zip(candidates, as_words, words, strict=True)
        if parts != [word.encode()] or candidate[1] == "##" or len(word) > MAX_CHARACTERS_PER_WORD
    ]


def write_vocabulary(pieces: Iterable[str], path: str | os.PathLike) -> None:
    """Writes a vocabulary file, whole or not at all.

    Args:
        pieces: the pieces in the order of their ids.
        path: the file.
    """
    storage.write_whole(path, "".join(f"{piece}\n" for piece in pieces))
