"""The structural probe itself: linear maps under which squared distances and lengths of words are those of their tree.

Dimensions: M sentences, W words, H hidden size, k rank, T words of all sentences.
"""

import numpy as np
import tensorflow as tf

from keras_bert_app.analysis import treebank
from keras_bert_app.analysis.probe_steps import adam

# Hewitt and Manning 2019: Adam at 0.001, 20 sentences a batch, B uniform in +-0.05. They stop on the dev set, which is
# what is measured on here: so many epochs and steps at most instead, the rate falling to 0.
_LEARNING_RATE, BATCH_SIZE, _INITIAL_RANGE = 1e-3, 20, 0.05
MOST_EPOCHS, MOST_STEPS = 10, 2000


def starts_of(trees):
    """int64 [trees]: the place of each tree's first word among all words."""
    return np.cumsum([0, *(len(tree) for tree in trees[:-1])])


class Batches:
    """Batches of trees of like lengths, of those of two words at least."""

    def __init__(self, trees):
        self.starts, self.trees = starts_of(trees), trees
        self.usable = np.array([number for number in range(len(trees)) if len(trees[number]) > 1])
        self.distances = {number: treebank.distances(trees[number].heads) for number in self.usable}
        self.depths = {number: treebank.depths(trees[number].heads) for number in self.usable}

    def epoch(self, generator):
        """Yields (places of words int32 [M, W], lengths int32 [M], distances float32 [M, W, W], depths float32 [M, W]),
        padded with zeros."""
        numbers = generator.permutation(self.usable)
        numbers = numbers[np.argsort([len(self.trees[number]) for number in numbers], kind="stable")]
        chunks = [numbers[at : at + BATCH_SIZE] for at in range(0, len(numbers), BATCH_SIZE)]
        for at in generator.permutation(len(chunks)):
            lengths = np.array([len(self.trees[number]) for number in chunks[at]], np.int32)
            width = int(lengths.max())
            words = np.zeros((len(lengths), width), np.int32)
            distances, depths = np.zeros((len(lengths), width, width), np.float32), np.zeros(words.shape, np.float32)
            for row, (number, length) in enumerate(zip(chunks[at], lengths)):
                words[row, :length] = self.starts[number] + np.arange(length)
                distances[row, :length, :length] = self.distances[number]
                depths[row, :length] = self.depths[number]
            yield words, lengths, distances, depths


def train_probe(vectors, batches, rank, seed):
    """(float32 [H, k] for distances, float32 [H, k] for depths).

    Args:
        vectors: float32 [T, H]. batches: Batches.
    """
    generator = np.random.default_rng(seed)
    maps = tf.constant(generator.uniform(-_INITIAL_RANGE, _INITIAL_RANGE, (2, vectors.shape[1], rank)), tf.float32)
    state, vectors, step = (maps, tf.zeros_like(maps), tf.zeros_like(maps)), tf.constant(vectors), 0
    steps = min(MOST_STEPS, MOST_EPOCHS * -(-len(batches.usable) // BATCH_SIZE))
    while step < steps:
        for batch in batches.epoch(generator):
            state = _train_step(*state, tf.constant(step, tf.float32), tf.constant(steps, tf.float32), vectors, *batch)
            step += 1
            if step == steps:
                break
    return tuple(state[0].numpy())


@tf.function(autograph=False, reduce_retracing=True)
def _train_step(maps, first_moments, second_moments, step, steps, vectors, words, lengths, distances, depths):
    """One step for both maps together: their losses share no weight.

    Args:
        maps and moments: float32 [2, H, k], of distances and of depths. The rest as Batches.epoch gives it.
    """
    mask = tf.sequence_mask(lengths, tf.shape(words)[1], tf.float32)
    sizes = tf.cast(lengths, tf.float32)
    with tf.GradientTape() as tape:
        tape.watch(maps)
        batch = tf.gather(vectors, words)
        found_distances = _squared_distances(tf.einsum("mwh,hk->mwk", batch, maps[0]))
        found_depths = tf.reduce_sum(tf.einsum("mwh,hk->mwk", batch, maps[1]) ** 2, axis=2)
        pairs = mask[:, :, None] * mask[:, None, :]
        # Hewitt and Manning 2019, equation 3: the mean over a sentence's pairs, then over sentences.
        loss = tf.reduce_mean(
            tf.reduce_sum(pairs * tf.abs(found_distances - distances), axis=(1, 2)) / sizes**2
            + tf.reduce_sum(mask * tf.abs(found_depths - depths), axis=1) / sizes
        )
    gradient = tape.gradient(loss, maps)
    return adam(maps, gradient, first_moments, second_moments, step, _LEARNING_RATE * (1 - step / steps))


def _squared_distances(mapped):
    """[M, W, W] of [M, W, k]."""
    sizes = tf.reduce_sum(mapped**2, axis=2)
    return tf.nn.relu(sizes[:, :, None] + sizes[:, None, :] - 2 * tf.matmul(mapped, mapped, transpose_b=True))


def predict(vectors, groups, distance_map, depth_map):
    """(for each group float32 [M, W, W]; for each float32 [M, W]): squared distances and depths."""
    mapped, depths = vectors @ distance_map, np.sum((vectors @ depth_map) ** 2, axis=1)
    distances = []
    for group in groups:
        one = _squared_distances(mapped[group.words]).numpy()
        diagonal = np.arange(one.shape[1])
        one[:, diagonal, diagonal] = 0.0  # but for rounding
        distances.append(one)
    return distances, [depths[group.words] for group in groups]
