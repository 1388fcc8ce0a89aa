"""Text files of several formats, read as a stream of documents, each a list of sentences.

Formats:
    sentences: Google's layout, one sentence a line and a blank line between documents; the
        sentences are taken as they are. The others are split into sentences (sentences.py).
    documents: one document a line.
    jsonl: one JSON object a line; the text of a named field, its lines being paragraphs.
    wikiextractor: <doc ... title="..."> lines </doc>, each line a paragraph. The first line is
        left out where it repeats the title; section headings cannot be told from short
        paragraphs and stay.
    auto: decided for each file from its name and its first DETECTION_BYTES. A name in .jsonl,
        .ndjson or .json (or these with .gz) or a first line that is a JSON object: jsonl; a first
        line that starts with "<doc ": wikiextractor; a blank line between two others: sentences;
        else documents.
"""

import collections
import html
import json
import re
from collections.abc import Iterator, Sequence
from concurrent import futures

from pipelines.errors import DataError
from pipelines.text_files import (  # expand_files and ReaderCounts are part of this interface
    ReaderCounts, expand_files, open_text, read_lines, readable)

FORMATS = ("auto", "sentences", "documents", "jsonl", "wikiextractor")
DETECTION_BYTES = 1 << 20
MAX_DOCUMENT_BYTES = 1 << 24  # also the longest JSON record
_BATCH_CHARACTERS = 1 << 18  # of text that is split into sentences at a time
_BATCHES_AHEAD = 2
_SURROGATES = re.compile("[\ud800-\udfff]")
_DOC_TITLE = re.compile(r'\btitle="(.*?)"\s*(?:>|\w+=)')

__all__ = ["FORMATS", "ReaderCounts", "expand_files", "read_documents"]


def read_documents(paths: Sequence[str], input_format: str = "auto", text_field: str = "text",
                   counts: ReaderCounts | None = None, strict: bool = False
                   ) -> Iterator[list[str]]:
    """The documents of files, in order, each a non-empty list of non-empty sentences.

    Memory is bounded: a line over 1 MB is taken in pieces, a document over MAX_DOCUMENT_BYTES
    handed out as several, a JSON record over MAX_DOCUMENT_BYTES left out; all are counted.

    Args:
        paths: files (see expand_files), plain or gzip.
        input_format: one of FORMATS.
        text_field: the field of a JSON object that holds its text.
        counts: updated in place while documents are taken.
        strict: refuse invalid UTF-8, instead of replacing and counting it.

    Raises:
        DataError: a file cannot be read or does not have the format; names the file and line.
    """
    if input_format not in FORMATS:
        raise DataError(f"input_format is {input_format!r}; expected one of {', '.join(FORMATS)}")
    counts = ReaderCounts() if counts is None else counts
    paths = [paths] if isinstance(paths, str) else paths
    return _read_documents(paths, input_format, text_field, counts, strict)


def _read_documents(paths, input_format, text_field, counts, strict):
    document, size = [], 0
    chunks = (chunk for path in paths
              for chunk in _chunks(path, input_format, text_field, counts, strict))
    for sentences, ends_document in _split_chunks(chunks):
        document += sentences
        size += sum(map(len, sentences))
        too_long = size > MAX_DOCUMENT_BYTES // 4  # a character has at most 4 bytes
        if document and (ends_document or too_long):
            counts.capped_documents += not ends_document
            counts.documents += 1
            counts.sentences += len(document)
            yield document
        if ends_document or too_long:
            document, size = [], 0


def _chunks(path, input_format, text_field, counts, strict):
    """Yield (paragraphs, whether to split them, whether the document ends), bounded in size."""
    with open_text(path) as stream:
        counts.files += 1
        head = b""
        if input_format == "auto":
            with readable(path):
                head = stream.read(DETECTION_BYTES)
            input_format = detect_format(path, head)
        limit = {"max_line_bytes": MAX_DOCUMENT_BYTES} if input_format == "jsonl" else {}
        lines = read_lines(stream, path, counts, strict=strict, head=head, **limit)
        split = input_format != "sentences"
        paragraphs, size = [], 0
        for paragraph in _PARSERS[input_format](lines, path, text_field, counts):
            if paragraph:
                paragraphs.append(paragraph)
                size += len(paragraph)
            if paragraph is None or size > _BATCH_CHARACTERS:
                yield paragraphs, split, paragraph is None
                paragraphs, size = [], 0
        yield paragraphs, split, True


