"""Checks and prints the claims of the interop_* benchmarks. If a claim is false, the exit code is 1."""

import sys

import numpy as np

from keras_bert_app.interop import parity
from keras_bert_app.interop.weights import Weights

_faults = []


def check(what: str, is_so: bool) -> None:
    """Prints a claim and whether it holds.

    Args:
        what: str. The claim.
        is_so: bool. Whether it holds.
    """
    print(f"  {'yes' if is_so else 'NO '}: {what}")
    if not is_so:
        _faults.append(what)


def are_same(first: dict, second: dict) -> bool:
    """Whether two dicts of arrays have the same keys and, for each key, the same values bit for bit.

    Args:
        first: dict. Name -> array.
        second: dict. Name -> array.
    """
    return first.keys() == second.keys() and all(np.array_equal(first[name], second[name]) for name in first)


def check_outputs(ours: dict, theirs: dict, what: str) -> None:
    """Prints the differences of two sets of outputs and checks them against the limits of parity.

    Args:
        ours: dict of float32 arrays, as parity.our_outputs returns it. Outputs that are not in theirs are left out.
        theirs: dict of float32 arrays, as parity.reference_outputs returns it.
        what: str. Beginning of the claim, such as "our checkpoint: ", or "".
    """
    lines, is_same = parity.compare({name: ours[name] for name in theirs if name in ours}, theirs)
    print("  " + "\n  ".join(lines))
    check(f"{what}outputs of {len(theirs)} kinds within their limits", is_same)


def show_change_of_configuration(source: Weights, written: Weights, batch: dict) -> None:
    """Prints how far outputs change because a layout cannot hold the source's whole configuration.

    Args:
        source: Weights. The original.
        written: Weights. The weights that were written in the layout and read again.
        batch: dict of int32 arrays, as parity.probe_batch returns it.
    """
    if source.config == written.config:
        return
    first, second = (parity.our_outputs(weights, batch) for weights in (source, written))
    differences = ", ".join(
        f"{np.abs(first[name] - second[name]).max():.1e} ({name})" for name in second if name in first
    )
    print(
        f"  with the source's own configuration ({source.config.hidden_act}, layer_norm_eps "
        f"{source.config.layer_norm_eps:g}) our outputs differ from those above by up to {differences}"
    )


def finish() -> None:
    """Prints the claims that do not hold and ends the process: exit code 1 if there are any, 0 otherwise."""
    print("all is as expected" if not _faults else f"not as expected: {'; '.join(_faults)}")
    sys.exit(1 if _faults else 0)
