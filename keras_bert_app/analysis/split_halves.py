"""Two halves of the data: one chooses the best head, the other one measures its accuracy.

Without the split, the best of many heads would be the luckiest one.
"""

from collections.abc import Iterable

import numpy as np


def assign_halves(*levels: np.ndarray) -> np.ndarray | None:
    """Assigns each item to one of two halves, without splitting a group.

    The groups are those of the first level that has at least two groups.

    Args:
        levels: int [n] each. Group numbers of the items, from coarse to fine: document, window, item.

    Returns:
        bool [n]. The half of each item, or None if there is only one item.
    """
    for level in levels:
        groups, group_numbers = np.unique(level, return_inverse=True)
        if len(groups) > 1:
            return group_numbers % 2 == 1
    return None


def cross_half_share(counts: np.ndarray, totals: np.ndarray) -> float | None:
    """Computes the share of right answers when each half uses the best choice of the other half.

    Args:
        counts: int [2, ...]. The right answers of each choice in each half.
        totals: int [2]. The number of questions in each half.

    Returns:
        float, 0 to 1, or None if one half has no question.
    """
    if min(totals) == 0:
        return None
    flat = np.reshape(counts, (2, -1))
    return float(flat[0, flat[1].argmax()] + flat[1, flat[0].argmax()]) / float(np.sum(totals))


def mean_and_spread(shares: Iterable[float | None]) -> list[float | None]:
    """Computes the mean and the standard deviation of the shares of several encoders.

    Args:
        shares: float or None each. None stands for a share that could not be counted.

    Returns:
        [mean, standard deviation], or [None, None] if every share is None.
    """
    known = [share for share in shares if share is not None]
    return [float(np.mean(known)), float(np.std(known))] if known else [None, None]
