"""Tasks over one text or two: a class, a number, or a set of labels for each.

A family of tasks is a module with the functions that stand here in this order.
"""

import collections
import dataclasses
import json
import os

import numpy as np

from keras_bert_app.config.finetuning_config import WINDOWED
from keras_bert_app.errors import UserError
from keras_bert_app.modeling.task_model import TEXT, Head
from keras_bert_app.tasks import metrics, objectives
from keras_bert_app.tasks.features import RowBuilder, head_length, notes_of_empty, piece_ids, truncated
from keras_bert_app.tasks.task import Examples, names_in_answers

CLASSIFICATION, REGRESSION, MULTI_LABEL = "classification", "regression", "multi_label"
READS = ("pooling", "long_documents", "max_windows", "doc_stride")
THRESHOLD = 0.5  # of a label's probability, for it to be in the set


@dataclasses.dataclass(frozen=True)
class Example:
    """A text or two, and what is known of them.

    Attributes:
        guid: its name in predictions. place: file:line. label: name of a class, a float, or a tuple of names; None where
            it is not known. group: which of several parts of the data it is of, such as its language; of several, each is
            scored by itself too.
    """

    guid: str
    text_a: str
    text_b: str | None
    label: str | float | tuple | None
    place: str
    group: str = ""


def label_names(task, examples, run):
    """The names of a task's classes, in the order of the outputs; () for numbers.

    Args:
        run: FinetuningConfig; the columns that it names for label sets are labels of the task, whether or not one of the examples
            has them.

    Raises:
        UserError: there is nothing to tell apart.
    """
    if task.kind == REGRESSION:
        return ()
    if task.labels:
        return task.labels
    of = (
        {example.label for example in examples}
        if task.kind == CLASSIFICATION
        else {label for example in examples for label in example.label}
    )
    if of and task.kind == MULTI_LABEL and "," in run.label_column:
        of.update(" ".join(name.split()) for name in run.label_column.split(","))
    if len(of) < (2 if task.kind == CLASSIFICATION else 1):
        raise UserError(
            f"{examples[0].place.rpartition(':')[0]}: {len(examples):,} training examples with "
            f"{f'the one label {min(of)!r}' if of else 'no label'}; a task needs labels to tell apart"
        )
    # Numbers by their size, so that a class numbered from 0 is the output of that number.
    is_numbered = all(label.isdecimal() and label.isascii() for label in of)
    return tuple(sorted(of, key=lambda label: (int(label) if is_numbered else 0, label)))


def input_names(examples):
    """Names of what an export takes of an example."""
    return ["text"] if all(example.text_b is None for example in examples) else ["text_a", "text_b"]


def featurize(task, examples, tokenizer, run, labels, has_labels=True):
    """Features of examples.

    Raises:
        UserError: a label that is none of the labels, by file:line; pairs with --long_documents.
    """
    builder, units, cut = RowBuilder(tokenizer), [0], 0
    pieces_a = piece_ids(tokenizer, [example.text_a for example in examples])
    second = [number for number, example in enumerate(examples) if example.text_b is not None]
    pieces_b = dict(zip(second, piece_ids(tokenizer, [examples[number].text_b for number in second])))
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
    """([rows (A, B) of a text or a pair], whether some of it is in none)."""
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
    stride = min(run.doc_stride, room)  # a longer one would leave out what lies between two windows
    starts = range(0, len(a) - room + stride, stride)[: run.max_windows]
    return [(a[start : start + room], None) for start in starts], starts[-1] + room < len(a)


def _label_values(task, examples, labels):
    """What a model is to answer: int32 [N], float32 [N], or float32 [N, n]."""
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


def texts(examples):
    """All texts, for masked LM on them."""
    return [text for example in examples for text in (example.text_a, example.text_b) if text]


def make_head(task, run, labels):
    """The Head of a run."""
    windows = {"windows": "logits", "hierarchical": "lstm"}.get(run.long_documents, "")
    return Head(TEXT, max(len(labels), 1), run.layers, run.pooling, windows, run.bilstm_units, run.classifier_dropout)


def make_objective(task, run, head):
    """What is minimized."""
    teacher_weight = run.distillation_weight if run.teacher else 0.0
    if task.kind == REGRESSION:
        return objectives.Regression(teacher_weight, run.consistency_weight, head.scale)
    of_kind = {CLASSIFICATION: objectives.Classification, MULTI_LABEL: objectives.MultiLabel}[task.kind]
    return of_kind(teacher_weight, run.distillation_temperature, run.consistency_weight)


def decode(task, examples, features, logits, run, labels):
    """Predictions from logits.

    Args:
        logits: float32 [U, n].

    Returns:
        list of dicts, one for each example: value, or label or labels with probabilities (by label).
    """
    if task.kind == REGRESSION:
        return [{"value": float(value)} for value in logits[:, 0]]
    values = logits.astype(np.float64)
    if task.kind == MULTI_LABEL:
        shares = 1.0 / (1.0 + np.exp(-values))
        return [
            {
                "labels": [label for label, share in zip(labels, row) if share > THRESHOLD],
                "probabilities": dict(zip(labels, row.tolist())),
            }
            for row in shares
        ]
    shares = np.exp(values - values.max(axis=1, keepdims=True))
    shares /= shares.sum(axis=1, keepdims=True)
    return [{"label": labels[int(row.argmax())], "probabilities": dict(zip(labels, row.tolist()))} for row in shares]


