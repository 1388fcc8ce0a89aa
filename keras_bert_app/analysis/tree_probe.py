"""The structural probe for trees in vectors.

See Hewitt and Manning 2019, A Structural Probe for Finding Syntax in Word Representations.

The probe trains two linear maps. With the first map, the squared distances between mapped words approach their
distances in the tree. With the second map, the squared lengths of mapped words approach their depths in the tree.

Dimensions: M sentences, W words, H hidden size, k rank, T words of all sentences.
"""

from collections.abc import Iterator

import numpy as np
import tensorflow as tf

from keras_bert_app.analysis import treebank
from keras_bert_app.analysis.probe_steps import adam
from keras_bert_app.analysis.tree_scores import Group

# Hewitt and Manning 2019: Adam at 0.001, 20 sentences a batch, initial map uniform in +-0.05. They stop early on the
# dev set. Here the dev set gives the scores, so the training has a fixed number of steps and a rate that falls to 0.
_LEARNING_RATE, BATCH_SIZE, _INITIAL_RANGE = 1e-3, 20, 0.05
MOST_EPOCHS, MOST_STEPS = 10, 2000


def starts_of(trees: list[treebank.Tree]) -> np.ndarray:
    """Finds the first word of each tree among the words of all trees.

    Args:
        trees: list of treebank.Tree.

    Returns:
        int64 [trees].
    """
    return np.cumsum([0, *(len(tree) for tree in trees[:-1])])


class Batches:
    """Batches of trees of similar lengths. Trees of one word are left out.

    Args:
        trees: list of treebank.Tree.
    """

    def __init__(self, trees: list[treebank.Tree]):
        self.starts, self.trees = starts_of(trees), trees
        self.usable = np.array([number for number in range(len(trees)) if len(trees[number]) > 1])
        self.distances = {number: treebank.distances(trees[number].heads) for number in self.usable}
        self.depths = {number: treebank.depths(trees[number].heads) for number in self.usable}

    def epoch(self, generator: np.random.Generator) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]]:
        """Yields the batches of one epoch in random order.

        Args:
            generator: np.random.Generator.

        Yields:
            (words, lengths, distances, depths), padded with zeros: int32 [M, W] places among all words, int32 [M],
            float32 [M, W, W], float32 [M, W].
        """
        numbers = generator.permutation(self.usable)
        numbers = numbers[np.argsort([len(self.trees[number]) for number in numbers], kind="stable")]
        chunks = [numbers[at : at + BATCH_SIZE] for at in range(0, len(numbers), BATCH_SIZE)]
        for at in generator.permutation(len(chunks)):
            lengths = np.array([len(self.trees[number]) for number in chunks[at]], np.int32)
            width = int(lengths.max())
            words = np.zeros((len(lengths), width), np.int32)
            distances, depths = np.zeros((len(lengths), width, width), np.float32), np.zeros(words.shape, np.float32)
            for row, (number, length) in enumerate(zip(chunks[at], lengths, strict=True)):
                words[row, :length] = self.starts[number] + np.arange(length)
                distances[row, :length, :length] = self.distances[number]
                depths[row, :length] = self.depths[number]
            yield words, lengths, distances, depths


def train_probe(vectors: np.ndarray, batches: Batches, rank: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Trains both maps.

    Args:
        vectors: float32 [T, H].
        batches: Batches.
        rank: int. The rank k of the maps.
        seed: int. The seed of the initial maps and of the order of batches.

    Returns:
        (float32 [H, k], float32 [H, k]): the map for distances and the map for depths.
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
    """Makes one step for both maps. The losses of the maps share no weight, so their sum trains both.

    Args:
        maps: float32 [2, H, k], of distances and of depths.
        first_moments: float32 [2, H, k], of Adam.
        second_moments: float32 [2, H, k], of Adam.
        step: float32 scalar. The number of earlier steps.
        steps: float32 scalar. The number of all steps.
        vectors: float32 [T, H].
        words, lengths, distances, depths: see Batches.epoch.
    """
    mask = tf.sequence_mask(lengths, tf.shape(words)[1], tf.float32)
    sizes = tf.cast(lengths, tf.float32)
    with tf.GradientTape() as tape:
        tape.watch(maps)
        batch = tf.gather(vectors, words)
        predicted_distances = _squared_distances(tf.einsum("mwh,hk->mwk", batch, maps[0]))
        predicted_depths = tf.reduce_sum(tf.einsum("mwh,hk->mwk", batch, maps[1]) ** 2, axis=2)
        pairs = mask[:, :, None] * mask[:, None, :]
        # Hewitt and Manning 2019, equation 3: the mean over the pairs of a sentence, then over sentences.
        loss = tf.reduce_mean(
            tf.reduce_sum(pairs * tf.abs(predicted_distances - distances), axis=(1, 2)) / sizes**2
            + tf.reduce_sum(mask * tf.abs(predicted_depths - depths), axis=1) / sizes
        )
    gradient = tape.gradient(loss, maps)
    return adam(maps, gradient, first_moments, second_moments, step, _LEARNING_RATE * (1 - step / steps))


def _squared_distances(mapped):
    """Squared distances [M, W, W] between mapped words [M, W, k]."""
    sizes = tf.reduce_sum(mapped**2, axis=2)
    return tf.nn.relu(sizes[:, :, None] + sizes[:, None, :] - 2 * tf.matmul(mapped, mapped, transpose_b=True))


def predict(
    vectors: np.ndarray, groups: list[Group], distance_map: np.ndarray, depth_map: np.ndarray
) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Predicts squared distances and depths.

    Args:
        vectors: float32 [T, H].
        groups: list of tree_scores.Group.
        distance_map: float32 [H, k].
        depth_map: float32 [H, k].

    Returns:
        (list of float32 [M, W, W], list of float32 [M, W]): the distances and depths of each group.
    """
    mapped, depths = vectors @ distance_map, np.sum((vectors @ depth_map) ** 2, axis=1)
    distances = []
    for group in groups:
        squared = _squared_distances(mapped[group.words]).numpy()
        diagonal = np.arange(squared.shape[1])
        squared[:, diagonal, diagonal] = 0.0  # rounding leaves small numbers
        distances.append(squared)
    return distances, [depths[group.words] for group in groups]
