"""An external sort: runs of documents on disk, each sorted by key, merged by ranges of the key.

A run is four files of equal order: .text (the records one behind another), .entries (ENTRY), .lines (LINE) and, where
near-duplicates are looked for, .signatures (SIGNATURE). As keys are hashes, so equally spread, a range of keys holds
about the same share of every run, in one piece.
"""

import hashlib
from typing import NamedTuple

import numpy as np

from pipelines.corpus.fingerprints import ENTRY, LINE
from pipelines.corpus.near_duplicates import SIGNATURE

_TYPES = {"entries": ENTRY, "lines": LINE, "signatures": SIGNATURE}
_RANGE_BYTES = 1 << 22  # of text in a range of keys
_SLICE_BYTES = 1 << 14  # of it in one run, or reading would be all seeking


class Run(NamedTuple):
    """A sorted run. path: without the ending; documents, bytes: what it holds; files: [size, sha256] by ending."""

    path: str
    documents: int
    bytes: int
    files: dict


class Part(NamedTuple):
    """Documents with what was found out about them: records (list), ENTRY [N], LINE [...], SIGNATURE [N] or None."""

    records: list
    entries: np.ndarray
    lines: np.ndarray
    signatures: np.ndarray | None


def write_run(path, parts):
    """Sort the documents of parts by key, equal ones in the order they come in, and write them as a Run."""
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


def ranges_of(starts, lengths):
    """The numbers start, ..., start + length - 1 of every start, one behind another, int64."""
    ends = np.cumsum(lengths)
    return np.arange(ends[-1] if len(ends) else 0) + np.repeat(starts - (ends - lengths), lengths)


class Spool:
    """Runs as one sorted sequence of documents, of which memory holds a range of keys at a time.

    Beyond that, a byte is held for every document, and some for every run and range.

    Attributes:
        documents: how many there are, those dropped included.
        dropped: bool [documents], by the document's number: its place when runs lie one behind another.
        num_ranges: of keys.
    """

    def __init__(self, runs):
        self.runs = runs
        self.documents = sum(run.documents for run in runs)
        self.bytes = sum(run.bytes for run in runs)
        self.dropped = np.zeros(self.documents, bool)
        self._first = np.concatenate([[0], np.cumsum([run.documents for run in runs], dtype=np.int64)])
        range_bytes = max(_RANGE_BYTES, _SLICE_BYTES * len(runs))
        self.num_ranges = max(1, self.bytes // range_bytes)
        bounds = np.array([(index << 64) // self.num_ranges for index in range(self.num_ranges)], np.uint64)
        self._bounds = np.zeros((len(runs), self.num_ranges + 1), np.int64)
        for row, run in zip(self._bounds, runs):
            row[:-1] = np.searchsorted(self._read(run, "entries", 0, run.documents)["key"], bounds)
            row[-1] = run.documents

    def entries(self, index):
        """The documents of a range of keys that are not dropped, in order.

        Returns:
            (ENTRY [n], run of each [n], number of each [n]).
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

    def lines(self, entries, runs):
        """LINE [sentences] of documents that entries() gave, in their order."""
        return self._gather(entries, runs, "lines", "line", "sentences")

    def records(self, entries, runs):
        """The records of documents that entries() gave (or some of them), in their order: a list of bytes."""
        result = [b""] * len(entries)
        for run in np.unique(runs).tolist():
            places = np.flatnonzero(runs == run)
            offsets, sizes = entries["offset"][places].astype(np.int64), entries["size"][places].astype(np.int64)
            start, end = int(offsets.min()), int((offsets + sizes).max())
            with open(f"{self.runs[run].path}.text", "rb") as file:
                file.seek(start)
                data = file.read(end - start)
            for place, offset, size in zip(places.tolist(), (offsets - start).tolist(), sizes.tolist()):
                result[place] = data[offset : offset + size]
        return result

    def documents_of_lines(self, hashes):
        """Yield (hash, ENTRY [1], runs [1], line within the document) for the first place of each hash of a line."""
        wanted = np.unique(np.asarray(hashes, np.uint64))
        for number, run in enumerate(self.runs):
            if not len(wanted):
                return
            entries = self._read(run, "entries", 0, run.documents)
            found = self._read(run, "lines", 0, run.files["lines"][0] // LINE.itemsize)["hash"]
            kept = ~np.repeat(self.dropped[self._first[number] : self._first[number + 1]], entries["sentences"])
            places = np.flatnonzero(np.isin(found, wanted) & kept)
            firsts, index = np.unique(found[places], return_index=True)
            for value, place in zip(firsts, places[index]):
                entry = np.searchsorted(entries["line"], place, side="right") - 1
                yield int(value), entries[entry : entry + 1], np.array([number]), int(place - entries["line"][entry])
            wanted = np.setdiff1d(wanted, firsts)

    def whole(self, ending):
        """Yield an array for each run: "entries" or "signatures", dropped documents included."""
        for run in self.runs:
            yield self._read(run, ending, 0, run.documents)

    def signatures(self, numbers):
        """SIGNATURE [n] of documents by their numbers."""
        result = np.empty((len(numbers), *SIGNATURE.shape), SIGNATURE.base)
        runs = np.searchsorted(self._first, numbers, side="right") - 1
        for run in np.unique(runs).tolist():
            places = np.flatnonzero(runs == run)
            with open(f"{self.runs[run].path}.signatures", "rb") as file:
                for place, row in zip(places.tolist(), (numbers[places] - self._first[run]).tolist()):
                    file.seek(row * SIGNATURE.itemsize)
                    result[place] = np.frombuffer(file.read(SIGNATURE.itemsize), SIGNATURE)[0]
        return result

    def _gather(self, entries, runs, ending, first, count):
        """The rows of a file that documents have, in the documents' order."""
        counts = entries[count].astype(np.int64)
        places = np.cumsum(counts) - counts
        result = np.empty(int(counts.sum()), _TYPES[ending])
        for run in np.unique(runs).tolist():
            mine = runs == run
            firsts = entries[first][mine].astype(np.int64)
            start, end = int(firsts.min()), int((firsts + counts[mine]).max())
            rows = self._read(self.runs[run], ending, start, end)
            result[ranges_of(places[mine], counts[mine])] = rows[ranges_of(firsts - start, counts[mine])]
        return result

    def _read(self, run, ending, start, end):
        dtype = _TYPES[ending]
        with open(f"{run.path}.{ending}", "rb") as file:
            file.seek(start * dtype.itemsize)
            return np.frombuffer(file.read((end - start) * dtype.itemsize), dtype)


def drop_equal(spool):
    """Mark all but the first of the documents of equal keys as dropped; returns how many."""
    before = int(spool.dropped.sum())
    for index in range(spool.num_ranges):
        entries, _, numbers = spool.entries(index)
        same = (entries["key"][1:] == entries["key"][:-1]) & (entries["key_rest"][1:] == entries["key_rest"][:-1])
        spool.dropped[numbers[1:][same]] = True
    return int(spool.dropped.sum()) - before
