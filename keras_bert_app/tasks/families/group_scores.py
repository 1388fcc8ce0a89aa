"""Scores of all examples, and of the examples of each group, such as one language."""

from collections.abc import Callable, Sequence
from typing import Any


def with_groups(
    figures: Callable[[Sequence[Any], Sequence[dict]], dict[str, float]],
    examples: Sequence[Any],
    predictions: Sequence[dict],
) -> dict[str, float]:
    """Scores all examples, and each group by itself if there are several groups.

    Args:
        figures: function of (examples, predictions) that returns a dict metric -> score.
        examples: sequence of examples with a `group`, "" for none.
        predictions: sequence of dicts, one for each example.

    Returns:
        dict METRIC -> score of all, and METRIC_GROUP -> score of the examples of one group.
    """
    scores = figures(examples, predictions)
    groups = sorted({example.group for example in examples} - {""})
    for group in groups if len(groups) > 1 else ():
        members = [pair for pair in zip(examples, predictions, strict=True) if pair[0].group == group]
        scores |= {f"{name}_{group}": value for name, value in figures(*zip(*members, strict=True)).items()}
    return scores
