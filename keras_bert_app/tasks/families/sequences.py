"""The family of tasks over one or two texts: a class, a number, or a set of labels for each example."""

import dataclasses
from collections.abc import Sequence

import numpy as np

from keras_bert_app.config.finetuning_config import WINDOWED, FinetuningConfig
from keras_bert_app.errors import UserError
from keras_bert_app.modeling.task_head import TEXT, Head
from keras_bert_app.tasks import intervals, metrics, objectives, predicting, sampling
from keras_bert_app.tasks.families import sequence_report
from keras_bert_app.tasks.families.group_scores import with_groups
from keras_bert_app.tasks.families.sequence_report import CLASSIFICATION, MULTI_LABEL, REGRESSION
from keras_bert_app.tasks.features import Features, RowBuilder, head_length, notes_of_empty, piece_ids, truncated
from keras_bert_app.tasks.task import HEAD_FIELDS, Examples, Task, head_options

READS = (*HEAD_FIELDS, "pooling", "long_documents", "max_windows", "doc_stride")
THRESHOLD = 0.5  # a label is in the set if its probability is higher

# Another module has these functions of the family.
baseline = sequence_report.baseline
answers = sequence_report.answers
write_predictions = sequence_report.write_predictions
mistakes = sequence_report.mistakes

# The answers of the model are logits, and the names of the metrics say all.
make_answers, signatures = predicting.answers_are_logits, metrics.no_signatures
pictures = metrics.no_pictures


@dataclasses.dataclass(frozen=True)
class Example:
    """One or two texts and their label.

    Attributes:
        guid: Name of the example in predictions.
        text_a: str.
        text_b: str; None for a single text.
        label: Name of a class, a float, or a tuple of names; None if the label is unknown.
        place: file:line.
        group: Part of the data that the example belongs to, such as its language. Several groups are also scored one
            by one.
    """

    guid: str
    text_a: str
    text_b: str | None
    label: str | float | tuple | None
    place: str
    group: str = ""


def label_names(task: Task, examples: Sequence[Example], run: FinetuningConfig) -> tuple[str, ...]:
    """The names of a task's classes in the order of the outputs; () for numbers.

    Args:
        task: Task.
        examples: All training examples.
        run: FinetuningConfig. If label_column lists several columns, their names are labels, even if no example has
            them. If label_column gives columns by number and the columns have names, the numbers are not labels.

    Raises:
        UserError: there are too few labels to distinguish anything.
    """
    if task.kind == REGRESSION:
        return ()
    if task.labels:
        return task.labels
    names = (
        {example.label for example in examples}
        if task.kind == CLASSIFICATION
        else {label for example in examples for label in example.label}
    )
    if names and task.kind == MULTI_LABEL and "," in run.label_column:
        given = {" ".join(name.split()) for name in run.label_column.split(",")}
        names.update(given if run.header == "no" or names <= given else ())
    if len(names) < (2 if task.kind == CLASSIFICATION else 1):
        raise UserError(
            f"{examples[0].place.rpartition(':')[0]}: {len(examples):,} training examples with "
            f"{f'the one label {min(names)!r}' if names else 'no label'}; a task needs labels to tell apart"
        )
    # Numbers are sorted by size, so that the class named "0" is output 0.
    is_numbered = all(label.isdecimal() and label.isascii() for label in names)
    return tuple(sorted(names, key=lambda label: (int(label) if is_numbered else 0, label)))


def classes(task: Task, example: Example) -> tuple[str, ...]:
    """The names of an example's classes."""
    if task.kind == REGRESSION:
        return ()
    return (example.label,) if task.kind == CLASSIFICATION else example.label


def sources(examples: Sequence[Example]) -> list[tuple]:
    """The texts of each example, in any order."""
    return [tuple(sorted(sampling.content(example.text_a, example.text_b))) for example in examples]


def input_names(examples: Sequence[Example]) -> list[str]:
    """The names of the inputs of an exported model."""
    return ["text"] if all(example.text_b is None for example in examples) else ["text_a", "text_b"]


