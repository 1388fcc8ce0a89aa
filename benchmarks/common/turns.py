"""Contenders that are timed in turn, round by round, so that a drift of the machine meets all of them."""

import random
import statistics
import time


def texts_of(vocab_file, batch, tokens):
    """`batch` texts of so many tokens each, [CLS] and [SEP] included: of pieces that are whole words."""
    with open(vocab_file, encoding="utf-8") as file:
        words = [piece for piece in file.read().split("\n") if piece.isascii() and piece.isalpha() and len(piece) > 2]
    return [" ".join(random.Random(number).choices(words, k=tokens - 2)) for number in range(batch)]


def timed(run, texts):
    """Function of a number of calls that gives the seconds of each."""

    def calls(count):
        found = []
        for _ in range(count):
            started = time.perf_counter()
            run(texts)
            found.append(time.perf_counter() - started)
        return found

    return calls


def in_turn(contenders, rounds, seconds):
    """name -> for each round the seconds of its calls. Args: contenders: name -> of timed. seconds: about, of each in a round."""
    counts = {name: max(3, round(seconds / statistics.median(run(5)))) for name, run in contenders.items()}
    found = {name: [] for name in contenders}
    for _ in range(rounds):
        for name, run in contenders.items():
            found[name].append(run(counts[name]))
    return found


def median(rounds):
    """Of all calls."""
    return statistics.median(second for calls in rounds for second in calls)


def milliseconds(rounds):
    """(median of all calls, lowest and highest of the rounds' medians)."""
    medians = [statistics.median(calls) * 1e3 for calls in rounds]
    return median(rounds) * 1e3, min(medians), max(medians)


def ratio(ours, theirs):
    """Ours by theirs: (median, lowest, highest) over the rounds."""
    found = [statistics.median(mine) / statistics.median(other) for mine, other in zip(ours, theirs)]
    return statistics.median(found), min(found), max(found)
