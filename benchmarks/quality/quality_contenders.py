"""Whom quality_per_minute compares, and with what settings."""

from typing import NamedTuple

from keras_bert_app.errors import UserError

CONTENDERS = ("ours", "keras_hub", "transformers")
PRECISIONS = ("float32", "bfloat16")


class Contender(NamedTuple):
    """An entry of --contenders; None for what it has by itself."""

    name: str
    learning_rate: float | None = None
    precision: str | None = None
    initializer_range: float | None = None


def parsed(entry):
    """The Contender of an entry of --contenders.

    Raises:
        UserError: it is none; ours is given a rate, or KerasHub, which has no such setting, an initializer's range.
    """
    name, *settings = entry.split("@")
    try:
        rate, precision, spread_of_weights = (*(setting or None for setting in settings), None, None, None)[:3]
        found = Contender(
            name, float(rate) if rate else None, precision, float(spread_of_weights) if spread_of_weights else None
        )
        if len(settings) > 3 or name not in CONTENDERS or precision not in (*PRECISIONS, None):
            raise ValueError
    except ValueError:
        raise UserError(
            f"--contenders={entry}: expected NAME[@PEAK_RATE[@PRECISION[@INITIALIZER_RANGE]]], such as keras_hub@1e-3@float32, "
            f"NAME of {', '.join(CONTENDERS)}"
        ) from None
    if (
        name == "ours"
        and (found.learning_rate or found.initializer_range)
        or name == "keras_hub"
        and found.initializer_range
    ):
        raise UserError(
            f"--contenders={entry}: our recipe has its own rate and initial weights, KerasHub its own initial weights; "
            "leave them out"
        )
    if name != "ours" and not found.learning_rate:
        raise UserError(f"--contenders={entry}: has no learning rate; give its peak, such as {name}@1e-3")
    return found
