"""Which attention heads a model needs (Michel et al. 2019, Are Sixteen Heads Really Better than One?).

A head's importance is the expected absolute gradient of the loss with respect to a gate of 1 on its output (equation 2),
divided by the l2 norm of its layer (section 4.1, after Molchanov et al. 2017). Heads are then closed, least important first.

Dimensions: L layers, N heads of each, T heads of all layers, B rows of a batch.
"""

import numpy as np
import tensorflow as tf

from keras_bert_app.analysis import head_tasks
from keras_bert_app.analysis.findings import Findings, Table
from keras_bert_app.drawing.pruning_pictures import draw_pruning
from keras_bert_app.modeling.encoder import gated_heads
from keras_bert_app.terminal.progress import reported

SUMMARY = "which heads the loss hangs on, by gradients of gates; scores as heads are closed (--input_file or --workdir)"
NEEDS = ()
MODEL_FROM = "workdir"

PERCENTS = tuple(range(0, 101, 10))  # with none left, what the heads are worth together
_KEPT = 0.9  # of that worth


check = head_tasks.check


def run(subject, options, log):
    """Findings; options.workdir or else input_file, max_sentences, num_seeds, seed."""
    task = head_tasks.load(subject, options, log)
    counts = task.model.config.head_counts
    found = importance(task, log)
    orders = {"importance": np.argsort(found, kind="stable")}
    for seed in range(options.seed, options.seed + options.num_seeds):
        orders[seed] = np.random.default_rng(seed).permutation(len(found))
    numbers = [round(len(found) * percent / 100) for percent in PERCENTS]
    gates, call = gated_call(task)
    jobs = [(order, number) for number in numbers for order in orders]
    scores = {}
    for order, number in reported(jobs, len(jobs), "orders and numbers of heads scored", log):
        # All orders begin with the whole model and end with no head.
        if number in (0, len(found)) and ("importance", number) in scores:
            scores[order, number] = scores["importance", number]
        else:
            scores[order, number] = _closed_score(task, gates, call, orders[order][:number])
    names = list(scores["importance", 0])
    ours, *others = orders
    curves = {
        name: (
            np.array([scores[ours, number][name] for number in numbers]),
            np.array([[scores[order, number][name] for order in others] for number in numbers]),
        )
        for name in names
    }
    title = f"{task.subject_name}, {task.name}"
    files = {
        "head_importance.png": draw_pruning(
            by_layer(found, counts), PERCENTS, *curves[names[0]], names[0], f"Heads by importance: {title}\n{task.data}"
        )
    }
    values = {
        "importance": by_layer(found, counts),
        "closed": numbers,
        "curves": {
            name: {"importance": ours.tolist(), "random": random.tolist()} for name, (ours, random) in curves.items()
        },
        "order": [place_of(head, counts) for head in orders["importance"].tolist()],
    }
    remarks = [
        f"{task.data}. Importance is divided by the l2 norm of its layer; random orders: {options.num_seeds} seeds. "
        "Heads are closed by gates of 0; all heads of a layer may go, its residual stream stays.",
        _said(names[0], *curves[names[0]], task.is_better_high),
        *task.remarks,
    ]
    return Findings(
        "head_importance",
        f"Head importance: {title}",
        [_curve_table(curves, numbers, len(found)), _head_table(found, counts)],
        remarks,
        files,
        values,
        task.origin,
    )


def importance(task, log):
    """float [T]: of each head, layer after layer."""
    counts = task.model.config.head_counts

    @tf.function(reduce_retracing=True, autograph=False)
    def gradients(batch):
        """float32 [B, T]: absolute ones, of each example's own loss."""
        shape = tf.shape(batch["input_mask"])
        gates = tf.ones([shape[0], sum(counts)])
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            tape.watch(gates)
            # An example of several rows [B, G, S] has one gate for them all.
            by_row = tf.repeat(gates, shape[1], axis=0) if len(batch["input_mask"].shape) == 3 else gates
            with gated_heads(task.model.encoder, tf.split(by_row, counts, axis=1)):
                loss = task.loss(task.outputs(task.model, batch), batch)
        return tf.abs(tape.gradient(loss, gates))

    total = np.zeros(sum(counts))
    for batch in reported(task.estimation, len(task.estimation), "batches for importance", log):
        total += gradients(batch).numpy().sum(axis=0, dtype=np.float64)
    return normalized(total / task.num_estimated, counts)


