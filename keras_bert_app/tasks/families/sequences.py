"""The family of tasks over one or two texts: a class, a number, or a set of labels for each example."""

import collections
import dataclasses
import json
import os
from collections.abc import Sequence

import numpy as np

from keras_bert_app.config.finetuning_config import WINDOWED, FinetuningConfig
from keras_bert_app.errors import UserError
from keras_bert_app.modeling.task_model import TEXT, Head
from keras_bert_app.tasks import metrics, objectives
from keras_bert_app.tasks.features import Features, RowBuilder, head_length, notes_of_empty, piece_ids, truncated
from keras_bert_app.tasks.task import Examples, Task, names_in_answers

CLASSIFICATION, REGRESSION, MULTI_LABEL = "classification", "regression", "multi_label"
READS = ("pooling", "long_documents", "max_windows", "doc_stride")
THRESHOLD = 0.5  # a label is in the set if its probability is higher


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
        run: FinetuningConfig. If label_column names several columns, all of them are labels, even if no example has
            them.

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
        names.update(" ".join(name.split()) for name in run.label_column.split(","))
    if len(names) < (2 if task.kind == CLASSIFICATION else 1):
        raise UserError(
            f"{examples[0].place.rpartition(':')[0]}: {len(examples):,} training examples with "
            f"{f'the one label {min(names)!r}' if names else 'no label'}; a task needs labels to tell apart"
        )
    # Numbers are sorted by size, so that the class named "0" is output 0.
    is_numbered = all(label.isdecimal() and label.isascii() for label in names)
    return tuple(sorted(names, key=lambda label: (int(label) if is_numbered else 0, label)))


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
            f"{examples[second[0]].place}: --long_documents={run.long_documents} is for single texts; pairs take head"
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


def make_head(task: Task, run: FinetuningConfig, labels: tuple[str, ...]) -> Head:
    """The Head of a run."""
    windows = {"windows": "logits", "hierarchical": "lstm"}.get(run.long_documents, "")
    return Head(TEXT, max(len(labels), 1), run.layers, run.pooling, windows, run.bilstm_units, run.classifier_dropout)


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
    """dict metric -> score. If there are several groups, metric_group is the score of a group's examples."""
    figures = _figures(task, examples, predictions, labels)
    groups = sorted({example.group for example in examples} - {""})
    for group in groups if len(groups) > 1 else ():
        members = [pair for pair in zip(examples, predictions, strict=True) if pair[0].group == group]
        figures_of_group = _figures(task, *zip(*members, strict=True), labels)
        figures |= {f"{name}_{group}": value for name, value in figures_of_group.items()}
    return figures


def _figures(task, examples, predictions, labels):
    if task.kind == REGRESSION:
        gold = np.array([example.label for example in examples])
        predicted = np.array([prediction["value"] for prediction in predictions])
        return {name: metrics.NUMBER_METRICS[name](gold, predicted) for name in task.metrics}
    gold = _label_values(task, examples, labels)
    answered = [
        dataclasses.replace(
            example, label=prediction["label"] if task.kind == CLASSIFICATION else tuple(prediction["labels"])
        )
        for example, prediction in zip(examples, predictions, strict=True)
    ]
    predicted, figures = _label_values(task, answered, labels), {}
    for name in task.metrics:
        if name.startswith("top_"):
            shares = np.array([list(prediction["probabilities"].values()) for prediction in predictions])
            k = int(name.split("_")[1])
            if len(labels) > k:
                figures[name] = metrics.top_k_accuracy(gold, shares, k)
        else:
            table = metrics.CLASS_METRICS if task.kind == CLASSIFICATION else metrics.LABEL_SET_METRICS
            figures[name] = table[name](gold, predicted)
    return figures


def baseline(
    task: Task, train_examples: Sequence[Example], examples: Sequence[Example], labels: tuple[str, ...]
) -> tuple[str, list[dict]]:
    """(description, predictions) of the baseline: the training mean, or the most frequent answer."""
    if task.kind == REGRESSION:
        mean = float(np.mean([example.label for example in train_examples]))
        return "mean of the training values", [{"value": mean}] * len(examples)
    counts = collections.Counter(example.label for example in train_examples)
    most = max(sorted(counts), key=counts.get)
    if task.kind == CLASSIFICATION:
        shares = {label: counts[label] / len(train_examples) for label in labels}
        return f"always {most}", [{"label": most, "probabilities": shares}] * len(examples)
    shares = {label: float(label in most) for label in labels}
    return f"always {', '.join(most) or 'none'}", [{"labels": list(most), "probabilities": shares}] * len(examples)


