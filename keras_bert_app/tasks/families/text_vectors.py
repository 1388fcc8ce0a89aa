"""The family of tasks whose answers are vectors of texts.

An example has one text or several: a text with a label, two texts with a score, or an anchor, its positive and
negatives.
"""

import dataclasses
import os
from collections.abc import Callable, Sequence

import numpy as np

from keras_bert_app.config.finetuning_config import FinetuningConfig
from keras_bert_app.config.prompts import DOCUMENT, QUERY, ROLES
from keras_bert_app.errors import UserError
from keras_bert_app.modeling.vector_model import VectorHead
from keras_bert_app.tasks import intervals, metrics, sampling
from keras_bert_app.tasks.denoising_objective import WORDS, Denoising
from keras_bert_app.tasks.families import vector_answers, vector_checks
from keras_bert_app.tasks.features import Features, RowBuilder, notes_of_empty, piece_ids
from keras_bert_app.tasks.task import SIMILARITY_FIELDS, Examples, Task
from keras_bert_app.tasks.vector_objective import CONTRASTIVE, SIMCSE, TSDAE, VectorObjective
from pipelines.plurals import counted

READS = ("pooling", *SIMILARITY_FIELDS)
# What dev examples are scored by -> the metrics, the first of which chooses the weights.
METRICS = {
    "spearman": ("spearman", "pearson"),
    "mrr": ("mrr", "accuracy_at_1", "recall_at_10"),
    "nearest_label": ("nearest_label",),
}

signatures, pictures = metrics.no_signatures, metrics.no_pictures


@dataclasses.dataclass(frozen=True)
class Example:
    """One text or several.

    Attributes:
        guid: Name of the example in predictions.
        texts: tuple of str: the text, or the anchor, its positive and its negatives.
        label: A score, the name of a class, or None.
        place: file:line.
        role: The role of a text alone, which decides its prompt.
    """

    guid: str
    texts: tuple[str, ...]
    label: float | str | None
    place: str
    role: str = DOCUMENT


def label_names(task: Task, examples: Sequence[Example], run: FinetuningConfig) -> tuple[str, ...]:
    """(), because the outputs are numbers of vectors.

    Raises:
        UserError: the training examples cannot have the loss of the run.
    """
    vector_checks.check_learnable(examples, run)
    return ()


def classes(task: Task, example: Example) -> tuple[str, ...]:
    """The label of an example, if it is the name of a class."""
    return (example.label,) if isinstance(example.label, str) else ()


def sources(examples: Sequence[Example]) -> list[tuple]:
    """The first text of each example."""
    return [sampling.content(example.texts[0]) for example in examples]


def input_names(examples: Sequence[Example]) -> list[str]:
    """The names of the inputs of an exported model."""
    return ["text"]


def featurize(
    task: Task, examples: Sequence[Example], tokenizer, run: FinetuningConfig, labels: tuple, has_labels: bool = True
) -> Features:
    """The Features of examples. Each text is a row, and the rows of an example are a unit.

    An example of one text without a label has its text twice, for SimCSE. The prompts of the run stand before the
    texts; see roles.
    """
    builder, units, cut, room = RowBuilder(tokenizer), [0], 0, run.max_seq_length - 2
    groups = [_texts_of(example, run, has_labels) for example in examples]
    prompts = {role: run.prompts.of_role(role) for role in ROLES}
    pieces = iter(
        piece_ids(
            tokenizer,
            [
                prompts[role] + text
                for example, texts in zip(examples, groups, strict=True)
                for role, text in zip(roles(example, len(texts)), texts, strict=True)
            ],
        )
    )
    alone = _pieces_of_prompts(tokenizer, prompts, room)
    empty = []
    for number, (example, texts) in enumerate(zip(examples, groups, strict=True)):
        for role in roles(example, len(texts)):
            ids = next(pieces)
            cut += len(ids) > room
            empty += [number] if np.array_equal(ids, alone[role]) and number not in empty[-1:] else []
            builder.add(ids[:room])
        units.append(units[-1] + len(texts))
    notes = examples.notes() if isinstance(examples, Examples) else []
    notes += notes_of_empty(examples, empty)
    if cut:
        notes.append(f"{cut:,} of {units[-1]:,} texts have more than {run.max_seq_length} tokens and were cut")
    features = builder.features(np.arange(len(examples)), unit_splits=units, notes=notes)
    features.has_first_apart = any(len(example.texts) > 1 for example in examples)
    if has_labels and run.vector_loss == TSDAE and units[-1] == len(examples):
        prompt_lengths = np.array([len(alone[example.role]) for example in examples])
        features.token_labels = {WORDS: _word_numbers(features, tokenizer, prompt_lengths)}
    if has_labels:
        features.labels = _labels(examples)
    if has_labels and run.vector_loss in (CONTRASTIVE, SIMCSE):
        numbers = _numbers(groups)
        features.text_numbers = numbers[:, :2].astype(np.int64)
        features.labels["text_numbers"] = numbers
    return features


