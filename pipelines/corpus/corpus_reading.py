"""The first and longest step of prepare_corpus: it reads text files into sorted runs on disk.

One thread parses. Several threads split sentences, hash and count; they run side by side, because the operations of
TensorFlow and numpy release Python's global lock. Results are taken in the order of the text, so they do not depend on
the number of threads. An interrupted run resumes after the last task that it finished.
"""

import collections
import dataclasses
import glob
import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent import futures

import numpy as np

from pipelines.channels import Channel
from pipelines.choices import SYMBOL_FORMATS
from pipelines.corpus import fingerprints, near_duplicates
from pipelines.corpus.corpus_tasks import SPLITS, Task, TaskWriter, finished
from pipelines.corpus.spool import Part, Run
from pipelines.text import readers, segmentation, text_formats
from pipelines.text.text_files import ReaderCounts
from pipelines.wordpiece.word_counting import count_symbols

_BATCH_BYTES = 1 << 18  # the size of a batch of documents that do not come from files
_REPORT_SECONDS = 0.5
Progress = Callable[[int, int], None]
Runs = dict[str, list[Run]]


@dataclasses.dataclass
class Reader:
    """The settings for reading, splitting and hashing; the fields are arguments of prepare_corpus."""

    input_format: str
    text_field: str
    strict: bool
    holdout_fraction: float
    seed: int
    dedup: str
    workers: int | None
    segmenter: str = "none"
    channels: Sequence[Channel] = ()

    @property
    def num_threads(self) -> int:
        """The value of workers, or one for each core."""
        return self.workers or os.cpu_count() or 1

    def digest(self, task: int, first_number: int, batch: readers.Batch) -> tuple[dict[str, Part], int, int]:
        """Splits a batch into sentences, and computes the keys and counts of its documents.

        Args:
            task: int. The number of the task that the batch belongs to.
            first_number: int. The number of documents of the task before this batch. With dedup="none" it gives equal
                documents different keys.
            batch: readers.Batch.

        Returns:
            ({split: Part}, number of documents, number of sentences).
        """
        records = segmentation.segment(readers.split_batch(batch), self.segmenter)
        keys = fingerprints.document_keys(records, str(self.seed).encode())
        if self.dedup == "none":  # otherwise equal documents would be neighbours in the corpus
            keys = fingerprints.numbered_keys(keys, (task.to_bytes(8, "big"), first_number))
        if batch.origins:
            origins = fingerprints.document_keys(list(batch.origins.values()), str(self.seed).encode())
            keys[list(batch.origins), 2] = origins[:, 2]
        entries, lines = fingerprints.entries_and_lines(records)
        if self.input_format in SYMBOL_FORMATS:
            entries["words"] = list(map(count_symbols, records))
        entries["key"], entries["key_rest"] = keys[:, 0], keys[:, 1]
        signatures = near_duplicates.signatures(records) if self.dedup == "near" else None
        is_heldout = keys[:, 2] < np.uint64(int(self.holdout_fraction * 2**64))
        parts = {}
        for split, mask in zip(SPLITS, (~is_heldout, is_heldout), strict=True):
            chosen = np.flatnonzero(mask)
            rows = np.repeat(mask, entries["sentences"])
            parts[split] = Part(
                [records[index] for index in chosen.tolist()],
                entries[chosen],
                lines[rows],
                None if signatures is None else signatures[chosen],
            )
        return parts, len(records), int(entries["sentences"].sum())


def document_batches(sources: Iterable[Iterable[Sequence[str]]], counts: ReaderCounts) -> Iterator[readers.Batch]:
    """Groups documents that do not come from files into batches, without empty sentences and documents.

    Args:
        sources: iterable of sources, each an iterable of documents, each a sequence of sentences (str).
        counts: ReaderCounts. The bytes of the text are added to it.

    Yields:
        readers.Batch.
    """
    builder = readers.BatchBuilder()
    for source in sources:
        for document in source:
            for sentence in document:
                if stripped := sentence.replace("\n", " ").strip():
                    builder.add(_encode(stripped))
            builder.end_document(ends_source=False)
            if builder.size > _BATCH_BYTES:
                counts.bytes += builder.size
                yield from builder.take(False)
        builder.end_document()
    counts.bytes += builder.size
    yield from builder.take(False)


def _encode(text):
    """Encodes as UTF-8; surrogates, which UTF-8 cannot hold, become U+FFFD."""
    try:
        return text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace").encode()


