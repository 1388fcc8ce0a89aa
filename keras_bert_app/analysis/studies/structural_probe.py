"""Trees in the vectors (Hewitt and Manning 2019, A Structural Probe for Finding Syntax in Word Representations).

A linear map B to k dimensions is learned such that the squared distance of two mapped words is their distance in the
tree, and another such that a mapped word's squared length is its depth (tree_probe). Dimensions: L layers, M sentences, W
words.
"""

import dataclasses

import numpy as np

from keras_bert_app.analysis import encoded_sentences, encoders, tree_probe, tree_scores, treebank
from keras_bert_app.analysis.findings import Findings, Table
from keras_bert_app.analysis.word_vectors import word_vectors
from keras_bert_app.drawing import probe_pictures, tree_pictures
from keras_bert_app.errors import UserError
from keras_bert_app.terminal.progress import reported

SUMMARY = "trees in the vectors, by layer: distances and depths after a linear map of low rank"
NEEDS = ("train_file", "dev_file")

# Measure -> what people read.
_MEASURES = {
    "uuas": "UUAS",
    "distance_spearman": "distance Spearman",
    "root_accuracy": "root accuracy",
    "depth_spearman": "depth Spearman",
}
_NUM_DRAWN, _DRAWN_LENGTHS = 4, range(9, 15)


def run(subject, options, log):
    (train_trees, train_remark), (dev_trees, dev_remark) = (
        _read(subject, path, options.most_sentences()) for path in (options.train_file, options.dev_file)
    )
    groups = tree_scores.groups_of(dev_trees, tree_probe.starts_of(dev_trees))
    if not tree_scores.num_edges(groups):
        raise UserError(
            f"{options.dev_file}: no two words but punctuation hang together in its {len(dev_trees):,} sentences; "
            "expected sentences of two words and more"
        )
    log(f"{options.train_file}: {len(train_trees):,} trees; {options.dev_file}: {len(dev_trees):,}")
    seeds = range(options.seed, options.seed + options.num_seeds)
    rank = min(options.probe_rank, subject.config.hidden_size)
    trained, best = _scores_by_layer([subject] * len(seeds), train_trees, dev_trees, groups, rank, seeds, log)
    others = [encoders.untrained(subject, seed) for seed in seeds]
    untrained, best_untrained = _scores_by_layer(others, train_trees, dev_trees, groups, rank, seeds, log)
    neighbours = _chains(groups)
    chain = tree_scores.score(groups, *neighbours)
    rows = [["neighbours", *(cell for name in _MEASURES for cell in (chain[name], None))]]
    for name, scores in ((subject.name, trained), ("untrained", untrained)):
        rows += [
            [
                f"{name} {layer}",
                *(cell for at in range(len(_MEASURES)) for cell in _mean_and_spread(scores[layer, :, at])),
            ]
            for layer in range(len(scores))
        ]
    columns = ("layer", *(cell for name in _MEASURES.values() for cell in (name, "spread")))
    table = Table(f"{tree_scores.num_edges(groups):,} edges of {len(dev_trees):,} trees, rank {rank}", columns, rows)
    by_length = {
        f"layer {best.layer}": tree_scores.spearman_by_length(groups, best.distances, best.depths),
        f"untrained {best_untrained.layer}": tree_scores.spearman_by_length(
            groups, best_untrained.distances, best_untrained.depths
        ),
        "neighbours": tree_scores.spearman_by_length(groups, *neighbours),
    }
    files = {
        "structural_probe.png": probe_pictures.draw_layers(
            [
                (_MEASURES[name], trained[:, :, at], untrained[:, :, at], chain[name], "neighbours")
                for at, name in enumerate(_MEASURES)
            ],
            f"{subject.name}: trees in the vectors, rank {rank}",
        ),
        "structural_probe_lengths.png": probe_pictures.draw_lengths(
            [
                (_MEASURES[name], {kind: found[name] for kind, found in by_length.items()})
                for name in tree_scores.BY_LENGTH
            ],
            f"{subject.name}: mean correlation of the sentences of each length",
        ),
        "structural_probe_trees.png": tree_pictures.draw_trees(
            _drawn(dev_trees, groups, best.distances),
            f"{subject.name}: gold trees above, below the minimum spanning tree of the distances at layer {best.layer}",
        ),
    }
    return Findings(
        "structural_probe",
        f"Structural probe: {subject.name}",
        [table],
        _remarks(subject, options, trained, untrained, chain, (train_remark, dev_remark)),
        files,
        {
            "measures": list(_MEASURES),
            "trained": _json(trained),
            "untrained": _json(untrained),
            "neighbours": chain,
            "by_length": by_length,
            "num_sentences_by_length": {group.heads.shape[1]: len(group.heads) for group in groups},
        },
    )


