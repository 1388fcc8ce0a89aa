"""Trees in the vectors (Hewitt and Manning 2019, A Structural Probe for Finding Syntax in Word Representations).

A linear map B to k dimensions is learned such that the squared distance of two mapped words is their distance in the
tree, and another such that a mapped word's squared length is its depth. Dimensions: L layers, M sentences, W words, H
hidden size, k rank, T words of all sentences.
"""

import numpy as np
import tensorflow as tf

from keras_bert_app.analysis import encoders, tree_scores, treebank
from keras_bert_app.analysis.findings import Findings, Table
from keras_bert_app.analysis.probe_steps import adam
from keras_bert_app.analysis.progress import reported
from keras_bert_app.analysis.word_vectors import word_vectors
from keras_bert_app.drawing import probes, trees as tree_pictures

SUMMARY = "trees in the vectors, by layer: distances and depths after a linear map of low rank"
NEEDS = ("train_file", "dev_file")

# Hewitt and Manning 2019: Adam at 0.001, 20 sentences a batch, B uniform in +-0.05. They stop on the dev set, which is
# what is measured on here: so many epochs and steps at most instead, the rate falling to 0.
_LEARNING_RATE, _BATCH_SIZE, _INITIAL_RANGE = 1e-3, 20, 0.05
_MOST_EPOCHS, _MOST_STEPS = 10, 2000
_MEASURES = ("uuas", "distance_spearman", "root_accuracy", "depth_spearman")
_NUM_DRAWN, _DRAWN_LENGTHS = 4, range(9, 15)


def run(subject, options, log):
    train_trees, dev_trees = (treebank.read_trees(path, options.max_sentences)
                              for path in (options.train_file, options.dev_file))
    log(f"{options.train_file}: {len(train_trees):,} trees; {options.dev_file}: {len(dev_trees):,}")
    seeds = range(options.seed, options.seed + options.num_seeds)
    rank = min(options.probe_rank, subject.config.hidden_size)
    trained, left_out, best = _scores_by_layer([subject] * len(seeds), train_trees, dev_trees, rank, seeds, log)
    others = [encoders.untrained(subject, seed) for seed in seeds]
    untrained, *_ = _scores_by_layer(others, train_trees, dev_trees, rank, seeds, log)
    groups = tree_scores.groups_of(dev_trees, _starts(dev_trees))
    chain = tree_scores.score(groups, *zip(*((np.abs(np.subtract.outer(words[0], words[0]))[None].repeat(len(words), 0),
                                              words - words[:, :1]) for words in (group.words for group in groups))))
    rows = [["neighbours", *(cell for name in _MEASURES for cell in (chain[name], None))]]
    for name, scores in ((subject.name, trained), ("untrained", untrained)):
        rows += [[f"{name} {layer}", *(cell for at in range(len(_MEASURES)) for cell in
                                       (float(np.mean(scores[layer, :, at])), float(np.std(scores[layer, :, at]))))]
                 for layer in range(len(scores))]
    columns = ("layer", *(cell for name in _MEASURES for cell in (name.replace("_", " "), "spread")))
    table = Table(f"{tree_scores.num_edges(groups):,} edges of {len(dev_trees):,} trees, rank {rank}", columns, rows)
    files = {
        "structural_probe.png": probes.draw_layers(
            [(name.replace("_", " "), trained[:, :, at], untrained[:, :, at], chain[name], "neighbours")
             for at, name in enumerate(_MEASURES)], f"{subject.name}: trees in the vectors, rank {rank}"),
        "structural_probe_trees.png": tree_pictures.draw_trees(
            _drawn(dev_trees, groups, best["distances"]), f"{subject.name}: gold trees above, below the minimum "
            f"spanning tree of the distances at layer {best['layer']}")}
    return Findings("structural_probe", f"Structural probe: {subject.name}", [table],
                    _remarks(subject, options, trained, untrained, chain, left_out, len(train_trees)), files,
                    {"measures": _MEASURES, "trained": trained.tolist(), "untrained": untrained.tolist(),
                     "neighbours": chain})


def _scores_by_layer(subjects, train_trees, dev_trees, rank, seeds, log):
    """(float64 [L + 1, seeds, measures]; how many trees were left out; dict of the best layer with its distances).

    Args:
        subjects: one for each seed; the same one is encoded once.
    """
    scores, best, left_out, encoded = None, {"uuas": -1.0}, 0, None
    for at, (seed, subject) in enumerate(zip(seeds, subjects)):
        if at == 0 or subject is not subjects[at - 1]:
            encoded = _encoded(subject, train_trees, dev_trees, log)
        vectors, batches, train_fits, dev_vectors, dev_fits = encoded
        left_out = int(np.sum(~train_fits) + np.sum(~dev_fits))
        groups = tree_scores.groups_of(dev_trees, _starts(dev_trees))
        scores = np.zeros((len(vectors), len(seeds), len(_MEASURES))) if scores is None else scores
        for layer in reported(range(len(vectors)), len(vectors), f"layers of {subject.name}, probe seed {seed}", log):
            train, dev = (array[layer].astype(np.float32) for array in (vectors, dev_vectors))
            scale = 1 / np.sqrt(np.mean(train ** 2))  # layers differ in size, the initial range does not
            distance_map, depth_map = train_probe(train * scale, batches, rank, seed)
            distances, depths = predict(dev * scale, groups, distance_map, depth_map)
            found = tree_scores.score(groups, distances, depths)
            scores[layer, at] = [np.nan if found[name] is None else found[name] for name in _MEASURES]
            if scores[layer, at, 0] > best["uuas"]:
                best = {"uuas": scores[layer, at, 0], "layer": layer, "distances": distances}
    return scores, left_out, best


