"""Measures the overlap: held-out sentences that training text has almost word for word.

The tokens are the same as in near_duplicates.py. A token of a held-out sentence is covered if it stands in a run of
OVERLAP_RUN consecutive tokens that a training sentence also has. A sentence overlaps if at least OVERLAP_SHARE of its
tokens are covered. Sentences with fewer than OVERLAP_RUN tokens are not counted.

The measure takes a sample of the held-out text and all training text. The sample limits the memory.
"""

from collections.abc import Sequence

import numpy as np

from pipelines.corpus.fingerprints import blocks, entries_and_lines, line_ends
from pipelines.corpus.manifest import OVERLAP_RUN, OVERLAP_SHARE
from pipelines.corpus.near_duplicates import token_hashes

SAMPLE_BYTES = 4_000_000  # some 30,000 sentences: a share of 2 % has a standard error of 0.1 %
_TABLE_BITS = 24
_STEP = 0x9E3779B97F4A7C15  # odd


class Overlap:
    """Measures how many sentences of a held-out sample overlap with training documents.

    Args:
        records: sequence of bytes. The sample of held-out documents; a record holds sentences joined by newlines.
    """

    def __init__(self, records: Sequence[bytes]):
        self._records = list(records)
        self._runs = np.unique(np.concatenate([_runs(block) for block in blocks(self._records)]))
        self._is_in_training = np.zeros(len(self._runs), bool)
        # A table of the low bits rejects most training runs without a search.
        self._table = np.zeros(1 << _TABLE_BITS, bool)
        self._table[_low_bits(self._runs)] = True

    @property
    def has_runs(self) -> bool:
        """Whether the sample has a run of OVERLAP_RUN tokens, so that training text can overlap with it."""
        return bool(len(self._runs))

    def add(self, records: Sequence[bytes]) -> None:
        """Compares training documents with the sample; several threads may do this at the same time.

        Args:
            records: sequence of bytes. Training documents; a record holds sentences joined by newlines.
        """
        for block in blocks(records):
            runs = _runs(block)
            places, is_known = self._places(runs[self._table[_low_bits(runs)]])
            self._is_in_training[places[is_known]] = True

    def result(self, dropped_lines: np.ndarray) -> dict[str, int]:
        """Counts the sentences of the sample that overlap with the training documents.

        Args:
            dropped_lines: uint64. The hashes (fingerprints.LINE) of sentences that are dropped from the held-out text.
                A document with fewer than two sentences left is dropped as a whole.

        Returns:
            {"sentences": number of sentences of OVERLAP_RUN or more tokens, "overlapping": how many of these overlap}.
        """
        if not self._records:
            return {"sentences": 0, "overlapping": 0}
        entries, lines = entries_and_lines(self._records)
        is_kept = ~np.isin(lines["hash"], dropped_lines)
        documents = np.repeat(np.arange(len(entries)), entries["sentences"])
        is_kept &= (np.bincount(documents, is_kept) > 1)[documents]
        counts = np.concatenate([self._tokens_of_lines(block) for block in blocks(self._records)])
        is_counted = is_kept & (counts[:, 0] >= OVERLAP_RUN)
        is_overlapping = is_counted & (counts[:, 1] >= OVERLAP_SHARE * counts[:, 0])
        return {"sentences": int(is_counted.sum()), "overlapping": int(is_overlapping.sum())}

    def _places(self, runs):
        """Returns (places of runs in self._runs, whether self._runs holds each run)."""
        places = np.searchsorted(self._runs, runs)
        places[places == len(self._runs)] = 0
        return places, self._runs[places] == runs if len(self._runs) else np.zeros(len(runs), bool)

    def _tokens_of_lines(self, block):
        """Counts (tokens, covered tokens) of each line of a block of the sample, float64 [lines, 2]."""
        hashes, starts = token_hashes(block, with_newlines=True)
        ends = line_ends(block)
        lines = np.searchsorted(ends, starts, side="right")
        is_word = ~np.isin(starts, ends - 1)
        places, is_known = self._places(runs := _runs_of(hashes))
        last = slice(len(lines) - len(runs), None)
        is_shared = is_known & is_word[last] & (lines[: len(runs)] == lines[last])
        is_shared[is_shared] = self._is_in_training[places[is_shared]]
        is_covered = np.zeros(len(hashes), bool)
        for step in range(OVERLAP_RUN):
            is_covered[step : step + len(runs)] |= is_shared
        return np.stack([np.bincount(lines, mask & is_word, len(ends)) for mask in (is_word, is_covered)], axis=1)


def _runs(block):
    # Newlines are tokens, so that a run within one sentence never equals a run across two sentences.
    return _runs_of(token_hashes(block, with_newlines=True)[0])


def _runs_of(tokens):
    """Hashes all runs of OVERLAP_RUN tokens, uint64 [tokens - OVERLAP_RUN + 1]."""
    hashes, length = tokens, 1
    while length < OVERLAP_RUN:
        hashes = hashes[:-length] * np.uint64(pow(_STEP, length, 1 << 64)) + hashes[length:]
        length *= 2
    return hashes


def _low_bits(hashes):
    return (hashes & np.uint64((1 << _TABLE_BITS) - 1)).astype(np.int64)
