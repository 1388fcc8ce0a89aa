"""Tasks over the user's tables: train, dev and test as .tsv, .csv or .jsonl, with named columns."""

import dataclasses
import json

from keras_bert_app.errors import UserError
from keras_bert_app.tasks.families import sequences
from keras_bert_app.tasks.families.sequences import CLASSIFICATION, MULTI_LABEL, REGRESSION, Example
from keras_bert_app.tasks.readers.tables import (
    FILES,
    NumberedRow,
    TableRow,
    head_advice,
    label_of,
    number_of,
    read_rows,
    shown_columns,
    text_of,
)
from keras_bert_app.tasks.task import Examples, Task

_YES, _NO = ("1", "1.0", "true"), ("0", "0.0", "false")
_READS = ("text_columns", "label_column", "header")
# The reader tries these in order if --text_columns is not given.
_TEXT_COLUMNS = (("text",), ("sentence",), ("text_a", "text_b"), ("sentence1", "sentence2"), ("text_a",), ("review",))


def _reader(kind):
    def read(path, run, has_labels):
        texts = labels = None
        examples = Examples()
        for number, row in read_rows(path, has_header=run.header != "no"):
            if texts is None:
                texts = [_column(row, name) for name in run.text_columns or _guessed(path, number, row)]
                labels = [_column(row, name) for name in _label_columns(run, kind)]
                examples.remarks += _remarks(row, run, kind)
            if len(texts) > 2:
                raise UserError(f"--text_columns={','.join(texts)}: names {len(texts)} columns; expected one or two")
            values = [text_of(path, number, row, name) for name in texts]
            label = None
            if has_labels and len(labels) > 1:
                label = _marked(path, number, row, labels)
            elif has_labels:
                label = _label(path, number, label_of(path, number, row, labels[0]), kind)
            guid = _on_one_line(str(row.get("id", row.get("index", len(examples)))))
            examples.append(Example(guid, values[0], values[1] if len(values) > 1 else None, label, f"{path}:{number}"))
        return examples

    return read


def _label_columns(run, kind):
    """The names of the columns of labels; only multi_label has several."""
    return run.label_column.split(",") if kind == MULTI_LABEL else [run.label_column]


def _column(row, name):
    """The name of a column from its name, or from its number in a table."""
    if name in row or not isinstance(row, TableRow) or not name.isdecimal() or int(name) >= len(row):
        return name
    return list(row)[int(name)]


def _remarks(row, run, kind):
    """A log line about line 1 of a table, if the columns are given by number."""
    if isinstance(row, NumberedRow):
        return ["line 1 was read as an example, and columns have numbers"]
    if isinstance(row, TableRow) and _are_numbers(run, kind):
        return [f"line 1 was read as the header ({', '.join(shown_columns(row))})"]
    return []


def _are_numbers(run, kind):
    """Whether all columns are given by number."""
    return bool(run.text_columns) and all(name.isdecimal() for name in (*run.text_columns, *_label_columns(run, kind)))


def _guessed(path, number, row):
    for names in _TEXT_COLUMNS:
        if all(name in row for name in names):
            return names
    raise UserError(
        f"{path}:{number}: --text_columns is missing; the columns are {', '.join(shown_columns(row))}{head_advice(row)}"
    )


def _settle(kind):
    def settled(run, path):
        """The run with the header and the text columns of the training file. The run expects both in every file."""
        run = dataclasses.replace(run, header=_header(path, run, kind))
        number, row = next(read_rows(path, has_header=run.header != "no"), (0, None))
        if run.text_columns or row is None:
            return run
        return dataclasses.replace(run, text_columns=tuple(_guessed(path, number, row)))

    return settled


