"""Multiple choice: which of a few texts goes on from a context, or answers a question about it.

Each choice is a row [CLS] context [SEP] choice [SEP], with a question [CLS] context [SEP] question [SEP] choice [SEP],
as in DREAM's own BERT baseline; all after the first [SEP] is segment B. The classifier gives each row one number. The
functions are those of tasks.sequences.
"""

import collections
import csv
import dataclasses
import os

import numpy as np

from keras_bert_app.modeling.task_model import CHOICES, Head
from keras_bert_app.tasks import metrics, objectives
from keras_bert_app.tasks.features import RowBuilder, notes_of_empty, piece_ids, truncated
from keras_bert_app.tasks.task import Examples

MULTIPLE_CHOICE = "multiple_choice"
READS = ("pooling",)


@dataclasses.dataclass(frozen=True)
class Example:
    """A context with its choices.

    Attributes:
        guid: its name in predictions. place: file:line. question: "" where there is none. label: which of the choices
            is right, from 0; None where it is not known.
    """

    guid: str
    context: str
    question: str
    choices: tuple
    label: int | None
    place: str


def label_names(task, examples, run):
    """None: a choice has no name that holds for other examples."""
    return ()


def input_names(examples):
    """Names of what an export takes of an example."""
    return ["context", *(["question"] if any(example.question for example in examples) else []), "choices"]


def featurize(task, examples, tokenizer, run, labels, has_labels=True):
    """Features of examples, a unit of rows for each; where a row is too long the longest of its texts loses its end."""
    contexts = piece_ids(tokenizer, [example.context for example in examples])
    questions = piece_ids(tokenizer, [example.question for example in examples])
    choices = iter(piece_ids(tokenizer, [choice for example in examples for choice in example.choices]))
    builder, units, cut, cut_choices, empty = RowBuilder(tokenizer), [0], 0, 0, []
    for number, (example, context, question) in enumerate(zip(examples, contexts, questions)):
        is_cut = is_choice_cut = False
        of_choices = [next(choices) for _ in example.choices]
        if not (len(context) and all(map(len, of_choices)) and (len(question) or not example.question)):
            empty.append(number)
        for choice in of_choices:
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
            f"of {len(examples):,} examples {cut:,} have contexts too long for {run.max_seq_length} tokens, "
            f"whose ends were cut, and {cut_choices:,} questions or choices"
        )
    return builder.features(
        np.arange(len(examples)),
        unit_splits=units,
        notes=notes,
        labels={"labels": np.array([example.label for example in examples], np.int32)} if has_labels else {},
    )


def texts(examples):
    """All texts, for masked LM on them; a context with several questions once."""
    return [
        text
        for text in dict.fromkeys(
            text for example in examples for text in (example.context, example.question, *example.choices)
        )
        if text
    ]


def make_head(task, run, labels):
    """The Head of a run."""
    return Head(CHOICES, 1, run.layers, run.pooling, "", run.bilstm_units, run.classifier_dropout)


def make_objective(task, run, head):
    """Cross-entropy over the choices of an example."""
    return objectives.Classification(consistency_weight=run.consistency_weight)


def decode(task, examples, features, logits, run, labels):
    """Predictions from logits [U, G]: list of dicts with label, an index from 0, and probabilities, a list."""
    values = logits.astype(np.float64)
    shares = np.exp(values - values.max(axis=1, keepdims=True))
    shares /= shares.sum(axis=1, keepdims=True)
    return [{"label": int(row.argmax()), "probabilities": row.tolist()} for row in shares]


def score(task, examples, predictions, labels):
    """dict metric -> figure."""
    gold, found = map(np.array, answers(task, examples, predictions, labels)[:2])
    return {name: metrics.OF_CLASSES[name](gold, found) for name in task.metrics}


def baseline(task, train_examples, examples, labels):
    """(what it does, predictions): the position that is most often right in the training examples."""
    counts = collections.Counter(example.label for example in train_examples)
    most = max(sorted(counts), key=counts.get)
    number = len(examples[0].choices)
    return (
        f"always choice {most + 1} of {number}, the most frequent",
        [{"label": most, "probabilities": [float(at == most) for at in range(number)]}] * len(examples),
    )


def answers(task, examples, predictions, labels):
    """(right positions, predicted ones, names) to draw."""
    return (
        [example.label for example in examples],
        [one["label"] for one in predictions],
        tuple(f"choice {number + 1}" for number in range(len(examples[0].choices))),
    )


def write_predictions(task, directory, examples, predictions):
    """Writes what the task's own leaderboard takes, and predictions.tsv (index, tab, position from 0) for the others.

    HellaSwag: predictions.csv with annot_id and a probability for each ending (hellaswag_models/README.md of its
    repository); SWAG: predictions.csv with the number of the row and pred (csv_predict.py of its repository).
    """
    if task.name == "hellaswag":
        header = ["annot_id", *(f"ending{number}" for number in range(len(examples[0].choices)))]
        rows = [[example.guid, *one["probabilities"]] for example, one in zip(examples, predictions)]
    else:
        header = ["", "pred"] if task.name == "swag" else ["index", "prediction"]
        rows = [[example.guid, one["label"]] for example, one in zip(examples, predictions)]
    is_csv = task.name in ("swag", "hellaswag")
    name = "predictions.csv" if is_csv else "predictions.tsv"
    with open(os.path.join(directory, name), "w", encoding="utf-8", newline="") as file:
        csv.writer(file, delimiter="," if is_csv else "\t", lineterminator="\n").writerows([header, *rows])


def mistakes(task, examples, predictions, most):
    """The wrong answers of which the model is most sure, as dicts for people to read."""
    found = [
        (one["probabilities"][one["label"]], example, one["label"])
        for example, one in zip(examples, predictions)
        if one["label"] != example.label
    ]
    found.sort(key=lambda entry: -entry[0])
    return [
        {
            "place": example.place,
            "sure": round(sure, 4),
            "predicted": example.choices[label],
            "right": example.choices[example.label],
            "text": " | ".join(filter(None, (example.context, example.question))),
        }
        for sure, example, label in found[:most]
    ]