def _encoded(subject, train_trees, dev_trees, log):
    vectors, train_fits = word_vectors(subject, [tree.words for tree in train_trees], log)
    dev_vectors, dev_fits = word_vectors(subject, [tree.words for tree in dev_trees], log)
    return vectors, Batches(train_trees, train_fits), train_fits, dev_vectors, dev_fits


def _starts(trees):
    return np.cumsum([0, *(len(tree) for tree in trees[:-1])])


class Batches:
    """Batches of trees of like lengths, of two words at least."""

    def __init__(self, trees, fits):
        self.starts, self.trees = _starts(trees), trees
        self.usable = np.array([number for number in range(len(trees)) if fits[number] and len(trees[number]) > 1])
        self.distances = {number: treebank.distances(trees[number].heads) for number in self.usable}
        self.depths = {number: treebank.depths(trees[number].heads) for number in self.usable}

    def epoch(self, generator):
        """Yields (places of words int32 [M, W], lengths int32 [M], distances float32 [M, W, W], depths float32 [M, W]),
        padded with zeros."""
        numbers = generator.permutation(self.usable)
        numbers = numbers[np.argsort([len(self.trees[number]) for number in numbers], kind="stable")]
        chunks = [numbers[at:at + _BATCH_SIZE] for at in range(0, len(numbers), _BATCH_SIZE)]
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
    steps = min(_MOST_STEPS, _MOST_EPOCHS * -(-len(batches.usable) // _BATCH_SIZE))
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
        loss = tf.reduce_mean(tf.reduce_sum(pairs * tf.abs(found_distances - distances), axis=(1, 2)) / sizes ** 2
                              + tf.reduce_sum(mask * tf.abs(found_depths - depths), axis=1) / sizes)
    gradient = tape.gradient(loss, maps)
    return adam(maps, gradient, first_moments, second_moments, step, _LEARNING_RATE * (1 - step / steps))


def _squared_distances(mapped):
    """[M, W, W] of [M, W, k]."""
    sizes = tf.reduce_sum(mapped ** 2, axis=2)
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


def _drawn(trees, groups, distances):
    """list of (words, gold edges, found edges) of some trees of middling length."""
    result = []
    for group, found in zip(groups, distances):
        if group.heads.shape[1] in _DRAWN_LENGTHS and len(result) < _NUM_DRAWN:
            row = int(group.counted.sum(axis=1).argmax())
            parents = tree_scores.minimum_spanning_trees(found[row:row + 1], group.counted[row:row + 1])[0]
            gold = tree_scores.right_edges(group, np.full(group.heads.shape, -1))[1][row]
            result.append((trees[group.numbers[row]].words,
                           [(word, int(group.heads[row, word])) for word in np.flatnonzero(gold)],
                           [(word, int(parents[word])) for word in np.flatnonzero(parents >= 0)]))
    return result


def _remarks(subject, options, trained, untrained, chain, left_out, num_training):
    uuas, others = trained[:, :, 0].mean(axis=1), untrained[:, :, 0].mean(axis=1)
    best, other = int(uuas.argmax()), max(others.max(), uuas[0], chain["uuas"])
    verdict = ("far above all of them, as Hewitt and Manning found" if uuas[best] > other + 0.1 else
               "above all of them, but by less than 10 points" if uuas[best] > other else
               "not above them: Hewitt and Manning's finding does not show here")
    return [
        f"UUAS {uuas[best]:.1%} at layer {best} of {subject.name}; layer 0 {uuas[0]:.1%}, untrained at its best layer "
        f"{others.max():.1%}, words joined to their neighbours {chain['uuas']:.1%}: {verdict}.",
        f"Mean and standard deviation over seeds ({options.num_seeds}); untrained: another encoder of random weights "
        f"for each. Probes learn from {num_training:,} trees, {_MOST_EPOCHS} epochs and {_MOST_STEPS:,} steps of "
        f"{_BATCH_SIZE} at most. {left_out} trees were longer than the model's positions.",
        "Layer 0 is the embeddings. UUAS and root accuracy leave punctuation aside; Spearman is the mean over "
        "sentences of a length, then over lengths 5 to 50. neighbours: distance and depth of a chain from the first word on."]