def score(task, examples, predictions, labels):
    """dict metric -> figure; of examples of several groups also metric_group -> that of the group's examples."""
    figures = _figures(task, examples, predictions, labels)
    groups = sorted({example.group for example in examples} - {""})
    for group in groups if len(groups) > 1 else ():
        members = [(example, one) for example, one in zip(examples, predictions) if example.group == group]
        figures |= {f"{name}_{group}": value for name, value in _figures(task, *zip(*members), labels).items()}
    return figures


def _figures(task, examples, predictions, labels):
    if task.kind == REGRESSION:
        gold, found = np.array([example.label for example in examples]), np.array([one["value"] for one in predictions])
        return {name: metrics.OF_NUMBERS[name](gold, found) for name in task.metrics}
    gold = _label_values(task, examples, labels)
    answered = [
        dataclasses.replace(example, label=one["label"] if task.kind == CLASSIFICATION else tuple(one["labels"]))
        for example, one in zip(examples, predictions)
    ]
    found, figures = _label_values(task, answered, labels), {}
    for name in task.metrics:
        if name.startswith("top_"):
            shares = np.array([list(one["probabilities"].values()) for one in predictions])
            k = int(name.split("_")[1])
            if len(labels) > k:
                figures[name] = metrics.top_k_accuracy(gold, shares, k)
        else:
            table = metrics.OF_CLASSES if task.kind == CLASSIFICATION else metrics.OF_LABEL_SETS
            figures[name] = table[name](gold, found)
    return figures


def baseline(task, train_examples, examples, labels):
    """(what it does, predictions) of the best that needs no text: the most frequent answer of the training examples."""
    if task.kind == REGRESSION:
        mean = float(np.mean([one.label for one in train_examples]))
        return "mean of the training values", [{"value": mean}] * len(examples)
    counts = collections.Counter(example.label for example in train_examples)
    most = max(sorted(counts), key=counts.get)
    if task.kind == CLASSIFICATION:
        shares = {label: counts[label] / len(train_examples) for label in labels}
        return f"always {most}", [{"label": most, "probabilities": shares}] * len(examples)
    shares = {label: float(label in most) for label in labels}
    return f"always {', '.join(most) or 'none'}", [{"labels": list(most), "probabilities": shares}] * len(examples)


def answers(task, examples, predictions, labels):
    """(right ones, predicted ones, names) to draw: classes by index, or numbers with no names."""
    if task.kind == REGRESSION:
        return [example.label for example in examples], [one["value"] for one in predictions], ()
    if task.kind == CLASSIFICATION:
        return (
            [labels.index(example.label) for example in examples],
            [labels.index(one["label"]) for one in predictions],
            labels,
        )
    # Every right label against every one that was given: those that are missing, or too many, against none.
    pairs = [
        pair
        for example, one in zip(examples, predictions)
        for pair in _matched(set(example.label), set(one["labels"]), (*labels, "none"))
    ]
    return [gold for gold, _ in pairs], [found for _, found in pairs], (*labels, "none")


def _matched(gold, found, names):
    none = len(names) - 1
    return [
        (names.index(label) if label in gold else none, names.index(label) if label in found else none)
        for label in sorted(gold | found)
    ]


def write_predictions(task, directory, examples, predictions):
    """Writes a row of index, tab, answer for each example, as GLUE's server takes them, to a file for each of its own.

    Several labels are joined by commas, or a JSON list where one of them has a comma in it or begins with a bracket. Of several
    languages, whose indices are the same, the language stands before the index.
    """
    by_file = {}
    for example, name, one in zip(examples, names_in_answers(examples), predictions):
        if task.kind == REGRESSION:
            answer = _as_text(task, np.clip(one["value"], *task.value_range) if task.value_range else one["value"])
        else:
            answer = one["label"] if "label" in one else _joined(one["labels"])
        answered = os.path.basename(example.place.rpartition(":")[0])
        by_file.setdefault(task.answer_files.get(answered, "predictions.tsv"), []).append(f"{name}\t{answer}\n")
    for file_name, lines in by_file.items():
        with open(os.path.join(directory, file_name), "w", encoding="utf-8") as file:
            file.write("index\tprediction\n" + "".join(lines))


def _as_text(task, number):
    """A number as GLUE's server takes those of its range; any other with what float32 has of it, however small."""
    return f"{number:.3f}" if task.value_range else f"{number:.7g}"


def _joined(labels):
    return (
        json.dumps(labels, ensure_ascii=False)
        if any("," in label or label.startswith("[") for label in labels)
        else ",".join(labels)
    )


def mistakes(task, examples, predictions, most):
    """The wrong answers of which the model is most sure, as dicts for people to read."""
    found = []
    for example, one in zip(examples, predictions):
        if task.kind == REGRESSION:
            found.append(
                (
                    abs(one["value"] - example.label),
                    example,
                    _as_text(task, one["value"]),
                    _as_text(task, example.label),
                )
            )
        elif task.kind == CLASSIFICATION and one["label"] != example.label:
            found.append((one["probabilities"][one["label"]], example, one["label"], example.label))
        elif task.kind == MULTI_LABEL and set(one["labels"]) != set(example.label):
            wrong = set(one["labels"]) ^ set(example.label)
            sure = max(abs(one["probabilities"][label] - (label in example.label)) for label in wrong)
            found.append((sure, example, ", ".join(one["labels"]), ", ".join(example.label)))
    found.sort(key=lambda entry: -entry[0])
    return [
        {
            "place": example.place,
            "sure": round(float(sure), 4),
            "predicted": predicted,
            "right": right,
            "text": " | ".join(filter(None, (example.text_a, example.text_b))),
        }
        for sure, example, predicted, right in found[:most]
    ]
