"""Choosing on one half and counting on the other, so that the best of many heads is not the luckiest."""

import numpy as np


def split(*levels):
    """bool [n]: which of two halves each item is in, whole groups of the coarsest level that has two; None for one item.

    Args:
        levels: each int [n], the number of each item's group, coarse ones first: its document, its window, itself.
    """
    for level in levels:
        groups, places = np.unique(level, return_inverse=True)
        if len(groups) > 1:
            return places % 2 == 1
    return None


def share(counts, totals):
    """The share of right answers when each half is counted with the choice that is best on the other; None where a half has
    nothing to choose by.

    Args:
        counts: int [2, ...], the right answers of each choice in each half. totals: int [2], the questions of each half.
    """
    if min(totals) == 0:
        return None
    flat = np.reshape(counts, (2, -1))
    return float(flat[0, flat[1].argmax()] + flat[1, flat[0].argmax()]) / float(np.sum(totals))


def mean_and_spread(shares):
    """[mean, standard deviation] of what several encoders reach, [None, None] where nothing could be counted."""
    known = [one for one in shares if one is not None]
    return [float(np.mean(known)), float(np.std(known))] if known else [None, None]
