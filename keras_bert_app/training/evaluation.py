"""Evaluation on held-out documents, next to baselines that need no model."""

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

OBJECTIVE_NAMES = {"nsp": "next sentence", "sop": "sentence order"}


def evaluate(
    call: Callable[[dict], np.ndarray],
    objective: Any,
    dataset: Any,
    vocab_size: int,
    max_steps: int = 0,
    should_stop: Callable[[], bool] = lambda: False,
) -> dict[str, float]:
    """Evaluates a model on one pass over a dataset. Every example counts once.

    Args:
        call: function of forward.make_evaluation_call.
        objective: the objective that the call was made for; see training.losses.
        dataset: tf.data.Dataset, as pipelines.pretraining_dataset makes it with epochs=1.
        vocab_size: number of pieces in the vocabulary.
        max_steps: largest number of batches; 0 for all.
        should_stop: function that `evaluate` calls before each batch. If it returns True, the evaluation ends, and the
            figures cover the batches so far.

    Returns:
        dict of eval_* figures: the objective's metrics, and the figures of its baselines; see training.baselines.
    """
    totals, baselines = np.zeros(len(objective.sum_names), np.float64), objective.baselines(vocab_size)
    for batch in dataset.take(max_steps or -1):
        if should_stop():
            break
        totals += call(batch)
        baselines.add(batch)
    sums = dict(zip(objective.sum_names, totals.tolist(), strict=True))
    figures = {f"eval_{name}": value for name, value in objective.metrics(sums).items()}
    return {**figures, **baselines.figures(sums)}


def num_predictions(figures: Mapping[str, float]) -> int:
    """The number of pieces that an evaluation has predicted.

    Args:
        figures: dict that `evaluate` returns.
    """
    return int(figures.get("eval_masked_lm_count", 0) + figures.get("eval_language_model_count", 0))


def wilson_interval(share: float, count: int, z: float = 1.959964) -> tuple[float, float]:
    """The confidence interval of a share of `count` independent trials (Wilson 1927).

    Args:
        share: from 0 to 1.
        count: number of trials.
        z: quantile of the normal distribution; 95 % by default.

    Returns:
        (lower bound, upper bound).
    """
    center = (share + z * z / (2 * count)) / (1 + z * z / count)
    half_width = z / (1 + z * z / count) * math.sqrt(share * (1 - share) / count + z * z / (4 * count * count))
    return center - half_width, center + half_width


def summary(figures: Mapping[str, float], sentence_objective: str = "nsp") -> list[str]:
    """Makes lines of output that show each figure next to its baseline.

    Args:
        figures: dict that `evaluate` returns.
        sentence_objective: "nsp", "sop" or "none".
    """
    if "eval_perplexity" in figures:
        return [_language_model_summary(figures)]
    ratio = figures["eval_masked_lm_accuracy"] / max(figures["eval_unigram_accuracy"], 1e-9)
    lines = [
        f"held-out masked LM: accuracy {figures['eval_masked_lm_accuracy']:.4f} on "
        f"{int(figures['eval_masked_lm_count']):,} tokens; most frequent piece (unigram) "
        f"{figures['eval_unigram_accuracy']:.4f}; {ratio:.2f} times"
    ]
    if pairs := int(figures.get("eval_next_sentence_count", 0)):
        low, high = wilson_interval(figures["eval_next_sentence_accuracy"], pairs)
        lines.append(
            f"held-out {OBJECTIVE_NAMES[sentence_objective]}: accuracy {figures['eval_next_sentence_accuracy']:.4f} "
            f"(95 % interval {low:.4f} to {high:.4f}) on {pairs:,} pairs; majority share "
            f"{figures['eval_majority_share']:.4f}"
        )
    return lines


def _language_model_summary(figures):
    baselines = "".join(
        f"; {name} of the training text {figures[key]:,.1f}"
        for name, key in (("bigrams", "eval_bigram_perplexity"), ("unigrams", "eval_unigram_perplexity"))
        if key in figures
    )
    backward = ""
    if "eval_backward_perplexity" in figures:
        backward = f"; from right to left {figures['eval_backward_perplexity']:,.2f}"
    return (
        f"held-out text: perplexity {figures['eval_perplexity']:,.2f} on "
        f"{int(figures['eval_language_model_count']):,} pieces{backward}{baselines}; accuracy "
        f"{figures['eval_language_model_accuracy']:.4f}"
    )
