"""Confidence intervals of scores, by the bootstrap over sources (Efron and Tibshirani 1993).

The source of an example is, for instance, its text.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from keras_bert_app.training.evaluation import wilson_interval

NUM_RESAMPLES = 1000
# If five texts all agree, a two-sided sign test gives p = 0.0625. Five texts therefore allow no statement at 95 %.
FEWEST_SOURCES = 6
_TAILS = (2.5, 97.5)  # percentiles of a 95 % interval
# The score of each example, if the total score is their mean; else a function that scores the indices of a resample.
Measure = np.ndarray | Callable[[np.ndarray], float]


class Compared(NamedTuple):
    """The intervals of a model's score, and of its difference to a baseline on the same examples.

    Attributes:
        interval: (lowest, highest) of the 95 % interval of the score.
        difference_interval: (lowest, highest) of the 95 % interval of the score minus the baseline's score.
    """

    interval: tuple[float, float]
    difference_interval: tuple[float, float]


def compared(measure: Measure, baseline: Measure, sources: Sequence) -> Compared:
    """The intervals of a score, and of its difference to a baseline.

    The function computes both scores on the same resamples, because both depend on the choice of the examples. With
    fewer than FEWEST_SOURCES sources, the interval of the difference always contains 0.

    Args:
        measure: Measure of the model.
        baseline: Measure of the baseline.
        sources: the source of each example.
    """
    members = indices_by_source(sources)
    pairs = [(score_of(measure, indices), score_of(baseline, indices)) for indices in resamples(members)]
    scores, others = np.array(pairs).T
    low, high = percentiles(scores - others)
    if len(members) < FEWEST_SOURCES:
        low, high = min(low, 0.0), max(high, 0.0)
    return Compared(_interval(measure, sources, scores), (low, high))


def interval(measure: Measure, sources: Sequence) -> tuple[float, float]:
    """The 95 % interval of a score.

    Examples of one source, such as questions about one text, are drawn together. If each example has its own source
    and is right or wrong, the interval is Wilson's (1927), which also holds for few examples.

    Args:
        measure: Measure of the model.
        sources: the source of each example.
    """
    return _interval(
        measure, sources, [score_of(measure, indices) for indices in resamples(indices_by_source(sources))]
    )


def _interval(measure, sources, scores):
    if not callable(measure) and np.all((measure == 0) | (measure == 1)) and len(set(sources)) == len(sources):
        return wilson_interval(float(np.mean(measure)), len(sources))
    return percentiles(scores)


def percentiles(values: Sequence[float]) -> tuple[float, float]:
    """The ends of the 95 % interval of resampled values."""
    low, high = np.percentile(values, _TAILS)
    return float(low), float(high)


def indices_by_source(sources: Sequence) -> list[list[int]]:
    """A list of the indices of each source's examples, in the order of the sources."""
    members = {}
    for index, source in enumerate(sources):
        members.setdefault(source, []).append(index)
    return list(members.values())


def resamples(members: list[list[int]]) -> Iterator[np.ndarray]:
    """Yields the indices of NUM_RESAMPLES draws of sources with replacement, the same draws in each call."""
    generator = np.random.Generator(np.random.Philox(key=0))
    is_single = all(len(indices) == 1 for indices in members)
    arrays = np.array([indices[0] for indices in members]) if is_single else list(map(np.array, members))
    for _ in range(NUM_RESAMPLES):
        drawn = generator.integers(len(members), size=len(members))
        yield arrays[drawn] if is_single else np.concatenate([arrays[number] for number in drawn])


def score_of(measure: Measure, indices: np.ndarray) -> float:
    """The score of the examples of a resample."""
    return measure(indices) if callable(measure) else float(np.mean(measure[indices]))
