"""Scores of predicted distances and depths against trees.

See Hewitt and Manning 2019, section 3.1, and their code.

Dimensions: M sentences of one length, W words of each, S sentences of all lengths, R draws.
"""

import dataclasses

import numpy as np

from keras_bert_app.analysis import treebank

# Hewitt and Manning 2019: the mean over the sentences of a length, then over the lengths 5 to 50.
_SPEARMAN_LENGTHS = range(5, 51)
MEASURES = ("uuas", "distance_spearman", "root_accuracy", "depth_spearman")
BY_LENGTH = MEASURES[1::2]


@dataclasses.dataclass(frozen=True)
class Group:
    """Sentences of one length.

    Attributes:
        numbers: int64 [M]. The place of each sentence among all sentences.
        words: int64 [M, W]. The place of each word among all words.
        distances: int32 [M, W, W]. Distances in the tree.
        depths: int32 [M, W].
        heads: int32 [M, W]. See treebank.Tree.
        counted: bool [M, W]. False for punctuation.
    """

    numbers: np.ndarray
    words: np.ndarray
    distances: np.ndarray
    depths: np.ndarray
    heads: np.ndarray
    counted: np.ndarray


def groups_of(trees: list[treebank.Tree], starts: np.ndarray) -> list[Group]:
    """Groups trees by their length.

    Args:
        trees: list of treebank.Tree.
        starts: int64 [trees]. The place of each tree's first word among all words.

    Returns:
        list of Group, from short to long.
    """
    lengths, result = np.array([len(tree) for tree in trees]), []
    for length in np.unique(lengths):
        numbers = np.flatnonzero(lengths == length)
        trees_of_length = [trees[number] for number in numbers]
        result.append(
            Group(
                numbers,
                starts[numbers][:, None] + np.arange(length),
                np.stack([treebank.distances(tree.heads) for tree in trees_of_length]),
                np.stack([treebank.depths(tree.heads) for tree in trees_of_length]),
                np.stack([tree.heads for tree in trees_of_length]),
                np.stack([~tree.is_punctuation() for tree in trees_of_length]),
            )
        )
    return result


@dataclasses.dataclass(frozen=True)
class Sentences:
    """The denominators of the scores of S sentences.

    Attributes:
        lengths: int64 [S]. The words of each sentence.
        edges: int64 [S]. The gold edges between words that are no punctuation.
        has_words: bool [S]. Whether the sentence has a word that is no punctuation.
    """

    lengths: np.ndarray
    edges: np.ndarray
    has_words: np.ndarray

    def part(self, is_kept: np.ndarray) -> "Sentences":
        """Returns the Sentences of a part, bool [S].

        Args:
            is_kept: bool [S].
        """
        return Sentences(self.lengths[is_kept], self.edges[is_kept], self.has_words[is_kept])


def sentences_of(groups: list[Group]) -> Sentences:
    """Counts the words and the gold edges of each sentence.

    Args:
        groups: list of Group.

    Returns:
        Sentences, in the order of the trees.
    """
    return Sentences(
        _in_order(groups, [np.full(len(group.heads), group.heads.shape[1]) for group in groups]),
        _in_order(groups, [right_edges(group, np.full(group.heads.shape, -1))[1].sum(axis=1) for group in groups]),
        _in_order(groups, [group.counted.any(axis=1) for group in groups]),
    )


def sentence_values(groups: list[Group], distances: list[np.ndarray], depths: list[np.ndarray]) -> np.ndarray:
    """Scores each sentence.

    Args:
        groups: list of Group.
        distances: list of float [M, W, W], one for each group.
        depths: list of float [M, W], one for each group.

    Returns:
        float64 [measures, S], in the order of MEASURES and of the trees: the number of right edges, the correlation of
        distances, whether the root is found, the correlation of depths. The correlation of distances is the mean over
        a word's distances to all words, itself included. Correlations of lengths that do not count are 0.
    """
    values = []
    for group, distance, depth in zip(groups, distances, depths, strict=True):
        shallowest = np.where(group.counted, depth, np.inf).argmin(axis=1)
        is_asked, zeros = depth.shape[1] in _SPEARMAN_LENGTHS, np.zeros(len(depth))
        values.append(
            np.stack(
                [
                    right_edges(group, minimum_spanning_trees(distance, group.counted))[0].sum(axis=1),
                    spearman(distance, group.distances).mean(axis=1) if is_asked else zeros,
                    group.counted.any(axis=1) & (group.heads[np.arange(len(shallowest)), shallowest] < 0),
                    spearman(depth, group.depths) if is_asked else zeros,
                ],
                axis=1,
            )
        )
    return _in_order(groups, values).T


def _in_order(groups, values):
    """Values of each group's sentences, in the order of the trees."""
    return np.concatenate(values)[np.argsort(np.concatenate([group.numbers for group in groups]))]


