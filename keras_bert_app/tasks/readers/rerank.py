"""The task of reranking: tables of queries with documents that answer them or do not."""

import dataclasses
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from keras_bert_app.config.finetuning_config import FinetuningConfig
from keras_bert_app.errors import UserError
from keras_bert_app.tasks import sampling
from keras_bert_app.tasks.families import ranking_scores, reranking
from keras_bert_app.tasks.families.reranking import Example
from keras_bert_app.tasks.ranking_objective import BINARY, GRADED, LISTWISE
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
from keras_bert_app.tasks.task import RERANK, Examples, Task

# The reader tries these in order if --text_columns is not given. Columns "negative*" follow.
_COLUMNS = (
    ("query", "document"),
    ("query", "positive"),
    ("query", "passage"),
    ("question", "answer"),
    ("anchor", "positive"),
    ("text_a", "text_b"),
    ("sentence1", "sentence2"),
)
_LABEL, _GRADES = "label", ("grade", "score", "relevance")  # names of the column of labels; the first is the default
_EMPTY, _REPEATED = "rows with an empty text", "documents that repeat another one of their query"
_UNLEARNABLE = "queries without a relevant document, or with only relevant ones,"
_LAYOUTS = "give a column label (0 or 1, or grades) beside query and document, or columns query, positive and negative"


class _Columns(NamedTuple):
    """The columns of a table.

    Attributes:
        texts: query and document.
        negatives: columns of documents that do not answer the query; None for all columns "negative*" of each row.
        label: the column of grades, or None.
    """

    texts: tuple[str, str]
    negatives: tuple[str, ...] | None
    label: str | None


class _Document(NamedTuple):
    text: str
    grade: float | None
    name: str
    place: str


def _columns(path, number, row, run, has_labels=True) -> _Columns:
    """The columns of a table, by its first row."""
    names = list(run.text_columns) or guessed_columns(path, number, row, _COLUMNS)
    if len(names) < 2:
        raise UserError(f"--text_columns={','.join(names)}: names one column; expected a query and a document")
    is_named = run.label_column != _LABEL
    negatives = tuple(names[2:]) if run.text_columns else None
    has_negatives = bool(negatives) or negatives is None and bool(_negatives(row))
    wanted = [run.label_column] if is_named else [] if has_negatives else [_LABEL, *_GRADES]
    label = next((name for name in wanted if name in row and name not in names), None)
    if is_named and has_labels and label is None:
        raise UserError(
            f"{path}:{number}: --label_column={run.label_column}: expected another one of the columns "
            f"{', '.join(shown_columns(row))}; correct it, or leave it out"
        )
    return _Columns(tuple(names[:2]), negatives, label)


def _negatives(row):
    """The columns of a row with documents that do not answer its query, if --text_columns does not name them."""
    return tuple(sorted(name for name in row if name.startswith("negative")))


def _rows(path, run, has_labels) -> Iterator[tuple[str, list[_Document]]]:
    """Yields (query, documents) of each row of a file."""
    columns, has_others, first = None, False, ""
    for place, (number, row) in enumerate(read_rows(path, has_header=run.header != "no")):
        if columns is None:
            columns, first = _columns(path, number, row, run, has_labels), f"{path}:{number}"
        query, text = (text_of(path, number, row, name) for name in columns.texts)
        name = " ".join(str(row.get("id", row.get("index", place))).split())
        grade = None
        if has_labels:
            grade = _grade(path, number, label_of(path, number, row, columns.label)) if columns.label else 1.0
        documents = [_Document(text, grade, name, f"{path}:{number}")]
        negatives = _negatives(row) if columns.negatives is None else columns.negatives
        for other in texts_in(path, number, row, negatives):
            has_others = True
            documents.append(_Document(other, 0.0 if has_labels else None, name, f"{path}:{number}"))
        yield query, documents
    if has_labels and first and not columns.label and not has_others:
        raise UserError(
            f"{first}: has no labels and no documents that do not answer their query; {_LAYOUTS}; for vectors of such "
            "pairs, give --task=similarity"
        )


def _grade(path, number, value):
    if (grade := number_of(value)) is None:
        raise UserError(
            f"{path}:{number}: label {str(value)[:40]!r}; expected 0, 1 or another number; --label_column names the "
            "column of labels"
        )
    return grade


