"""The attention heads that a model needs.

See Michel et al. 2019, Are Sixteen Heads Really Better than One?

The importance of a head is the expected absolute gradient of the loss with respect to a gate of 1 on its output
(equation 2). It is divided by the l2 norm of its layer (section 4.1, after Molchanov et al. 2017). Then the analysis
closes the heads, the least important first.

Dimensions: L layers, N heads of each, T heads of all layers, B rows of a batch.
"""

from collections.abc import Callable, Sequence

import numpy as np
import tensorflow as tf

from keras_bert_app.analysis import head_tasks
from keras_bert_app.analysis.encoders import Subject
from keras_bert_app.analysis.findings import Findings, Table
from keras_bert_app.analysis.options import Options
from keras_bert_app.analysis.sentence_bootstrap import seed_interval
from keras_bert_app.drawing.pruning_pictures import draw_pruning
from keras_bert_app.modeling.encoder import gated_heads
from keras_bert_app.terminal.progress import reported
from keras_bert_app.training.evaluation import wilson_interval

SUMMARY = (
    "how much each head lowers the loss, by gradients of gates; scores as heads are closed (--input_file or --workdir)"
)
NEEDS = ()
TAKES = ("input_file", "workdir", "max_sentences", "num_seeds", "seed")
MODEL_FROM = "workdir"

PERCENTS = tuple(range(0, 101, 10))  # the scores at 0 and 100 % differ by the worth of all heads together
_KEPT = 0.9  # the remark says how many heads can be closed while this share of the worth of all heads remains


check = head_tasks.check


def run(subject: Subject | None, options: Options, log: Callable[[str], None]) -> Findings:
    """Scores the model while heads are closed by importance, and in random orders as a baseline.

    Args:
        subject: Subject or None. The model to look into; not needed with a workdir.
        options: Options. Uses workdir or else input_file; max_sentences, num_seeds and seed.
        log: Callable. Receives progress lines.

    Returns:
        Findings.

    Raises:
        UserError: the options name no data, or the model has no masked-LM head.
    """
    task = head_tasks.load(subject, options, log)
    counts = task.model.config.head_counts
    head_importance = importance(task, log)
    orders = {"importance": np.argsort(head_importance, kind="stable")}
    for seed in range(options.seed, options.seed + options.num_seeds):
        orders[seed] = np.random.default_rng(seed).permutation(len(head_importance))
    numbers = [round(len(head_importance) * percent / 100) for percent in PERCENTS]
    curves = _curves(task, orders, numbers, log)
    main_score = next(iter(curves))
    title = f"{task.subject_name}, {task.name}"
    files = {
        "head_importance.png": draw_pruning(
            by_layer(head_importance, counts),
            PERCENTS,
            *curves[main_score],
            main_score,
            f"Heads by importance: {title}\n{task.data}",
        )
    }
    values = {
        "importance": by_layer(head_importance, counts),
        "closed": numbers,
        "curves": {
            name: {"importance": ours.tolist(), "random": random.tolist()} for name, (ours, random) in curves.items()
        },
        "order": [place_of(head, counts) for head in orders["importance"].tolist()],
    }
    remarks = [
        f"{task.data}. Importance is divided by the l2 norm of its layer; random orders: {options.num_seeds} seeds. "
        f"Intervals of accuracy are Wilson's for {task.num_scored:,} answers and cover 95 %. "
        "A gate of 0 closes a head. All heads of a layer may be closed; its residual connection stays.",
        _verdict(main_score, *curves[main_score], task.is_better_high),
        *task.remarks,
    ]
    return Findings(
        "head_importance",
        f"Head importance: {title}",
        [_curve_table(curves, numbers, len(head_importance), task.num_scored), _head_table(head_importance, counts)],
        remarks,
        files,
        values,
        task.origin,
    )


def _curves(task, orders, numbers, log):
    """dict of score name -> (float [percents] by importance, float [percents, seeds] in random orders)."""
    num_heads = len(orders["importance"])
    gates, call = gated_call(task)
    jobs = [(order, number) for number in numbers for order in orders]
    scores = {}
    for order, number in reported(jobs, len(jobs), "orders and numbers of heads scored", log):
        # All orders begin with the whole model and end with no head.
        if number in (0, num_heads) and ("importance", number) in scores:
            scores[order, number] = scores["importance", number]
        else:
            scores[order, number] = _closed_score(task, gates, call, orders[order][:number])
    ours, *others = orders
    return {
        name: (
            np.array([scores[ours, number][name] for number in numbers]),
            np.array([[scores[order, number][name] for order in others] for number in numbers]),
        )
        for name in scores["importance", 0]
    }


