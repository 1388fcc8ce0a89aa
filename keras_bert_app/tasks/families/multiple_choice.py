"""The family of multiple choice: which text continues a context, or answers a question about it.

Each choice is a row [CLS] context [SEP] choice [SEP]. With a question it is [CLS] context [SEP] question [SEP] choice
[SEP], as in DREAM's own BERT baseline. Everything after the first [SEP] is segment B. The output layer gives one
number for each row.
"""

import collections
import csv
import dataclasses
import os
from collections.abc import Sequence

import numpy as np

from keras_bert_app.config.finetuning_config import FinetuningConfig
from keras_bert_app.modeling.task_head import CHOICES, Head
from keras_bert_app.tasks import intervals, metrics, objectives, predicting, sampling
from keras_bert_app.tasks.features import Features, RowBuilder, notes_of_empty, piece_ids, truncated
from keras_bert_app.tasks.task import HEAD_FIELDS, Examples, Task, head_options

MULTIPLE_CHOICE = "multiple_choice"
READS = (
    *HEAD_FIELDS,
    "pooling",
)

# The answers of the model are logits, and the names of the metrics say all.
make_answers, signatures = predicting.answers_are_logits, metrics.no_signatures
pictures = metrics.no_pictures


@dataclasses.dataclass(frozen=True)
class Example:
    """A context with its choices.

    Attributes:
        guid: Name of the example in predictions.
        context: The text that the choices continue or that the question is about.
        question: The question; "" if the task has none.
        choices: tuple of str.
        label: Index of the right choice; None if it is unknown.
        place: file:line.
    """

    guid: str
    context: str
    question: str
    choices: tuple
    label: int | None
    place: str


def label_names(task: Task, examples: Sequence[Example], run: FinetuningConfig) -> tuple:
    """(), because the choices of different examples share no names."""
    return ()


def classes(task: Task, example: Example) -> tuple[str, ...]:
    """(), because the choices of different examples share no names."""
    return ()


def sources(examples: Sequence[Example]) -> list[tuple]:
    """The context of each example."""
    return [sampling.content(example.context) for example in examples]


def input_names(examples: Sequence[Example]) -> list[str]:
    """The names of the inputs of an exported model."""
    return ["context", *(["question"] if any(example.question for example in examples) else []), "choices"]


def featurize(
    task: Task, examples: Sequence[Example], tokenizer, run: FinetuningConfig, labels: tuple, has_labels: bool = True
) -> Features:
    """The Features of examples. The rows of an example are one unit.

    If a row is too long, its longest texts lose their ends.
    """
    contexts = piece_ids(tokenizer, [example.context for example in examples])
    questions = piece_ids(tokenizer, [example.question for example in examples])
    choices = iter(piece_ids(tokenizer, [choice for example in examples for choice in example.choices]))
    builder, units, cut, cut_choices, empty = RowBuilder(tokenizer), [0], 0, 0, []
    for number, (example, context, question) in enumerate(zip(examples, contexts, questions, strict=True)):
        is_cut = is_choice_cut = False
        own_choices = [next(choices) for _ in example.choices]
        if not (len(context) and all(map(len, own_choices)) and (len(question) or not example.question)):
            empty.append(number)
        for choice in own_choices:
            room = run.max_seq_length - (4 if example.question else 3)
            a, b, c = truncated((context, question, choice), room)
            is_cut |= len(a) < len(context)
            is_choice_cut |= len(b) < len(question) or len(c) < len(choice)
            builder.add(a, np.concatenate([b, [tokenizer.sep_id], c]) if example.question else c)
        cut, cut_choices = cut + is_cut, cut_choices + is_choice_cut
        units.append(units[-1] + len(example.choices))
    notes = examples.notes() if isinstance(examples, Examples) else []
    notes += notes_of_empty(examples, empty, "a context, question or choice")
    if cut or cut_choices:
        notes.append(
            f"of {len(examples):,} examples, {cut:,} lost the end of the context and {cut_choices:,} the end of a "
            f"question or choice, because rows have at most {run.max_seq_length} tokens"
        )
    return builder.features(
        np.arange(len(examples)),
        unit_splits=units,
        notes=notes,
        labels={"labels": np.array([example.label for example in examples], np.int32)} if has_labels else {},
    )


def texts(examples: Sequence[Example]) -> list[str]:
    """All texts, for masked LM on them. A context with several questions occurs once."""
    return [
        text
        for text in dict.fromkeys(
            text for example in examples for text in (example.context, example.question, *example.choices)
        )
        if text
    ]


def make_head(task: Task, run: FinetuningConfig, labels: tuple, tokenizer=None) -> Head:
    """The Head of a run."""
    return Head(CHOICES, 1, pooling=run.pooling, **head_options(run))


def make_objective(task: Task, run: FinetuningConfig, head: Head) -> objectives.Classification:
    """Cross-entropy over the choices of an example."""
    return objectives.Classification(consistency_weight=run.consistency_weight)