def featurize(
    task: Task,
    examples: Sequence[Example],
    tokenizer,
    run: FinetuningConfig,
    labels: tuple[str, ...],
    has_labels: bool = True,
) -> Features:
    """The Features of examples.

    Raises:
        UserError: an example has an unknown label (the message has file:line), or pairs are used with
            --long_documents.
    """
    builder, units, cut = RowBuilder(tokenizer), [0], 0
    pieces_a = piece_ids(tokenizer, [example.text_a for example in examples])
    second = [number for number, example in enumerate(examples) if example.text_b is not None]
    pieces_b = dict(zip(second, piece_ids(tokenizer, [examples[number].text_b for number in second]), strict=True))
    in_windows = run.long_documents in WINDOWED
    if second and run.long_documents != "head":
        raise UserError(
            f"{examples[second[0]].place}: --long_documents={run.long_documents} is for single texts; for pairs, give "
            "--long_documents=head"
        )
    for number, a in enumerate(pieces_a):
        rows, is_cut = _rows(a, pieces_b.get(number), run)
        cut += is_cut
        for row in rows:
            builder.add(*row)
        units.append(units[-1] + len(rows))
    notes = examples.notes() if isinstance(examples, Examples) else []
    empty = [
        number for number, a in enumerate(pieces_a) if not len(a) or number in pieces_b and not len(pieces_b[number])
    ]
    notes += notes_of_empty(examples, empty)
    if cut:
        windows = f"{run.max_windows} windows of " if in_windows else ""
        notes.append(
            f"{cut:,} of {len(examples):,} texts are longer than {windows}{run.max_seq_length} tokens and were cut"
        )
    return builder.features(
        np.arange(len(examples)),
        unit_splits=units if in_windows else None,
        notes=notes,
        labels={"labels": _label_values(task, examples, labels)} if has_labels else {},
    )


def _rows(a, b, run):
    """([rows (A, B) of a text or a pair], whether any token is in no row)."""
    room = run.max_seq_length - (2 if b is None else 3)
    if len(a) + (0 if b is None else len(b)) <= room:
        return [(a, b)], False
    if b is not None:
        return [truncated((a, b), room)], True
    if run.long_documents == "head":
        return [(a[:room], None)], True
    if run.long_documents == "head_tail":
        head = head_length(room)
        return [(np.concatenate([a[:head], a[head - room :]]), None)], True
    stride = min(run.doc_stride, room)  # a longer stride would skip tokens between two windows
    starts = range(0, len(a) - room + stride, stride)[: run.max_windows]
    return [(a[start : start + room], None) for start in starts], starts[-1] + room < len(a)


def _label_values(task, examples, labels):
    """The labels: int32 [N] of classes, float32 [N] of numbers, or float32 [N, n] of label sets."""
    if task.kind == REGRESSION:
        return np.array([example.label for example in examples], np.float32)
    index = {label: number for number, label in enumerate(labels)}
    for example in examples:
        for label in [example.label] if task.kind == CLASSIFICATION else example.label:
            if label not in index:
                some = f"{', '.join(labels[:8])}{' and others' if len(labels) > 8 else ''}"
                raise UserError(f"{example.place}: label {label!r} is none of {some}")
    if task.kind == CLASSIFICATION:
        return np.array([index[example.label] for example in examples], np.int32)
    values = np.zeros((len(examples), len(labels)), np.float32)
    for number, example in enumerate(examples):
        values[number, [index[label] for label in example.label]] = 1.0
    return values


def texts(examples: Sequence[Example]) -> list[str]:
    """All texts, for masked LM on them."""
    return [text for example in examples for text in (example.text_a, example.text_b) if text]


def make_head(task: Task, run: FinetuningConfig, labels: tuple[str, ...], tokenizer=None) -> Head:
    """The Head of a run."""
    windows = {"windows": "logits", "hierarchical": "lstm"}.get(run.long_documents, "")
    return Head(TEXT, max(len(labels), 1), pooling=run.pooling, windows=windows, **head_options(run))