def importance(task: head_tasks.MaskedLM | head_tasks.Tuned, log: Callable[[str], None]) -> np.ndarray:
    """Computes the importance of each head, divided by the norm of its layer.

    Args:
        task: MaskedLM or Tuned. See head_tasks.
        log: Callable. Receives progress lines.

    Returns:
        float [T], layer after layer.
    """
    counts = task.model.config.head_counts

    @tf.function(reduce_retracing=True, autograph=False)
    def gradients(batch):
        """float32 [B, T]: the absolute gradients of the loss of each example."""
        shape = tf.shape(batch["input_mask"])
        gates = tf.ones([shape[0], sum(counts)])
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            tape.watch(gates)
            # All rows of an example [B, G, S] share one gate.
            by_row = tf.repeat(gates, shape[1], axis=0) if len(batch["input_mask"].shape) == 3 else gates
            with gated_heads(task.model.encoder, tf.split(by_row, counts, axis=1)):
                loss = task.loss(task.outputs(task.model, batch), batch)
        return tf.abs(tape.gradient(loss, gates))

    total = np.zeros(sum(counts))
    for batch in reported(task.estimation, len(task.estimation), "batches for importance", log):
        total += gradients(batch).numpy().sum(axis=0, dtype=np.float64)
    return normalized(total / task.num_estimated, counts)


def normalized(values: np.ndarray, counts: Sequence[int]) -> np.ndarray:
    """Divides values by the l2 norm of their layer. A layer of zeros stays unchanged.

    Args:
        values: float [T].
        counts: sequence of int. The number of heads of each layer.

    Returns:
        float [T].
    """
    norms = np.array([np.linalg.norm(layer) for layer in by_layer(values, counts)])
    return values / np.repeat(np.where(norms > 0, norms, 1.0), counts)


def gated_call(task: head_tasks.MaskedLM | head_tasks.Tuned) -> tuple[tf.Variable, Callable]:
    """Makes a call of the model with a gate on each head.

    Args:
        task: MaskedLM or Tuned. See head_tasks.

    Returns:
        (tf.Variable float32 [T], Callable): the gates, all of them 1, and a function of a batch.
    """
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


def by_layer(values: Sequence[float], counts: Sequence[int]) -> list[list[float]]:
    """Groups the values of heads by layer.

    Args:
        values: sequence of T numbers.
        counts: sequence of int. The number of heads of each layer.

    Returns:
        list of L lists.
    """
    return [layer.tolist() for layer in np.split(np.asarray(values), np.cumsum(counts)[:-1])]


def place_of(head: int, counts: Sequence[int]) -> tuple[int, int]:
    """Finds the layer of a head.

    Args:
        head: int. The number among all heads.
        counts: sequence of int. The number of heads of each layer.

    Returns:
        (layer, head in the layer), both from 0.
    """
    ends = np.cumsum(counts)
    layer = int(np.searchsorted(ends, head, side="right"))
    return layer, int(head - (ends[layer] - counts[layer]))


def _curve_table(curves, numbers, total, num_scored):
    columns = ["closed", "heads left"]
    rows = [[f"{percent} %", total - number] for percent, number in zip(PERCENTS, numbers, strict=True)]
    for name, (ours, random) in curves.items():
        has_interval = name == "accuracy"
        columns += [f"{name} by importance", *(["low", "high"] if has_interval else []), "at random", "std"]
        for row, value, others in zip(rows, ours, random, strict=True):
            row += [float(value), *(wilson_interval(float(value), num_scored) if has_interval else [])]
            row += [float(others.mean()), float(others.std())]
    return Table("Scores as heads are closed", tuple(columns), rows)


def _head_table(head_importance, counts):
    rows = [
        [f"layer {number + 1}", *layer, *[None] * (max(counts) - len(layer))]
        for number, layer in enumerate(by_layer(head_importance, counts))
    ]
    return Table("Importance", ("", *(f"head {number + 1}" for number in range(max(counts)))), rows, digits=2)


def _verdict(name, ours, random, is_better_high):
    """A remark: how many heads can be closed at a small loss, and whether importance beats random orders.

    Args:
        name: str. The name of the score.
        ours: float [percents].
        random: float [percents, seeds].
    """
    sign = 1 if is_better_high else -1
    ours, random = sign * ours, sign * random
    worth = ours[0] - ours[-1]
    if worth <= 0:
        return (
            f"All heads together do not improve the score: {name} is {sign * ours[0]:.4f} with all heads, "
            f"{sign * ours[-1]:.4f} with none."
        )

    def most(scores):
        # The share before the score first falls short. A later share may reach the score again by chance.
        return PERCENTS[np.flatnonzero(scores < ours[-1] + _KEPT * worth)[0] - 1]

    means, gains = random.mean(axis=1), np.mean(ours[1:-1]) - np.mean(random[1:-1], axis=0)
    low, high = seed_interval(gains)
    shows = "shows" if low > 0 else "does not show" if high < 0 else "is not decided by so few random orders"
    bounds = (
        f"; 95 % interval of the lead of importance over the random mean {low:.4f} to {high:.4f}"
        if np.isfinite(low)
        else ""
    )
    return (
        f"{name} is {sign * ours[0]:.4f} with all heads, {sign * ours[-1]:.4f} with none. "
        f"{_KEPT:.0%} of that difference remains with {most(ours)} % of the heads closed by importance, and with "
        f"{most(means)} % closed at random. The finding that importance beats chance {shows}. The mean {name} with 10 "
        f"to 90 % closed is {sign * np.mean(ours[1:-1]):.4f} by importance, {sign * np.mean(random[1:-1]):.4f} in "
        f"random orders and {sign * np.mean(random[1:-1], axis=0).max():.4f} in the best random order{bounds}."
    )
