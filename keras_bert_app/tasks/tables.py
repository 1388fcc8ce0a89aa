"""Rows of labelled tables: TSV, CSV and JSON lines, with the file and line of each fault."""

import csv
import json
import os

from keras_bert_app.config import nearest
from keras_bert_app.errors import UserError


def read_rows(path, columns=None):
    """Yields (line number, dict column -> str or JSON value) of a table; its form follows from the file's ending.

    Args:
        path: .tsv or .txt (tabs, no quoting, as GLUE has them), .csv (quoted as spreadsheets do), .jsonl or .json (one
            object a line). columns: names of the columns of a file without header; by default its first line names them.

    Raises:
        UserError: not UTF-8, a row with more or fewer fields than columns, a line that is no JSON object: file:line and why.
    """
    kind = os.path.splitext(path)[1].lower()
    if kind in (".jsonl", ".json"):
        yield from _json_lines(path)
    elif kind == ".csv":
        yield from _with_columns(path, _csv_lines(path), columns)
    else:
        yield from _with_columns(path, ((number, line.split("\t")) for number, line in lines_of(path)), columns)


def lines_of(path):
    """Yields (line number, line without its end) of a UTF-8 text file; only \\n ends a line, a \\r before it is dropped.

    Raises:
        UserError: a line that is not UTF-8.
    """
    with open(path, "rb") as file:
        for number, line in enumerate(file, 1):
            try:
                text = line.decode("utf-8-sig" if number == 1 else "utf-8")
            except UnicodeDecodeError as error:
                raise UserError(f"{path}:{number}: is not UTF-8 (byte {error.start} of the line); convert the file") from None
            yield number, text.rstrip("\n").removesuffix("\r")


def column_of(path, number, row, name):
    """The value of a row's column.

    Raises:
        UserError: there is no such column; the nearest is named.
    """
    if name not in row:
        raise UserError(f"{path}:{number}: has no column {name!r}: {nearest(name, [str(key) for key in row])}")
    return row[name]


def text_of(path, number, row, name):
    """The text in a row's column; it may be empty.

    Raises:
        UserError: there is no such column, or no text in it.
    """
    value = column_of(path, number, row, name)
    if not isinstance(value, str):
        raise UserError(f"{path}:{number}: column {name!r} is {str(value)[:40]!r}; expected text")
    return value


def _with_columns(path, rows, columns):
    for number, fields in rows:
        if columns is None:
            columns = fields
            if len(set(columns)) < len(columns):
                raise UserError(f"{path}:{number}: a column's name stands there twice; name each once")
            continue
        if fields == [""]:
            continue
        if len(fields) != len(columns):
            raise UserError(f"{path}:{number}: has {len(fields)} fields; expected {len(columns)} ({', '.join(columns)})")
        yield number, dict(zip(columns, fields))


def _csv_lines(path):
    reader = csv.reader((line + "\n" for _, line in lines_of(path)), strict=True)
    while True:
        try:
            fields = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            raise UserError(f"{path}:{reader.line_num}: is no CSV ({error}); quote fields that hold quotes or commas") from None
        yield reader.line_num, fields or [""]


def _json_lines(path):
    for number, line in lines_of(path):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except ValueError as error:
            raise UserError(f"{path}:{number}: is no JSON ({error}); expected one object a line") from None
        if not isinstance(row, dict):
            raise UserError(f"{path}:{number}: is a JSON {type(row).__name__}; expected one object a line")
        yield number, row