def roles(example: Example, count: int) -> tuple[str, ...]:
    """The roles of the texts of an example, which decide their prompts.

    The first of several texts is a query, and the others are documents. A text alone has the role of the example, also
    when SimCSE has it twice.

    Args:
        example: Example.
        count: int. The number of its texts in the features.
    """
    return (example.role,) * count if len(example.texts) == 1 else (QUERY,) + (DOCUMENT,) * (count - 1)


def _pieces_of_prompts(tokenizer, prompts, room):
    """dict role -> the pieces of its prompt. A text whose row has these pieces is empty.

    Raises:
        UserError: a prompt leaves no room for a text.
    """
    pieces = dict(zip(prompts, piece_ids(tokenizer, list(prompts.values())), strict=True))
    for role, ids in pieces.items():
        if len(ids) >= room:
            raise UserError(
                f"--{role}_prompt: has {counted(len(ids), 'token')}, which leaves no room for a text in "
                f"--max_seq_length={room + 2}; give a shorter prompt or longer rows"
            )
    return pieces


def _word_numbers(features, tokenizer, prompt_lengths):
    """int32 [T]: the number of each piece's word in its row, from 1; 0 for [CLS], the prompt and [SEP].

    Args:
        features: Features whose units are single texts.
        tokenizer: the tokenizer of the pieces.
        prompt_lengths: int [U]. Pieces of the prompt of each text.
    """
    begins_word = np.array([not piece.startswith("##") for piece in tokenizer.vocabulary])[features.token_ids]
    starts, ends = features.row_splits[:-1], features.row_splits[1:]
    counts = np.cumsum(begins_word)
    numbers = counts - np.repeat(counts[starts], ends - starts)
    places = np.arange(len(numbers)) - np.repeat(starts, ends - starts)
    numbers[places <= np.repeat(prompt_lengths, ends - starts)] = 0
    numbers[ends - 1] = 0
    return numbers.astype(np.int32)


def _numbers(groups):
    """int32 [U, G]: a number for each text of a unit, -1 for none. Texts of the same content have the same number."""
    known, numbers = {}, np.full((len(groups), max(map(len, groups), default=0)), -1, np.int32)
    for row, texts in zip(numbers, groups, strict=True):
        row[: len(texts)] = [known.setdefault(sampling.content(text), len(known)) for text in texts]
    return numbers


def _texts_of(example, run, has_labels):
    is_alone = has_labels and run.vector_loss == SIMCSE and example.label is None and len(example.texts) == 1
    return example.texts * 2 if is_alone else example.texts


def _labels(examples):
    """{"scores"} or {"labels"} of examples, or {} if they have none."""
    values = [example.label for example in examples]
    if not values or values[0] is None:
        return {}
    if isinstance(values[0], str):
        numbers = {name: number for number, name in enumerate(sorted(set(values)))}
        return {"labels": np.array([numbers[value] for value in values], np.int32)}
    return {"scores": np.array(values, np.float32)}


def texts(examples: Sequence[Example]) -> list[str]:
    """All texts, on which a run can train masked LM."""
    return [text for example in examples for text in example.texts if text]


