"""Two halves of the data: one to choose the best head or layer, and one to measure its accuracy.

Without the split, the best of many heads could be only the luckiest one.
"""

from collections.abc import Iterable

import numpy as np


def assign_halves(*levels: np.ndarray) -> np.ndarray | None:
    """Assigns each item to one of two halves, without splitting a group.

    The first level with at least two groups defines the groups.

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


def reported_half(is_counted: np.ndarray, *levels: np.ndarray) -> np.ndarray | None:
    """Assigns items to the half for the choice or to the half for the report.

    Both halves have counted items.

    Args:
        is_counted: bool [n]. The items that the choice and the report need.
        *levels: int [n] each. See assign_halves.

    Returns:
        bool [n]. True for the half for the report. Groups without counted items belong to that half. None if less than
        two items count.
    """
    for level in levels:
        groups = np.unique(np.asarray(level)[is_counted])
        if len(groups) > 1:
            return ~np.isin(level, groups[0::2])
    return None


def cross_half_answers(answers: np.ndarray, half: np.ndarray) -> np.ndarray:
    """Selects for each question the answer of the choice that is best on the opposite half.

    Args:
        answers: bool [n, ...]. Whether the answer of each choice to each question is right.
        half: bool [n]. See assign_halves.

    Returns:
        bool [n].
    """
    flat = np.reshape(answers, (len(half), -1))
    # best[0] answers the questions of half False, best[1] the questions of half True.
    best = [flat[half == is_first].sum(axis=0).argmax() for is_first in (True, False)]
    return flat[np.arange(len(half)), np.where(half, best[1], best[0])]


def mean_and_spread(shares: Iterable[float | None]) -> list[float | None]:
    """Computes the mean and the standard deviation of the shares of several encoders.

    Args:
        shares: float or None each. None stands for a share that could not be counted.

    Returns:
        [mean, standard deviation], or [None, None] if every share is None.
    """
    known = [share for share in shares if share is not None]
    return [float(np.mean(known)), float(np.std(known))] if known else [None, None]
