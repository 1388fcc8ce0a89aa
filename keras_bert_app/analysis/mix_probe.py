"""A probe with one hidden layer that reads a mix of an encoder's layers.

See Tenney et al. 2019, BERT Rediscovers the Classical NLP Pipeline.

Dimensions: L layers, n items, M mixed layers (1, or all L + 1), D numbers of an item, C classes.
"""

from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from keras_bert_app.analysis.probe_steps import adam
from keras_bert_app.analysis.span_items import Items

HIDDEN_SIZE = 256  # the size of the projections in Tenney et al.
EPOCHS = 5
_LEARNING_RATE, _BATCH_SIZE = 1e-3, 64
_MIX_RATE = 20 * _LEARNING_RATE  # the few mix weights must move farther than all other weights in the same steps


def right_answers(train: Items, dev: Items, layers: Sequence[int], seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Trains a probe of a mix of layers, and checks its answers.

    Args:
        train: Items to train on.
        dev: Items to measure on.
        layers: sequence of M int. The layers to mix.
        seed: int. The seed of the initial weights and of the order of items.

    Returns:
        (bool [n], float32 [M]): whether the answer to each dev item is right, and the shares of the layers in the mix.
    """
    number_of = {label: at for at, label in enumerate(sorted(set(train.labels)))}
    labels = np.array([number_of[label] for label in train.labels], np.int32)
    gold = np.array([number_of.get(label, -1) for label in dev.labels])
    # All layers get the same mean square; otherwise the shares would also reflect the lengths of vectors.
    scales = 1 / np.sqrt(np.mean(np.square(train.vectors, dtype=np.float32), axis=(1, 2)))
    weights = train_probe(train.vectors, scales, layers, labels, len(number_of), seed)
    predicted = np.concatenate(
        [
            logits(weights, batch).numpy().argmax(axis=1)
            for batch in _batches(dev.vectors, scales, layers, np.arange(len(gold)), 1024)
        ]
    )
    return predicted == gold, tf.nn.softmax(weights[0]).numpy()


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
            generator.normal(0, np.sqrt(2 / size), (size, HIDDEN_SIZE)),
            np.zeros(HIDDEN_SIZE),
            generator.normal(0, np.sqrt(1 / HIDDEN_SIZE), (HIDDEN_SIZE, num_classes)),
            np.zeros(num_classes),
        )
    )
    state = weights, tuple(map(tf.zeros_like, weights)), tuple(map(tf.zeros_like, weights))
    steps, step = EPOCHS * -(-len(labels) // _BATCH_SIZE), 0
    for _ in range(EPOCHS):
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


def logits(weights: Sequence, batch):
    """Computes the logits of a probe.

    Args:
        weights: sequence of tensors. See train_probe.
        batch: float [M, n, D].

    Returns:
        float [n, C].
    """
    mix, hidden, hidden_bias, output, output_bias = weights
    mixed = tf.tensordot(tf.nn.softmax(mix), batch, 1)
    return tf.nn.relu(mixed @ hidden + hidden_bias) @ output + output_bias


@tf.function(autograph=False, reduce_retracing=True)
def _train_step(weights, first_moments, second_moments, rate_share, step, batch, labels):
    with tf.GradientTape() as tape:
        tape.watch(weights)
        loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits(weights, batch)))
    gradients = tape.gradient(loss, weights)
    rates = [_MIX_RATE, *[_LEARNING_RATE] * (len(weights) - 1)]
    parts = zip(weights, gradients, first_moments, second_moments, rates, strict=True)
    return tuple(
        zip(
            *(
                adam(weight, gradient, first, second, step, rate * rate_share)
                for weight, gradient, first, second, rate in parts
            ),
            strict=True,
        )
    )
