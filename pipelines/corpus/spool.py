"""An external sort of documents by key, with sorted runs on disk.

The merge reads one range of keys at a time.

A run is four files in the same order: .text (the records, concatenated), .entries (ENTRY), .lines (LINE) and, if
near-duplicates are searched, .signatures (SIGNATURE). Keys are hashes and therefore evenly distributed, so a range of
keys is one contiguous piece of about the same size in every run.
"""

import hashlib
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from pipelines.corpus.fingerprints import ENTRY, LINE
from pipelines.corpus.near_duplicates import SIGNATURE

_TYPES = {"entries": ENTRY, "lines": LINE, "signatures": SIGNATURE}
_RANGE_BYTES = 1 << 22  # the amount of text in a range of keys
_SLICE_BYTES = 1 << 14  # the least amount of that text in one run; with smaller slices, seeking would take most time


class Run(NamedTuple):
    """A sorted run on disk.

    Attributes:
        path: str. The path of its files, without the ending.
        documents: int. The number of documents.
        bytes: int. The size of the text.
        files: dict of [size, sha256] by ending.
    """

    path: str
    documents: int
    bytes: int
    files: dict


class Part(NamedTuple):
    """Documents with their counts and hashes.

    Attributes:
        records: list of bytes.
        entries: ENTRY [N].
        lines: LINE [sentences].
        signatures: SIGNATURE [N], or None.
    """

    records: list
    entries: np.ndarray
    lines: np.ndarray
    signatures: np.ndarray | None


def write_run(path: str, parts: list[Part]) -> Run:
    """Sorts documents by key and writes them as a run; documents of equal keys keep their order.

    Args:
        path: str. The path of the run's files, without the ending.
        parts: list of Part.

    Returns:
        Run.
    """
    records = [record for part in parts for record in part.records]
    entries = np.concatenate([part.entries for part in parts])
    order = np.lexsort((entries["key_rest"], entries["key"]))
    lines = np.concatenate([part.lines for part in parts])
    counts = entries["sentences"].astype(np.int64)
    first_lines = (np.cumsum(counts) - counts)[order]
    entries = entries[order]
    for column, sizes in (("offset", "size"), ("line", "sentences")):
        sizes = entries[sizes].astype(np.uint64)
        entries[column] = np.cumsum(sizes) - sizes
    contents = {
        "text": b"".join([records[index] for index in order.tolist()]),
        "entries": entries.tobytes(),
        "lines": lines[ranges_of(first_lines, counts[order])].tobytes(),
    }
    if parts[0].signatures is not None:
        contents["signatures"] = np.concatenate([part.signatures for part in parts])[order].tobytes()
    files = {}
    for ending, data in contents.items():
        with open(f"{path}.{ending}", "wb") as file:
            file.write(data)
        files[ending] = [len(data), hashlib.sha256(data).hexdigest()]
    return Run(path, len(entries), len(contents["text"]), files)


