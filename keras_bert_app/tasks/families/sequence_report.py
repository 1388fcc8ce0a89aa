"""Reports on classes, numbers and label sets: baseline, pictures, files of answers, worst mistakes."""

import collections
import json
import os
from collections.abc import Sequence

import numpy as np

from keras_bert_app.tasks.task import Task, names_in_answers

CLASSIFICATION, REGRESSION, MULTI_LABEL = "classification", "regression", "multi_label"
_WITH_TEXTS = "predictions.tsv"  # the file for answers that no server expects; its rows also have the texts


def baseline(
    task: Task, train_examples: Sequence, examples: Sequence, labels: tuple[str, ...]
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
    task: Task, examples: Sequence, predictions: Sequence[dict], labels: tuple[str, ...]
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
    # A missing right label and a predicted wrong label each form a pair with "none".
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


def write_predictions(task: Task, directory: str, examples: Sequence, predictions: Sequence[dict]) -> None:
    """Writes a row of index, tab, answer for each example, as GLUE's server accepts them.

    Each input file gets its own file of answers if task.answer_files names it. All other answers go to
    predictions.tsv, whose rows also have the texts. Commas join several labels. If a label has a comma or begins with a
    bracket, the labels are a JSON list. Several groups, such as languages, may use the same indices. The indices
    are then GROUP:INDEX.
    """
    by_file = {}
    for example, name, prediction in zip(examples, names_in_answers(examples), predictions, strict=True):
        if task.kind == REGRESSION:
            value = prediction["value"]
            answer = _as_text(task, np.clip(value, *task.value_range) if task.value_range else value)
        else:
            answer = prediction["label"] if "label" in prediction else _joined(prediction["labels"])
        answered = os.path.basename(example.place.rpartition(":")[0])
        row = [name, answer]
        if (file_name := task.answer_files.get(answered, _WITH_TEXTS)) == _WITH_TEXTS:
            row += [" ".join(text.split()) for text in (example.text_a, example.text_b) if text is not None]
        by_file.setdefault(file_name, []).append("\t".join(row) + "\n")
    names = ("text_a", "text_b") if any(example.text_b is not None for example in examples) else ("text",)
    for file_name, lines in by_file.items():
        header = "\t".join(["index", "prediction", *(names if file_name == _WITH_TEXTS else ())])
        with open(os.path.join(directory, file_name), "w", encoding="utf-8") as file:
            file.write(f"{header}\n" + "".join(lines))


def _as_text(task, number):
    """A number with 3 decimals, as GLUE's server accepts it, or with the 7 significant digits of float32."""
    return f"{number:.3f}" if task.value_range else f"{number:.7g}"


def _joined(labels):
    return (
        json.dumps(labels, ensure_ascii=False)
        if any("," in label or label.startswith("[") for label in labels)
        else ",".join(labels)
    )


def mistakes(task: Task, examples: Sequence, predictions: Sequence[dict], most: int) -> list[dict]:
    """At most `most` wrong answers as dicts, the highest probability ("sure") or largest "error" first."""
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
            "error" if task.kind == REGRESSION else "sure": round(float(sure), 4),
            "predicted": predicted,
            "right": right,
            "text": " | ".join(filter(None, (example.text_a, example.text_b))),
        }
        for sure, example, predicted, right in wrong[:most]
    ]
