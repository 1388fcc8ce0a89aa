"""Minimal pairs: whether a masked language model finds the good sentence likelier than the bad one.

Each line of the file has a good sentence, a tab, and a bad sentence that differs only in the fault. See Linzen et al.
2016, and BLiMP (Warstadt et al. 2020). The pseudo-log-likelihood scores both sentences (Salazar et al. 2020, section
4.3).
"""

import os
from collections.abc import Callable

import numpy as np

from keras_bert_app.analysis import input_texts
from keras_bert_app.analysis.encoders import Subject
from keras_bert_app.analysis.findings import Findings, Table
from keras_bert_app.analysis.options import Options
from keras_bert_app.analysis.pseudo_likelihood import (
    piece_log_probabilities,
    require_masked_lm,
    room,
    unigram_log_probabilities,
)
from keras_bert_app.drawing.bars import draw_results
from keras_bert_app.errors import UserError
from keras_bert_app.tasks.features import piece_ids
from keras_bert_app.tasks.readers.tables import lines_of
from keras_bert_app.training.evaluation import wilson_interval

SUMMARY = "good sentence or bad one, by pseudo-log-likelihood; --input_file: text to count words in, for a baseline"
NEEDS = ("pairs_file",)
TAKES = ("input_file", "max_sentences")

_SHOWN = 8
_CHANCE = "baseline: chance"


def run(subject: Subject, options: Options, log: Callable[[str], None]) -> Findings:
    """Scores both sentences of each pair and compares the accuracy with baselines.

    Args:
        subject: Subject. A model with a masked-LM head.
        options: Options. Uses pairs_file, input_file for the unigram baseline, and max_sentences, the number of pairs.
        log: Callable. Receives progress lines.

    Returns:
        Findings.

    Raises:
        UserError: no pair fits into the model's positions.
    """
    require_masked_lm(subject)
    pairs, pieces, left_out = _fitting_pairs(subject, options)
    scores = piece_log_probabilities(subject, pieces, log)
    # [good or bad, pairs]
    sums, means, lengths = (
        np.array([measure(score) for score in scores]).reshape(2, -1) for measure in (np.sum, np.mean, len)
    )
    measures = {"pseudo-log-likelihood": sums, "the same per piece": means, "baseline: fewer pieces": -lengths}
    remarks = ["A pair with two equal scores counts half."]
    if options.input_file:
        measures["baseline: unigrams"], num_pieces = _unigram_scores(subject, options, pieces)
        remarks.append(f"The unigram baseline counts the {num_pieces:,} pieces of {options.input_file}.")
    if left_out:
        remarks.append(
            f"{left_out:,} pairs are left out: a sentence has no piece, or more than {room(subject)} pieces."
        )
    results = {name: accuracy(*both) for name, both in measures.items()} | {_CHANCE: 0.5}
    intervals = {name: wilson_interval(result, len(pairs)) for name, result in results.items() if name != _CHANCE}
    remarks.append(_verdict(results, intervals["pseudo-log-likelihood"]))
    values = {
        "pairs": [
            {"good": good, "bad": bad, "scores": [float(score) for score in both]}
            for (good, bad), both in zip(pairs, sums.T, strict=True)
        ]
    }
    title = f"Minimal pairs of {options.pairs_file}: {subject.name} model"
    ours, baselines = (
        {name: result for name, result in results.items() if name.startswith("baseline") == is_baseline}
        for is_baseline in (False, True)
    )
    picture = draw_results([(f"accuracy over {len(pairs):,} pairs", ours, baselines)], title, intervals)
    tables = _tables(pairs, results, intervals, sums)
    return Findings("minimal_pairs", title, tables, remarks, {"minimal_pairs.png": picture}, values)


def _verdict(results, interval):
    low, high = interval
    best = max(result for name, result in results.items() if name.startswith("baseline"))
    relation = "above" if low > best else "below" if high < best else "not distinguishable from"
    return (
        f"Pseudo-log-likelihood is {relation} the best baseline ({best:.4f}): {results['pseudo-log-likelihood']:.4f}, "
        f"95 % interval {low:.4f} to {high:.4f} (Wilson)."
    )


def _fitting_pairs(subject, options):
    """(pairs that fit, pieces of all good and then of all bad sentences, number of pairs left out)."""
    pairs = read_pairs(options.pairs_file, options.most_sentences())
    good, bad = (piece_ids(subject.tokenizer, list(side)) for side in zip(*pairs, strict=True))
    kept = [
        number
        for number, both in enumerate(zip(good, bad, strict=True))
        if all(0 < len(pieces) <= room(subject) for pieces in both)
    ]
    if not kept:
        raise UserError(
            f"{options.pairs_file}: no pair has two sentences of 1 to {room(subject)} pieces, which the model can "
            "read; give shorter sentences"
        )
    left_out = len(pairs) - len(kept)
    pairs, good, bad = ([side[number] for number in kept] for side in (pairs, good, bad))
    return pairs, good + bad, left_out


def _unigram_scores(subject, options, pieces):
    """(float [2, pairs], number of pieces that were counted)."""
    sentences, _ = input_texts.corpus_sentences(options.input_file, options.most_sentences(), subject.tokenizer.kind)
    corpus = piece_ids(subject.tokenizer, sentences)
    unigrams = unigram_log_probabilities(corpus, subject.tokenizer.vocab_size)
    return np.array([unigrams[row].sum() for row in pieces]).reshape(2, -1), sum(map(len, corpus))


def _tables(pairs, results, intervals, sums):
    margins = sums[0] - sums[1]
    worst = [int(number) for number in np.argsort(margins)[:_SHOWN] if margins[number] < 0]
    return [
        Table(
            f"Accuracy over {len(pairs):,} pairs",
            ("", "accuracy", "low", "high"),
            [[name, result, *intervals.get(name, (None, None))] for name, result in results.items()],
        ),
        Table(
            "Most wrong",
            ("nats", "preferred", "good"),
            [[float(-margins[number]), pairs[number][1], pairs[number][0]] for number in worst],
            digits=2,
        ),
    ]


def accuracy(good: np.ndarray, bad: np.ndarray) -> float:
    """Computes how often the good sentence scores higher. A tie counts as one half.

    Args:
        good: float [pairs].
        bad: float [pairs].

    Returns:
        float, 0 to 1.
    """
    return float(np.mean((good > bad) + 0.5 * (good == bad)))


def read_pairs(path: str, most: int = 0) -> list[tuple[str, str]]:
    """Reads pairs of sentences.

    Args:
        path: str.
        most: int. How many pairs to read; 0 for all.

    Returns:
        list of (good, bad).

    Raises:
        UserError: the file does not exist, has no pair, or has a line that is no pair.
    """
    if not os.path.isfile(path):
        raise UserError(
            f"--pairs_file={path}: there is no such file; expected a good sentence, a tab and a bad one in each line"
        )
    pairs = []
    for number, line in lines_of(path):
        cells = [cell.strip() for cell in line.split("\t")]
        if cells == [""]:
            continue
        if len(cells) != 2 or not all(cells):
            raise UserError(f"{path}:{number}: {len(cells)} cells; expected a good sentence, a tab and a bad one")
        pairs.append(tuple(cells))
        if len(pairs) == most:
            break
    if not pairs:
        raise UserError(f"{path}: holds no pair; expected a good sentence, a tab and a bad one in each line")
    return pairs