def _read(subject, path, max_sentences):
    """(trees that fit into the encoder's positions, remark on the others).

    Raises:
        UserError: none of them has two words.
    """
    trees, left_out = encoded_sentences.fitting(subject, treebank.read_trees(path, max_sentences), path)
    if not any(len(tree) > 1 for tree in trees):
        raise UserError(f"{path}: each of its {len(trees):,} sentences is of one word; expected longer ones")
    return trees, f"{path}: {len(trees):,} trees, {left_out:,} more were longer than the model's positions"


@dataclasses.dataclass(frozen=True)
class Best:
    """What the probe of the highest UUAS predicts: for each group of tree_scores distances [M, W, W] and depths [M, W]."""

    uuas: float
    layer: int
    distances: list
    depths: list


def _scores_by_layer(subjects, train_trees, dev_trees, groups, rank, seeds, log):
    """(float64 [L + 1, seeds, measures], NaN for what could not be counted; the Best).

    Args:
        subjects: one for each seed; the same one is encoded once.
    """
    scores, best, batches = None, None, tree_probe.Batches(train_trees)
    for at, (seed, subject) in enumerate(zip(seeds, subjects)):
        if at == 0 or subject is not subjects[at - 1]:
            vectors, dev_vectors = (
                word_vectors(subject, [tree.words for tree in trees], log) for trees in (train_trees, dev_trees)
            )
        scores = np.zeros((len(vectors), len(seeds), len(_MEASURES))) if scores is None else scores
        for layer in reported(range(len(vectors)), len(vectors), f"layers of {subject.name}, probe seed {seed}", log):
            train, dev = (array[layer].astype(np.float32) for array in (vectors, dev_vectors))
            scale = 1 / np.sqrt(np.mean(train**2))  # layers differ in size, the initial range does not
            distance_map, depth_map = tree_probe.train_probe(train * scale, batches, rank, seed)
            predicted = tree_probe.predict(dev * scale, groups, distance_map, depth_map)
            found = tree_scores.score(groups, *predicted)
            scores[layer, at] = [np.nan if found[name] is None else found[name] for name in _MEASURES]
            if best is None or found["uuas"] > best.uuas:
                best = Best(found["uuas"], layer, *predicted)
    return scores, best


def _chains(groups):
    """(distances, depths) of words that each hang by the one before."""
    places = [np.broadcast_to(np.arange(group.heads.shape[1]), group.heads.shape) for group in groups]
    return [np.abs(one[:, :, None] - one[:, None]) for one in places], places


def _mean_and_spread(scores):
    return [None, None] if np.isnan(scores).any() else [float(np.mean(scores)), float(np.std(scores))]


def _json(scores):
    """Lists of an array, None for NaN, which JSON does not have."""
    return np.where(np.isnan(scores), None, scores).tolist()


def _drawn(trees, groups, distances):
    """list of (words, gold edges, found edges) of some trees of middling length."""
    result = []
    for group, found in zip(groups, distances):
        if group.heads.shape[1] in _DRAWN_LENGTHS and len(result) < _NUM_DRAWN:
            row = int(group.counted.sum(axis=1).argmax())
            parents = tree_scores.minimum_spanning_trees(found[row : row + 1], group.counted[row : row + 1])[0]
            gold = tree_scores.right_edges(group, np.full(group.heads.shape, -1))[1][row]
            result.append(
                (
                    trees[group.numbers[row]].words,
                    [(word, int(group.heads[row, word])) for word in np.flatnonzero(gold)],
                    [(word, int(parents[word])) for word in np.flatnonzero(parents >= 0)],
                )
            )
    return result


def _remarks(subject, options, trained, untrained, chain, read):
    uuas, others = trained[:, :, 0].mean(axis=1), untrained[:, :, 0].mean(axis=1)
    best, other = int(uuas.argmax()), max(others.max(), uuas[0], chain["uuas"])
    verdict = (
        "far above all of them, as Hewitt and Manning found"
        if uuas[best] > other + 0.1
        else "above all of them, but by less than 10 points"
        if uuas[best] > other
        else "not above them: Hewitt and Manning's finding does not show here"
    )
    return [
        f"UUAS {uuas[best]:.1%} at layer {best} of {subject.name}; layer 0 {uuas[0]:.1%}, untrained at its best layer "
        f"{others.max():.1%}, words joined to their neighbours {chain['uuas']:.1%}: {verdict}.",
        f"Mean and standard deviation over seeds ({options.num_seeds}); untrained: another encoder of random weights "
        f"for each. Probes learn in {tree_probe.MOST_EPOCHS} epochs and {tree_probe.MOST_STEPS:,} steps of "
        f"{tree_probe.BATCH_SIZE} at most. {'; '.join(read)}, which are nowhere counted.",
        "Layer 0 is the embeddings. UUAS and root accuracy leave punctuation aside; Spearman is the mean over "
        "sentences of a length, then over lengths 5 to 50. neighbours: distance and depth of a chain from the first word on.",
    ]
