"""Removes held-out sentences that also occur in training text.

A held-out document with fewer than two sentences left is dropped as a whole. prepare_corpus compares within a corpus.
write_apart compares the corpora of one training run. If their seeds differ, a document may be held out in one corpus
and training text in another.
"""

import collections
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent import futures

import numpy as np

from pipelines import storage
from pipelines.corpus import fingerprints, shards
from pipelines.corpus.corpus_report import sample_records
from pipelines.corpus.overlap import SAMPLE_BYTES, Overlap
from pipelines.wordpiece.word_counting import count_symbols, count_words

_BATCH_BYTES = 1 << 20
_MOST_THREADS = 4
COUNTS = ("heldout_sentences_dropped", "heldout_documents_dropped")


class SharedHashes:
    """Finds the held-out hashes that training also has. Memory holds nine bytes for every held-out hash.

    Args:
        heldout: uint64 [N]. Hashes of held-out lines or documents.
    """

    def __init__(self, heldout: np.ndarray):
        self._heldout = np.unique(heldout)
        self._is_shared = np.zeros(len(self._heldout), bool)

    def add(self, training: np.ndarray) -> None:
        """Compares hashes of training text, uint64 [n]; several threads may do this at the same time."""
        self._is_shared[_matches(np.sort(training), self._heldout)[0]] = True

    def result(self) -> np.ndarray:
        """Returns the shared hashes, uint64, sorted."""
        return self._heldout[self._is_shared]


def are_in(values: np.ndarray, among: np.ndarray) -> np.ndarray:
    """Returns whether each value is in `among`, which is sorted: bool [n].

    Args:
        values: uint64 [n].
        among: uint64 [m], sorted.

    Returns:
        bool [n].
    """
    result = np.zeros(len(values), bool)
    result[_matches(values, among)[1]] = True
    return result


def _matches(values, among):
    """Finds the values that are also in `among`, which is sorted.

    Returns (indices in among, indices in values).

    The set operations of numpy would sort `among` again in every call, although it is large and sorted.
    """
    places = np.searchsorted(among, values)
    matches = np.flatnonzero(places < len(among))
    matches = matches[among[places[matches]] == values[matches]]
    return places[matches], matches


def kept_records(
    batches: Iterable[tuple[Sequence[bytes], np.ndarray]], counts: dict[str, int], is_symbols: bool = False
) -> Iterator[tuple[bytes, int]]:
    """Drops sentences of documents, and documents with fewer than two sentences left, or without a line of symbols.

    Args:
        batches: iterable of (records, bool [sentences] whether to drop each sentence of all these records).
        counts: dict. The numbers of dropped sentences and documents are added under the names COUNTS.
        is_symbols: whether the documents have lines of symbols.

    Yields:
        (record, number of words or symbols in it).
    """
    least, count = (1, count_symbols) if is_symbols else (2, count_words)
    for records, is_dropped in batches:
        flags = iter(is_dropped.tolist())
        for record in records:
            lines = record.split(b"\n")
            kept = [line for line in lines if not next(flags)]
            counts["heldout_sentences_dropped"] += len(lines) - len(kept)
            if len(kept) >= least:
                yield (record := b"\n".join(kept)), count(record)
            else:
                counts["heldout_documents_dropped"] += 1


class Comparison:
    """Compares the held-out documents of a corpus with its training documents.

    Args:
        heldout: Spool of the held-out documents.

    Attributes:
        lines: SharedHashes of the held-out lines.
        overlap: Overlap of a sample of the held-out documents.
    """

    def __init__(self, heldout):
        ranges = range(heldout.num_ranges)
        self.lines = SharedHashes(
            np.concatenate([heldout.lines(*heldout.entries(index)[:2])["hash"] for index in ranges])
        )
        self.overlap = Overlap(list(sample_records(heldout, SAMPLE_BYTES)))


def write_kept(
    heldout, shared: np.ndarray, directory: str, num_shards: int, is_symbols: bool = False
) -> tuple[dict, dict[str, int]]:
    """Writes the held-out documents of a corpus without the sentences that training also has.

    Args:
        heldout: Spool of the held-out documents.
        shared: uint64, sorted. The hashes of the sentences to drop.
        directory: the directory of the shards.
        num_shards: the number of shards.
        is_symbols: whether the documents have lines of symbols.

    Returns:
        (summary of the split for the manifest, counts of dropped sentences and documents).
    """
    counts = dict.fromkeys(COUNTS, 0)

    def marked():
        for index in range(heldout.num_ranges):
            entries, runs, _ = heldout.entries(index)
            yield heldout.records(entries, runs), are_in(heldout.lines(entries, runs)["hash"], shared)

    sizes = shards.shard_sizes(heldout.documents, num_shards) if heldout.documents else []
    with futures.ThreadPoolExecutor(1) as hashing:
        records = kept_records(marked(), counts, is_symbols)
        written = shards.write_shards(directory, "heldout", records, sizes, [], "", hashing)
    return shards.split_summary(written), counts


