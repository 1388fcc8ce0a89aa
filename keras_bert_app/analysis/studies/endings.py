"""Commonsense by masked LM alone: which of four endings goes on from a beginning, without any training for it.

Each ending is scored by the pseudo-log-likelihood of its pieces after the beginning. The literature's finding is a
failure: what BERT knows of language is little help with what happens in the world (Ettinger 2020, What BERT Is Not; CODAH,
Chen et al. 2019, was written so that models fail). Fine-tuning is another matter: finetune --task=codah.
"""

import os

import numpy as np

from keras_bert_app.analysis.findings import Findings, Table
from keras_bert_app.analysis.pseudo_likelihood import piece_log_probabilities, require_masked_lm, room
from keras_bert_app.drawing.bars import draw_results
from keras_bert_app.errors import UserError
from keras_bert_app.tasks import registry
from keras_bert_app.tasks.features import piece_ids
from keras_bert_app.training.evaluation import wilson_interval

SUMMARY = "which of four endings, by pseudo-log-likelihood alone (CODAH's .tsv, SWAG's .csv, HellaSwag's .jsonl)"
NEEDS = ("endings_file",)

_TASKS = {".tsv": "codah", ".csv": "swag", ".jsonl": "hellaswag"}
_SHOWN = 6


def run(subject, options, log):
    """Findings; options.endings_file, max_sentences beginnings."""
    require_masked_lm(subject)
    examples = _read(options.endings_file, options.most_sentences())
    beginnings = piece_ids(subject.tokenizer, [example.context for example in examples])
    endings = iter(piece_ids(subject.tokenizer, [choice for example in examples for choice in example.choices]))
    rows = [[(beginning, next(endings)) for _ in example.choices] for example, beginning in zip(examples, beginnings)]
    kept = [
        number
        for number, row in enumerate(rows)
        if all(len(ending) and len(beginning) + len(ending) <= room(subject) for beginning, ending in row)
    ]
    if not kept:
        raise UserError(f"{options.endings_file}: no example fits into the model's {room(subject)} pieces")
    left_out = len(examples) - len(kept)
    examples, rows = [examples[number] for number in kept], [rows[number] for number in kept]
    flat = [pair for row in rows for pair in row]
    scores = iter(piece_log_probabilities(subject, [np.concatenate(pair) for pair in flat], log))
    whole, sums, means, lengths = np.moveaxis(
        np.array([[measures(next(scores), len(ending)) for _, ending in row] for row in rows]), 2, 0
    )
    labels = np.array([example.label for example in examples])
    number = len(examples[0].choices)
    ours = {
        "ending, a piece": accuracy(means, labels),
        "ending, sum": accuracy(sums, labels),
        "beginning and ending, sum": accuracy(whole, labels),
    }
    baselines = {
        "longest ending": accuracy(lengths, labels),
        "shortest ending": accuracy(-lengths, labels),
        "most frequent place": float(np.bincount(labels).max() / len(labels)),
        "chance": 1 / number,
    }
    best, baseline = max(ours.values()), max(baselines.values())
    low, high = wilson_interval(best, len(labels))
    if low <= baseline:
        said = "shows: the best way to score is not clearly above the best baseline"
    else:
        said = "shows in part: above the baselines, yet " if best < 0.5 else "does not show: "
        said += f"{best:.0%} of the answers are right"
    results = ours | {f"baseline: {name}": result for name, result in baselines.items()}
    wrong = np.flatnonzero(means.argmax(axis=1) != labels)[:_SHOWN]
    tables = [
        Table(
            f"Accuracy over {len(labels):,} beginnings with {number} endings",
            ("", "accuracy"),
            list(map(list, results.items())),
        ),
        Table(
            "Some that went wrong",
            ("beginning", "chosen", "right"),
            [
                [examples[at].context, examples[at].choices[means[at].argmax()], examples[at].choices[labels[at]]]
                for at in wrong
            ],
        ),
    ]
    remarks = [
        f"The literature's failure, no commonsense without training for it, {said} ({best:.4f} against {baseline:.4f}, "
        f"95 % interval {low:.4f} to {high:.4f}).",
        "Nothing was trained. Of endings that score alike the share of the right one counts.",
    ]
    if left_out:
        remarks.append(
            f"{left_out:,} beginnings with an ending of no piece or of more than {room(subject)} in all are left out."
        )
    title = f"Endings of {options.endings_file}: {subject.name} model"
    picture = draw_results([(f"accuracy over {len(labels):,} beginnings", ours, baselines)], title)
    return Findings("endings", title, tables, remarks, {"endings.png": picture}, {"accuracy": results})


def measures(scores, length):
    """(sum over all pieces, sum over the ending's, their mean, their number) of a row of log probabilities."""
    ending = scores[len(scores) - length :]
    return scores.sum(), ending.sum(), ending.mean(), length


def accuracy(scores, labels):
    """How often the highest score is the right one's; a share where several are as high.

    Args:
        scores: float [examples, endings]. labels: int [examples].
    """
    is_best = scores == scores.max(axis=1, keepdims=True)
    return float(np.mean(is_best[np.arange(len(labels)), labels] / is_best.sum(axis=1)))


def _read(path, most):
    """List of multiple_choice.Example, each with its label."""
    extension = os.path.splitext(path)[1]
    if extension not in _TASKS:
        raise UserError(
            f"--endings_file={path}: expected {', '.join(f'{end} of {name}' for end, name in _TASKS.items())}"
        )
    return registry.find(_TASKS[extension]).read_file(path, None, most=most)
