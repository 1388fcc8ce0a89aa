"""Commonsense of a masked LM without training: which of four endings follows a beginning.

The analysis scores each ending in three ways, all of them by pseudo-log-likelihood. One half of the beginnings serves
to choose the best way, and the opposite half to measure it. The literature reports a failure: BERT's knowledge of
language helps little to predict events in the world (Ettinger 2020, What BERT Is Not). CODAH (Chen et al. 2019) was
written to make models fail. For fine-tuning see finetune --task=codah.
"""

import dataclasses
import os
from collections.abc import Callable

import numpy as np

from keras_bert_app.analysis import split_halves
from keras_bert_app.analysis.encoders import Subject
from keras_bert_app.analysis.findings import Findings, Table
from keras_bert_app.analysis.options import Options
from keras_bert_app.analysis.pseudo_likelihood import piece_log_probabilities, require_masked_lm, room
from keras_bert_app.drawing.bars import draw_results
from keras_bert_app.errors import UserError
from keras_bert_app.tasks import registry
from keras_bert_app.tasks.features import piece_ids
from keras_bert_app.training.evaluation import wilson_interval

SUMMARY = "which of four endings, by pseudo-log-likelihood alone (CODAH's .tsv, SWAG's .csv, HellaSwag's .jsonl)"
NEEDS = ("endings_file",)
TAKES = ("max_sentences",)

_TASKS = {".tsv": "codah", ".csv": "swag", ".jsonl": "hellaswag"}
_SHOWN = 6
_CHOSEN = "best way of the other half"


@dataclasses.dataclass(frozen=True)
class _Scored:
    """Examples with the scores of their endings.

    Attributes:
        examples: list of multiple_choice.Example.
        labels: int [examples].
        whole: float [examples, endings]. The score of beginning and ending.
        sums: float [examples, endings]. The score of the ending.
        means: float [examples, endings]. The mean score of the ending's pieces.
        lengths: float [examples, endings]. The number of the ending's pieces.
        left_out: int. The number of examples that do not fit.
    """

    examples: list
    labels: np.ndarray
    whole: np.ndarray
    sums: np.ndarray
    means: np.ndarray
    lengths: np.ndarray
    left_out: int


def run(subject: Subject, options: Options, log: Callable[[str], None]) -> Findings:
    """Scores the endings of each beginning and compares the accuracy with baselines.

    Args:
        subject: Subject. A model with a masked-LM head.
        options: Options. Uses endings_file and max_sentences, the number of beginnings.
        log: Callable. Receives progress lines.

    Returns:
        Findings.

    Raises:
        UserError: the file is of no known kind, or no example fits into the model's positions.
    """
    require_masked_lm(subject)
    scored = _scored(subject, _read(options.endings_file, options.most_sentences()), options.endings_file, log)
    right = {
        "ending, a piece": right_shares(scored.means, scored.labels),
        "ending, sum": right_shares(scored.sums, scored.labels),
        "beginning and ending, sum": right_shares(scored.whole, scored.labels),
    }
    ours = {name: float(shares.mean()) for name, shares in right.items()}
    chosen = _best_of_other_half(np.stack(list(right.values()), axis=1))
    if chosen is not None:
        ours[_CHOSEN] = chosen
    baselines = {
        "longest ending": float(right_shares(scored.lengths, scored.labels).mean()),
        "shortest ending": float(right_shares(-scored.lengths, scored.labels).mean()),
        "most frequent place": float(np.bincount(scored.labels).max() / len(scored.labels)),
        "chance": 1 / len(scored.examples[0].choices),
    }
    results = ours | {f"baseline: {name}": result for name, result in baselines.items()}
    title = f"Endings of {options.endings_file}: {subject.name} model"
    intervals = {name: wilson_interval(result, len(scored.labels)) for name, result in ours.items()}
    picture = draw_results([(f"accuracy over {len(scored.labels):,} beginnings", ours, baselines)], title, intervals)
    return Findings(
        "endings",
        title,
        _tables(scored, results, intervals),
        _remarks(subject, scored, chosen, max(baselines.values())),
        {"endings.png": picture},
        {"accuracy": results, "intervals": intervals},
    )


def _best_of_other_half(right):
    """The accuracy of the way that is best on the opposite half; None for one beginning.

    Args:
        right: float [examples, ways].
    """
    half = split_halves.assign_halves(np.arange(len(right)))
    return None if half is None else float(split_halves.cross_half_answers(right, half).mean())


