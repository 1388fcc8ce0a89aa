"""The contenders of quality_per_minute and their settings."""

import itertools
import math
from typing import NamedTuple

from keras_bert_app.errors import UserError

CONTENDERS = ("ours", "keras_hub", "transformers")
PRECISIONS = ("float32", "bfloat16")
FORM = "NAME[@PEAK_RATE[@PRECISION[@INITIALIZER_RANGE[@DROPOUT]]]]"


class Contender(NamedTuple):
    """An entry of --contenders.

    Attributes:
        name: str. One of CONTENDERS.
        learning_rate: float. Peak rate; None for the rate of our recipe.
        precision: str. Compute type; None for --precision.
        initializer_range: float. Standard deviation of initial weights; None for the contender's default.
        dropout: float. Rate of all dropout; None for the contender's default.
    """

    name: str
    learning_rate: float | None = None
    precision: str | None = None
    initializer_range: float | None = None
    dropout: float | None = None


def parsed(entry: str) -> Contender:
    """The Contender of an entry of --contenders.

    Args:
        entry: str. The entry.

    Raises:
        UserError: the entry has another form, a number is out of range, a peer has no rate, or ours has settings that
            its recipe fixes.
    """
    name, *settings = entry.split("@")
    try:
        if len(settings) > 4:
            raise ValueError
        rate, precision, initializer_range, dropout = (setting or None for setting in [*settings, *[""] * 4][:4])
        rate, initializer_range, dropout = (number and float(number) for number in (rate, initializer_range, dropout))
        if name not in CONTENDERS or precision not in (*PRECISIONS, None):
            raise ValueError
    except ValueError:
        raise UserError(
            f"contender {entry!r}: expected {FORM}, such as keras_hub@1e-3@float32; NAME is "
            f"{' or '.join(CONTENDERS)}, and PRECISION is {' or '.join(PRECISIONS)}"
        ) from None
    for what, number in (("peak rate", rate), ("initializer range", initializer_range)):
        if number is not None and not 0 < number < math.inf:
            raise UserError(f"contender {entry!r}: the {what} is {number}; expected a number above 0 ({FORM})")
    if dropout is not None and not 0 <= dropout < 1:
        raise UserError(f"contender {entry!r}: the dropout is {dropout}; expected a number from 0 to below 1 ({FORM})")
    contender = Contender(name, rate, precision, initializer_range, dropout)
    if name == "ours" and contender != Contender(name, precision=precision):
        raise UserError(
            f"contender {entry!r}: our recipe has its own rate, initial weights and dropout; leave them out, as in "
            "ours or ours@@float32"
        )
    if name != "ours" and rate is None:
        raise UserError(f"contender {entry!r}: has no learning rate; give the peak rate, such as {name}@1e-3")
    return contender


def grid(peers: list, learning_rates: list, initializer_ranges: list, dropouts: list) -> list[str]:
    """The entries of a grid, one for each peer and each combination of settings.

    Args:
        peers: NAME@PRECISION of each peer.
        learning_rates: peak rates, as text.
        initializer_ranges: deviations of the initial weights, as text.
        dropouts: rates of all dropout, as text.

    Raises:
        UserError: a list is empty, or a value is not valid for a contender.
    """
    entries = {}
    for peer, *values in itertools.product(peers, learning_rates, initializer_ranges, dropouts):
        name, _, precision = peer.partition("@")
        if not precision or not all(values):
            raise UserError(
                f"--peers has {peer!r} and the lists of settings {values}; expected NAME@PRECISION of a peer, such as "
                "keras_hub@float32, and a number in each list"
            )
        rate, initializer_range, dropout = values
        entry = f"{name}@{rate}@{precision}@{initializer_range}@{dropout}"
        entries.setdefault(parsed(entry), entry)  # 1e-3 and 0.001 are one setting
    if not entries:
        raise UserError(
            "--peers, --learning_rates, --initializer_ranges or --dropouts is empty; leave it out to search its default"
        )
    return list(entries.values())
