"""Text files of several formats (text_formats.py) as a stream of documents, each a list of sentences."""

import collections
from collections.abc import Callable, Iterator, Sequence
from concurrent import futures
from typing import NamedTuple

from pipelines.channels import Channel
from pipelines.choices import FORMATS
from pipelines.data_error import DataError
from pipelines.text.text_files import ReaderCounts, expand_files, open_text
from pipelines.text.text_formats import Detection, open_paragraphs

MAX_DOCUMENT_BYTES = 1 << 22
_BATCH_BYTES = 1 << 20  # the amount of text that is split into sentences at a time
_BATCHES_AHEAD = 2

__all__ = ["FORMATS", "ReaderCounts", "expand_files", "read_documents"]


class Batch(NamedTuple):
    """Documents before they are split into sentences.

    Attributes:
        texts: list of bytes. Paragraphs or sentences in UTF-8, stripped, not empty, without newlines.
        ends: list of int. For each document the index in `texts` after its last text.
        split: bool. Whether the texts are paragraphs that must be split into sentences.
        origins: dict from the number of a document to the text (bytes) of the first document of the same source. This
            text decides whether all documents of the source are held out. A source of one document needs no entry.
    """

    texts: list[bytes]
    ends: list[int]
    split: bool
    origins: dict[int, bytes]


class BatchBuilder:
    """Collects the texts of documents until they are a batch.

    A source is a text that gives one document or several, such as an article that is longer than MAX_DOCUMENT_BYTES.

    Attributes:
        size: the bytes of all collected texts.
    """

    def __init__(self):
        self._origin = b""
        self._clear()

    def _clear(self):
        self._texts, self._ends, self._origins, self.size = [], [], {}, 0

    def add(self, text: bytes) -> None:
        """Adds a text to the document in progress.

        Args:
            text: bytes in UTF-8, stripped, not empty, without newlines.
        """
        self._texts.append(text)
        self.size += len(text)

    def end_document(self, ends_source: bool = True) -> None:
        """Ends the document in progress, if it has texts.

        Args:
            ends_source: whether the next document belongs to another source.
        """
        start = self._ends[-1] if self._ends else 0
        if len(self._texts) > start:
            if not (self._origin or ends_source):
                self._origin = b"".join(self._texts[start:])
            if self._origin:
                self._origins[len(self._ends)] = self._origin
            self._ends.append(len(self._texts))
        if ends_source:
            self._origin = b""

    def take(self, split: bool) -> Iterator[Batch]:
        """Yields the collected documents as a batch, if there are any, and starts an empty batch.

        Args:
            split: whether the texts of the batch are paragraphs that must be split into sentences.

        Yields:
            Batch.
        """
        if self._texts:
            batch = Batch(self._texts, self._ends, split, self._origins)
            self._clear()
            yield batch


def read_documents(
    paths: Sequence[str],
    input_format: str = "auto",
    text_field: str = "text",
    counts: ReaderCounts | None = None,
    strict: bool = False,
    report: Callable[[str, Detection], None] | None = None,
) -> Iterator[list[str]]:
    """Reads the documents of files, in order, each a non-empty list of non-empty sentences.

    Memory is bounded. A line over 1 MB is cut into pieces, and a document over MAX_DOCUMENT_BYTES becomes several
    documents. A JSON record over 16 MB is left out. `counts` counts all these cases.

    Args:
        paths: files (see expand_files), plain or gzip.
        input_format: one of FORMATS.
        text_field: the field of a JSON object that holds its text.
        counts: ReaderCounts that are updated while documents are taken, or None.
        strict: whether to refuse invalid UTF-8; otherwise it is replaced and counted.
        report: function of (path, Detection), called for each format that was detected, or None.

    Returns:
        Iterator of documents, each a list of str.

    Raises:
        DataError: a file cannot be read or does not have the format; the message names the file and line.
    """
    check_format(input_format)
    counts = ReaderCounts() if counts is None else counts
    paths = [paths] if isinstance(paths, str) else paths
    return _read_documents(read_batches(paths, input_format, text_field, counts, strict, report), counts)


def check_format(input_format: str) -> None:
    """Checks the name of a format.

    Args:
        input_format: str.

    Raises:
        DataError: the format is not in FORMATS.
    """
    if input_format not in FORMATS:
        raise DataError(f"input_format is {input_format!r}; expected one of {', '.join(FORMATS)}")


def _read_documents(batches, counts):
    # TensorFlow's operations release Python's global lock, so reading continues while a thread splits sentences.
    with futures.ThreadPoolExecutor(1) as pool:
        pending = collections.deque()
        for batch in batches:
            pending.append(pool.submit(split_batch, batch))
            if len(pending) > _BATCHES_AHEAD:
                yield from _counted(pending.popleft().result(), counts)
        while pending:
            yield from _counted(pending.popleft().result(), counts)


def _counted(records, counts):
    for record in records:
        document = record.decode().split("\n")
        counts.documents += 1
        counts.sentences += len(document)
        yield document


def split_batch(batch: Batch) -> list[bytes]:
    r"""Splits a batch into sentences.

    Args:
        batch: Batch.

    Returns:
        list of bytes. One record for each document: its non-empty sentences joined by "\n".
    """
    texts, ends, split, _ = batch
    if split:
        import tensorflow as tf

        from pipelines.text.sentences import join_sentences_by_newline

        texts = join_sentences_by_newline(tf.constant(texts, tf.string)).numpy().tolist()
    return [b"\n".join(texts[start:end]) for start, end in zip([0, *ends], ends, strict=False)]


def read_batches(
    paths: Sequence[str],
    input_format: str,
    text_field: str,
    counts: ReaderCounts,
    strict: bool,
    report: Callable[[str, Detection], None] | None = None,
    channels: Sequence[Channel] = (),
) -> Iterator[Batch]:
    """Reads the documents of files in order, about 1 MB at a time.

    Args:
        paths: as in read_documents.
        input_format: as in read_documents.
        text_field: as in read_documents.
        counts: ReaderCounts. All counts are updated except documents and sentences, which are not known yet.
        strict: as in read_documents.
        report: as in read_documents.
        channels: the channels of the format "symbols"; see pipelines.channels.

    Yields:
        Batch.
    """
    builder, split = BatchBuilder(), False
    for path in paths:
        with open_text(path) as stream:
            counts.files += 1
            file_splits, paragraphs = open_paragraphs(
                stream, path, input_format, text_field, counts, strict, report, channels
            )
            if file_splits != split:
                yield from builder.take(split)
            split, start = file_splits, builder.size
            for paragraph in paragraphs:
                if paragraph:
                    builder.add(paragraph)
                    if builder.size - start <= MAX_DOCUMENT_BYTES:
                        continue
                    counts.capped_documents += 1
                if paragraph != b"":  # the document ends here, or is too long
                    builder.end_document(ends_source=paragraph is None)
                    if builder.size > _BATCH_BYTES:
                        yield from builder.take(split)
                    start = builder.size
            builder.end_document()
            if builder.size > _BATCH_BYTES:
                yield from builder.take(split)
    yield from builder.take(split)
