"""Trees in the vectors of words, found by a structural probe.

See Hewitt and Manning 2019, A Structural Probe for Finding Syntax in Word Representations. tree_probe trains two linear
maps to k dimensions. With the first, the squared distance of two mapped words is their distance in the tree. With the
second, the squared length of a mapped word is its depth.

Dimensions: L layers, M sentences, W words.
"""

import dataclasses
from collections.abc import Callable

import numpy as np

from keras_bert_app.analysis import encoded_sentences, encoders, tree_probe, tree_scores, treebank
from keras_bert_app.analysis.encoders import Subject
from keras_bert_app.analysis.findings import Findings, Table
from keras_bert_app.analysis.options import Options
from keras_bert_app.analysis.word_vectors import word_vectors
from keras_bert_app.drawing import probe_pictures, tree_pictures
from keras_bert_app.errors import UserError
from keras_bert_app.terminal.progress import reported

SUMMARY = "trees in the vectors, by layer: distances and depths after a linear map of low rank"
NEEDS = ("train_file", "dev_file")

# Key of tree_scores.score -> heading.
_MEASURES = {
    "uuas": "UUAS",
    "distance_spearman": "distance Spearman",
    "root_accuracy": "root accuracy",
    "depth_spearman": "depth Spearman",
}
_NUM_DRAWN, _DRAWN_LENGTHS = 4, range(9, 15)


def run(subject: Subject, options: Options, log: Callable[[str], None]) -> Findings:
    """Trains the probe on every layer, and compares it with untrained encoders and a chain of neighbours.

    Args:
        subject: Subject. The encoder to look into.
        options: Options. Uses train_file, dev_file, max_sentences, probe_rank, num_seeds and seed.
        log: Callable. Receives progress lines.

    Returns:
        Findings.

    Raises:
        UserError: a file has no sentence that fits, or no edge between two words.
    """
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
    by_length = {
        name: tree_scores.spearman_by_length(groups, distances, depths)
        for name, distances, depths in (
            (f"layer {best.layer}", best.distances, best.depths),
            (f"untrained {best_untrained.layer}", best_untrained.distances, best_untrained.depths),
            ("neighbours", *neighbours),
        )
    }
    title = f"{tree_scores.num_edges(groups):,} edges of {len(dev_trees):,} trees, rank {rank}"
    return Findings(
        "structural_probe",
        f"Structural probe: {subject.name}",
        [_table(title, chain, ((subject.name, trained), ("untrained", untrained)))],
        _remarks(subject, options, trained, untrained, chain, (train_remark, dev_remark)),
        _pictures(subject, rank, trained, untrained, chain, by_length, best, _drawn(dev_trees, groups, best.distances)),
        {
            "measures": list(_MEASURES),
            "trained": _json(trained),
            "untrained": _json(untrained),
            "neighbours": chain,
            "by_length": by_length,
            "num_sentences_by_length": {group.heads.shape[1]: len(group.heads) for group in groups},
        },
    )


def _table(title, chain, named_scores):
    rows = [["neighbours", *(cell for name in _MEASURES for cell in (chain[name], None))]]
    for name, scores in named_scores:
        rows += [
            [
                f"{name} {layer}",
                *(cell for at in range(len(_MEASURES)) for cell in _mean_and_spread(scores[layer, :, at])),
            ]
            for layer in range(len(scores))
        ]
    return Table(title, ("layer", *(cell for name in _MEASURES.values() for cell in (name, "spread"))), rows)


def _pictures(subject, rank, trained, untrained, chain, by_length, best, drawn_trees):
    """dict of file name -> PNG."""
    return {
        "structural_probe.png": probe_pictures.draw_layers(
            [
                (_MEASURES[name], trained[:, :, at], untrained[:, :, at], chain[name], "neighbours")
                for at, name in enumerate(_MEASURES)
            ],
            f"{subject.name}: trees in the vectors, rank {rank}",
        ),
        "structural_probe_lengths.png": probe_pictures.draw_lengths(
            [
                (_MEASURES[name], {kind: correlations[name] for kind, correlations in by_length.items()})
                for name in tree_scores.BY_LENGTH
            ],
            f"{subject.name}: mean correlation of the sentences of each length",
        ),
        "structural_probe_trees.png": tree_pictures.draw_trees(
            drawn_trees,
            f"{subject.name}: gold trees above, below the minimum spanning tree of the distances at layer {best.layer}",
        ),
    }


