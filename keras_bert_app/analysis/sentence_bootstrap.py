"""95 % intervals of scores by a bootstrap that draws sentences or documents with replacement.

The items of one sentence depend on each other. An interval for independent items would be too narrow. See Efron and
Tibshirani 1993, An Introduction to the Bootstrap, section 13.3 (percentile intervals).

Dimensions: n items, G groups (sentences or documents), R draws.
"""

import functools
from collections.abc import Callable

import numpy as np

from keras_bert_app.tasks.intervals import FEWEST_SOURCES
from keras_bert_app.training.evaluation import wilson_interval

_DRAWS, _DRAWS_AT_ONCE = 1000, 100
_BOUNDS = (2.5, 97.5)  # percent


def interval(statistic: Callable[[np.ndarray], np.ndarray], num_groups: int) -> np.ndarray:
    """Computes the interval of any statistic of groups.

    Args:
        statistic: function of float64 [R, G], which says how often each draw has each group. The function returns float
            [R, ...]; NaN stands for a draw with nothing to count.
        num_groups: int. The number G of groups.

    Returns:
        float64 [2, ...]. The lower and the upper bound; NaN if no draw has anything to count.
    """
    drawn = _counts(num_groups)
    values = np.concatenate(
        [
            statistic(drawn[at : at + _DRAWS_AT_ONCE].astype(np.float64))  # all draws at once may not fit into memory
            for at in range(0, _DRAWS, _DRAWS_AT_ONCE)
        ]
    )
    is_empty = np.isnan(values).all(axis=0)
    return np.where(is_empty, np.nan, np.nanpercentile(np.where(is_empty, 0.0, values), _BOUNDS, axis=0))


@functools.lru_cache(maxsize=2)  # a study computes dozens of intervals over the same sentences
def _counts(num_groups):
    """int32 [R, G]: how often each draw has each group."""
    places = np.random.default_rng(0).integers(0, num_groups, (_DRAWS, num_groups), np.int32)
    return np.stack([np.bincount(row, minlength=num_groups) for row in places]).astype(np.int32)


def share_interval(right: np.ndarray, groups: np.ndarray) -> tuple[float | None, float | None]:
    """Computes the interval of a share of right answers.

    A bootstrap interval is too narrow if nearly all answers are right, or nearly all are wrong. The result therefore
    always contains Wilson's interval for independent items.

    Args:
        right: float [n], 0 to 1. Whether each answer is right, or the share of seeds with a right answer.
        groups: int [n]. The group of each item.

    Returns:
        (lower bound, upper bound), or (None, None) without items.
    """
    if not len(right):
        return None, None
    low, high = _mean_interval(right, groups)
    wilson = wilson_interval(min(float(np.mean(right)), 1.0), len(right))
    return max(0.0, min(low, wilson[0])), min(1.0, max(high, wilson[1]))


def difference_interval(differences: np.ndarray, groups: np.ndarray) -> tuple[float, float]:
    """Computes the interval of the difference of two shares of right answers to the same questions.

    Args:
        differences: float [n], -1 to 1. The share of seeds whose first answer is right, minus the share of seeds whose
            second answer is right.
        groups: int [n]. The group of each item.

    Returns:
        (lower bound, upper bound). (-1, 1), which excludes nothing, if there are fewer than FEWEST_SOURCES groups.
    """
    if len(np.unique(groups)) < FEWEST_SOURCES:
        return -1.0, 1.0
    return _mean_interval(differences, groups)


def _mean_interval(values, groups):
    _, numbers, sizes = np.unique(groups, return_inverse=True, return_counts=True)
    sums = np.bincount(numbers, weights=np.asarray(values, np.float64))
    low, high = interval(lambda counts: (counts @ sums) / (counts @ sizes), len(sizes))
    return float(low), float(high)


def compared(difference: tuple[float, float]) -> str:
    """Describes a difference in words, by its interval.

    Args:
        difference: (lower bound, upper bound).

    Returns:
        str: "above", "below", or "not distinguishable from".
    """
    return "above" if difference[0] > 0 else "below" if difference[1] < 0 else "not distinguishable from"


def seed_interval(values: np.ndarray) -> tuple[float, float]:
    """Computes the 95 % interval of the mean of independent runs by Student's t.

    Args:
        values: float [seeds].

    Returns:
        (lower bound, upper bound); infinite bounds for one run.
    """
    from scipy.stats import t

    if len(values) < 2:
        return -np.inf, np.inf
    half_width = t.ppf(0.975, len(values) - 1) * np.std(values, ddof=1) / np.sqrt(len(values))
    return float(np.mean(values) - half_width), float(np.mean(values) + half_width)


def written(bounds: tuple[float | None, float | None]) -> str:
    """Writes an interval for a sentence.

    Args:
        bounds: (lower bound, upper bound).

    Returns:
        str, such as "95 % interval 0.2500 to 0.7500".
    """
    low, high = bounds
    return "no interval" if low is None else f"95 % interval {low:.4f} to {high:.4f}"
