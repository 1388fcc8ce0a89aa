"""The report of a prepared corpus: lengths, repeated lines, scripts, and dropped or repaired text."""

import collections
from collections.abc import Iterator

import numpy as np

from pipelines.corpus.manifest import FAULTS, SPLITS, overlap_text
from pipelines.plurals import counted
from pipelines.text.scripts import script_of_character

_LINES_SHOWN = 20
_LINE_CHARACTERS = 300  # the report cuts longer lines
_SAMPLE_BYTES = 2_000_000  # the amount of text in which the report counts scripts
_BAR = 40


class RepeatedLines:
    """Counts of the most frequent lines of a text, in bounded memory.

    Counters are merged as in Agarwal et al., Mergeable Summaries (2012), for counters of Misra and Gries. If there are
    more than max_counters distinct lines, the most frequent line beyond this limit decides: its count is subtracted
    from all counts, and only lines with a positive count stay.

    Args:
        max_counters: the most distinct lines that are counted at the same time.

    Attributes:
        error: the sum of all subtractions. No count is too low by more than this sum. With error 0 all counts are
            exact.
    """

    def __init__(self, max_counters: int = 1 << 20):
        self._max_counters = max_counters
        self._hashes, self._counts = np.zeros(0, np.uint64), np.zeros(0, np.int64)
        self._waiting, self._num_waiting = [], 0
        self.error = 0

    def add(self, hashes: np.ndarray) -> None:
        """Counts lines by their hashes, uint64 [n]."""
        self._waiting.append(hashes)
        self._num_waiting += len(hashes)
        if self._num_waiting > self._max_counters:
            self._merge()

    def most_common(self, number: int) -> list[tuple[int, int]]:
        """Returns the lines that occur at least twice, the most frequent first.

        Args:
            number: the most lines to return.

        Returns:
            list of (hash, count).
        """
        self._merge()
        repeated = np.flatnonzero(self._counts > 1)
        order = repeated[np.lexsort((self._hashes[repeated], -self._counts[repeated]))[:number]]
        return [(int(self._hashes[index]), int(self._counts[index])) for index in order]

    def _merge(self):
        hashes = np.concatenate([self._hashes, *self._waiting])
        counts = np.concatenate([self._counts, np.ones(self._num_waiting, np.int64)])
        self._waiting, self._num_waiting = [], 0
        order = np.argsort(hashes)
        hashes, counts = hashes[order], counts[order]
        firsts = np.flatnonzero(np.append(True, hashes[1:] != hashes[:-1])[: len(hashes)])
        hashes, counts = hashes[firsts], np.add.reduceat(counts, firsts) if len(firsts) else counts
        if len(hashes) > self._max_counters:
            surplus = int(np.partition(counts, -self._max_counters - 1)[-self._max_counters - 1])
            self.error += surplus
            kept = counts > surplus
            hashes, counts = hashes[kept], counts[kept] - surplus
        self._hashes, self._counts = hashes, counts


class Lengths:
    """A histogram over powers of two: bin 0 holds 0, bin i holds 2**(i-1) to 2**i - 1."""

    def __init__(self):
        self._bins, self._count, self._sum, self._max = np.zeros(33, np.int64), 0, 0, 0

    def add(self, values: np.ndarray) -> None:
        """Adds lengths, int [n]."""
        if len(values):
            self._bins += np.bincount(np.frexp(values.astype(np.float64))[1], minlength=33)[:33]
            self._count += len(values)
            self._sum += int(values.sum(dtype=np.int64))
            self._max = max(self._max, int(values.max()))

    def result(self) -> dict:
        """Returns {"mean", "max", "bins": [[from, to, count]]}; the last bin is not empty."""
        used = int(np.flatnonzero(self._bins)[-1]) + 1 if self._count else 0
        return {
            "mean": self._sum / max(1, self._count),
            "max": self._max,
            "bins": [[1 << i >> 1, max((1 << i) - 1, 0), int(self._bins[i])] for i in range(used)],
        }