def read_tasks(
    tasks: list[Task], directory: str, reader: Reader, progress: Progress | None, log: Callable[[str], None]
) -> tuple[Runs, ReaderCounts]:
    """Reads the tasks that an earlier run did not finish.

    Args:
        tasks: list of Task, as corpus_tasks.file_tasks makes them.
        directory: str. The local directory for the runs.
        reader: Reader.
        progress: function of (documents, bytes) read so far, or None.
        log: function of one line for the user.

    Returns:
        ({split: list of Run}, ReaderCounts of all tasks).
    """
    done = {}
    for task in tasks:
        if (task_result := finished(task, directory)) is not None:
            done[task.number] = task_result
    if done:
        log(
            f"continues an earlier run: {sum(len(task.files) for task in tasks if task.number in done):,} of "
            f"{sum(len(task.files) for task in tasks):,} files were already read"
        )
    for path in glob.glob(os.path.join(glob.escape(directory), "*")):
        if int(os.path.basename(path).split("-")[0].split(".")[0]) not in done:
            os.remove(path)
    total = ReaderCounts()
    for _, counts in done.values():
        _add(total, counts)

    report = text_formats.format_reporter(log)

    def batches():
        for task in tasks:
            if task.number not in done:
                counts = ReaderCounts()
                for batch in readers.read_batches(
                    task.files, reader.input_format, reader.text_field, counts, reader.strict, report, reader.channels
                ):
                    yield task, counts, batch
                yield task, counts, None

    done.update(_read(batches(), directory, reader, total, progress))
    runs = {split: [run for number in sorted(done) for run in done[number][0][split]] for split in SPLITS}
    return runs, total


def read_sources_as_task(
    sources: Iterable[Iterable[Sequence[str]]], directory: str, reader: Reader, progress: Progress | None
) -> tuple[Runs, ReaderCounts]:
    """Reads documents that can be iterated only once, as one task.

    Args:
        sources: as in document_batches.
        directory: str. The local directory for the runs.
        reader: Reader.
        progress: function of (documents, bytes) read so far, or None.

    Returns:
        ({split: list of Run}, ReaderCounts).
    """
    total, counts = ReaderCounts(), ReaderCounts()
    task = Task(0, [], [])

    def batches():
        for batch in document_batches(sources, counts):
            yield task, counts, batch
        yield task, counts, None

    return dict(_read(batches(), directory, reader, total, progress))[0][0], total


def _read(batches, directory, reader, total, progress):
    """Writes the runs of each task, and adds all counts to `total` at the end.

    Yields (number, ({split: runs}, counts)) of each task when the task is done.
    """
    writer, last = None, time.monotonic()
    done_counts = ReaderCounts(**dataclasses.asdict(total))
    for task, counts, result in _digested(batches, reader):
        writer = writer or TaskWriter(task, directory)
        if result is not None:
            parts, documents, sentences = result
            counts.documents += documents
            counts.sentences += sentences
            writer.add(parts)
        else:
            yield task.number, (writer.finish(counts), counts)
            writer = None
            _add(done_counts, counts)
        if progress and time.monotonic() - last >= _REPORT_SECONDS:
            last = time.monotonic()
            progress(
                done_counts.documents + (counts.documents if writer else 0),
                done_counts.bytes + (counts.bytes if writer else 0),
            )
    for field in dataclasses.fields(total):
        setattr(total, field.name, getattr(done_counts, field.name))
    if progress:
        progress(total.documents, total.bytes)


def _digested(batches, reader):
    """Calls Reader.digest on batches in threads, a few batches ahead of the caller.

    Yields (task, counts, result of Reader.digest or None) in order.
    """
    pending = collections.deque()
    with futures.ThreadPoolExecutor(reader.num_threads) as pool:
        number = 0
        for task, counts, batch in batches:
            future = batch and pool.submit(reader.digest, task.number, number, batch)
            number = number + len(batch.ends) if batch else 0
            pending.append((task, counts, future))
            if len(pending) > reader.num_threads + 1:
                task, counts, future = pending.popleft()
                yield task, counts, future and future.result()
        for task, counts, future in pending:
            yield task, counts, future and future.result()


def _add(total, counts):
    for field in dataclasses.fields(total):
        setattr(total, field.name, getattr(total, field.name) + getattr(counts, field.name))
