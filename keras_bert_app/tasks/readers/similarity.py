"""The task of sentence vectors: tables whose columns say what is learned."""

import dataclasses
import os

from keras_bert_app.config.finetuning_config import FinetuningConfig
from keras_bert_app.errors import UserError
from keras_bert_app.tasks.families import text_vectors
from keras_bert_app.tasks.families.text_vectors import METRICS, Example
from keras_bert_app.tasks.families.vector_checks import check_judged
from keras_bert_app.tasks.readers.tables import (
    FILES,
    guessed_columns,
    label_of,
    number_of,
    read_rows,
    shown_columns,
    text_of,
    texts_in,
)
from keras_bert_app.tasks.task import SIMILARITY, Examples, Task
from keras_bert_app.tasks.vector_objective import CONTRASTIVE, COSENT, COSINE, DISTILL, SIMCSE, TRIPLET, TSDAE

# The reader tries these in order if --text_columns is not given. Columns "negative*" follow those of the first rows.
_COLUMNS = (
    ("anchor", "positive"),
    ("query", "document"),
    ("query", "positive"),
    ("question", "answer"),
    ("text_a", "text_b"),
    ("sentence1", "sentence2"),
    ("text",),
    ("sentence",),
)
_LABEL, _SCORES = "label", ("score", "similarity")  # names of the column of labels; the first one is the default
# Kind of a table -> (the losses for it, the metric of dev, what its columns are)
_PAIRS, _SCORED, _LABELLED, _TEXTS = "pairs", "scored", "labelled", "texts"
_KINDS = {
    _PAIRS: ((CONTRASTIVE, DISTILL), "mrr", "an anchor, its positive, and perhaps negatives"),
    _SCORED: ((COSENT, COSINE), "spearman", "two texts and a score"),
    _LABELLED: ((TRIPLET,), "nearest_label", "a text and a label"),
    _TEXTS: ((SIMCSE, TSDAE, DISTILL), None, "one text"),
}
_LEFT_OUT = "rows with an empty text"


def _columns(path, number, row, run):
    """(names of the columns of texts, name of the column of labels or None) of a table, by its first row."""
    names = list(run.text_columns) or guessed_columns(path, number, row, _COLUMNS)
    wanted = [run.label_column] if run.label_column != _LABEL else [_LABEL, *_SCORES]
    label = next((name for name in wanted if name in row and name not in names), None)
    if run.label_column != _LABEL and (label is None or len(names) > 2):
        raise UserError(
            f"{path}:{number}: --label_column={run.label_column}: expected another one of the columns "
            f"{', '.join(shown_columns(row))}, beside one or two columns of texts; correct it, or leave it out"
        )
    return names, label if len(names) < 3 else None


def _kind(names, label):
    if len(names) == 1:
        return _LABELLED if label else _TEXTS
    return _SCORED if label else _PAIRS


def _read(path, run, has_labels):
    examples, names = Examples(), None
    for place, (number, row) in enumerate(read_rows(path, has_header=run.header != "no")):
        if names is None:
            names, label = _columns(path, number, row, run)
            kind = _kind(names, label)
        texts = [text_of(path, number, row, name) for name in names[:2]]
        if has_labels and not all(text.strip() for text in texts):
            examples.left_out[_LEFT_OUT] = examples.left_out.get(_LEFT_OUT, 0) + 1
            continue
        negatives = _negatives(path, number, row, names, run) if kind == _PAIRS else ()
        value = None
        if has_labels and label:
            value = label_of(path, number, row, label)
            value = _score(path, number, value) if kind == _SCORED else _name(path, number, value)
        guid = " ".join(str(row.get("id", row.get("index", place))).split())
        examples.append(Example(guid, (*texts, *negatives), value, f"{path}:{number}"))
    return examples


def _negatives(path, number, row, names, run):
    """The negatives of a row that are not empty."""
    columns = names[2:] if run.text_columns else sorted(name for name in row if name.startswith("negative"))
    return texts_in(path, number, row, columns)


def _score(path, number, value):
    if (score := number_of(value)) is None:
        raise UserError(
            f"{path}:{number}: score {str(value)[:40]!r}; expected a number; --label_column names the column of scores"
        )
    return score