def make_objective(
    task: Task, run: FinetuningConfig, head: Head
) -> objectives.Classification | objectives.Regression | objectives.MultiLabel:
    """The training objective for the kind of the task."""
    teacher_weight = run.distillation_weight if run.teacher else 0.0
    if task.kind == REGRESSION:
        return objectives.Regression(teacher_weight, run.consistency_weight, head.scale)
    objective = {CLASSIFICATION: objectives.Classification, MULTI_LABEL: objectives.MultiLabel}[task.kind]
    return objective(teacher_weight, run.distillation_temperature, run.consistency_weight)


def decode(
    task: Task,
    examples: Sequence[Example],
    features: Features,
    logits: np.ndarray,
    run: FinetuningConfig,
    labels: tuple[str, ...],
) -> list[dict]:
    """The predictions from logits.

    Args:
        task: Task.
        examples: The examples.
        features: Features of the examples.
        logits: float32 [U, n].
        run: FinetuningConfig.
        labels: Names of the outputs.

    Returns:
        list of dicts, one for each example. Numbers have value. Classes have label, and label sets have labels; both
        have probabilities, a dict by label.
    """
    if task.kind == REGRESSION:
        return [{"value": float(value)} for value in logits[:, 0]]
    values = logits.astype(np.float64)
    if task.kind == MULTI_LABEL:
        shares = 1.0 / (1.0 + np.exp(-values))
        return [
            {
                "labels": [label for label, share in zip(labels, row, strict=True) if share > THRESHOLD],
                "probabilities": dict(zip(labels, row.tolist(), strict=True)),
            }
            for row in shares
        ]
    shares = np.exp(values - values.max(axis=1, keepdims=True))
    shares /= shares.sum(axis=1, keepdims=True)
    return [
        {"label": labels[int(row.argmax())], "probabilities": dict(zip(labels, row.tolist(), strict=True))}
        for row in shares
    ]


def score(
    task: Task, examples: Sequence[Example], predictions: Sequence[dict], labels: tuple[str, ...]
) -> dict[str, float]:
    """dict metric -> score, as group_scores.with_groups returns it."""
    return with_groups(lambda some, given: _figures(task, some, given, labels), examples, predictions)


def measure(
    task: Task, examples: Sequence[Example], predictions: Sequence[dict], labels: tuple[str, ...]
) -> intervals.Measure:
    """The first metric of the task, for resamples."""
    gold, predicted = _values(task, examples, predictions, labels)
    if task.metrics[0] == "accuracy":
        return (gold == predicted).astype(np.float64)
    metric = _TABLES[task.kind][task.metrics[0]]
    return lambda indices: metric(gold[indices], predicted[indices])


_TABLES = {
    REGRESSION: metrics.NUMBER_METRICS,
    CLASSIFICATION: metrics.CLASS_METRICS,
    MULTI_LABEL: metrics.LABEL_SET_METRICS,
}


def _values(task, examples, predictions, labels):
    """(right values, predicted values), each as metrics takes them."""
    if task.kind == REGRESSION:
        return (
            np.array([example.label for example in examples]),
            np.array([prediction["value"] for prediction in predictions]),
        )
    answered = [
        dataclasses.replace(
            example, label=prediction["label"] if task.kind == CLASSIFICATION else tuple(prediction["labels"])
        )
        for example, prediction in zip(examples, predictions, strict=True)
    ]
    return _label_values(task, examples, labels), _label_values(task, answered, labels)


def _figures(task, examples, predictions, labels):
    (gold, predicted), figures = _values(task, examples, predictions, labels), {}
    for name in task.metrics:
        if name.startswith("top_"):
            shares = np.array([list(prediction["probabilities"].values()) for prediction in predictions])
            k = int(name.split("_")[1])
            if len(labels) > k:
                figures[name] = metrics.top_k_accuracy(gold, shares, k)
        else:
            figures[name] = _TABLES[task.kind][name](gold, predicted)
    return figures
