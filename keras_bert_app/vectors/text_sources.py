"""The texts of a file: its lines, or a field of its JSON lines.

Files are plain or gzip. The memory use is bounded.
"""

import itertools
from collections.abc import Iterable, Iterator

from keras_bert_app.errors import UserError, nearest
from pipelines.text.text_files import ReaderCounts, open_text
from pipelines.text.text_formats import MAX_RECORD_BYTES, json_text
from pipelines.text.text_lines import MAX_LINE_BYTES, read_lines

FORMATS = ("auto", "lines", "jsonl")
_JSON_NAMES = (".jsonl", ".ndjson", ".json")
# Bounds of the work for a text, in bytes: a long text loses its end, a short text still has [CLS] and [SEP].
_MOST_WORK, _LEAST_WORK = 2048, 8


def read_texts(
    path: str, input_format: str = "auto", text_field: str = "text", counts: ReaderCounts | None = None
) -> Iterator[bytes]:
    """Yields the texts of a file as valid UTF-8.

    An empty line counts as a text, except in JSON lines.

    Args:
        path: str. Any path that tf.io.gfile opens.
        input_format: str. One of FORMATS; "auto" depends on the name.
        text_field: str. The field of JSON lines that holds the text.
        counts: ReaderCounts. The function updates it while it reads. capped_lines counts the lines that lost all but
            their first MB.

    Raises:
        UserError, DataError: the file cannot be read, or a JSON line is no object with this field.
    """
    counts = ReaderCounts() if counts is None else counts
    is_json = format_of(path, input_format) == "jsonl"
    if text_field != "text" and not is_json:
        raise UserError(
            f"--text_field={text_field}: {path} has a text in each line and no fields; leave it out, or give "
            "--input_format=jsonl"
        )
    with open_text(path) as stream:
        for number, line, part in read_lines(stream, path, counts, MAX_RECORD_BYTES if is_json else MAX_LINE_BYTES):
            if not is_json:
                if part <= 1:
                    yield line
            elif part or line.strip():  # an empty line is not a record
                place = f"{path}:{number}"
                if part:
                    raise UserError(f"{place}: a record of more than {MAX_RECORD_BYTES >> 20} MB; split its text")
                yield json_text(line, place, text_field, counts)


def remarks(counts: ReaderCounts, truncated: int) -> Iterator[str]:
    """Yields lines about the parts of texts that were not read.

    Args:
        counts: ReaderCounts. The counts of the reader.
        truncated: int. The number of texts that were too long for the model.
    """
    for number, remark in (
        (truncated, "texts had more tokens than the model reads; their ends were left out"),
        (counts.invalid_utf8_lines, "lines hold invalid UTF-8; those bytes were left out"),
        (counts.capped_lines, "lines are longer than 1 MB; the rest of them was left out"),
    ):
        if number:
            yield f"{number:,} {remark}"


def format_of(path: str, input_format: str) -> str:
    """Resolves the format of a file.

    Args:
        path: str. The file; its name decides if the format is "auto".
        input_format: str. One of FORMATS.

    Returns:
        str: "lines" or "jsonl".

    Raises:
        UserError: the format is unknown.
    """
    if input_format not in FORMATS:
        raise UserError(f"--input_format={input_format} is not known: {nearest(input_format, FORMATS)}")
    if input_format != "auto":
        return input_format
    return "jsonl" if path.lower().removesuffix(".gz").endswith(_JSON_NAMES) else "lines"


def texts_at(texts: Iterable[bytes], rows: Iterable[int]) -> dict[int, bytes]:
    """Finds the texts of some rows. It reads no further than the last of these rows.

    Args:
        texts: iterable of bytes. All texts.
        rows: iterable of int. The rows, counted from 0.

    Returns:
        dict from row to text.
    """
    wanted = set(map(int, rows))
    last = max(wanted, default=-1)
    return {row: text for row, text in enumerate(itertools.islice(texts, last + 1)) if row in wanted}


def count_work(texts: Iterable[bytes]) -> tuple[int, int]:
    """Counts texts and their work.

    Args:
        texts: iterable of bytes. All texts.

    Returns:
        (number of texts, sum of work_of over the texts).
    """
    count = work = 0
    for text in texts:
        count, work = count + 1, work + work_of(text)
    return count, work


def work_of(text: bytes) -> int:
    """Estimates the work to make the vector of a text.

    Args:
        text: bytes. The text.

    Returns:
        int. It has no unit; compare it with the work of other texts.
    """
    return min(len(text), _MOST_WORK) + _LEAST_WORK