def ranges_of(starts: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """Concatenates the ranges start, ..., start + length - 1.

    Args:
        starts: int [n].
        lengths: int [n].

    Returns:
        int64 [sum of lengths].
    """
    ends = np.cumsum(lengths)
    return np.arange(ends[-1] if len(ends) else 0) + np.repeat(starts - (ends - lengths), lengths)


class Spool:
    """Runs as one sorted sequence of documents; memory holds one range of keys at a time.

    In addition, memory holds one byte for every document, and a few bytes for every run and range.

    Args:
        runs: list of Run.

    Attributes:
        documents: int. The number of documents, dropped ones included.
        dropped: bool [documents]. Which documents are dropped; a document's number is its place in the concatenated
            runs.
        num_ranges: int. The number of ranges of keys.
    """

    def __init__(self, runs: list[Run]):
        self.runs = runs
        self.documents = sum(run.documents for run in runs)
        self.bytes = sum(run.bytes for run in runs)
        self.dropped = np.zeros(self.documents, bool)
        self._first = np.concatenate([[0], np.cumsum([run.documents for run in runs], dtype=np.int64)])
        range_bytes = max(_RANGE_BYTES, _SLICE_BYTES * len(runs))
        self.num_ranges = max(1, self.bytes // range_bytes)
        bounds = np.array([(index << 64) // self.num_ranges for index in range(self.num_ranges)], np.uint64)
        self._bounds = np.zeros((len(runs), self.num_ranges + 1), np.int64)
        for row, run in zip(self._bounds, runs, strict=True):
            row[:-1] = np.searchsorted(self._read(run, "entries", 0, run.documents)["key"], bounds)
            row[-1] = run.documents

    def entries(self, index: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Reads the entries of the documents in a range of keys, in order and without dropped documents.

        Args:
            index: int. The range, less than num_ranges.

        Returns:
            (ENTRY [n], int64 [n] the run of each document, int64 [n] the number of each document).
        """
        slices = [
            (run, start, end)
            for run, (start, end) in enumerate(self._bounds[:, index : index + 2].tolist())
            if end > start
        ]
        if not slices:
            return np.zeros(0, ENTRY), np.zeros(0, np.int64), np.zeros(0, np.int64)
        entries = np.concatenate([self._read(self.runs[run], "entries", start, end) for run, start, end in slices])
        sizes = [end - start for _, start, end in slices]
        runs = np.repeat([run for run, _, _ in slices], sizes)
        numbers = ranges_of(np.array([self._first[run] + start for run, start, _ in slices]), np.array(sizes))
        order = np.lexsort((numbers, entries["key_rest"], entries["key"]))
        order = order[~self.dropped[numbers[order]]]
        return entries[order], runs[order], numbers[order]

    def lines(self, entries: np.ndarray, runs: np.ndarray) -> np.ndarray:
        """Reads the lines of documents.

        Args:
            entries: ENTRY [n], as entries() returns it.
            runs: int64 [n], as entries() returns it.

        Returns:
            LINE [sentences], in the order of the documents.
        """
        return self._gather(entries, runs, "lines", "line", "sentences")

    def records(self, entries: np.ndarray, runs: np.ndarray) -> list[bytes]:
        """Reads the records of documents.

        Args:
            entries: ENTRY [n], as entries() returns it, or a part of it.
            runs: int64 [n], as entries() returns it, or the same part of it.

        Returns:
            list of bytes [n], in the order of the documents.
        """
        result = [b""] * len(entries)
        for run in np.unique(runs).tolist():
            places = np.flatnonzero(runs == run)
            offsets, sizes = entries["offset"][places].astype(np.int64), entries["size"][places].astype(np.int64)
            start, end = int(offsets.min()), int((offsets + sizes).max())
            with open(f"{self.runs[run].path}.text", "rb") as file:
                file.seek(start)
                data = file.read(end - start)
            for place, offset, size in zip(places.tolist(), (offsets - start).tolist(), sizes.tolist(), strict=True):
                result[place] = data[offset : offset + size]
        return result

    def documents_of_lines(self, hashes: Sequence[int]) -> Iterator[tuple[int, np.ndarray, np.ndarray, int]]:
        """Finds the first occurrence of each line.

        Args:
            hashes: sequence of int. The hashes of the lines.

        Yields:
            (hash, ENTRY [1], runs [1], number of the line within the document).
        """
        wanted = np.unique(np.asarray(hashes, np.uint64))
        for number, run in enumerate(self.runs):
            if not len(wanted):
                return
            entries = self._read(run, "entries", 0, run.documents)
            line_hashes = self._read(run, "lines", 0, run.files["lines"][0] // LINE.itemsize)["hash"]
            kept = ~np.repeat(self.dropped[self._first[number] : self._first[number + 1]], entries["sentences"])
            places = np.flatnonzero(np.isin(line_hashes, wanted) & kept)
            firsts, index = np.unique(line_hashes[places], return_index=True)
            for value, place in zip(firsts, places[index], strict=True):
                entry = np.searchsorted(entries["line"], place, side="right") - 1
                yield int(value), entries[entry : entry + 1], np.array([number]), int(place - entries["line"][entry])
            wanted = np.setdiff1d(wanted, firsts)

    def whole(self, ending: str) -> Iterator[np.ndarray]:
        """Yields the whole array of each run, dropped documents included.

        Args:
            ending: "entries" or "signatures".

        Yields:
            ENTRY [n] or SIGNATURE [n].
        """
        for run in self.runs:
            yield self._read(run, ending, 0, run.documents)

    def signatures(self, numbers: np.ndarray) -> np.ndarray:
        """Reads the signatures of documents.

        Args:
            numbers: int64 [n]. The numbers of the documents.

        Returns:
            SIGNATURE [n].
        """
        result = np.empty((len(numbers), *SIGNATURE.shape), SIGNATURE.base)
        runs = np.searchsorted(self._first, numbers, side="right") - 1
        for run in np.unique(runs).tolist():
            places = np.flatnonzero(runs == run)
            with open(f"{self.runs[run].path}.signatures", "rb") as file:
                for place, row in zip(places.tolist(), (numbers[places] - self._first[run]).tolist(), strict=True):
                    file.seek(row * SIGNATURE.itemsize)
                    result[place] = np.frombuffer(file.read(SIGNATURE.itemsize), SIGNATURE)[0]
        return result

    def _gather(self, entries, runs, ending, first, count):
        """Reads the rows of a file that belong to documents, in the order of the documents."""
        counts = entries[count].astype(np.int64)
        places = np.cumsum(counts) - counts
        result = np.empty(int(counts.sum()), _TYPES[ending])
        for run in np.unique(runs).tolist():
            is_of_run = runs == run
            firsts = entries[first][is_of_run].astype(np.int64)
            start, end = int(firsts.min()), int((firsts + counts[is_of_run]).max())
            rows = self._read(self.runs[run], ending, start, end)
            result[ranges_of(places[is_of_run], counts[is_of_run])] = rows[ranges_of(firsts - start, counts[is_of_run])]
        return result

    def _read(self, run, ending, start, end):
        dtype = _TYPES[ending]
        with open(f"{run.path}.{ending}", "rb") as file:
            file.seek(start * dtype.itemsize)
            return np.frombuffer(file.read((end - start) * dtype.itemsize), dtype)


def drop_equal(spool: Spool) -> int:
    """Marks all but the first document of each key as dropped.

    Args:
        spool: Spool.

    Returns:
        int. The number of documents that this call marks.
    """
    before = int(spool.dropped.sum())
    for index in range(spool.num_ranges):
        entries, _, numbers = spool.entries(index)
        same = (entries["key"][1:] == entries["key"][:-1]) & (entries["key_rest"][1:] == entries["key_rest"][:-1])
        spool.dropped[numbers[1:][same]] = True
    return int(spool.dropped.sum()) - before