def measured(values: np.ndarray, sentences: Sentences, counts: np.ndarray | None = None) -> np.ndarray:
    """Computes the scores of all sentences together.

    uuas is the share of gold edges that the minimum spanning tree has, without punctuation. root_accuracy says how
    often the shallowest word that is no punctuation is the root. Correlations are averaged over the sentences of a
    length, then over the lengths 5 to 50.

    Args:
        values: float [measures, S]. The result of sentence_values, or its mean over seeds.
        sentences: Sentences.
        counts: float [R, S]. How often each sentence counts. Once by default.

    Returns:
        float64 [R, measures], or [measures] without counts. NaN stands for a score with nothing to count.
    """
    weights = np.ones((1, len(sentences.lengths))) if counts is None else counts
    is_of_length = np.eye(_SPEARMAN_LENGTHS.stop)[np.minimum(sentences.lengths, _SPEARMAN_LENGTHS.stop - 1)]
    is_of_length *= np.isin(sentences.lengths, _SPEARMAN_LENGTHS)[:, None]
    with np.errstate(invalid="ignore"):  # 0 / 0 is NaN
        total_weights = weights @ is_of_length
        num_lengths = (total_weights > 0).sum(axis=1)
        correlations = [
            np.nansum(weights @ (row[:, None] * is_of_length) / total_weights, axis=1) / num_lengths
            for row in values[1::2]
        ]
        shares = [
            weights @ row / (weights @ count)
            for row, count in zip(values[0::2], (sentences.edges, sentences.has_words), strict=True)
        ]
    result = np.stack([shares[0], correlations[0], shares[1], correlations[1]], axis=1)
    return result[0] if counts is None else result


def by_length(values: np.ndarray, sentences: Sentences) -> dict[str, dict[int, float]]:
    """Averages the correlations over the sentences of each length.

    Args:
        values: float [measures, S]. See sentence_values.
        sentences: Sentences.

    Returns:
        dict of a name of BY_LENGTH -> dict of length (5 to 50) -> mean correlation.
    """
    lengths = [int(length) for length in np.unique(sentences.lengths) if length in _SPEARMAN_LENGTHS]
    return {
        name: {length: float(row[sentences.lengths == length].mean()) for length in lengths}
        for name, row in zip(BY_LENGTH, values[1::2], strict=True)
    }


def score(groups: list[Group], distances: list[np.ndarray], depths: list[np.ndarray]) -> dict[str, float | None]:
    """Scores the predictions over all groups.

    Args:
        groups: list of Group.
        distances: list of float [M, W, W], one for each group.
        depths: list of float [M, W], one for each group.

    Returns:
        dict of a name of MEASURES -> float, or None for a score with nothing to count. See measured.
    """
    scores = measured(sentence_values(groups, distances, depths), sentences_of(groups))
    return {name: None if np.isnan(value) else float(value) for name, value in zip(MEASURES, scores, strict=True)}


def right_edges(group: Group, parents: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Compares predicted edges with gold edges.

    Args:
        group: Group.
        parents: int [M, W]. See minimum_spanning_trees.

    Returns:
        (bool [M, W], bool [M, W]): whether the edge from a word to its gold head is predicted, and whether the word has
        such a gold edge. Gold edges are those between words that are no punctuation.
    """
    heads = np.maximum(group.heads, 0)
    gold = (group.heads >= 0) & group.counted & np.take_along_axis(group.counted, heads, axis=1)
    words = np.arange(heads.shape[1])
    return gold & ((parents == heads) | (np.take_along_axis(parents, heads, axis=1) == words)), gold


def minimum_spanning_trees(distances: np.ndarray, counted: np.ndarray) -> np.ndarray:
    """Finds minimum spanning trees by Prim's algorithm.

    Args:
        distances: float [M, W, W].
        counted: bool [M, W]. The words to join.

    Returns:
        int64 [M, W]. The word by which each word joins the tree; -1 for the first word and for words not to join.
    """
    rows, length = np.arange(len(distances)), distances.shape[1]
    parents, start = np.full(counted.shape, -1), counted.argmax(axis=1)
    waiting = counted.copy()
    waiting[rows, start] = False
    nearest = np.repeat(start[:, None], length, axis=1)
    costs = np.where(waiting, distances[rows, start], np.inf)
    for _ in range(length - 1):
        new = costs.argmin(axis=1)
        joined = rows[waiting[rows, new]]
        new = new[joined]
        parents[joined, new] = nearest[joined, new]
        waiting[joined, new], costs[joined, new] = False, np.inf
        closer = waiting[joined] & (distances[joined, new] < costs[joined])
        costs[joined] = np.where(closer, distances[joined, new], costs[joined])
        nearest[joined] = np.where(closer, new[:, None], nearest[joined])
    return parents


def spearman(predicted: np.ndarray, gold: np.ndarray) -> np.ndarray:
    """Computes Spearman's correlation along the last axis. Ties get their mean rank.

    Args:
        predicted: float [..., n].
        gold: float [..., n].

    Returns:
        float64 [...]. 0 where one side is constant.
    """
    from scipy.stats import rankdata

    predicted, gold = (rankdata(values, axis=-1) for values in (predicted, gold))
    predicted, gold = (ranks - ranks.mean(axis=-1, keepdims=True) for ranks in (predicted, gold))
    norms = np.sqrt((predicted**2).sum(axis=-1) * (gold**2).sum(axis=-1))
    return np.where(norms > 0, (predicted * gold).sum(axis=-1) / np.maximum(norms, 1e-12), 0.0)
