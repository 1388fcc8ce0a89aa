"""What a prepared corpus is made of: lengths, repeated lines, scripts, and what was dropped or repaired."""

import collections

import numpy as np

from pipelines.text.scripts import script_of_character

_LINES_SHOWN = 20
_LINE_CHARACTERS = 300  # of a repeated line that the report keeps
_SAMPLE_BYTES = 2_000_000  # of text in which scripts are counted
_BAR = 40
FAULTS = (
    ("duplicates", "documents dropped as equal to another"),
    ("near_duplicates", "documents dropped as near-duplicates of another"),
    ("heldout_sentences_dropped", "held-out sentences dropped that training documents have too"),
    ("heldout_documents_dropped", "held-out documents dropped that had fewer than two sentences left"),
    ("invalid_utf8_lines", "lines with invalid UTF-8, repaired with U+FFFD"),
    ("capped_lines", "lines too long to be held, taken in pieces"),
    ("capped_documents", "documents too long to be held, cut into several"),
    ("bad_records", "JSON records too long to be held, left out"),
)


class RepeatedLines:
    """Counts of the lines that stand most often in a text, in bounded memory.

    Counters are merged as Agarwal et al., Mergeable Summaries (2012), merge those of Misra and Gries: once there are
    too many, the count of the one that just does not fit is taken from all. A count is then too low by at most
    `error`, the sum of what was taken; with error 0 all counts are exact.
    """

    def __init__(self, max_counters=1 << 20):
        self._max_counters = max_counters
        self._hashes, self._counts = np.zeros(0, np.uint64), np.zeros(0, np.int64)
        self._waiting, self._num_waiting = [], 0
        self.error = 0

    def add(self, hashes):
        """Count lines by their hashes, uint64 [n]."""
        self._waiting.append(hashes)
        self._num_waiting += len(hashes)
        if self._num_waiting > self._max_counters:
            self._merge()

    def most_common(self, number):
        """[(hash, count)], of lines that stand there at least twice, the most frequent first."""
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

    def add(self, values):
        if len(values):
            self._bins += np.bincount(np.frexp(values.astype(np.float64))[1], minlength=33)[:33]
            self._count += len(values)
            self._sum += int(values.sum(dtype=np.int64))
            self._max = max(self._max, int(values.max()))

    def result(self):
        """{"mean", "max", "bins": [[from, to, count]]}, of bins up to the last that holds something."""
        used = int(np.flatnonzero(self._bins)[-1]) + 1 if self._count else 0
        return {
            "mean": self._sum / max(1, self._count),
            "max": self._max,
            "bins": [[1 << i >> 1, max((1 << i) - 1, 0), int(self._bins[i])] for i in range(used)],
        }


class Survey:
    """Takes the documents of a corpus as they pass by, and makes the report of them."""

    def __init__(self):
        self._lengths = {
            name: Lengths() for name in ("sentences_per_document", "characters_per_document", "characters_per_sentence")
        }
        self._repeated = RepeatedLines()

    def add(self, entries, lines):
        """ENTRY [N] and LINE [sentences] of documents."""
        self._lengths["sentences_per_document"].add(entries["sentences"])
        self._lengths["characters_per_document"].add(entries["characters"])
        self._lengths["characters_per_sentence"].add(lines["characters"])
        self._repeated.add(lines["hash"])

    def report(self, spool, counts, splits):
        """The report as JSON values.

        Args:
            spool: of the training documents. counts: the manifest's. splits: its "train" and "heldout".
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
            "counts": counts,
            "splits": {
                name: {key: split[key] for key in ("documents", "sentences", "words", "text_bytes")}
                for name, split in splits.items()
            },
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


def sample_records(spool, max_bytes):
    """Yield the first records, some max_bytes of them: keys are hashes, so this is a random sample, always the same."""
    for index in range(spool.num_ranges):
        entries, runs, _ = spool.entries(index)
        taken = int(np.searchsorted(np.cumsum(entries["size"], dtype=np.int64), max_bytes)) + 1
        yield from spool.records(entries[:taken], runs[:taken])
        max_bytes -= int(entries["size"].sum(dtype=np.int64))
        if max_bytes <= 0:
            return


def report_text(report):
    """The report for people, as lines of text."""
    lines = [
        f"{name:8} {split['documents']:>12,} documents {split['sentences']:>14,} sentences "
        f"{split['words']:>16,} words {split['text_bytes'] / 1e6:>12,.1f} MB"
        for name, split in report["splits"].items()
    ]
    counts = report["counts"]
    lines += [
        "",
        f"read: {counts['files']:,} files, {counts['documents']:,} documents, "
        f"{counts['sentences']:,} sentences, {counts['bytes'] / 1e6:,.1f} MB",
    ]
    lines += [f"{counts[name]:>12,} {meaning}" for name, meaning in FAULTS]
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