def detect_format(path: str, head: bytes) -> str:
    """The format of a file, by its name and first bytes; the rules stand in the module docstring."""
    if path.lower().removesuffix(".gz").endswith((".jsonl", ".ndjson", ".json")):
        return "jsonl"
    head = head.removeprefix(b"\xef\xbb\xbf").lstrip()
    first_line, newline, _ = head.partition(b"\n")
    if first_line.startswith(b"<doc "):
        return "wikiextractor"
    if first_line.startswith(b"{"):
        try:
            json.loads(first_line)
            return "jsonl"
        except (ValueError, RecursionError):
            if not newline and len(head) > DETECTION_BYTES // 2:  # the record goes on beyond it
                return "jsonl"
    return "sentences" if re.search(rb"\S[ \t\r]*\n[ \t\r]*\n\s*\S", head) else "documents"


# Parsers: lines of a file -> stripped paragraphs, "" for nothing, None where a document ends.


def _parse_sentences(lines, path, text_field, counts):
    for _, text, _ in lines:
        yield text.strip() or None


def _parse_documents(lines, path, text_field, counts):
    for _, text, part in lines:
        if part <= 1:
            yield None
        yield text.strip()


def _parse_jsonl(lines, path, text_field, counts):
    for number, line, part in lines:
        counts.bad_records += part == 1
        if part or not line.strip():
            continue
        text = _json_text(line, f"{path}:{number}", text_field)
        if _SURROGATES.search(text):
            text = _SURROGATES.sub("\ufffd", text)
            counts.invalid_utf8_lines += 1
        for paragraph in text.split("\n"):
            yield paragraph.strip()
        yield None


def _json_text(line, place, text_field):
    try:
        record = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise DataError(f"{place}: not JSON ({error}); expected one JSON object a line") from error
    if not isinstance(record, dict):
        raise DataError(f"{place}: a JSON {type(record).__name__}; expected one JSON object a line")
    if text_field not in record:
        raise DataError(f"{place}: no field {text_field!r}; it has {', '.join(record) or 'none'}: "
                        "name the one that holds the text as text_field")
    if not isinstance(record[text_field], str):
        raise DataError(f"{place}: field {text_field!r} is a {type(record[text_field]).__name__}; "
                        "expected a string")
    return record[text_field]


def _parse_wikiextractor(lines, path, text_field, counts):
    inside, title = False, None
    for number, text, _ in lines:
        text = text.strip()
        if text.startswith("<doc "):
            match = _DOC_TITLE.search(text)
            inside, title = True, match and html.unescape(match[1]).strip()
            yield None
        elif text == "</doc>":
            inside = False
            yield None
        elif text and not inside:
            raise DataError(f"{path}:{number}: text outside <doc ...> and </doc>; expected "
                            "wikiextractor's output, or another input_format")
        elif text:
            yield "" if title is not None and html.unescape(text) == title else text
            title = None


_PARSERS = {"sentences": _parse_sentences, "documents": _parse_documents, "jsonl": _parse_jsonl,
            "wikiextractor": _parse_wikiextractor}


def _split_chunks(chunks):
    """Yield (sentences, whether the document ends) for each chunk, in order."""
    # TensorFlow's ops release the GIL, so splitting runs beside reading.
    with futures.ThreadPoolExecutor(1) as pool:
        pending = collections.deque()
        for batch in _batches(chunks):
            pending.append(pool.submit(_split_batch, batch))
            if len(pending) > _BATCHES_AHEAD:
                yield from _regroup(*pending.popleft().result())
        while pending:
            yield from _regroup(*pending.popleft().result())


def _batches(chunks):
    batch, size = [], 0
    for chunk in chunks:
        batch.append(chunk)
        size += 1 + sum(map(len, chunk[0]))
        if size > _BATCH_CHARACTERS:
            yield batch
            batch, size = [], 0
    yield batch


def _split_batch(batch):
    """Returns the batch, the sentences of all texts to split, and where those of each text start."""
    texts = [text for paragraphs, split, _ in batch if split for text in paragraphs]
    if not texts:
        return batch, [], [0]
    import tensorflow as tf

    from pipelines.sentences import split_sentences

    sentences = split_sentences(tf.constant([text.encode() for text in texts]))
    return batch, sentences.flat_values.numpy().tolist(), sentences.row_splits.numpy().tolist()


def _regroup(batch, sentences, starts):
    row = 0
    for paragraphs, split, ends_document in batch:
        if split:
            first, row = starts[row], row + len(paragraphs)
            stripped = [sentence.decode().strip() for sentence in sentences[first:starts[row]]]
            paragraphs = [sentence for sentence in stripped if sentence]
        yield paragraphs, ends_document
