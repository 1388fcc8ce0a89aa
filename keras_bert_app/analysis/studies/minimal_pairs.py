"""Minimal pairs: whether a masked language model finds the good sentence likelier than the bad one.

A line of the file is a good sentence, a tab, and one that differs from it in what makes it bad (Linzen et al. 2016;
BLiMP, Warstadt et al. 2020). Both are scored by their pseudo-log-likelihood (Salazar et al. 2020, section 4.3).
"""

import os

import numpy as np

from keras_bert_app.analysis import input_texts
from keras_bert_app.analysis.findings import Findings, Table
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

_SHOWN = 8


def run(subject, options, log):
    """Findings; options.pairs_file, input_file for the unigram baseline, max_sentences pairs."""
    require_masked_lm(subject)
    pairs = read_pairs(options.pairs_file, options.most_sentences())
    good, bad = (piece_ids(subject.tokenizer, list(side)) for side in zip(*pairs))
    kept = [number for number, both in enumerate(zip(good, bad)) if all(0 < len(one) <= room(subject) for one in both)]
    if not kept:
        raise UserError(
            f"{options.pairs_file}: no pair fits into the model's {room(subject)} pieces; give shorter sentences"
        )
    left_out = len(pairs) - len(kept)
    pairs, good, bad = ([side[number] for number in kept] for side in (pairs, good, bad))
    pieces = good + bad
    scores = piece_log_probabilities(subject, pieces, log)
    sums, means, lengths = (
        np.array([of_one(score) for score in scores]).reshape(2, -1) for of_one in (np.sum, np.mean, len)
    )
    measures = {"pseudo-log-likelihood": sums, "the same a piece": means, "baseline: fewer pieces": -lengths}
    remarks = ["Of two that score alike half a point."]
    if options.input_file:
        corpus = piece_ids(
            subject.tokenizer, input_texts.corpus_sentences(options.input_file, options.most_sentences())[0]
        )
        unigrams = unigram_log_probabilities(corpus, subject.tokenizer.vocab_size)
        measures["baseline: unigrams"] = np.array([unigrams[row].sum() for row in pieces]).reshape(2, -1)
        remarks.append(f"Unigrams: by the {sum(map(len, corpus)):,} pieces of {options.input_file}.")
    if left_out:
        remarks.append(f"{left_out:,} pairs with a sentence of no piece or of more than {room(subject)} are left out.")
    results = {name: accuracy(*both) for name, both in measures.items()} | {"baseline: chance": 0.5}
    low, high = wilson_interval(results["pseudo-log-likelihood"], len(pairs))
    best = max(result for name, result in results.items() if name.startswith("baseline"))
    remarks.append(
        f"The 95 % interval of pseudo-log-likelihood, {low:.4f} to {high:.4f}, is {'above' if low > best else 'not above'} the "
        f"best baseline ({best:.4f})."
    )
    margins = sums[0] - sums[1]
    worst = [int(number) for number in np.argsort(margins)[:_SHOWN] if margins[number] < 0]
    tables = [
        Table(
            f"Accuracy over {len(pairs):,} pairs",
            ("", "accuracy"),
            [[name, result] for name, result in results.items()],
        ),
        Table(
            "Most wrong",
            ("nats", "preferred", "good"),
            [[float(-margins[number]), pairs[number][1], pairs[number][0]] for number in worst],
            digits=2,
        ),
    ]
    values = {
        "pairs": [
            {"good": one, "bad": other, "scores": [float(score) for score in both]}
            for (one, other), both in zip(pairs, sums.T)
        ]
    }
    title = f"Minimal pairs of {options.pairs_file}: {subject.name} model"
    ours, baselines = (
        {name: result for name, result in results.items() if name.startswith("baseline") == which}
        for which in (False, True)
    )
    picture = draw_results([(f"accuracy over {len(pairs):,} pairs", ours, baselines)], title)
    return Findings("minimal_pairs", title, tables, remarks, {"minimal_pairs.png": picture}, values)


def accuracy(good, bad):
    """How often the good one scores higher; half where both score alike. Args: float [pairs]."""
    return float(np.mean((good > bad) + 0.5 * (good == bad)))


def read_pairs(path, most=0):
    """List of (good, bad), the first `most`, or all for 0.

    Raises:
        UserError: no such file, no pair, or a line that is none.
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
