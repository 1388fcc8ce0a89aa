"""The family of rerankers: which documents answer a query.

Each document of a query is a row [CLS] query [SEP] document [SEP], and the output layer gives one number for each row.
"""

import dataclasses
import os
from collections.abc import Callable, Sequence

import numpy as np

from keras_bert_app.config.finetuning_config import FinetuningConfig
from keras_bert_app.errors import UserError
from keras_bert_app.modeling.task_head import TEXT, Head
from keras_bert_app.tasks import intervals, metrics, predicting, sampling
from keras_bert_app.tasks.families import ranking_scores, vector_answers
from keras_bert_app.tasks.features import Features, RowBuilder, notes_of_empty, piece_ids, truncated
from keras_bert_app.tasks.ranking_objective import BINARY, GRADED, LISTWISE, RankingObjective
from keras_bert_app.tasks.ranking_objective import answers as answers_of_logits
from keras_bert_app.tasks.task import HEAD_FIELDS, RERANK_FIELDS, Examples, Task, head_options
from keras_bert_app.training import forward

_MANY_ROWS = 256  # A batch of lists with more rows is announced.

READS = (*HEAD_FIELDS, "pooling", *RERANK_FIELDS)

signatures, pictures = metrics.no_signatures, metrics.no_pictures


@dataclasses.dataclass(frozen=True)
class Example:
    """A query with documents.

    Attributes:
        guid: Name of the query in predictions.
        query: str.
        documents: tuple of str.
        labels: The grade of each document, above 0 if it is relevant; None if the grades are unknown.
        names: Names of the documents in predictions.
        places: file:line of each document.
        in_training: Whether the example is a part of a query to train on: one pair (BINARY, GRADED) or one list
            (LISTWISE). Other examples have all documents of their query.
    """

    guid: str
    query: str
    documents: tuple[str, ...]
    labels: tuple[float, ...] | None
    names: tuple[str, ...]
    places: tuple[str, ...]
    in_training: bool = False

    @property
    def place(self) -> str:
        """file:line of the first document."""
        return self.places[0]

    @property
    def texts(self) -> tuple[str, ...]:
        """The query, and then its documents."""
        return (self.query, *self.documents)


def label_names(task: Task, examples: Sequence[Example], run: FinetuningConfig) -> tuple[str, ...]:
    """(), because the output is a number.

    Raises:
        UserError: the training examples cannot have the loss of the run.
    """
    grades = {label for example in examples for label in example.labels}
    place = examples[0].place.rpartition(":")[0]
    if run.ranking_loss == BINARY and (others := grades - {0.0, 1.0}):
        example = next(example for example in examples if not others.isdisjoint(example.labels))
        raise UserError(
            f"{example.place}: label {example.labels[0]:g}; --ranking_loss=binary expects 0 or 1; leave it out to "
            "learn grades"
        )
    if run.ranking_loss == LISTWISE and (lowest := min(grades)) > 0:
        raise UserError(
            f"{place}: no list has a document with the label 0, and --ranking_loss={LISTWISE} takes every label above "
            f"0 as relevant; if the lowest label {lowest:g} says not relevant, subtract it from all labels, or leave "
            "the flag out to learn grades"
        )
    if len(grades) < 2:
        raise UserError(
            f"{place}: every document has the label {min(grades):g}; expected relevant documents and others; add "
            "documents that do not answer their query"
        )
    return ()


def classes(task: Task, example: Example) -> tuple[str, ...]:
    """(), because a query has documents of several grades."""
    return ()


def sources(examples: Sequence[Example]) -> list[tuple]:
    """The query of each example."""
    return [sampling.content(example.query) for example in examples]


def input_names(examples: Sequence[Example]) -> list[str]:
    """The names of the inputs of an exported model."""
    return ["query", "document"]


def featurize(
    task: Task, examples: Sequence[Example], tokenizer, run: FinetuningConfig, labels: tuple, has_labels: bool = True
) -> Features:
    """The Features of examples. Each document is a row. The documents of a list to train on are one unit.

    If a row is too long, the longer text loses its end.
    """
    builder, cut, empty, room = RowBuilder(tokenizer), 0, [], run.max_seq_length - 3
    queries = piece_ids(tokenizer, [example.query for example in examples])
    documents = iter(piece_ids(tokenizer, [text for example in examples for text in example.documents]))
    sizes = [len(example.documents) for example in examples]
    for number, query in enumerate(queries):
        for _ in range(sizes[number]):
            document = next(documents)
            row = truncated((query, document), room)
            cut += sum(map(len, row)) < len(query) + len(document)
            empty += [number] if not (len(query) and len(document)) and number not in empty[-1:] else []
            builder.add(*row)
    notes = examples.notes() if isinstance(examples, Examples) else []
    notes += notes_of_empty(examples, empty)
    if cut:
        notes.append(f"{cut:,} of {sum(sizes):,} pairs have more than {run.max_seq_length} tokens and were cut")
    in_training = any(example.in_training for example in examples)
    in_lists = in_training and run.ranking_loss == LISTWISE
    if has_labels and not in_training:
        notes += _notes_without_score(examples)
    if in_lists and run.global_batch_size * max(sizes) > _MANY_ROWS:
        most = max(sizes)
        notes.append(
            f"a batch of {run.global_batch_size} lists has up to {run.global_batch_size * most:,} rows, because the "
            f"largest list has {most} documents; if they do not fit into memory, lower --global_batch_size"
        )
    splits = np.concatenate([[0], np.cumsum(sizes)])
    return builder.features(
        np.arange(len(examples)) if in_lists else np.repeat(np.arange(len(examples)), sizes),
        unit_splits=splits if in_lists else None,
        notes=notes,
        labels={"labels": _label_values(examples, run.list_size if in_lists else 0)} if has_labels else {},
    )


