"""Tasks over tables of the user: train, dev and test as .tsv, .csv or .jsonl, with named columns."""

import dataclasses
import json
import math

from keras_bert_app.errors import UserError
from keras_bert_app.tasks.families import sequences
from keras_bert_app.tasks.families.sequences import CLASSIFICATION, MULTI_LABEL, REGRESSION, Example
from keras_bert_app.tasks.readers.tables import label_of, read_rows, text_of
from keras_bert_app.tasks.task import Task

_ENDINGS = (".tsv", ".csv", ".jsonl", ".json", ".txt")
_FILES = {
    split: tuple(name + ending for name in names for ending in _ENDINGS)
    for split, names in {"train": ("train",), "dev": ("dev", "valid", "validation"), "test": ("test",)}.items()
}
_YES, _NO = ("1", "1.0", "true"), ("0", "0.0", "false")
_READS = ("text_columns", "label_column")
# The reader tries these in order if --text_columns is not given.
_TEXT_COLUMNS = (("text",), ("sentence",), ("text_a", "text_b"), ("sentence1", "sentence2"), ("text_a",), ("review",))


def _reader(kind):
    def read(path, run, has_labels):
        names, examples = run.text_columns, []
        for number, row in read_rows(path):
            names = names or _guessed(path, number, row)
            if len(names) > 2:
                raise UserError(f"--text_columns={','.join(names)}: names {len(names)} columns; expected one or two")
            texts = [text_of(path, number, row, name) for name in names]
            label = None
            if has_labels and kind == MULTI_LABEL and "," in run.label_column:
                label = _marked(path, number, row, run.label_column.split(","))
            elif has_labels:
                label = _label(path, number, label_of(path, number, row, run.label_column), kind)
            guid = _on_one_line(str(row.get("id", row.get("index", len(examples)))))
            examples.append(Example(guid, texts[0], texts[1] if len(texts) > 1 else None, label, f"{path}:{number}"))
        return examples

    return read


def _guessed(path, number, row):
    for names in _TEXT_COLUMNS:
        if all(name in row for name in names):
            return names
    raise UserError(f"{path}:{number}: --text_columns is missing; the columns are {', '.join(map(str, row))}")


def _settled(run, path):
    """The run with the text columns of the training file, so that it reads the same columns of every file."""
    number, row = next(read_rows(path), (0, None))
    return (
        run if run.text_columns or row is None else dataclasses.replace(run, text_columns=_guessed(path, number, row))
    )


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
        # Sorted, so that the same set of labels is always the same answer.
        return tuple(sorted({_on_one_line(label) for label in labels} - {""}))
    if kind == REGRESSION:
        try:
            if math.isfinite(label := float(value)):
                return label
        except (TypeError, ValueError, OverflowError):
            pass
        raise UserError(f"{path}:{number}: label {str(value)[:40]!r}; expected a number")
    if isinstance(value, bool) or not isinstance(value, (str, int)) or not str(value).strip():
        raise UserError(f"{path}:{number}: label {str(value)[:40]!r}; expected a name or a whole number")
    return _on_one_line(str(value))


def _marked(path, number, row, names):
    """The names of the columns that hold a 1."""
    values = {name: str(label_of(path, number, row, name)).strip().lower() for name in names}
    for name, value in values.items():
        if value not in (*_YES, *_NO):
            raise UserError(
                f"{path}:{number}: column {name!r} has {value[:40]!r}; expected 0 or 1, since --label_column names "
                "several"
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
        _FILES,
        ("accuracy", "macro_f1", "top_3", "top_5"),
        reads=_READS,
        settle=_settled,
    ),
    Task(
        "regression",
        "a number for each text or pair, from a table",
        sequences,
        REGRESSION,
        _reader(REGRESSION),
        _FILES,
        ("spearman", "pearson", "negative_rmse"),
        reads=_READS,
        settle=_settled,
    ),
    Task(
        "multi_label",
        "a set of labels for each text, from a table",
        sequences,
        MULTI_LABEL,
        _reader(MULTI_LABEL),
        _FILES,
        ("micro_f1", "macro_f1", "exact_match"),
        reads=_READS,
        settle=_settled,
    ),
)
