"""What the interop_* benchmarks share: claims, told as they are checked, and the exit code that follows from them."""

import sys

import numpy as np

_faults = []


def check(what, is_so):
    """Prints a claim and whether it holds."""
    print(f"  {'yes' if is_so else 'NO '}: {what}")
    if not is_so:
        _faults.append(what)


def are_same(first, second):
    """Whether two dicts of arrays have the same keys, and under each the same values bit for bit."""
    return first.keys() == second.keys() and all(np.array_equal(first[name], second[name]) for name in first)


def finish():
    """Says what did not hold, if anything, and ends the process with 1 then and 0 else."""
    print("all is as expected" if not _faults else f"not as expected: {'; '.join(_faults)}")
    sys.exit(1 if _faults else 0)