def _notes_without_score(examples):
    count = sum(not ranking_scores.has_score(example.labels) for example in examples)
    notes = [f"{count:,} of {len(examples):,} queries without a score: no relevant document, or only relevant ones"]
    if min(min(example.labels) for example in examples) > 0:
        notes.append("every label is above 0, so that every document is relevant to mrr@10 and map")
    return notes[not count :]


def _label_values(examples, list_size):
    """The grades of all documents, float32 [R]; with a list_size those of lists, float32 [U, list_size], at least 0."""
    if not list_size:
        return np.array([label for example in examples for label in example.labels], np.float32)
    values = np.zeros((len(examples), list_size), np.float32)
    for row, example in zip(values, examples, strict=True):
        row[: len(example.labels)] = ranking_scores.gains(example.labels)
    return values


def texts(examples: Sequence[Example]) -> list[str]:
    """All texts once, for masked LM on them."""
    return [text for text in dict.fromkeys(text for example in examples for text in example.texts) if text]


def make_head(task: Task, run: FinetuningConfig, labels: tuple, tokenizer=None) -> Head:
    """The Head of a run. transfer.in_units_of adds the scale of the grades."""
    return Head(TEXT, 1, pooling=run.pooling, **head_options(run))


def make_objective(task: Task, run: FinetuningConfig, head: Head) -> RankingObjective:
    """The loss that the columns of the training file gave."""
    return RankingObjective(run.ranking_loss, head, run.list_size, run.consistency_weight)


def make_answers(run: FinetuningConfig) -> Callable:
    """Makes the function that gives the scores of a batch, float32 [B, 1]."""
    if run.ranking_loss != GRADED:
        return predicting.answers_are_logits(run)

    def grades(model, batch, execution):
        return answers_of_logits(forward.logits_of(model, batch, execution), model.head, GRADED)

    return grades


def decode(
    task: Task,
    examples: Sequence[Example],
    features: Features,
    logits: np.ndarray,
    run: FinetuningConfig,
    labels: tuple,
) -> list[dict]:
    """The predictions from scores.

    Args:
        task: Task.
        examples: The examples, each with all documents of its query.
        features: Features of the examples.
        logits: float32 [R, 1]. The scores of all documents.
        run: FinetuningConfig.
        labels: ().

    Returns:
        list of dicts: scores, and ranks from 1; a list each with one entry for each document.
    """
    return _predictions(examples, logits[:, 0])


def _predictions(examples, scores):
    ends = np.cumsum([len(example.documents) for example in examples])
    return [
        {"scores": row.tolist(), "ranks": (1 + np.argsort(ranking_scores.ordered(row))).tolist()}
        for row in np.split(np.asarray(scores, np.float64), ends[:-1])
    ]


def score(task: Task, examples: Sequence[Example], predictions: Sequence[dict], labels: tuple) -> dict[str, float]:
    """dict metric -> mean over the queries that can have a score."""
    return {name: ranking_scores.mean(ranking_scores.of_queries(name, examples, predictions)) for name in task.metrics}


def measure(task: Task, examples: Sequence[Example], predictions: Sequence[dict], labels: tuple) -> intervals.Measure:
    """The first metric of the task, for resamples."""
    return ranking_scores.measure(ranking_scores.of_queries(task.metrics[0], examples, predictions))


def baseline(
    task: Task, train_examples: Sequence[Example], examples: Sequence[Example], labels: tuple
) -> tuple[str, list[dict]]:
    """(description, predictions) of the baseline: cosines of TF-IDF vectors of words."""
    vectors = vector_answers.tf_idf(train_examples, examples)
    cosines = [(rows[1:] @ rows[:1].T).toarray()[:, 0] for rows in vectors]
    return "cosine of the words' TF-IDF", _predictions(examples, np.concatenate(cosines))


def answers(
    task: Task, examples: Sequence[Example], predictions: Sequence[dict], labels: tuple
) -> tuple[list, list, tuple]:
    """(right answers, given answers, names) for the picture: ranks of the best documents, up to 20."""
    return ranking_scores.for_picture(examples, predictions)


def write_predictions(task: Task, directory: str, examples: Sequence[Example], predictions: Sequence[dict]) -> None:
    """Writes predictions.tsv: index, query, document, score and rank, the best document of each query first."""
    with open(os.path.join(directory, "predictions.tsv"), "w", encoding="utf-8", newline="") as file:
        file.write("index\tquery\tdocument\tscore\trank\n")
        for example, prediction in zip(examples, predictions, strict=True):
            for number in np.argsort(prediction["ranks"]):
                row = (example.names[number], example.query, example.documents[number])
                numbers = f"{prediction['scores'][number]:.7g}\t{prediction['ranks'][number]}"
                file.write("\t".join([*(" ".join(text.split()) for text in row), numbers]) + "\n")


def mistakes(task: Task, examples: Sequence[Example], predictions: Sequence[dict], most: int) -> list[dict]:
    """At most `most` rankings as dicts, the lowest score first."""
    values = ranking_scores.of_queries(task.metrics[0], examples, predictions)
    found = []
    for index in np.argsort(values, kind="stable")[:most]:
        if not values[index] < 1.0:  # NaN for a query without a score
            break
        example, scores = examples[index], predictions[index]["scores"]
        found.append(
            {
                "place": example.place,
                "rank": ranking_scores.first_rank(scores, example.labels),
                task.metrics[0]: round(float(values[index]), 4),
                "predicted": example.documents[ranking_scores.ordered(scores, example.labels)[0]],
                "right": example.documents[int(np.argmax(example.labels))],
                "text": example.query,
            }
        )
    return found
