"""Rows of labelled tables: TSV, CSV and JSON lines. Every error message has file and line."""

import csv
import gzip
import itertools
import json
import os
import sys
import zlib
from collections.abc import Iterator, Sequence
from typing import Any

from keras_bert_app.errors import UserError, nearest

_ENDINGS = (".tsv", ".csv", ".jsonl", ".json", ".txt")
# The files of tasks over the user's tables.
FILES = {
    split: tuple(name + ending for name in names for ending in _ENDINGS)
    for split, names in {"train": ("train",), "dev": ("dev", "valid", "validation"), "test": ("test",)}.items()
}
_LARGEST_NUMBER = 3.4028234663852886e38  # of float32
_SHOWN_COLUMNS, _SHOWN_CHARACTERS = 8, 30
_LINE_1 = "; line 1 was read as the header; if it is an example, "
_HEAD_ADVICE = (
    f"{_LINE_1}give --task=classification, regression or multi_label with columns by number from 0, such as "
    "--text_columns=1,2 --label_column=0"
)


class TableRow(dict):
    """A row of a table, column -> text.

    Attributes:
        has_header: bool. Whether line 1 of the file names the columns.
    """

    has_header = True


class NumberedRow(TableRow):
    """A row of a table without header. Its columns are "0", "1" and so on."""

    has_header = False


def read_rows(
    path: str, columns: Sequence[str] | None = None, ragged: list[int] | None = None, has_header: bool = True
) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yields (line number, dict column -> str or JSON value) of a table.

    The ending of the path decides the format. The function skips empty lines. In a table with one column, however,
    an empty line is an empty text. Line 1 is the first line that is not blank. A file without such a line has no rows.

    Args:
        path: str. .tsv or .txt: tabs without quoting, as in GLUE. .csv: quoted as spreadsheets do, or tabs without
            quoting if line 1 has tabs and no comma, as in STS-B's own files. .jsonl or .json: one object a line. A
            .txt file that begins with a brace also holds JSON lines, as SciBERT's files do.
        columns: Names of the columns of a file without header. If the first line has one of these names, the line is
            a header nevertheless. By default the first line is the header.
        ragged: list. Rows with more or fewer fields than columns are skipped, and their line numbers are added to
            this list. None: such a row is an error.
        has_header: bool. False: line 1 of a table is a row, and the rows are NumberedRow. They may have different
            numbers of fields.

    Raises:
        UserError: the file is not UTF-8, a row has more or fewer fields than columns, or a line is not a JSON object.
            The message has file:line.
    """
    kind = os.path.splitext(path.removesuffix(".gz"))[1].lower()
    lines = lines_of(path)
    start, first = [], ""
    for number, line in lines:
        start.append((number, line))
        if line.strip() or "\t" in line:
            first = line
            break
    lines = itertools.chain(start, lines)
    if kind == ".csv" and ("," in first or "\t" not in first):
        yield from _with_columns(path, _csv_rows(path), columns, ragged, has_header)
    elif kind in (".jsonl", ".json") or kind == ".txt" and first.lstrip().startswith("{"):
        yield from _json_rows(path, lines)
    else:
        rows = ((number, line.split("\t")) for number, line in lines)
        yield from _with_columns(path, rows, columns, ragged, has_header)


def lines_of(path: str) -> Iterator[tuple[int, str]]:
    """Yields (line number, line without its end) of UTF-8 text.

    Only \\n ends a line; a \\r before it is dropped.

    Raises:
        UserError: a line is not UTF-8.
    """
    with _opened(path) as file:
        for number, line in enumerate(_lines(path, file), 1):
            try:
                text = line.decode("utf-8-sig" if number == 1 else "utf-8")
            except UnicodeDecodeError as error:
                raise UserError(
                    f"{path}:{number}: is not UTF-8 (byte {error.start} of the line); convert the file"
                ) from None
            yield number, text.rstrip("\n").removesuffix("\r")


def _opened(path):
    return gzip.open(path) if path.endswith(".gz") else open(path, "rb")


def _lines(path, file):
    try:
        yield from file
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise UserError(f"{path}: is not whole gzip ({error}); copy the file again") from None


def column_of(path: str, number: int, row: dict[str, Any], name: str) -> Any:
    """The value in a column of a row.

    Args:
        path: str. The file, for the error message.
        number: int. The line, for the error message.
        row: dict column -> value.
        name: str. The column.

    Raises:
        UserError: the column is missing; the message has the nearest name.
    """
    if name not in row:
        hint = nearest(name, shown_columns(row))
        advice = "" if hint.startswith("did you mean") else head_advice(row)
        raise UserError(f"{path}:{number}: has no column {name!r}: {hint}{advice}")
    return row[name]


def shown_columns(row: dict[str, Any]) -> list[str]:
    """The names of a row's columns, shortened, because line 1 may be an example with long texts."""
    names = [f"{name[:_SHOWN_CHARACTERS]}…" if len(name) > _SHOWN_CHARACTERS else name for name in map(str, row)]
    return [*names[:_SHOWN_COLUMNS], "…"] if len(names) > _SHOWN_COLUMNS else names


def guessed_columns(path: str, number: int, row: dict[str, Any], known: Sequence[Sequence[str]]) -> list[str]:
    """The columns of texts, if --text_columns does not name them.

    Args:
        path: str. The file, for the error message.
        number: int. The line, for the error message.
        row: dict column -> value. The first row.
        known: the names to look for; the first ones that the row has are taken.

    Raises:
        UserError: the row has none of them.
    """
    found = next((names for names in known if all(name in row for name in names)), None)
    if found is None:
        raise UserError(
            f"{path}:{number}: --text_columns is missing; the columns are {', '.join(shown_columns(row))} (if line 1 "
            "is a row, give --header=no, and columns by number from 0)"
        )
    return list(found)


