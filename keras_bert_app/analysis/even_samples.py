"""Samples of a list at equal steps."""

from collections.abc import Sequence
from typing import Any

import numpy as np


def evenly_spaced(items: Sequence[Any], most: int) -> list[Any]:
    """Takes items at equal steps, the first and the last included.

    Args:
        items: sequence. The items to choose from.
        most: int. The largest number of items to take.

    Returns:
        list of `most` items, or of all items if the sequence is not longer.
    """
    return [items[at] for at in np.linspace(0, len(items) - 1, min(len(items), most)).astype(int)]
