"""The texts of a file, one a row: its lines, or a field of its JSON lines; plain or gzip, in bounded memory."""

import itertools

from keras_bert_app.errors import UserError, nearest
from pipelines.text.text_files import ReaderCounts, open_text
from pipelines.text.text_formats import MAX_RECORD_BYTES, json_text
from pipelines.text.text_lines import MAX_LINE_BYTES, read_lines

FORMATS = ("auto", "lines", "jsonl")
_JSON_NAMES = (".jsonl", ".ndjson", ".json")
# What a text costs, in bytes of it: a long one loses its end, a short one has [CLS] and [SEP] still.
_MOST_WORK, _LEAST_WORK = 2048, 8


def read_texts(path, input_format="auto", text_field="text", counts=None):
    """Yields the texts of a file as valid UTF-8; an empty line is a text too.

    Args:
        path: anything tf.io.gfile opens. input_format: of FORMATS; "auto" goes by the name. text_field: of JSON lines.
        counts: ReaderCounts, updated while texts are taken; of capped_lines only the first MB was taken.

    Raises:
        UserError, DataError: the file cannot be read, or a line of it is no JSON object with that field.
    """
    counts = ReaderCounts() if counts is None else counts
    is_json = format_of(path, input_format) == "jsonl"
    with open_text(path) as stream:
        for number, line, part in read_lines(stream, path, counts, MAX_RECORD_BYTES if is_json else MAX_LINE_BYTES):
            if not is_json:
                if part <= 1:
                    yield line
            elif part or line.strip():  # an empty line is no record
                place = f"{path}:{number}"
                if part:
                    raise UserError(f"{place}: a record of more than {MAX_RECORD_BYTES >> 20} MB; cut its text before")
                yield json_text(line, place, text_field, counts)


def remarks(counts, truncated):
    """Yields lines that say what of texts was not read. Args: counts: ReaderCounts. truncated: texts that lost their ends to the model."""
    for number, what in (
        (truncated, "texts had more tokens than the model reads; their ends were left out"),
        (counts.invalid_utf8_lines, "lines hold invalid UTF-8; those bytes were left out"),
        (counts.capped_lines, "lines are longer than 1 MB; the rest of them was left out"),
    ):
        if number:
            yield f"{number:,} {what}"


def format_of(path, input_format):
    """ "lines" or "jsonl".

    Raises:
        UserError: there is no such format.
    """
    if input_format not in FORMATS:
        raise UserError(f"--input_format={input_format} is not known: {nearest(input_format, FORMATS)}")
    if input_format != "auto":
        return input_format
    return "jsonl" if path.lower().removesuffix(".gz").endswith(_JSON_NAMES) else "lines"


def texts_at(texts, rows):
    """dict row -> text of some rows, counted from 0; the texts are read no further than the last of them."""
    wanted = set(map(int, rows))
    last = max(wanted, default=-1)
    return {row: text for row, text in enumerate(itertools.islice(texts, last + 1)) if row in wanted}


def count_work(texts):
    """(number of texts, what they cost together as work_of counts it)."""
    count = work = 0
    for text in texts:
        count, work = count + 1, work + work_of(text)
    return count, work


def work_of(text):
    """What the vector of a text costs, in no unit."""
    return min(len(text), _MOST_WORK) + _LEAST_WORK
