"""Edge probing: what each layer knows of parts of speech, dependencies and names.

See Tenney et al. 2019, BERT Rediscovers the Classical NLP Pipeline. One probe reads each layer, and one more probe
reads a learned mix of all layers. The centre of gravity of the mix says where the encoder solves a task.

Dimensions: L layers, n items, M mixed layers (1, or all L + 1), D numbers of an item, C classes.
"""

from collections.abc import Callable, Sequence

import numpy as np
import tensorflow as tf

from keras_bert_app.analysis import span_items
from keras_bert_app.analysis.encoders import Subject, untrained
from keras_bert_app.analysis.findings import Findings, Table
from keras_bert_app.analysis.options import Options
from keras_bert_app.analysis.probe_steps import adam
from keras_bert_app.drawing import probe_pictures
from keras_bert_app.errors import UserError
from keras_bert_app.terminal.progress import reported

SUMMARY = "what each layer knows of parts of speech, dependencies and names, and each task's centre of gravity"
NEEDS = ("train_file", "dev_file")

_HIDDEN_SIZE = 256  # as the projections of Tenney et al.
_LEARNING_RATE, _BATCH_SIZE, _EPOCHS = 1e-3, 64, 5
_LEAST_GAP = 0.1  # layers: the remark calls centres ordered only at a larger distance
_MIX_RATE = 20 * _LEARNING_RATE  # the few mix weights must move farther than the others in the same steps
_COLUMNS = (
    "task",
    "items",
    "majority",
    "untrained",
    "layer 0",
    "best layer",
    "accuracy",
    "spread",
    "mix of all",
    "spread",
    "centre of gravity",
    "spread",
)


def run(subject: Subject, options: Options, log: Callable[[str], None]) -> Findings:
    """Trains the probes of each task, and compares them with majority and untrained encoders.

    Args:
        subject: Subject. The encoder to look into.
        options: Options. Uses train_file, dev_file, ner_train_file, ner_dev_file, max_sentences, num_seeds and seed.
        log: Callable. Receives progress lines.

    Returns:
        Findings.

    Raises:
        UserError: see check; or a file has no items.
    """
    check(options)
    sources = _read(subject, options)
    tasks = _tasks(subject, sources, log)
    seeds = range(options.seed, options.seed + options.num_seeds)
    untrained_accuracies = _untrained_accuracies(subject, sources, seeds, log)
    rows, by_layer, shares = [], {}, {}
    for name, (train, dev) in tasks.items():
        by_layer[name], mixed, shares[name] = _probe_task(name, train, dev, seeds, log)
        majority = _majority(train, dev)
        rows.append(
            _row(name, len(dev.labels), majority, untrained_accuracies[name], by_layer[name], mixed, shares[name])
        )
    num_layers = subject.config.num_hidden_layers
    layers = Table(
        "Accuracy by layer",
        ("layer", *tasks),
        [[str(layer), *(float(by_layer[name][layer].mean()) for name in tasks)] for layer in range(num_layers + 1)],
    )
    picture = probe_pictures.draw_mixes(
        [(row[0], by_layer[row[0]], row[2], row[3], shares[row[0]]) for row in rows],
        f"{subject.name}: what layers know",
    )
    return Findings(
        "edge_probing",
        f"Edge probing: {subject.name}",
        [Table("Accuracy of probes, and where tasks are solved", _COLUMNS, rows), layers],
        _remarks(rows, num_layers, options, tasks, sources),
        {"edge_probing.png": picture},
        {
            "untrained": untrained_accuracies,
            "shares": {name: value.tolist() for name, value in shares.items()},
            "by_layer": {name: value.tolist() for name, value in by_layer.items()},
        },
    )


def _row(name, num_items, majority, untrained_accuracy, by_layer, mixed, shares):
    """The cells of a task's row, in the order of _COLUMNS."""
    centres = shares @ np.arange(shares.shape[1])
    means = by_layer.mean(axis=1)
    best = int(means.argmax())
    return [
        name,
        num_items,
        majority,
        float(np.mean(untrained_accuracy)),
        float(means[0]),
        best,
        float(means[best]),
        float(by_layer[best].std()),
        float(mixed.mean()),
        float(mixed.std()),
        float(centres.mean()),
        float(centres.std()),
    ]