def decode(
    task: Task,
    examples: Sequence[Example],
    features: Features,
    logits: np.ndarray,
    run: FinetuningConfig,
    labels: tuple,
) -> list[dict]:
    """The predictions from logits.

    Args:
        task: Task.
        examples: The examples.
        features: Features of the examples.
        logits: float32 [U, G].
        run: FinetuningConfig.
        labels: ().

    Returns:
        list of dicts: label, the index of a choice; probabilities, a list with one entry for each choice.
    """
    values = logits.astype(np.float64)
    shares = np.exp(values - values.max(axis=1, keepdims=True))
    shares /= shares.sum(axis=1, keepdims=True)
    return [{"label": int(row.argmax()), "probabilities": row.tolist()} for row in shares]


def score(task: Task, examples: Sequence[Example], predictions: Sequence[dict], labels: tuple) -> dict[str, float]:
    """dict metric -> score."""
    gold, predicted = map(np.array, answers(task, examples, predictions, labels)[:2])
    return {name: metrics.CLASS_METRICS[name](gold, predicted) for name in task.metrics}


def measure(task: Task, examples: Sequence[Example], predictions: Sequence[dict], labels: tuple) -> intervals.Measure:
    """Whether each answer is right, for resamples."""
    gold, predicted = map(np.array, answers(task, examples, predictions, labels)[:2])
    return (gold == predicted).astype(np.float64)


def baseline(
    task: Task, train_examples: Sequence[Example], examples: Sequence[Example], labels: tuple
) -> tuple[str, list[dict]]:
    """(description, predictions) of the baseline: the index that is right most often in the training examples."""
    counts = collections.Counter(example.label for example in train_examples)
    most = max(sorted(counts), key=counts.get)
    number = len(examples[0].choices)
    return (
        f"always choice {most + 1} of {number}, the most frequent",
        [{"label": most, "probabilities": [float(index == most) for index in range(number)]}] * len(examples),
    )


def answers(
    task: Task, examples: Sequence[Example], predictions: Sequence[dict], labels: tuple
) -> tuple[list[int], list[int], tuple[str, ...]]:
    """(right indices, predicted indices, names of the choices) for the picture."""
    return (
        [example.label for example in examples],
        [prediction["label"] for prediction in predictions],
        tuple(f"choice {number + 1}" for number in range(len(examples[0].choices))),
    )


def write_predictions(task: Task, directory: str, examples: Sequence[Example], predictions: Sequence[dict]) -> None:
    """Writes the file for the leaderboard of the task.

    The default is predictions.tsv. Its columns are index, prediction (number of the choice, from 0), context, question
    (if the task has questions) and choice (text). For HellaSwag the file is predictions.csv with annot_id and a
    probability for each ending (hellaswag_models/README.md of its repository). For SWAG the file is predictions.csv
    with the number of the row and pred (csv_predict.py of its repository).
    """
    pairs = list(zip(examples, predictions, strict=True))
    if task.name == "hellaswag":
        header = ["annot_id", *(f"ending{number}" for number in range(len(examples[0].choices)))]
        rows = [[example.guid, *prediction["probabilities"]] for example, prediction in pairs]
    else:
        header = ["", "pred"]
        rows = [[example.guid, prediction["label"]] for example, prediction in pairs]
    if task.name in ("swag", "hellaswag"):
        with open(os.path.join(directory, "predictions.csv"), "w", encoding="utf-8", newline="") as file:
            csv.writer(file, lineterminator="\n").writerows([header, *rows])
        return
    with open(os.path.join(directory, "predictions.tsv"), "w", encoding="utf-8", newline="") as file:
        file.writelines("\t".join(row) + "\n" for row in _rows_with_texts(pairs))


def _rows_with_texts(pairs):
    """Yields the rows of predictions.tsv, the header first."""
    has_questions = any(example.question for example, _ in pairs)
    yield ["index", "prediction", "context", *(["question"] if has_questions else []), "choice"]
    for example, prediction in pairs:
        choice = example.choices[prediction["label"]]
        texts = (example.context, example.question, choice) if has_questions else (example.context, choice)
        yield [example.guid, str(prediction["label"]), *(" ".join(text.split()) for text in texts)]


def mistakes(task: Task, examples: Sequence[Example], predictions: Sequence[dict], most: int) -> list[dict]:
    """At most `most` wrong answers as dicts, the highest probability first."""
    wrong = [
        (prediction["probabilities"][prediction["label"]], example, prediction["label"])
        for example, prediction in zip(examples, predictions, strict=True)
        if prediction["label"] != example.label
    ]
    wrong.sort(key=lambda entry: -entry[0])
    return [
        {
            "place": example.place,
            "sure": round(sure, 4),
            "predicted": example.choices[label],
            "right": example.choices[example.label],
            "text": " | ".join(filter(None, (example.context, example.question))),
        }
        for sure, example, label in wrong[:most]
    ]