def _header(path, run, kind):
    """Whether line 1 of the training file names the columns: yes or no; auto if the columns are given by name."""
    labels, are_numbers = _label_columns(run, kind), _are_numbers(run, kind)
    if run.header == "no" and not are_numbers:
        raise UserError(
            f"--header=no: the columns have numbers from 0, but --text_columns={','.join(run.text_columns)} "
            f"--label_column={run.label_column} are not numbers; give numbers, such as "
            "--text_columns=1,2 --label_column=0"
        )
    if run.header != "auto" or not are_numbers:
        return run.header
    rows = (row for _, row in read_rows(path, has_header=False))
    first = next(rows, None)
    if not isinstance(first, NumberedRow) or {*run.text_columns, *labels} <= set(first.values()):
        return "yes"
    return "no" if _is_example(first, rows, labels, kind) else "yes"


def _is_example(first, rows, labels, kind):
    """Whether the first row of a table has a label like those of the other rows."""
    cells = [first.get(name, "").strip() for name in labels]
    if len(cells) > 1:
        return all(cell.lower() in (*_YES, *_NO) for cell in cells)
    if kind == REGRESSION:
        return number_of(cells[0]) is not None
    if kind == CLASSIFICATION:
        return any(cells[0] == row.get(labels[0], "").strip() for row in rows)
    names = {name.strip() for name in cells[0].split(",")}
    return any(names & {name.strip() for name in row.get(labels[0], "").split(",")} for row in rows)


def _names(value):
    """The label names of a cell, in the format of sequences.write_predictions."""
    if not isinstance(value, str):
        return value
    try:
        names = json.loads(value) if value.lstrip().startswith("[") else None
    except (ValueError, RecursionError):
        names = None
    return names if isinstance(names, list) and all(isinstance(name, str) for name in names) else value.split(",")


def _label(path, number, value, kind):
    if kind == MULTI_LABEL:
        labels = _names(value)
        if not isinstance(labels, list) or not all(isinstance(label, str) for label in labels):
            raise UserError(
                f"{path}:{number}: labels {str(value)[:40]!r}; expected names joined by commas, or a list of them"
            )
        # Labels are sorted, so that equal sets are equal answers.
        return tuple(sorted({_on_one_line(label) for label in labels} - {""}))
    if kind == REGRESSION:
        if (label := number_of(value)) is None:
            raise UserError(f"{path}:{number}: label {str(value)[:40]!r}; expected a number")
        return label
    if isinstance(value, bool) or not isinstance(value, (str, int)) or not str(value).strip():
        raise UserError(f"{path}:{number}: label {str(value)[:40]!r}; expected a name or a whole number")
    return _on_one_line(str(value))


def _marked(path, number, row, names):
    """The names of the columns that hold a 1."""
    values = {name: str(label_of(path, number, row, name)).strip().lower() for name in names}
    for name, value in values.items():
        if value not in (*_YES, *_NO):
            raise UserError(
                f"{path}:{number}: column {name!r} has {value[:40]!r}; expected 0 or 1, because --label_column names "
                "several columns"
            )
    return tuple(sorted(_on_one_line(name) for name, value in values.items() if value in _YES))


def _on_one_line(text):
    """The text with single spaces, because predictions are lines of a table."""
    return " ".join(text.split())


TASKS = (
    Task(
        "classification",
        "a class for each text or pair, from a table",
        sequences,
        CLASSIFICATION,
        _reader(CLASSIFICATION),
        FILES,
        ("accuracy", "macro_f1", "top_3", "top_5"),
        reads=_READS,
        settle=_settle(CLASSIFICATION),
    ),
    Task(
        "regression",
        "a number for each text or pair, from a table",
        sequences,
        REGRESSION,
        _reader(REGRESSION),
        FILES,
        ("spearman", "pearson", "negative_rmse"),
        reads=_READS,
        settle=_settle(REGRESSION),
    ),
    Task(
        "multi_label",
        "a set of labels for each text, from a table",
        sequences,
        MULTI_LABEL,
        _reader(MULTI_LABEL),
        FILES,
        ("micro_f1", "macro_f1", "exact_match"),
        reads=_READS,
        settle=_settle(MULTI_LABEL),
    ),
)
