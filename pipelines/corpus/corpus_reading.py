"""Text files to sorted runs on disk: the first and longest step of prepare_corpus, in parallel and resumable.

One thread parses, several split sentences, hash and count: TensorFlow's and numpy's operations run side by side, as
they release Python's lock. Results are taken in the order of the text, whatever the number of threads.
"""

import collections
import dataclasses
import glob
import os
import time
from concurrent import futures

import numpy as np

from pipelines.corpus import fingerprints, near_duplicates
from pipelines.corpus.corpus_tasks import SPLITS, Task, TaskWriter, finished
from pipelines.corpus.spool import Part
from pipelines.text import readers
from pipelines.text.text_files import ReaderCounts

_BATCH_BYTES = 1 << 18  # of documents that do not come from files
_REPORT_SECONDS = 0.5


@dataclasses.dataclass
class Reader:
    """How text is read and keyed; arguments as in prepare_corpus."""

    input_format: str
    text_field: str
    strict: bool
    holdout_fraction: float
    seed: int
    dedup: str
    workers: int

    def digest(self, task, first_number, batch):
        """A batch of documents as {split: Part}; its size in documents, sentences."""
        records = readers.split_batch(batch)
        keys = fingerprints.document_keys(records, str(self.seed).encode())
        if self.dedup == "none":  # else equal documents would lie side by side
            keys = fingerprints.numbered_keys(keys, (task.to_bytes(8, "big"), first_number))
        entries, lines = fingerprints.entries_and_lines(records)
        entries["key"], entries["key_rest"] = keys[:, 0], keys[:, 1]
        signatures = near_duplicates.signatures(records) if self.dedup == "near" else None
        held = keys[:, 2] < np.uint64(int(self.holdout_fraction * 2**64))
        parts = {}
        for split, mask in zip(SPLITS, (~held, held)):
            chosen = np.flatnonzero(mask)
            rows = np.repeat(mask, entries["sentences"])
            parts[split] = Part(
                [records[index] for index in chosen.tolist()],
                entries[chosen],
                lines[rows],
                None if signatures is None else signatures[chosen],
            )
        return parts, len(records), int(entries["sentences"].sum())


def document_batches(documents, counts):
    """Documents (sequences of str sentences) as Batches of what can be a corpus."""
    texts, ends, size = [], [], 0
    for document in documents:
        sentences = [_encode(stripped) for sentence in document if (stripped := sentence.replace("\n", " ").strip())]
        if not sentences:
            continue
        texts += sentences
        ends.append(len(texts))
        size += sum(map(len, sentences))
        if size > _BATCH_BYTES:
            counts.bytes += size
            yield readers.Batch(texts, ends, False)
            texts, ends, size = [], [], 0
    if texts:
        counts.bytes += size
        yield readers.Batch(texts, ends, False)


def _encode(text):
    """UTF-8, with U+FFFD for surrogates, which a Python string may hold but UTF-8 may not."""
    try:
        return text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace").encode()


def read_tasks(tasks, directory, reader, progress, log):
    """Read what has not been read yet.

    Args:
        tasks: of file_tasks, or pairs (Task, Batches, counts) of other text. directory: for the runs.

    Returns:
        ({split: runs}, ReaderCounts of all).
    """
    done = {}
    for task in tasks:
        if (found := finished(task, directory)) is not None:
            done[task.number] = found
    if done:
        log(
            f"goes on from an earlier run: {sum(len(task.files) for task in tasks if task.number in done):,} of "
            f"{sum(len(task.files) for task in tasks):,} files were read"
        )
    for path in glob.glob(os.path.join(glob.escape(directory), "*")):
        if int(os.path.basename(path).split("-")[0].split(".")[0]) not in done:
            os.remove(path)
    total = ReaderCounts()
    for _, counts in done.values():
        _add(total, counts)

    def batches():
        for task in tasks:
            if task.number not in done:
                counts = ReaderCounts()
                for batch in readers.read_batches(
                    task.files, reader.input_format, reader.text_field, counts, reader.strict
                ):
                    yield task, counts, batch
                yield task, counts, None

    done.update(_read(batches(), directory, reader, total, progress))
    runs = {split: [run for number in sorted(done) for run in done[number][0][split]] for split in SPLITS}
    return runs, total


def read_documents_as_task(documents, directory, reader, progress):
    """As read_tasks, for documents that can be taken only once."""
    total, counts = ReaderCounts(), ReaderCounts()
    task = Task(0, [], [])

    def batches():
        for batch in document_batches(documents, counts):
            yield task, counts, batch
        yield task, counts, None

    return dict(_read(batches(), directory, reader, total, progress))[0][0], total


def _read(batches, directory, reader, total, progress):
    """Yield (number, ({split: runs}, counts)) of each task when it is done; adds to total what is read."""
    writer, last = None, time.monotonic()
    started = ReaderCounts(**dataclasses.asdict(total))
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
            _add(started, counts)
        if progress and time.monotonic() - last >= _REPORT_SECONDS:
            last = time.monotonic()
            progress(
                started.documents + (counts.documents if writer else 0), started.bytes + (counts.bytes if writer else 0)
            )
    for field in dataclasses.fields(total):
        setattr(total, field.name, getattr(started, field.name))
    if progress:
        progress(total.documents, total.bytes)


def _digested(batches, reader):
    """Yield (task, counts, result of Reader.digest or None) in order; some batches are worked on ahead."""
    pending = collections.deque()
    with futures.ThreadPoolExecutor(reader.workers) as pool:
        number = 0
        for task, counts, batch in batches:
            future = batch and pool.submit(reader.digest, task.number, number, batch)
            number = number + len(batch.ends) if batch else 0
            pending.append((task, counts, future))
            if len(pending) > reader.workers + 1:
                task, counts, future = pending.popleft()
                yield task, counts, future and future.result()
        for task, counts, future in pending:
            yield task, counts, future and future.result()


def _add(total, counts):
    for field in dataclasses.fields(total):
        setattr(total, field.name, getattr(total, field.name) + getattr(counts, field.name))
