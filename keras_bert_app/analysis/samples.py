"""Fewer items of many."""

import numpy as np


def evenly(items, most):
    """List of `most` of the items at equal steps, all where there are no more."""
    return [items[at] for at in np.linspace(0, len(items) - 1, min(len(items), most)).astype(int)]
