"""Rows of labelled tables: TSV, CSV and JSON lines, with the file and line of each fault."""

import csv
import itertools
import json
import os
import sys

from keras_bert_app.errors import UserError, nearest


def read_rows(path, columns=None, ragged=None):
    """Yields (line number, dict column -> str or JSON value) of a table; its form follows from the file's ending.

    An empty line is no row, but in a table of one column it is an empty text.

    Args:
        path: .tsv or .txt (tabs, no quoting, as GLUE has them), .csv (quoted as spreadsheets do), .jsonl or .json (one
            object a line); a .txt that begins with a brace holds JSON lines too, as SciBERT's do.
        columns: names of the columns of a file without header; a first line with one of these names in it is a header
            all the same. By default the first line is the header.
        ragged: a list that takes the line numbers of rows with more or fewer fields than columns, which are then left
            out.

    Raises:
        UserError: not UTF-8, a row with more or fewer fields than columns, a line that is no JSON object: file:line and
            why.
    """
    kind = os.path.splitext(path)[1].lower()
    if kind == ".csv":
        yield from _with_columns(path, _csv_rows(path), columns, ragged)
        return
    lines = lines_of(path)
    first = next(lines, (1, ""))
    lines = itertools.chain([first], lines)
    if kind in (".jsonl", ".json") or kind == ".txt" and first[1].lstrip().startswith("{"):
        yield from _json_rows(path, lines)
    else:
        yield from _with_columns(path, ((number, line.split("\t")) for number, line in lines), columns, ragged)


def lines_of(path):
    """Yields (line number, line without its end) of UTF-8 text; only \\n ends a line, a \\r before it is dropped.

    Raises:
        UserError: a line that is not UTF-8.
    """
    with open(path, "rb") as file:
        for number, line in enumerate(file, 1):
            try:
                text = line.decode("utf-8-sig" if number == 1 else "utf-8")
            except UnicodeDecodeError as error:
                raise UserError(
                    f"{path}:{number}: is not UTF-8 (byte {error.start} of the line); convert the file"
                ) from None
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


def label_of(path, number, row, name):
    """The value of a row's column with the answer.

    Raises:
        UserError: there is no such column.
    """
    if name not in row:
        raise UserError(
            f"{path}:{number}: has no column {name!r} with the answers (columns: {', '.join(map(str, row))}); "
            "tasks over tables take another by --label_column; a file without answers is one for predict"
        )
    return row[name]


def _with_columns(path, rows, columns, ragged):
    is_first = True
    for number, fields in rows:
        if is_first:
            is_first = False
            if columns is None or set(columns) & set(fields):
                columns = fields
                twice = [name for name in columns if columns.count(name) > 1]
                if twice:
                    raise UserError(f"{path}:{number}: two columns are named {twice[0]!r}; name each column once")
                continue
        if fields == [""] and len(columns) > 1:
            continue
        if len(fields) == len(columns):
            yield number, dict(zip(columns, fields))
        elif ragged is None:
            raise UserError(
                f"{path}:{number}: has {len(fields)} fields; expected {len(columns)} ({', '.join(columns)})"
            )
        else:
            ragged.append(number)


def _csv_rows(path):
    # By default the module refuses fields above 131,072 characters; a document may be longer.
    csv.field_size_limit(sys.maxsize)
    reader = csv.reader((line + "\n" for _, line in lines_of(path)), strict=True)
    while True:
        number = reader.line_num + 1  # a row ends where its quotes do, maybe lines later
        try:
            fields = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            raise UserError(
                f"{path}:{number}: is no CSV ({error}); quote fields that hold quotes or commas, and double "
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
            raise UserError(f"{path}:{number}: is no JSON ({error}); expected one object a line") from None
        if not isinstance(row, dict):
            raise UserError(f"{path}:{number}: is a JSON {type(row).__name__}; expected one object a line")
        yield number, without_surrogates(row) if "\\ud" in line.lower() else row


def without_surrogates(value):
    """A JSON value with ? for each half of a surrogate pair, which JSON's escapes can hold and UTF-8 cannot."""
    return json.loads(json.dumps(value, ensure_ascii=False).encode("utf-8", "replace"))