def _scored(subject, examples, path, log):
    beginnings = piece_ids(subject.tokenizer, [example.context for example in examples])
    endings = iter(piece_ids(subject.tokenizer, [choice for example in examples for choice in example.choices]))
    rows = [
        [(beginning, next(endings)) for _ in example.choices]
        for example, beginning in zip(examples, beginnings, strict=True)
    ]
    kept = [
        number
        for number, row in enumerate(rows)
        if all(len(ending) and len(beginning) + len(ending) <= room(subject) for beginning, ending in row)
    ]
    if not kept:
        raise UserError(
            f"{path}: no example fits into the model's {room(subject)} pieces; give shorter beginnings and endings"
        )
    left_out = len(examples) - len(kept)
    examples, rows = [examples[number] for number in kept], [rows[number] for number in kept]
    pairs = [pair for row in rows for pair in row]
    scores = iter(piece_log_probabilities(subject, [np.concatenate(pair) for pair in pairs], log))
    all_measures = np.array([[measures(next(scores), len(ending)) for _, ending in row] for row in rows])
    labels = np.array([example.label for example in examples])
    return _Scored(examples, labels, *np.moveaxis(all_measures, 2, 0), left_out)


def _tables(scored, results, intervals):
    chosen = scored.means.argmax(axis=1)
    return [
        Table(
            f"Accuracy over {len(scored.labels):,} beginnings with {len(scored.examples[0].choices)} endings",
            ("", "accuracy", "low", "high"),
            [[name, result, *intervals.get(name, (None, None))] for name, result in results.items()],
        ),
        Table(
            'Some wrong answers of "ending, a piece"',
            ("beginning", "chosen", "right"),
            [
                [
                    scored.examples[at].context,
                    scored.examples[at].choices[chosen[at]],
                    scored.examples[at].choices[scored.labels[at]],
                ]
                for at in np.flatnonzero(chosen != scored.labels)[:_SHOWN]
            ],
        ),
    ]


def _remarks(subject, scored, chosen, baseline):
    remarks = [
        *([] if chosen is None else [_verdict(chosen, baseline, len(scored.labels))]),
        f"{_CHOSEN}: one half of the beginnings chooses the best of the three ways to score, and the other half "
        'measures it; then the halves change roles. The score of "ending, a piece" is the mean over the pieces of the '
        "ending. Intervals are Wilson's and cover 95 %.",
        "Nothing was trained. If n endings share the highest score, the right one among them counts 1/n.",
    ]
    if scored.left_out:
        remarks.append(
            f"{scored.left_out:,} beginnings are left out: one of their endings has no piece, or beginning and ending "
            f"have more than {room(subject)} pieces."
        )
    return remarks


def _verdict(share, baseline, count):
    low, high = wilson_interval(share, count)
    if high < baseline:
        verdict = "shows: the model is below the best baseline"
    elif low <= baseline:
        verdict = "is not decided: the model is not distinguishable from the best baseline"
    else:
        verdict = "shows in part: the model is above the baselines, but " if share < 0.5 else "does not show: "
        verdict += f"{share:.0%} of the answers are right"
    return (
        f"The literature's finding, no commonsense without fine-tuning, {verdict} ({share:.4f} against "
        f"{baseline:.4f}, 95 % interval {low:.4f} to {high:.4f})."
    )


def measures(scores: np.ndarray, length: int) -> tuple[float, float, float, int]:
    """Summarizes the log probabilities of a row of beginning and ending.

    Args:
        scores: float [pieces]. The log probability of each piece.
        length: int. The number of the ending's pieces.

    Returns:
        (sum over all pieces, sum over the ending, mean over the ending, length).
    """
    ending = scores[len(scores) - length :]
    return scores.sum(), ending.sum(), ending.mean(), length


def right_shares(scores: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Says for each example whether the right ending has the highest score.

    If n endings share the highest score, a right one among them counts 1/n.

    Args:
        scores: float [examples, endings].
        labels: int [examples]. The right endings.

    Returns:
        float64 [examples], 0 to 1.
    """
    is_best = scores == scores.max(axis=1, keepdims=True)
    return is_best[np.arange(len(labels)), labels] / is_best.sum(axis=1)


def _read(path, most):
    """Reads a list of multiple_choice.Example, each with its label."""
    extension = os.path.splitext(path)[1]
    if extension not in _TASKS:
        raise UserError(
            f"--endings_file={path}: expected {', '.join(f'{end} of {name}' for end, name in _TASKS.items())}"
        )
    return registry.find(_TASKS[extension]).read_file(path, None, most=most)