class Survey:
    """Collects statistics of documents batch by batch, and makes the report."""

    def __init__(self):
        self._lengths = {
            name: Lengths() for name in ("sentences_per_document", "characters_per_document", "characters_per_sentence")
        }
        self._repeated = RepeatedLines()

    def add(self, entries: np.ndarray, lines: np.ndarray) -> None:
        """Adds documents.

        Args:
            entries: ENTRY [N]. The entries of the documents.
            lines: LINE [sentences]. The lines of all these documents.
        """
        self._lengths["sentences_per_document"].add(entries["sentences"])
        self._lengths["characters_per_document"].add(entries["characters"])
        self._lengths["characters_per_sentence"].add(lines["characters"])
        self._repeated.add(lines["hash"])

    def report(self, spool, manifest: dict) -> dict:
        """Makes the report.

        Args:
            spool: Spool of the training documents.
            manifest: dict. The manifest of the corpus.

        Returns:
            dict of JSON values.
        """
        repeated = dict(self._repeated.most_common(_LINES_SHOWN))
        texts = {}
        for value, entry, run, line in spool.documents_of_lines(list(repeated)):
            text = spool.records(entry, run)[0].split(b"\n")[line].decode()
            texts[value] = text if len(text) <= _LINE_CHARACTERS else text[:_LINE_CHARACTERS] + "..."
        sample, sampled = collections.Counter(), 0
        for record in sample_records(spool, _SAMPLE_BYTES):
            sample.update(record.decode())
            sampled += 1
        scripts = collections.Counter()
        for character, count in sample.items():
            if not character.isspace():
                scripts[script_of_character(character)] += count
        return {
            "counts": manifest["counts"],
            "splits": {
                split: {key: manifest[split][key] for key in ("documents", "sentences", "words", "text_bytes")}
                for split in SPLITS
            },
            "heldout_overlap": manifest["heldout_overlap"],
            "lengths": {name: lengths.result() for name, lengths in self._lengths.items()},
            "repeated_lines": {
                "lines": [[texts[value], count] for value, count in repeated.items() if value in texts],
                "counts_too_low_by_at_most": self._repeated.error,
            },
            "scripts": {
                "sampled_documents": sampled,
                "all_documents": spool.documents - int(spool.dropped.sum()),
                "characters": dict(scripts.most_common()),
            },
        }


def sample_records(spool, max_bytes: int) -> Iterator[bytes]:
    """Yields the first records of a spool.

    Records are ordered by hash, so this is a random sample of documents, and always the same one.

    Args:
        spool: Spool.
        max_bytes: the approximate size of the sample.
    """
    for index in range(spool.num_ranges):
        entries, runs, _ = spool.entries(index)
        num_taken = int(np.searchsorted(np.cumsum(entries["size"], dtype=np.int64), max_bytes)) + 1
        yield from spool.records(entries[:num_taken], runs[:num_taken])
        max_bytes -= int(entries["size"].sum(dtype=np.int64))
        if max_bytes <= 0:
            return


def report_text(report: dict) -> str:
    """Formats the report as lines of text for people.

    Args:
        report: dict, as Survey.report returns it.

    Returns:
        str. Several lines; each ends with a newline.
    """
    lines = [
        f"{name:8} {split['documents']:>12,} documents {split['sentences']:>14,} sentences "
        f"{split['words']:>16,} words {split['text_bytes'] / 1e6:>12,.1f} MB"
        for name, split in report["splits"].items()
    ]
    counts = report["counts"]
    lines += [
        "",
        f"read: {counted(counts['files'], 'file')}, {counted(counts['documents'], 'document')}, "
        f"{counted(counts['sentences'], 'sentence')}, {counts['bytes'] / 1e6:,.1f} MB",
    ]
    lines += [f"{counts[name]:>12,} {meaning}" for name, meaning in FAULTS if name in counts]
    if line := overlap_text(report):
        lines += ["", line]
    for name, lengths in report["lengths"].items():
        lines += ["", f"{name.replace('_', ' ')}: mean {lengths['mean']:,.1f}, longest {lengths['max']:,}"]
        most = max((count for _, _, count in lengths["bins"]), default=1) or 1
        lines += [
            f"{_interval(first, last):>23} {count:>12,} {'#' * round(_BAR * count / most)}"
            for first, last, count in lengths["bins"]
        ]
    scripts = report["scripts"]
    total = sum(scripts["characters"].values()) or 1
    is_all = scripts["sampled_documents"] == scripts["all_documents"]
    lines += [
        "",
        "characters by script, white space left out ("
        + (
            "all training documents)"
            if is_all
            else f"{scripts['sampled_documents']:,} of {scripts['all_documents']:,} training documents, drawn by hash)"
        ),
    ]
    lines += [f"{count / total:>12.3%} {name}" for name, count in scripts["characters"].items()]
    error = report["repeated_lines"]["counts_too_low_by_at_most"]
    lines += [
        "",
        "most repeated lines of the training documents ("
        + ("exact counts)" if not error else f"counts may be too low by up to {error:,})"),
    ]
    lines += [f"{count:>12,} {line}" for line, count in report["repeated_lines"]["lines"]] or ["        none"]
    return "\n".join(lines) + "\n"


def _interval(first, last):
    return f"{first:,}" if first == last else f"{first:,} to {last:,}"