def _read(subject, path, max_sentences):
    """Reads the trees that fit into the encoder's positions.

    Returns:
        (list of treebank.Tree, str): the trees, and a remark on the others.

    Raises:
        UserError: no tree has two words.
    """
    trees, left_out = encoded_sentences.fitting(subject, treebank.read_trees(path, max_sentences), path)
    if not any(len(tree) > 1 for tree in trees):
        raise UserError(f"{path}: each of its {len(trees):,} sentences is of one word; expected longer ones")
    return trees, f"{path}: {len(trees):,} trees, {left_out:,} more were longer than the model's positions"


@dataclasses.dataclass(frozen=True)
class Best:
    """The predictions of the probe with the highest UUAS.

    Attributes:
        uuas: float.
        layer: int.
        distances: list of float [M, W, W], one for each group of tree_scores.
        depths: list of float [M, W], one for each group.
    """

    uuas: float
    layer: int
    distances: list
    depths: list


def _scores_by_layer(subjects, train_trees, dev_trees, groups, rank, seeds, log):
    """Trains and scores a probe on each layer of each encoder.

    Args:
        subjects: list of Subject, one for each seed. An encoder that repeats is encoded once.

    Returns:
        (float64 [L + 1, seeds, measures], Best). NaN stands for a measure without anything to count.
    """
    scores, best, batches = None, None, tree_probe.Batches(train_trees)
    for at, (seed, subject) in enumerate(zip(seeds, subjects, strict=True)):
        if at == 0 or subject is not subjects[at - 1]:
            vectors, dev_vectors = (
                word_vectors(subject, [tree.words for tree in trees], log) for trees in (train_trees, dev_trees)
            )
        scores = np.zeros((len(vectors), len(seeds), len(_MEASURES))) if scores is None else scores
        for layer in reported(range(len(vectors)), len(vectors), f"layers of {subject.name}, probe seed {seed}", log):
            train, dev = (array[layer].astype(np.float32) for array in (vectors, dev_vectors))
            scale = 1 / np.sqrt(
                np.mean(train**2)
            )  # vectors of layers differ in size, but the initial range of the maps is fixed
            distance_map, depth_map = tree_probe.train_probe(train * scale, batches, rank, seed)
            predicted = tree_probe.predict(dev * scale, groups, distance_map, depth_map)
            probe_scores = tree_scores.score(groups, *predicted)
            scores[layer, at] = [np.nan if probe_scores[name] is None else probe_scores[name] for name in _MEASURES]
            if best is None or probe_scores["uuas"] > best.uuas:
                best = Best(probe_scores["uuas"], layer, *predicted)
    return scores, best


def _chains(groups):
    """(distances, depths) of a chain in which each word depends on the word before."""
    places = [np.broadcast_to(np.arange(group.heads.shape[1]), group.heads.shape) for group in groups]
    return [np.abs(group_places[:, :, None] - group_places[:, None]) for group_places in places], places


def _mean_and_spread(scores):
    return [None, None] if np.isnan(scores).any() else [float(np.mean(scores)), float(np.std(scores))]


def _json(scores):
    """An array as lists, with None for NaN, which JSON lacks."""
    return np.where(np.isnan(scores), None, scores).tolist()


def _drawn(trees, groups, distances):
    """list of (words, gold edges, predicted edges) of a few trees of medium length."""
    result = []
    for group, predicted in zip(groups, distances, strict=True):
        if group.heads.shape[1] in _DRAWN_LENGTHS and len(result) < _NUM_DRAWN:
            row = int(group.counted.sum(axis=1).argmax())
            parents = tree_scores.minimum_spanning_trees(predicted[row : row + 1], group.counted[row : row + 1])[0]
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
        "sentences of a length, then over lengths 5 to 50. "
        "neighbours: distance and depth of a chain from the first word on.",
    ]
