"""Scores of rankings: the documents of each query by their scores, against their grades.

A document is relevant if its grade is above 0, as in the files of TREC; see gains. A ranking has a score if the query
has a relevant document and one of a lower grade. If two documents have
equal scores, the one of the lower grade comes first, so that a tie is no success.
"""

from collections.abc import Sequence

import numpy as np

from keras_bert_app.errors import UserError
from keras_bert_app.tasks import intervals
from keras_bert_app.tasks.search_scores import average_precision, ndcg, reciprocal_rank

# Metric -> (function of search_scores, how many documents count; None for all).
METRICS = {"ndcg@10": (ndcg, 10), "mrr@10": (reciprocal_rank, 10), "map": (average_precision, None)}
_SHOWN_RANKS = 20


def ordered(scores: Sequence[float], grades: Sequence[float] | None = None) -> np.ndarray:
    """The numbers of documents, the best first. A score that is not a number comes last.

    Args:
        scores: float [G].
        grades: float [G], which decide between equal scores. None: the first document comes first.

    Returns:
        int [G].
    """
    values = np.nan_to_num(np.asarray(scores, np.float64), nan=-np.inf)
    return np.lexsort((np.zeros(len(values)) if grades is None else np.asarray(grades), -values))


def gains(grades: Sequence[float]) -> np.ndarray:
    """float64 [G]: how relevant each document is; 0 for a document that is not relevant.

    Args:
        grades: float [G].
    """
    return np.maximum(np.asarray(grades, np.float64), 0.0)


def has_score(grades: Sequence[float]) -> bool:
    """Whether the ranking of documents with these grades can be right or wrong."""
    return max(gains(grades)) > 0 and min(grades) < max(grades)


def check(examples: Sequence, where: str, advice: str) -> None:
    """Refuses examples without any score.

    Args:
        examples: reranking.Example with labels.
        where: the file or the part of it, for the message.
        advice: what else the user can do, for the message.

    Raises:
        UserError: no query has a score.
    """
    if not any(has_score(example.labels) for example in examples):
        raise UserError(
            f"{where}: no query has a relevant document (label above 0) and another one, which the score of a ranking "
            f"needs; {advice}"
        )


def of_query(metric: str, scores: Sequence[float], grades: Sequence[float]) -> float:
    """The score of one ranking; NaN if it has none.

    Args:
        metric: a key of METRICS.
        scores: float [G].
        grades: float [G].
    """
    if not has_score(grades):
        return np.nan
    score, k = METRICS[metric]
    return score(ordered(scores, grades).tolist(), dict(enumerate(grades)), k or len(grades))


def of_queries(metric: str, examples: Sequence, predictions: Sequence[dict]) -> np.ndarray:
    """float64 [N]: the score of each ranking; NaN for queries without one.

    Args:
        metric: a key of METRICS.
        examples: reranking.Example.
        predictions: dicts with "scores".
    """
    pairs = zip(examples, predictions, strict=True)
    return np.array([of_query(metric, prediction["scores"], example.labels) for example, prediction in pairs])


def mean(values: np.ndarray) -> float:
    """The mean over the queries that have a score.

    Args:
        values: the result of of_queries.

    Raises:
        UserError: no query has one.
    """
    if np.isnan(values).all():
        raise UserError(
            f"none of {len(values):,} queries has a relevant document (label above 0) and another one, which the score "
            "of a ranking needs; give more queries"
        )
    return float(np.nanmean(values))


def measure(values: np.ndarray) -> intervals.Measure:
    """The scores of queries for resamples. A resample without any score counts as 0.

    Args:
        values: the result of of_queries.
    """
    is_scored = ~np.isnan(values)
    if is_scored.all():
        return values
    return lambda indices: float(values[indices][is_scored[indices]].mean()) if is_scored[indices].any() else 0.0


def for_picture(examples: Sequence, predictions: Sequence[dict]) -> tuple[list, list, tuple]:
    """(right answers, given answers, names) for drawing.finetuning_pictures.draw_answers: ranks of best documents."""
    names = (*map(str, range(1, _SHOWN_RANKS)), f"{_SHOWN_RANKS} and more")
    pairs = zip(examples, predictions, strict=True)
    ranks = [
        first_rank(prediction["scores"], example.labels) for example, prediction in pairs if has_score(example.labels)
    ]
    return [0] * len(ranks), [min(rank, _SHOWN_RANKS) - 1 for rank in ranks], (("best document",), names)


def first_rank(scores: Sequence[float], grades: Sequence[float]) -> int:
    """The rank of the first document with the highest grade, 1 for the first of all."""
    return 1 + int(np.argmax(np.asarray(grades)[ordered(scores, grades)]))
