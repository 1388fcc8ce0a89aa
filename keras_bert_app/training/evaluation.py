"""Evaluation on held-out documents, next to what no model is needed for."""

import math

import numpy as np

OBJECTIVE_NAMES = {"nsp": "next sentence", "sop": "sentence order"}


def evaluate(call, objective, dataset, vocab_size, max_steps=0, should_stop=lambda: False):
    """Means over a dataset of one pass, every example counted once, with trivial baselines.

    Args:
        call, objective: of forward.make_evaluation_call, and what it was made for. dataset: batches of
            pipelines.pretraining_dataset with epochs=1. max_steps: most batches, 0 for all. should_stop: asked before each batch; the figures are then of what was seen.

    Returns:
        dict of eval_* figures. eval_unigram_accuracy: of always predicting the one piece that is most frequent among
        the very labels that are asked for (no unigram model does better); eval_majority_share: of always giving the
        more frequent next-sentence label. Counts in eval_masked_lm_count, eval_next_sentence_count.
    """
    totals = np.zeros(len(objective.sum_names), np.float64)
    label_counts = np.zeros(vocab_size, np.int64)
    random_pairs = 0
    for batch in dataset.take(max_steps or -1):
        if should_stop():
            break
        totals += call(batch)
        used = batch["masked_lm_weights"].numpy() > 0
        label_counts += np.bincount(batch["masked_lm_ids"].numpy()[used], minlength=vocab_size)
        random_pairs += int((batch["next_sentence_labels"] * batch["input_mask"][:, 0]).numpy().sum())
    sums = dict(zip(objective.sum_names, totals.tolist()))
    figures = {f"eval_{name}": value for name, value in objective.metrics(sums).items()}
    figures["eval_unigram_accuracy"] = float(label_counts.max() / max(label_counts.sum(), 1))
    figures["eval_masked_lm_count"] = sums["masked_lm_count"]
    if pairs := sums["next_sentence_count"]:
        figures["eval_majority_share"] = max(random_pairs, pairs - random_pairs) / pairs
        figures["eval_next_sentence_count"] = pairs
    return figures


def wilson_interval(share, count, z=1.959964):
    """The 95 % interval of a share seen in `count` independent trials (Wilson 1927)."""
    center = (share + z * z / (2 * count)) / (1 + z * z / count)
    half = z / (1 + z * z / count) * math.sqrt(share * (1 - share) / count + z * z / (4 * count * count))
    return center - half, center + half


def summary(figures, sentence_objective="nsp"):
    """Lines for people: each figure beside its baseline."""
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