def check(options: Options) -> None:
    """Checks that both files with names are given, or neither.

    Args:
        options: Options.

    Raises:
        UserError: one of the two files is given alone.
    """
    for name, other in (("ner_train_file", "ner_dev_file"), ("ner_dev_file", "ner_train_file")):
        if getattr(options, name) and not getattr(options, other):
            raise UserError(
                f"--{name}={getattr(options, name)}: --{other} is missing, without which no names are asked for; give "
                "both, or neither"
            )


def _read(subject, options):
    """Reads all files before any sentence is encoded, so that faults show early.

    Returns:
        list of (Source of trees, Source of names or None), for training and for measuring.
    """
    trees = [
        span_items.read_trees(subject, path, options.most_sentences())
        for path in (options.train_file, options.dev_file)
    ]
    names = [
        span_items.read_names(subject, path, options.most_sentences())
        for path in (options.ner_train_file, options.ner_dev_file)
        if path
    ]
    return list(zip(trees, names or [None, None], strict=True))


def _tasks(subject, sources, log):
    """dict of task name -> (Items to train on, Items to measure on)."""
    train, dev = (span_items.items_of_trees(subject, trees, log) for trees, _ in sources)
    tasks = {"part of speech": (train[0], dev[0]), "dependency": (train[1], dev[1])}
    if sources[0][1]:
        tasks["named entity"] = tuple(span_items.items_of_names(subject, names, log) for _, names in sources)
    return tasks


def _untrained_accuracies(subject, sources, seeds, log):
    """dict of task name -> list of accuracies by seed: the mix of all layers of encoders with random weights."""
    accuracies = {}
    for seed in seeds:
        log(f"another encoder of random weights, seed {seed}")
        for name, (train, dev) in _tasks(untrained(subject, seed), sources, log).items():
            accuracy, _ = _probe(train, dev, range(len(train.vectors)), seed)
            accuracies.setdefault(name, []).append(float(accuracy))
    return accuracies


def _majority(train, dev):
    labels, counts = np.unique(train.labels, return_counts=True)
    return float(np.mean(np.array(dev.labels) == labels[counts.argmax()]))


def _probe_task(name, train, dev, seeds, log):
    """Trains the probes of one task.

    Returns:
        (float64 [L + 1, seeds], float64 [seeds], float64 [seeds, L + 1]): the accuracy of each layer, the accuracy of
        the mix, and the shares of layers in the mix.
    """
    num_layers = len(train.vectors)
    by_layer, shares = np.zeros((num_layers, len(seeds))), np.zeros((len(seeds), num_layers))
    mixed = np.zeros(len(seeds))
    jobs = [
        (at, layers)
        for at in range(len(seeds))
        for layers in [*([layer] for layer in range(num_layers)), list(range(num_layers))]
    ]
    for at, layers in reported(jobs, len(jobs), f"probes of {name}", log):
        accuracy, share = _probe(train, dev, layers, seeds[at])
        if len(layers) == 1:
            by_layer[layers[0], at] = accuracy
        else:
            mixed[at], shares[at] = accuracy, share
    return by_layer, mixed, shares


def _probe(train, dev, layers, seed):
    """(accuracy on dev, shares of the layers) of a probe of a mix of layers."""
    number_of = {label: at for at, label in enumerate(sorted(set(train.labels)))}
    labels = np.array([number_of[label] for label in train.labels], np.int32)
    gold = np.array([number_of.get(label, -1) for label in dev.labels])
    # All layers get the same mean square; otherwise the shares would also reflect the lengths of vectors.
    scales = 1 / np.sqrt(np.mean(np.square(train.vectors, dtype=np.float32), axis=(1, 2)))
    weights = train_probe(train.vectors, scales, layers, labels, len(number_of), seed)
    predicted = np.concatenate(
        [
            _logits(weights, batch).numpy().argmax(axis=1)
            for batch in _batches(dev.vectors, scales, layers, np.arange(len(gold)), 1024)
        ]
    )
    return np.mean(predicted == gold), tf.nn.softmax(weights[0]).numpy()


