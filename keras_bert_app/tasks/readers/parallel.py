"""Tasks whose answers are texts: parallel files with one text a line, and tables with two columns of texts."""

import dataclasses
import os

from keras_bert_app.errors import UserError
from keras_bert_app.tasks.families import text_to_text
from keras_bert_app.tasks.families.text_to_text import Example
from keras_bert_app.tasks.readers.tables import (
    NumberedRow,
    head_advice,
    label_of,
    lines_of,
    read_rows,
    shown_columns,
    text_of,
)
from keras_bert_app.tasks.task import TEXT_TO_TEXT, Examples, Task

_TABLES = (".tsv", ".csv", ".jsonl", ".json")
_NAMES = {"train": ("train",), "dev": ("val", "dev", "valid", "validation"), "test": ("test*",)}
_LEFT_OUT = "pairs with an empty text"


def _read_table(path, run, has_targets):
    """The examples of a table: the text in --text_columns, the answer in --label_column."""
    examples = Examples()
    if len(run.text_columns) > 1:
        raise UserError(
            f"--text_columns={','.join(run.text_columns)}: names {len(run.text_columns)} columns; expected the one "
            "column of the source texts; --label_column names the column of the answers"
        )
    for number, row in read_rows(path, has_header=run.header != "no"):
        if not run.text_columns:
            raise UserError(
                f"{path}:{number}: --text_columns is missing; the columns are {', '.join(shown_columns(row))}"
                f"{head_advice(row)}"
            )
        source = text_of(path, number, row, run.text_columns[0])
        target = None
        if has_targets:
            label_of(path, number, row, run.label_column)  # its message tells of --label_column
            target = text_of(path, number, row, run.label_column)
        _add(examples, source, target, f"{path}:{number}")
    return examples


def _read_lines(path, run, has_targets):
    """The examples of a file with one source text a line. Line N of the file of targets has the target of line N."""
    ending = f".{run.source}"
    base, compressed = (path.removesuffix(".gz"), ".gz") if path.endswith(".gz") else (path, "")
    if has_targets and not run.target:
        raise UserError(f"--target is missing; give the ending of the file of translations beside {path}, such as en")
    if has_targets and not run.source:
        raise UserError(f"--source is missing; give the ending of the file of texts, such as de for {path}")
    if has_targets and not base.endswith(ending):
        raise UserError(
            f"{path}: --source={run.source}: expected a file with the ending {ending}, beside one with the ending "
            f".{run.target}"
        )
    sources = [line for _, line in lines_of(path)]
    examples = Examples()
    targets = [None] * len(sources)
    if has_targets:
        target_path = _existing(f"{base.removesuffix(ending)}.{run.target}", compressed)
        targets = [line for _, line in lines_of(target_path)]
        if len(targets) != len(sources):
            raise UserError(
                f"{path} has {len(sources):,} lines, but {target_path} has {len(targets):,}; expected one line "
                "in each file for every pair"
            )
    for number, (source, target) in enumerate(zip(sources, targets, strict=True), 1):
        _add(examples, source, target, f"{path}:{number}")
    return examples


def _existing(path, compressed):
    """Finds a file of translations. It may be compressed even if the file of sources is not, and vice versa."""
    for candidate in (path + compressed, path, f"{path}.gz"):
        if os.path.exists(candidate):
            return candidate
    raise UserError(f"{path}: there is no such file; it must have the translations, one a line")


def _add(examples, source, target, place):
    """Adds an example. If it has a target and one of its texts is empty, only counts it as left out."""
    if target is not None and not (source.strip() and target.strip()):
        examples.left_out[_LEFT_OUT] = examples.left_out.get(_LEFT_OUT, 0) + 1
        return
    examples.append(Example(str(len(examples)), source, target, place))


def _is_table(path):
    return os.path.splitext(path.removesuffix(".gz"))[1].lower() in _TABLES


def _read(path, run, has_labels):
    return (_read_table if _is_table(path) else _read_lines)(path, run, has_labels)


def _settled(run, path):
    """The run with header "no" if the columns are given by number, and line 1 does not have these names."""
    columns = (*run.text_columns, run.label_column)
    if run.header != "auto" or not _is_table(path) or not all(name.isdecimal() for name in columns):
        return run
    _, row = next(read_rows(path, has_header=False), (0, None))
    is_example = isinstance(row, NumberedRow) and not {*columns} <= {*row.values()}
    return dataclasses.replace(run, header="no") if is_example else run


def _files(has_lines):
    return {
        split: tuple(
            file_name
            for name in names
            for file_name in (
                *((f"{name}.{{source}}", f"{name}.{{source}}.gz") if has_lines else ()),
                *(name + ending for ending in _TABLES),
            )
        )
        for split, names in _NAMES.items()
    }


_READS = ("text_columns", "label_column", "header")
# Without bias correction the first steps of a new decoder are several times too large.
_DEFAULTS = {"bias_correction": True, "learning_rate": 1e-3, "num_train_epochs": 10.0}
TASKS = (
    Task(
        name="translation",
        summary="translation of a text into another language; train.de and train.en, val.de and val.en, or tables",
        family=text_to_text,
        kind=TEXT_TO_TEXT,
        read=_read,
        files=_files(has_lines=True),
        metrics=("bleu", "bleu_lowercase", "chrf", "exact_match", "token_accuracy"),
        reads=(*_READS, "source", "target"),
        settle=_settled,
        defaults=_DEFAULTS,
    ),
    Task(
        name="rewrite",
        summary="a text for each text of a table, such as a summary, a correction or an answer",
        family=text_to_text,
        kind=TEXT_TO_TEXT,
        read=_read_table,
        files=_files(has_lines=False),
        metrics=("chrf", "bleu", "exact_match", "token_accuracy"),
        reads=_READS,
        settle=_settled,
        defaults=_DEFAULTS,
    ),
)
