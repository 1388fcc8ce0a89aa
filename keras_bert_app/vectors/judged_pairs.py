"""Pairs of texts that belong together, from the tables of the task similarity, and random pairs beside them."""

import typing

import numpy as np

from keras_bert_app.config.finetuning_config import FinetuningConfig
from keras_bert_app.errors import UserError
from keras_bert_app.tasks.families import text_vectors
from keras_bert_app.tasks.readers.similarity import TASKS
from keras_bert_app.tasks.sampling import content
from keras_bert_app.vectors.vector_maps import sampled_rows

POSITIVES, RANDOM, GIVEN_NEGATIVES = "positives", "random pairs", "negatives"
_RANDOM_OF_EACH, _FEWEST_DRAWS = 5, 1000  # random pairs drawn for each positive, and for all together
_SEED = 0


class Pairs(typing.NamedTuple):
    """Pairs of texts.

    Attributes:
        texts: list of M str. The different texts of all pairs.
        roles: list of M str. "query" for the first text of a pair, "document" for the others.
        series: dict name -> int [P, 2]. Pairs of rows of texts: POSITIVES first, then RANDOM, then those that the file
            has itself (GIVEN_NEGATIVES, or the pairs of low scores).
        remarks: list of str. What the reader left out.
    """

    texts: list[str]
    roles: list[str]
    series: dict[str, np.ndarray]
    remarks: list[str]


def read_pairs(path: str, run: FinetuningConfig, positive_score: float | None, most: int) -> Pairs:
    """Reads a table of pairs, and draws random pairs.

    A random pair joins the first text of one positive pair with the second text of another. It is never a pair of the
    table itself, in any order, nor a text with itself.

    Args:
        path: str. A table of `finetune --task=similarity`: an anchor and its positive, or two texts and a score.
        run: FinetuningConfig. Its text_columns, label_column and header say how to read the table.
        positive_score: float. The least score of a pair of texts that belong together; None for tables without scores.
        most: int. The most rows to use. A sample is drawn from a longer table.

    Returns:
        Pairs.

    Raises:
        UserError: the table has no such pairs, or a row is at fault.
    """
    (task,) = TASKS
    examples = task.read(path, run, True)
    _check(path, examples, positive_score)
    remarks, count, judged = examples.notes(), len(examples), _judged(examples)
    if positive_score is not None and not any(example.label >= positive_score for example in examples):
        raise UserError(
            f"{path}: has no pair with a score of {positive_score:g} or more; give a lower --positive_score"
        )
    examples = [examples[row] for row in sampled_rows(count, most)]
    if count > len(examples):
        remarks.append(f"a sample of {len(examples):,} of its {count:,} rows is used")
    texts = {}
    is_positive = [positive_score is None or example.label >= positive_score for example in examples]
    rows = [
        tuple(
            texts.setdefault(key, len(texts))
            for key in zip(text_vectors.roles(example, len(example.texts)), example.texts, strict=True)
        )
        for example in examples
    ]
    roles, texts = map(list, zip(*texts, strict=True))
    positives = [row[:2] for row, is_own in zip(rows, is_positive, strict=True) if is_own]
    others = [row[:2] for row, is_own in zip(rows, is_positive, strict=True) if not is_own]
    others += [(row[0], negative) for row in rows for negative in row[2:]]
    if not positives:
        raise UserError(
            f"{path}: a sample of {len(examples):,} of its {count:,} rows has no pair with a score of "
            f"{positive_score:g} or more; give a table with more of them, or a lower --positive_score"
        )
    series = {POSITIVES: np.array(positives), RANDOM: _random_pairs(path, positives, texts, judged)}
    if others:
        name = GIVEN_NEGATIVES if positive_score is None else f"scores below {positive_score:g}"
        series[name] = np.array(others)
    return Pairs(texts, roles, series, remarks)


def _check(path, examples, positive_score):
    if not examples:
        raise UserError(f"{path}: has no row with two texts; give a table of anchors and their positives")
    first = examples[0]
    if len(first.texts) < 2:
        kind = "texts with labels" if first.label is not None else "texts alone"
        raise UserError(
            f"{path}: has {kind}, which say no pairs; give a table of anchors and their positives, or of two texts and "
            "a score, or name two columns with --text_columns"
        )
    if (first.label is not None) != (positive_score is not None):
        raise UserError(
            f"{path}: has two texts and a score in each row; give --positive_score=N, the least score of texts that "
            "belong together"
            if positive_score is None
            else f"--positive_score={positive_score:g}: {path} has no scores; leave it out, or name their column with "
            "--label_column"
        )


def _judged(examples):
    """The contents of all pairs of a table, in both orders."""
    pairs = [(content(example.texts[0]), content(text)) for example in examples for text in example.texts[1:]]
    return {pair for one, other in pairs for pair in ((one, other), (other, one))}


def _random_pairs(path, positives, texts, judged):
    """int [P, 2]: pairs of the first text of one positive pair and the second text of another one."""
    keys = [content(text) for text in texts]
    count = len(positives)
    size = min(count**2, max(_RANDOM_OF_EACH * count, _FEWEST_DRAWS))
    draws = np.random.default_rng(_SEED).choice(count**2, size, replace=False).tolist()
    drawn = {(positives[draw // count][0], positives[draw % count][1]) for draw in draws}
    pairs = sorted(
        (one, other) for one, other in drawn if keys[one] != keys[other] and (keys[one], keys[other]) not in judged
    )
    if not pairs:
        raise UserError(
            f"{path}: its pairs give no random pairs beside them; give two or more pairs of different texts"
        )
    return np.array(pairs)