def make_head(task: Task, run: FinetuningConfig, labels: tuple, tokenizer=None) -> VectorHead:
    """The VectorHead of a run.

    Raises:
        UserError: the pooling gives several vectors.
    """
    if run.pooling == "concat":
        raise UserError("--pooling=concat: a text has one vector; give --pooling=mean, max or cls")
    return VectorHead(run.pooling)


def make_objective(task: Task, run: FinetuningConfig, head: VectorHead) -> VectorObjective | Denoising:
    """The loss that the columns of the training file gave."""
    if run.vector_loss == TSDAE:
        return Denoising(run.deletion_ratio)
    return VectorObjective(run.vector_loss, run.vector_temperature, run.symmetric_loss, run.triplet_margin, run.sizes)


def make_answers(run: FinetuningConfig) -> Callable:
    """Makes the function that gives the vectors of a batch, float32 [B, G, H]."""

    def answers(model, batch, execution):
        return model(batch, execution=execution)["vectors"]

    return answers


def decode(
    task: Task,
    examples: Sequence[Example],
    features: Features,
    logits: Sequence[np.ndarray],
    run: FinetuningConfig,
    labels: tuple,
) -> list[dict]:
    """The predictions from vectors; see vector_answers.predictions.

    Args:
        task: Task.
        examples: The examples.
        features: Features of the examples.
        logits: The vectors of each example, float32 [G, H].
        run: FinetuningConfig. Its similarity_metric says what is predicted.
        labels: ().
    """
    if any(example.label is not None for example in examples) or run.similarity_metric != "spearman":
        vector_checks.check_judged(examples, run)
    else:
        vector_checks.check_pairs(examples)
    return vector_answers.predictions(examples, logits, run.similarity_metric)


def score(task: Task, examples: Sequence[Example], predictions: Sequence[dict], labels: tuple) -> dict[str, float]:
    """dict metric -> score."""
    return {name: vector_answers.SCORES[name](examples, predictions) for name in task.metrics}


def measure(task: Task, examples: Sequence[Example], predictions: Sequence[dict], labels: tuple) -> intervals.Measure:
    """The first metric of the task, for resamples."""
    return vector_answers.measure(task.metrics[0], examples, predictions)


def baseline(
    task: Task, train_examples: Sequence[Example], examples: Sequence[Example], labels: tuple
) -> tuple[str, list[dict]]:
    """(description, predictions) of the baseline: cosines of TF-IDF vectors of words."""
    kind = next(name for name, names in METRICS.items() if names == task.metrics)
    vectors = vector_answers.tf_idf(train_examples, examples)
    return "cosine of the words' TF-IDF", vector_answers.predictions(examples, vectors, kind)


def answers(
    task: Task, examples: Sequence[Example], predictions: Sequence[dict], labels: tuple
) -> tuple[list, list, tuple]:
    """(right answers, given answers, names) for the picture: scores, ranks up to 20, or labels."""
    return vector_answers.for_picture(examples, predictions)


def write_predictions(task: Task, directory: str, examples: Sequence[Example], predictions: Sequence[dict]) -> None:
    """Writes predictions.tsv: index, what was predicted, and the texts."""
    with open(os.path.join(directory, "predictions.tsv"), "w", encoding="utf-8", newline="") as file:
        names, most = list(predictions[0]), max(len(example.texts) for example in examples)
        file.write("\t".join(["index", *names, *(f"text_{number}" for number in range(1, most + 1))]) + "\n")
        for example, prediction in zip(examples, predictions, strict=True):
            texts_of = [*example.texts, *[""] * (most - len(example.texts))]
            shown = (" ".join(str(value).split()) for value in (*prediction.values(), *texts_of))
            file.write("\t".join([example.guid, *shown]) + "\n")


def mistakes(task: Task, examples: Sequence[Example], predictions: Sequence[dict], most: int) -> list[dict]:
    """At most `most` answers as dicts, the worst first."""
    return vector_answers.worst(examples, predictions, most)