def write_apart(
    train_shards: Sequence[str],
    heldout_shards: Sequence[Sequence[str]],
    directory: str,
    progress: Callable[[int, int], None] | None = None,
) -> tuple[list[dict], dict[str, int], dict[str, int]]:
    """Writes the held-out documents of several corpora without text that any training document has.

    A document is dropped if a training document equals it up to white space. Sentences are dropped by the same rule as
    within one corpus.

    Args:
        train_shards: paths of the training shards of all corpora.
        heldout_shards: for each corpus the paths of its held-out shards.
        directory: the directory of new shards. They are written only if some text is dropped and some text is left.
        progress: function of (documents, bytes), the training text that was compared so far.

    Returns:
        (the new shards as shards.write_shards returns them; a dict with the number of held-out "documents" and the
        numbers named in COUNTS; the result of Overlap).
    """
    heldout = [path for paths in heldout_shards for path in paths]
    if not heldout:
        return [], {**dict.fromkeys(COUNTS, 0), "documents": 0}, Overlap([]).result(np.zeros(0, np.uint64))
    comparison = _CorporaComparison(heldout_shards)
    in_threads(comparison.add, _batches(train_shards), progress)
    counts = dict.fromkeys(COUNTS, 0)
    kept = [len(record) for record, _ in kept_records(comparison.marked(_batches(heldout)), counts)]
    counts["documents"] = len(kept) + counts["heldout_documents_dropped"]
    written = []
    if kept and counts["heldout_sentences_dropped"]:
        sizes = shards.shard_sizes(len(kept), shards.number_of_shards(len(kept), sum(kept)))
        records = kept_records(comparison.marked(_batches(heldout)), dict.fromkeys(COUNTS, 0))
        with futures.ThreadPoolExecutor(1) as hashing:
            written = shards.write_shards(directory, "heldout", records, sizes, [], "", hashing)
        for shard in written if not storage.is_remote(directory) else ():
            os.remove(os.path.join(directory, shard["file"] + ".json"))  # only a run that resumes reads it
    return written, counts, comparison.overlap_left(_batches(heldout))


class _CorporaComparison:
    """Compares the held-out documents of several corpora with the training documents of all of them.

    Args:
        heldout_shards: for each corpus the paths of its held-out shards; at least one shard in total.
    """

    def __init__(self, heldout_shards):
        heldout = [path for paths in heldout_shards for path in paths]
        hashes = [(_document_hashes(records), _line_hashes(records)) for records in _batches(heldout)]
        documents, lines = map(np.concatenate, zip(*hashes, strict=True))
        self._documents, self._lines = SharedHashes(documents), SharedHashes(lines)
        self._overlap = Overlap([record for paths in heldout_shards for record in _sample(paths, len(heldout_shards))])

    def add(self, records):
        """Compares training documents; returns their number and bytes."""
        self._documents.add(_document_hashes(records))
        self._lines.add(_line_hashes(records))
        self._overlap.add(records)
        return len(records), sum(map(len, records))

    def marked(self, batches):
        """Yields (records, bool [sentences] whether training has each sentence) of held-out documents."""
        shared_documents, shared_lines = self._documents.result(), self._lines.result()
        for records in batches:
            is_copy = are_in(_document_hashes(records), shared_documents)
            sentences = [record.count(b"\n") + 1 for record in records]
            yield records, np.repeat(is_copy, sentences) | are_in(_line_hashes(records), shared_lines)

    def overlap_left(self, batches):
        """Returns the result of the Overlap without the held-out sentences that are dropped."""
        dropped = [_line_hashes(records)[is_dropped] for records, is_dropped in self.marked(batches)]
        return self._overlap.result(np.concatenate([np.zeros(0, np.uint64), *dropped]))


def _document_hashes(records):
    return fingerprints.document_keys(records, b"")[:, 0]


def _line_hashes(records):
    return fingerprints.entries_and_lines(records)[1]["hash"]


def _batches(paths):
    """Yields the records of shards, about 1 MB at a time."""
    import tensorflow as tf

    records, size = [], 0
    for record in tf.data.TFRecordDataset(list(paths)).as_numpy_iterator() if paths else ():
        records.append(record)
        size += len(record)
        if size > _BATCH_BYTES:
            yield records
            records, size = [], 0
    if records:
        yield records


def _sample(paths, num_corpora):
    """Yields the first held-out records of a corpus; they are a fair sample, because the records are shuffled."""
    size = 0
    for records in _batches(paths):
        for record in records:
            if size > SAMPLE_BYTES // num_corpora:
                return
            size += len(record)
            yield record


def in_threads(compare: Callable, batches: Iterable, progress: Callable[[int, int], None] | None = None) -> None:
    """Calls compare(batch) for each batch, in a few threads.

    Args:
        compare: function of a batch. If progress is given, it must return (number of documents, bytes).
        batches: iterable of batches; a few are in memory at the same time.
        progress: function of (documents, bytes) that were compared so far, or None.
    """
    workers = min(os.cpu_count() or 1, _MOST_THREADS)
    documents = size = 0
    with futures.ThreadPoolExecutor(workers) as pool:
        pending, batches = collections.deque(), iter(batches)
        while (batch := next(batches, None)) is not None or pending:
            if batch is not None:
                pending.append(pool.submit(compare, batch))
                if len(pending) <= workers + 1:
                    continue
            result = pending.popleft().result()
            if progress:
                documents, size = documents + result[0], size + result[1]
                progress(documents, size)