def answers(
    task: Task, examples: Sequence[Example], predictions: Sequence[dict], labels: tuple[str, ...]
) -> tuple[list, list, tuple[str, ...]]:
    """(right answers, predicted answers, names) for the picture: class indices, or numbers."""
    if task.kind == REGRESSION:
        return [example.label for example in examples], [prediction["value"] for prediction in predictions], ()
    if task.kind == CLASSIFICATION:
        return (
            [labels.index(example.label) for example in examples],
            [labels.index(prediction["label"]) for prediction in predictions],
            labels,
        )
    # A right label that is missing, and a wrong label that is given, are paired with "none".
    pairs = [
        pair
        for example, prediction in zip(examples, predictions, strict=True)
        for pair in _matched(set(example.label), set(prediction["labels"]), (*labels, "none"))
    ]
    return [gold for gold, _ in pairs], [predicted for _, predicted in pairs], (*labels, "none")


def _matched(gold, predicted, names):
    """[(index of the right label, index of the predicted label)] over all labels of an example."""
    none = len(names) - 1
    return [
        (names.index(label) if label in gold else none, names.index(label) if label in predicted else none)
        for label in sorted(gold | predicted)
    ]


def write_predictions(task: Task, directory: str, examples: Sequence[Example], predictions: Sequence[dict]) -> None:
    """Writes a row of index, tab, answer for each example, as GLUE's server accepts them.

    Each input file gets its own file of answers if task.answer_files names it. Commas join several labels; if one of
    them has a comma or begins with a bracket, the labels are a JSON list. Several languages may use the same indices;
    the language then stands before the index.
    """
    by_file = {}
    for example, name, prediction in zip(examples, names_in_answers(examples), predictions, strict=True):
        if task.kind == REGRESSION:
            value = prediction["value"]
            answer = _as_text(task, np.clip(value, *task.value_range) if task.value_range else value)
        else:
            answer = prediction["label"] if "label" in prediction else _joined(prediction["labels"])
        answered = os.path.basename(example.place.rpartition(":")[0])
        by_file.setdefault(task.answer_files.get(answered, "predictions.tsv"), []).append(f"{name}\t{answer}\n")
    for file_name, lines in by_file.items():
        with open(os.path.join(directory, file_name), "w", encoding="utf-8") as file:
            file.write("index\tprediction\n" + "".join(lines))


def _as_text(task, number):
    """A number with 3 decimals, as GLUE's server accepts it, or with the 7 significant digits of float32."""
    return f"{number:.3f}" if task.value_range else f"{number:.7g}"


def _joined(labels):
    return (
        json.dumps(labels, ensure_ascii=False)
        if any("," in label or label.startswith("[") for label in labels)
        else ",".join(labels)
    )


def mistakes(task: Task, examples: Sequence[Example], predictions: Sequence[dict], most: int) -> list[dict]:
    """At most `most` wrong answers as dicts: the highest probability or the largest error first."""
    wrong = []
    for example, prediction in zip(examples, predictions, strict=True):
        if task.kind == REGRESSION:
            value, label = prediction["value"], example.label
            wrong.append((abs(value - label), example, _as_text(task, value), _as_text(task, label)))
        elif task.kind == CLASSIFICATION and prediction["label"] != example.label:
            label = prediction["label"]
            wrong.append((prediction["probabilities"][label], example, label, example.label))
        elif task.kind == MULTI_LABEL and set(prediction["labels"]) != set(example.label):
            wrong_labels = set(prediction["labels"]) ^ set(example.label)
            sure = max(abs(prediction["probabilities"][label] - (label in example.label)) for label in wrong_labels)
            wrong.append((sure, example, ", ".join(prediction["labels"]), ", ".join(example.label)))
    wrong.sort(key=lambda entry: -entry[0])
    return [
        {
            "place": example.place,
            "sure": round(float(sure), 4),
            "predicted": predicted,
            "right": right,
            "text": " | ".join(filter(None, (example.text_a, example.text_b))),
        }
        for sure, example, predicted, right in wrong[:most]
    ]
