"""Times contenders in turn, round by round, so that a drift of the machine's speed affects all of them."""

import random
import statistics
import time
from collections.abc import Callable
from typing import Any

Rounds = list[list[float]]  # for each round, the seconds of each call


def texts_of(vocab_file: str, batch: int, tokens: int) -> list[str]:
    """Random texts of whole words.

    Args:
        vocab_file: str. The vocabulary. The texts are drawn from its pieces that are whole words.
        batch: int. Number of texts.
        tokens: int. Tokens of each text, [CLS] and [SEP] included.
    """
    with open(vocab_file, encoding="utf-8") as file:
        words = [piece for piece in file.read().split("\n") if piece.isascii() and piece.isalpha() and len(piece) > 2]
    return [" ".join(random.Random(number).choices(words, k=tokens - 2)) for number in range(batch)]


def timed(run: Callable[[Any], Any], texts: Any) -> Callable[[int], list[float]]:
    """Makes a function that calls run(texts) several times and times each call.

    The new function takes the number of calls and returns the seconds of each call.

    Args:
        run: function of the texts.
        texts: argument of run.
    """

    def calls(count):
        seconds = []
        for _ in range(count):
            started = time.perf_counter()
            run(texts)
            seconds.append(time.perf_counter() - started)
        return seconds

    return calls


def in_turn(contenders: dict[str, Callable[[int], list[float]]], rounds: int, seconds: float) -> dict[str, Rounds]:
    """Times all contenders in each round.

    Args:
        contenders: dict. Name -> function that timed returned.
        rounds: int. Number of rounds.
        seconds: float. About how long each contender runs in a round.

    Returns:
        dict. Name -> for each round, the seconds of its calls.
    """
    counts = {name: max(3, round(seconds / statistics.median(run(5)))) for name, run in contenders.items()}
    times = {name: [] for name in contenders}
    for _ in range(rounds):
        for name, run in contenders.items():
            times[name].append(run(counts[name]))
    return times


def median(rounds: Rounds) -> float:
    """The median of all calls, in seconds.

    Args:
        rounds: Rounds. For each round, the seconds of each call.
    """
    return statistics.median(second for calls in rounds for second in calls)


def milliseconds(rounds: Rounds) -> tuple[float, float, float]:
    """(median of all calls, lowest and highest of the rounds' medians), in milliseconds.

    Args:
        rounds: Rounds. For each round, the seconds of each call.
    """
    medians = [statistics.median(calls) * 1e3 for calls in rounds]
    return median(rounds) * 1e3, min(medians), max(medians)


def ratio(ours: Rounds, theirs: Rounds) -> tuple[float, float, float]:
    """The ratio of our median to theirs: (median, lowest, highest) over the rounds.

    Args:
        ours: Rounds. Our seconds.
        theirs: Rounds. Their seconds in the same rounds.
    """
    ratios = [statistics.median(mine) / statistics.median(other) for mine, other in zip(ours, theirs, strict=True)]
    return statistics.median(ratios), min(ratios), max(ratios)
