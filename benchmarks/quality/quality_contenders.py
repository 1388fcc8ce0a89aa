"""The contenders of quality_per_minute and their settings."""

from typing import NamedTuple

from keras_bert_app.errors import UserError

CONTENDERS = ("ours", "keras_hub", "transformers")
PRECISIONS = ("float32", "bfloat16")


class Contender(NamedTuple):
    """An entry of --contenders.

    Attributes:
        name: str. One of CONTENDERS.
        learning_rate: float. Peak rate; None for the rate of our recipe.
        precision: str. Compute type; None for --precision.
        initializer_range: float. Standard deviation of initial weights; None for the contender's default.
    """

    name: str
    learning_rate: float | None = None
    precision: str | None = None
    initializer_range: float | None = None


def parsed(entry: str) -> Contender:
    """The Contender of an entry of --contenders.

    Raises:
        UserError: the entry has another form, ours has a rate, or KerasHub has an initializer range.
    """
    name, *settings = entry.split("@")
    try:
        rate, precision, spread_of_weights = (*(setting or None for setting in settings), None, None, None)[:3]
        contender = Contender(
            name, float(rate) if rate else None, precision, float(spread_of_weights) if spread_of_weights else None
        )
        if len(settings) > 3 or name not in CONTENDERS or precision not in (*PRECISIONS, None):
            raise ValueError
    except ValueError:
        raise UserError(
            f"--contenders={entry}: expected NAME[@PEAK_RATE[@PRECISION[@INITIALIZER_RANGE]]], such as "
            f"keras_hub@1e-3@float32, NAME of {', '.join(CONTENDERS)}"
        ) from None
    if (
        name == "ours"
        and (contender.learning_rate or contender.initializer_range)
        or name == "keras_hub"
        and contender.initializer_range
    ):
        raise UserError(
            f"--contenders={entry}: our recipe has its own rate and initial weights, KerasHub its own initial weights; "
            "leave them out"
        )
    if name != "ours" and not contender.learning_rate:
        raise UserError(f"--contenders={entry}: has no learning rate; give its peak, such as {name}@1e-3")
    return contender