def train_probe(
    vectors: np.ndarray,
    scales: np.ndarray,
    layers: Sequence[int],
    labels: np.ndarray,
    num_classes: int,
    seed: int,
) -> tuple[tf.Tensor, ...]:
    """Trains a probe of a mix of layers.

    Args:
        vectors: float16 [L + 1, n, D].
        scales: float32 [L + 1]. Factors of the layers.
        layers: sequence of M int. The layers to mix.
        labels: int32 [n].
        num_classes: int. The number C of classes.
        seed: int. The seed of the initial weights and of the order of items.

    Returns:
        tuple of tensors: mix [M], kernel [D, 256] and bias [256] of the hidden layer, kernel [256, C] and bias [C] of
        the output layer.
    """
    generator, size = np.random.default_rng(seed), vectors.shape[2]
    weights = tuple(
        tf.constant(value, tf.float32)
        for value in (
            np.zeros(len(layers)),
            generator.normal(0, np.sqrt(2 / size), (size, _HIDDEN_SIZE)),
            np.zeros(_HIDDEN_SIZE),
            generator.normal(0, np.sqrt(1 / _HIDDEN_SIZE), (_HIDDEN_SIZE, num_classes)),
            np.zeros(num_classes),
        )
    )
    state = weights, tuple(map(tf.zeros_like, weights)), tuple(map(tf.zeros_like, weights))
    steps, step = _EPOCHS * -(-len(labels) // _BATCH_SIZE), 0
    for _ in range(_EPOCHS):
        order = generator.permutation(len(labels))
        for at, batch in enumerate(_batches(vectors, scales, layers, order, _BATCH_SIZE)):
            batch_labels = labels[order[at * _BATCH_SIZE : (at + 1) * _BATCH_SIZE]]
            rate_share, done_steps = tf.constant(1 - step / steps, tf.float32), tf.constant(step, tf.float32)
            state = _train_step(*state, rate_share, done_steps, batch, batch_labels)
            step += 1
    return state[0]


def _batches(vectors, scales, layers, order, size):
    """Yields float32 [M, size, D]."""
    for at in range(0, len(order), size):
        places = order[at : at + size]
        yield np.stack([vectors[layer][places].astype(np.float32) * scales[layer] for layer in layers])


def _logits(weights, batch):
    mix, hidden, hidden_bias, output, output_bias = weights
    mixed = tf.tensordot(tf.nn.softmax(mix), batch, 1)
    return tf.nn.relu(mixed @ hidden + hidden_bias) @ output + output_bias


@tf.function(autograph=False, reduce_retracing=True)
def _train_step(weights, first_moments, second_moments, left, step, batch, labels):
    with tf.GradientTape() as tape:
        tape.watch(weights)
        loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels, _logits(weights, batch)))
    gradients = tape.gradient(loss, weights)
    rates = [_MIX_RATE, *[_LEARNING_RATE] * (len(weights) - 1)]
    parts = zip(weights, gradients, first_moments, second_moments, rates, strict=True)
    return tuple(
        zip(
            *(
                adam(weight, gradient, first, second, step, rate * left)
                for weight, gradient, first, second, rate in parts
            ),
            strict=True,
        )
    )


def _remarks(rows, num_layers, options, tasks, sources):
    ordered = sorted(rows, key=lambda row: row[10])
    shows = all(after[10] - before[10] > _LEAST_GAP for before, after in zip(rows, rows[1:], strict=False))
    lines = [
        "Centres of gravity: "
        + " < ".join(f"{row[0]} {row[10]:.2f}" for row in ordered)
        + f" (of 0 to {num_layers}; a mix of all layers alike has {num_layers / 2:.1f}). "
        + (
            "In the order of Tenney et al."
            if shows
            else f"Tenney et al. found {' < '.join(tasks)}: here the centres are not "
            f"in that order, or within {_LEAST_GAP} of a layer."
        ),
        f"Probes with a hidden layer of {_HIDDEN_SIZE}, {_EPOCHS} epochs over "
        + ", ".join(f"{len(train.labels):,} items of {name}" for name, (train, _) in tasks.items())
        + f"; mean and standard deviation over seeds ({options.num_seeds}). Layers are brought to one mean square "
        "before they are mixed. Untrained: the mix of an encoder of random weights, another for each seed. Pairs and "
        "names are given, only their label is asked for.",
        f"At most {span_items.MOST_ITEMS:,} items of each task and file, taken evenly. "
        + "; ".join(source.remark for pair in sources for source in pair if source)
        + ".",
    ]
    if len(tasks) < 3:
        lines.append("Give --ner_train_file and --ner_dev_file for named entities.")
    return lines