def _name(path, number, value):
    if isinstance(value, bool) or not isinstance(value, (str, int)) or not str(value).strip():
        raise UserError(f"{path}:{number}: label {str(value)[:40]!r}; expected a name or a whole number")
    return " ".join(str(value).split())


def _judged(split, examples, run):
    """The examples of a split. Those that are scored must have what the score of the run needs."""
    if split != "train":
        check_judged(examples, run)
    return examples


def _kind_of_file(path, run):
    number, row = next(read_rows(path, has_header=run.header != "no"), (0, None))
    return _kind(*_columns(path, number, row, run)) if row is not None else None


def _negative_column(path, run):
    """The name of the first column of negatives in the first row of a table, or None."""
    number, row = next(read_rows(path, has_header=run.header != "no"))
    names, _ = _columns(path, number, row, run)
    listed = [name for name in row if name.startswith("negative") and not run.text_columns]
    return next(iter([*names[2:], *listed]), None)


def _settled(run, path):
    """The run with the loss for the training file's columns, and the metric for those of dev."""
    kind = _kind_of_file(path, run)
    if kind is None:
        return run
    losses, _, columns = _KINDS[kind]
    loss = run.vector_loss
    if loss == "auto":
        loss = DISTILL if run.teacher else losses[0]
    if run.teacher and (loss != DISTILL or DISTILL not in losses):
        raise UserError(
            f"--teacher={run.teacher}: needs --vector_loss=distill and texts, or texts and their translations, but "
            f"{path} has {columns} in each row and --vector_loss is {run.vector_loss}; leave out --teacher, or give "
            "another file"
        )
    if loss == DISTILL and not run.teacher:
        raise UserError("--vector_loss=distill: there is no --teacher to learn from; give a run or a model")
    if loss not in losses:
        raise UserError(
            f"--vector_loss={loss}: {path} has {columns} in each row; give {' or '.join(losses)}, or leave it out"
        )
    if loss == DISTILL and kind == _PAIRS and (column := _negative_column(path, run)):
        raise UserError(
            f"{path}: column {column!r} has negatives, which a teacher does not use; name the texts and their "
            "translations with --text_columns"
        )
    metric = run.similarity_metric
    if metric == "auto":
        dev = TASKS[0].path(run.data_dir, "dev", dev_fraction=run.dev_fraction)
        metric = _KINDS[_kind_of_file(dev, run) or kind][1]
        if metric is None:
            raise UserError(
                f"{dev}: has texts alone, which no score can judge; give a dev file with two texts and a score, an "
                "anchor and its positive, or a text and a label"
            )
    run = dataclasses.replace(run, vector_loss=loss, similarity_metric=metric)
    run.check_read(
        ("vector_temperature", "symmetric_loss", "triplet_margin", "vector_sizes", "mine_negatives", "deletion_ratio")
    )
    return run


def read_pairs(path: str, run: FinetuningConfig) -> Examples:
    """Reads the pairs of a table: each row has an anchor, its positive, and perhaps negatives.

    Args:
        path: str. A table of --task=similarity.
        run: FinetuningConfig. Its text_columns and header say how the table is read.

    Raises:
        UserError: the file is missing or faulty, has no row, or its rows are no pairs.
    """
    if not os.path.isfile(path):
        raise UserError(f"{path}: there is no such file; give a table of pairs (.tsv, .csv or .jsonl)")
    kind = _kind_of_file(path, run)
    if kind not in (_PAIRS, None):
        raise UserError(
            f"{path}: has {_KINDS[kind][2]} in each row; expected {_KINDS[_PAIRS][2]}, such as the columns anchor and "
            "positive"
        )
    return TASKS[0].read_file(path, run)


def _metrics_of(run):
    return METRICS.get(run.similarity_metric, METRICS["spearman"])


TASKS = (
    Task(
        name="similarity",
        summary="vectors of texts, from a table: an anchor and its positive (and negatives), two texts and a score, a "
        "text and a label, or texts alone",
        family=text_vectors,
        kind=SIMILARITY,
        read=_read,
        files=FILES,
        metrics=METRICS["spearman"],
        part=_judged,
        reads=("text_columns", "label_column", "header"),
        settle=_settled,
        metrics_of=_metrics_of,
        defaults={"pooling": "mean", "bias_correction": True, "max_seq_length": 128},
    ),
)