def normalized(values, counts):
    """float [T] divided by the l2 norm of each layer; a layer of zeros stays so. Args: counts: heads of each layer."""
    norms = np.array([np.linalg.norm(layer) for layer in by_layer(values, counts)])
    return values / np.repeat(np.where(norms > 0, norms, 1.0), counts)


def gated_call(task):
    """(variable float32 [T] of gates, all 1; function of a batch, what the model computes with them)."""
    counts = task.model.config.head_counts
    gates = tf.Variable(tf.ones([sum(counts)]))

    @tf.function(reduce_retracing=True, autograph=False)
    def call(batch):
        with gated_heads(task.model.encoder, tf.split(gates, counts)):
            return task.outputs(task.model, batch)

    return gates, call


def _closed_score(task, gates, call, heads):
    gates.assign(np.isin(np.arange(gates.shape[0]), heads, invert=True).astype(np.float32))
    return task.score(call)


def by_layer(values, counts):
    """List of L lists, the values of each layer's heads."""
    return [layer.tolist() for layer in np.split(np.asarray(values), np.cumsum(counts)[:-1])]


def place_of(head, counts):
    """(layer, head in it), from 0, of a number among all heads."""
    ends = np.cumsum(counts)
    layer = int(np.searchsorted(ends, head, side="right"))
    return layer, int(head - (ends[layer] - counts[layer]))


def _curve_table(curves, numbers, total):
    columns = ["closed", "heads left"]
    rows = [[f"{percent} %", total - number] for percent, number in zip(PERCENTS, numbers)]
    for name, (ours, random) in curves.items():
        columns += [f"{name} by importance", "at random", "std"]
        for row, value, others in zip(rows, ours, random):
            row += [float(value), float(others.mean()), float(others.std())]
    return Table("Scores as heads are closed", tuple(columns), rows)


def _head_table(found, counts):
    rows = [
        [f"layer {number + 1}", *layer, *[None] * (max(counts) - len(layer))]
        for number, layer in enumerate(by_layer(found, counts))
    ]
    return Table("Importance", ("", *(f"head {number + 1}" for number in range(max(counts)))), rows, digits=2)


def _said(name, ours, random, is_better_high):
    """A remark: how many heads go at small loss, and whether importance beats chance.

    Args:
        ours: float [percents]. random: float [percents, seeds].
    """
    sign = 1 if is_better_high else -1
    ours, random = sign * ours, sign * random
    worth = ours[0] - ours[-1]
    if worth <= 0:
        return (
            f"All heads together are worth nothing: {name} {sign * ours[0]:.4f} with them, {sign * ours[-1]:.4f} "
            "without any."
        )

    def most(scores):
        # The first share beyond which the score falls short, not the last that happens to reach it.
        return PERCENTS[np.flatnonzero(scores < ours[-1] + _KEPT * worth)[0] - 1]

    means, gains = random.mean(axis=1), np.mean(ours[1:-1]) - np.mean(random[1:-1], axis=0)
    shows = (
        "shows"
        if gains.min() > 0
        else "shows on the mean, not for every order"
        if gains.mean() > 0
        else "does not show"
    )
    return (
        f"{name} is {sign * ours[0]:.4f} with all heads, {sign * ours[-1]:.4f} with none. {_KEPT:.0%} of that difference is "
        f"kept with {most(ours)} % of the heads closed by importance, with {most(means)} % at random. That importance beats "
        f"chance {shows}: its mean {name} over 10 to 90 % is {sign * np.mean(ours[1:-1]):.4f}, of random orders "
        f"{sign * np.mean(random[1:-1]):.4f}, of the best of them {sign * np.mean(random[1:-1], axis=0).max():.4f}."
    )