def head_advice(row: dict[str, Any]) -> str:
    """The end of an error message about a missing column; "" if line 1 was not read as the header."""
    return _HEAD_ADVICE if getattr(row, "has_header", False) else ""


def advice_of_trained_run(message: str, text_columns: Sequence[str]) -> str:
    """Adapts an error message about a file to a trained run, whose task and columns no flag can change.

    Args:
        message: str. The message, perhaps with the advice of head_advice.
        text_columns: The run's columns of texts; () for a task with columns of its own.

    Returns:
        str: the message. Advice to add a header line to the file replaces the advice of head_advice.
    """
    names = "" if any(name.isdecimal() for name in text_columns) else ", ".join(text_columns)
    advice = "put a header line with the columns of the training file above it"
    return message.replace(_HEAD_ADVICE, f"{_LINE_1}{advice}{f' ({names})' if names else ''}")


def text_of(path: str, number: int, row: dict[str, Any], name: str) -> str:
    """The text in a column of a row, which may be empty.

    Args:
        path: str. The file, for the error message.
        number: int. The line, for the error message.
        row: dict column -> value.
        name: str. The column.

    Raises:
        UserError: the column is missing or holds no text.
    """
    value = column_of(path, number, row, name)
    if not isinstance(value, str):
        raise UserError(f"{path}:{number}: column {name!r} is {str(value)[:40]!r}; expected text")
    return value


def texts_in(path: str, number: int, row: dict[str, Any], names: Sequence[str]) -> list[str]:
    """The texts in columns of a row, without empty ones.

    In JSON lines, a column may be null, absent, or a list of texts.

    Args:
        path: str. The file, for the error message.
        number: int. The line, for the error message.
        row: dict column -> value.
        names: The columns.

    Raises:
        UserError: a column holds something else than text.
    """
    found = []
    for name in names:
        values = row.get(name)
        for value in values if isinstance(values, list) else [values]:
            if not isinstance(value, str | None):
                raise UserError(f"{path}:{number}: column {name!r} has {str(value)[:40]!r}; expected text")
            found += [value] if value and value.strip() else []
    return found


def number_of(value: Any) -> float | None:
    """A finite number of float32, or None if the value is none."""
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return number if abs(number) <= _LARGEST_NUMBER else None


def label_of(path: str, number: int, row: dict[str, Any], name: str) -> Any:
    """The value in the column of a row that holds the answer.

    Args:
        path: str. The file, for the error message.
        number: int. The line, for the error message.
        row: dict column -> value.
        name: str. The column.

    Raises:
        UserError: the column is missing.
    """
    if name not in row:
        raise UserError(
            f"{path}:{number}: has no column {name!r} with the answers (columns: {', '.join(shown_columns(row))}); "
            "tasks over tables take another column by --label_column; predict reads files without answers"
            f"{head_advice(row)}"
        )
    return row[name]


def _with_columns(path, rows, columns, ragged, has_header):
    blank = []
    for number, fields in rows:
        if len(fields) > 1 or fields[0].strip():
            break
        blank.append((number, fields))
    else:
        return
    # A table of one column without header may begin with empty texts.
    num_columns = len(columns) if columns and has_header else len(fields)
    examples = itertools.chain(blank if num_columns == 1 else [], [(number, fields)], rows)
    if not has_header:
        yield from _numbered(examples, num_columns)
        return
    is_named = columns is None or bool(set(columns) & set(fields))
    if is_named:
        columns = fields
        if twice := [name for name in columns if columns.count(name) > 1]:
            raise UserError(
                f"{path}:{number}: two columns are named {twice[0][:40]!r}; name each column once{_HEAD_ADVICE}"
            )
    for number, fields in rows if is_named else examples:
        if fields == [""] and len(columns) > 1:
            continue
        if len(fields) == len(columns):
            row = zip(columns, fields, strict=True)
            yield number, TableRow(row) if is_named else dict(row)
        elif ragged is None:
            raise UserError(
                f"{path}:{number}: has {len(fields)} fields; expected {len(columns)} ({', '.join(columns)})"
            )
        else:
            ragged.append(number)


def _numbered(rows, num_columns):
    for number, fields in rows:
        if fields != [""] or num_columns == 1:
            yield number, NumberedRow((str(column), field) for column, field in enumerate(fields))


def _csv_rows(path):
    # The csv module refuses fields above 131,072 characters by default, and a document may be longer.
    csv.field_size_limit(sys.maxsize)
    reader = csv.reader((line + "\n" for _, line in lines_of(path)), strict=True)
    while True:
        number = reader.line_num + 1  # a quoted field may span lines
        try:
            fields = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            raise UserError(
                f"{path}:{number}: is not CSV ({error}); quote fields that hold quotes or commas, and double "
                "the quotes in them"
            ) from None
        yield number, fields or [""]


def _json_rows(path, lines):
    for number, line in lines:
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise UserError(f"{path}:{number}: is not JSON ({error}); expected one object a line") from None
        if not isinstance(row, dict):
            raise UserError(f"{path}:{number}: is a JSON {type(row).__name__}; expected one object a line")
        yield number, without_surrogates(row) if "\\ud" in line.lower() else row


def without_surrogates(value: Any) -> Any:
    """A JSON value with ? for each half of a surrogate pair, which UTF-8 cannot hold."""
    return json.loads(json.dumps(value, ensure_ascii=False).encode("utf-8", "replace"))
