"""Counts and hashes of the documents of a corpus, vectorised over a batch of documents.

A document is a record: its sentences in UTF-8, joined by newlines. The hash of a line (sentence) or token is a
polynomial over its bytes modulo 2**64: hash = mix(sum over j of byte[j] * B**j). numpy computes these hashes for a
whole batch in a few passes. These hashes serve for counting and comparing. The place of a document in the corpus comes
from a cryptographic hash.
"""

import functools
import hashlib
from collections.abc import Iterator

import numpy as np

from pipelines.wordpiece.word_counting import words_of_lines

ENTRY = np.dtype(
    [
        ("key", "<u8"),
        ("key_rest", "<u8"),
        ("offset", "<u8"),
        ("line", "<u8"),
        ("size", "<u4"),
        ("sentences", "<u4"),
        ("words", "<u4"),
        ("characters", "<u4"),
    ]
)
LINE = np.dtype([("hash", "<u8"), ("characters", "<u4")])
_NEWLINE = 10
_FIRST_LEAD_BYTE = -64  # as int8; lower bytes continue a character
_WHITE_SPACE = b" \t\n\r\v\f"
_BASE = 0x9E3779B97F4A7C15  # odd, so that it has an inverse modulo 2**64
_BLOCK_BYTES = 1 << 18  # the amount of text that is hashed at a time


def document_keys(records: list[bytes], hash_key: bytes) -> np.ndarray:
    """Hashes the text of documents; white space does not count.

    The hash decides the place of a document in the corpus, and whether the document is held out.

    Args:
        records: list of bytes.
        hash_key: bytes. Another key gives another order and other held-out documents.

    Returns:
        uint64 [N, 3]: two numbers for the place, and one number that decides whether the document is held out.
    """
    blake2b = functools.partial(hashlib.blake2b, digest_size=24, key=hash_key)
    digests = b"".join([blake2b(record.translate(None, _WHITE_SPACE)).digest() for record in records])
    return np.frombuffer(digests, ">u8").astype(np.uint64).reshape(-1, 3)


def numbered_keys(keys: np.ndarray, first_number: tuple[bytes, int]) -> np.ndarray:
    """Makes keys that differ for documents of equal text.

    Args:
        keys: uint64 [N, 3], as document_keys returns them.
        first_number: (bytes, int). A prefix such as the number of the task, and the number of the first document.

    Returns:
        uint64 [N, 3], with new places; the third column stays.
    """
    prefix, number = first_number
    digests = b"".join(
        [
            hashlib.blake2b(key.tobytes() + prefix + (number + index).to_bytes(8, "big"), digest_size=16).digest()
            for index, key in enumerate(keys)
        ]
    )
    return np.concatenate([np.frombuffer(digests, ">u8").astype(np.uint64).reshape(-1, 2), keys[:, 2:]], axis=1)


def entries_and_lines(records: list[bytes]) -> tuple[np.ndarray, np.ndarray]:
    """Counts the words, characters and lines of documents, and hashes the lines.

    Args:
        records: list of bytes.

    Returns:
        (ENTRY [N], LINE [sentences]). Keys are 0; offsets count from the first record.
    """
    entries = np.zeros(len(records), ENTRY)
    entries["size"] = [len(record) for record in records]
    entries["sentences"] = [record.count(b"\n") + 1 for record in records]
    entries["offset"][1:] = np.cumsum(entries["size"][:-1], dtype=np.uint64)
    entries["line"][1:] = np.cumsum(entries["sentences"][:-1], dtype=np.uint64)
    words, lines = [], []
    for block in blocks(records):
        ends = line_ends(block)
        line = np.empty(len(ends), LINE)
        line["hash"] = segment_hashes(block, ends)
        continuations = np.searchsorted(np.flatnonzero(block.view(np.int8) < _FIRST_LEAD_BYTE), ends)
        line["characters"] = np.diff(ends - continuations, prepend=0) - 1  # without the newline
        lines.append(line)
        words.append(words_of_lines(block))
    first_lines = entries["line"].astype(np.int64)
    lines = np.concatenate(lines)
    entries["words"] = np.add.reduceat(np.concatenate(words), first_lines)
    entries["characters"] = np.add.reduceat(lines["characters"], first_lines)
    return entries, lines


def blocks(records: list[bytes]) -> Iterator[np.ndarray]:
    """Yields the records as uint8 arrays of about 256 KB; each record and each array ends with a newline.

    Args:
        records: list of bytes.

    Yields:
        uint8 [bytes].
    """
    data = b"\n".join(records) + b"\n"
    start = 0
    while start < len(data):
        end = len(data)
        if end - start > _BLOCK_BYTES:
            end = data.rfind(b"\n", start, start + _BLOCK_BYTES) + 1 or data.index(b"\n", start) + 1
        yield np.frombuffer(data, np.uint8, end - start, start)
        start = end


def line_ends(block: np.ndarray) -> np.ndarray:
    """Returns the positions after each newline of a block, int64.

    Args:
        block: uint8 [bytes].

    Returns:
        int64 [lines].
    """
    return np.flatnonzero(block == _NEWLINE) + 1


def segment_hashes(block: np.ndarray, ends: np.ndarray) -> np.ndarray:
    """Hashes the segments of a block; equal segments have equal hashes wherever they are.

    Args:
        block: uint8 [bytes]. The first segment starts at 0.
        ends: int64 [segments], ascending. The ends of the segments, none of which is empty.

    Returns:
        uint64 [segments].
    """
    powers, inverses = _powers(1 << (len(block) - 1).bit_length())
    # Differences of running sums are faster than reduceat for short segments, and exact modulo 2**64.
    sums = np.multiply(block, powers[: len(block)], dtype=np.uint64)
    sums = np.cumsum(sums, out=sums)[ends - 1]
    sums[1:] -= sums[:-1].copy()
    return mixed(sums * inverses[_starts(ends)])


def _starts(ends):
    return np.concatenate([[0], ends[:-1]])


def mixed(values: np.ndarray) -> np.ndarray:
    """Maps uint64 values one to one, so that every bit of the result depends on every bit of the value.

    The function is the finalizer of splitmix64.

    Args:
        values: uint64 of any shape.

    Returns:
        uint64 of the same shape.
    """
    values = values ^ values >> np.uint64(30)
    values *= np.uint64(0xBF58476D1CE4E5B9)
    values ^= values >> np.uint64(27)
    values *= np.uint64(0x94D049BB133111EB)
    values ^= values >> np.uint64(31)
    return values


@functools.lru_cache(maxsize=8)
def _powers(number):
    return tuple(
        np.multiply.accumulate(np.concatenate([np.ones(1, np.uint64), np.full(number - 1, base, np.uint64)]))
        for base in (_BASE, pow(_BASE, -1, 1 << 64))
    )