def _read(path: str, run: FinetuningConfig, has_labels: bool) -> Examples:
    """The queries of a file, each with its documents. If they have labels, equal documents of a query are one."""
    examples, by_query = Examples(), {}
    for query, documents in _rows(path, run, has_labels):
        if has_labels and not (query.strip() and documents[0].text.strip()):
            _leave_out(examples, _EMPTY)
            continue
        by_query.setdefault(query, []).extend(documents)
    for query, documents in by_query.items():
        if has_labels:
            different = _different(documents)
            _leave_out(examples, _REPEATED, len(documents) - len(different))
            documents = different
        example = _example(query, documents, has_labels)
        if has_labels and run.ranking_loss == LISTWISE and not ranking_scores.has_score(example.labels):
            _leave_out(examples, _UNLEARNABLE)
        else:
            examples.append(example)
    if by_query and not examples:
        raise UserError(
            f"{path}: no query has a relevant document (label above 0) and another one, which "
            f"--ranking_loss={LISTWISE} needs; {_LAYOUTS}"
        )
    return examples


def _leave_out(examples, what, count=1):
    if count:
        examples.left_out[what] = examples.left_out.get(what, 0) + count


def _different(documents: Iterable[_Document]) -> list[_Document]:
    """The documents of a query without repeated texts. A text has its highest grade."""
    found = {}
    for document in documents:
        key = sampling.content(document.text)
        if key not in found:
            found[key] = document
        elif document.grade > found[key].grade:
            found[key] = found[key]._replace(grade=document.grade)
    return list(found.values())


def _example(query, documents: Sequence[_Document], has_labels: bool, in_training: bool = False) -> Example:
    return Example(
        documents[0].name,
        query,
        tuple(document.text for document in documents),
        tuple(document.grade for document in documents) if has_labels else None,
        tuple(document.name for document in documents),
        tuple(document.place for document in documents),
        in_training,
    )


def _part(split: str, examples: Sequence[Example], run: FinetuningConfig) -> list[Example]:
    """The examples of a split: pairs or lists to train on, or whole queries to score.

    Raises:
        UserError: no query of a split that is scored can have a score.
    """
    if split == "train":
        numbers_of = _lists if run.ranking_loss == LISTWISE else _pairs
        return [
            _part_of(example, numbers) for example in examples for numbers in numbers_of(example.labels, run.list_size)
        ]
    labelled = [example for example in examples if example.labels is not None]
    if labelled:
        ranking_scores.check(labelled, labelled[0].place.rpartition(":")[0], _LAYOUTS)
    return examples


def _part_of(example, numbers):
    """An example to train on: the documents of some numbers."""
    columns = {
        name: tuple(getattr(example, name)[number] for number in numbers)
        for name in ("documents", "labels", "names", "places")
    }
    return dataclasses.replace(example, **columns, in_training=True)


def _pairs(labels, list_size):
    return [[number] for number in range(len(labels))]


def _lists(labels: Sequence[float], list_size: int) -> list[list[int]]:
    """Lists of at most list_size numbers of documents, each with better ones and others.

    Every document is in a list. The others are not relevant, or have the lowest grade of a query whose documents are
    all relevant. The better ones take half of a list at most. The others are dealt out to the lists like cards,
    because their order in the file may be that of a search.
    """
    numbers = range(len(labels))
    if len(labels) <= list_size:
        return [list(numbers)]
    gains = ranking_scores.gains(labels)
    better = [number for number in numbers if gains[number] > gains.min()]
    others = [number for number in numbers if gains[number] == gains.min()]
    num_better = min(len(better), max(1, list_size // 2))
    groups = [better[start : start + num_better] for start in range(0, len(better), num_better)]
    num_others = list_size - num_better
    num_hands = -(-len(others) // num_others)
    hands = [others[start::num_hands] for start in range(num_hands)]
    count = max(len(groups), len(hands))
    return [[*groups[number % len(groups)], *hands[number % len(hands)]] for number in range(count)]


def _settled(run: FinetuningConfig, path: str) -> FinetuningConfig:
    """The run with the loss for the training file: its columns, and the values of its labels."""
    number, row = next(read_rows(path, has_header=run.header != "no"), (0, None))
    if row is not None and run.ranking_loss == "auto":
        if _columns(path, number, row, run).label is None:
            loss = LISTWISE
        else:
            grades = {document.grade for _, documents in _rows(path, run, True) for document in documents}
            loss = BINARY if grades <= {0.0, 1.0} else GRADED
        run = dataclasses.replace(run, ranking_loss=loss)
    run.check_read(("list_size",))
    return run


def _metrics_of(run):
    return (run.ranking_metric, *(name for name in ranking_scores.METRICS if name != run.ranking_metric))


TASKS = (
    Task(
        name="rerank",
        summary="which documents answer a query, from a table: a query, a document and a label, or a query, a document "
        "that answers it and negatives",
        family=reranking,
        kind=RERANK,
        read=_read,
        files=FILES,
        metrics=tuple(ranking_scores.METRICS),
        part=_part,
        reads=("text_columns", "label_column", "header"),
        settle=_settled,
        metrics_of=_metrics_of,
        is_ordered=True,
        defaults={"bias_correction": True},
        can_score=lambda example: ranking_scores.has_score(example.labels),
    ),
)
