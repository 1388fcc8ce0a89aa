"""Scores of predicted distances and depths against trees.

See Hewitt and Manning 2019, section 3.1, and their code.

Dimensions: M sentences of one length, W words of each.
"""

import dataclasses

import numpy as np

from keras_bert_app.analysis import treebank

# Hewitt and Manning 2019: the mean over the sentences of a length, then over the lengths 5 to 50.
_SPEARMAN_LENGTHS = range(5, 51)
BY_LENGTH = ("distance_spearman", "depth_spearman")


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


def score(groups: list[Group], distances: list[np.ndarray], depths: list[np.ndarray]) -> dict[str, float | None]:
    """Scores the predictions over all groups.

    Args:
        groups: list of Group.
        distances: list of float [M, W, W], one for each group.
        depths: list of float [M, W], one for each group.

    Returns:
        dict of four floats, None for a score without anything to count:
        uuas: the share of gold edges that the minimum spanning tree has. Punctuation is left out of both.
        root_accuracy: how often the shallowest word that is no punctuation is the root.
        distance_spearman: the correlation of a word's distances to all words, itself included. It is averaged over the
            sentence, the sentences of a length, and the lengths 5 to 50.
        depth_spearman: the correlation of the depths of a sentence, averaged in the same way.
    """
    right = edges = roots = sentences = 0
    for group, distance, depth in zip(groups, distances, depths, strict=True):
        is_right, is_gold = right_edges(group, minimum_spanning_trees(distance, group.counted))
        right, edges = right + int(is_right.sum()), edges + int(is_gold.sum())
        has_words = group.counted.any(axis=1)
        shallowest = np.where(group.counted, depth, np.inf).argmin(axis=1)
        roots += int(np.sum(has_words & (group.heads[np.arange(len(shallowest)), shallowest] < 0)))
        sentences += int(has_words.sum())
    by_length = spearman_by_length(groups, distances, depths)
    return {
        "uuas": right / edges if edges else None,
        "root_accuracy": roots / sentences if sentences else None,
        **{name: float(np.mean(list(values.values()))) if values else None for name, values in by_length.items()},
    }


def spearman_by_length(
    groups: list[Group], distances: list[np.ndarray], depths: list[np.ndarray]
) -> dict[str, dict[int, float]]:
    """Averages Spearman's correlations over the sentences of each length.

    Args:
        groups: list of Group.
        distances: list of float [M, W, W], one for each group.
        depths: list of float [M, W], one for each group.

    Returns:
        dict of a name of BY_LENGTH -> dict of length (5 to 50) -> mean correlation.
    """
    predicted = [
        (group, distance, depth)
        for group, distance, depth in zip(groups, distances, depths, strict=True)
        if depth.shape[1] in _SPEARMAN_LENGTHS
    ]
    return {
        "distance_spearman": {
            depth.shape[1]: float(spearman(distance, group.distances).mean()) for group, distance, depth in predicted
        },
        "depth_spearman": {
            depth.shape[1]: float(spearman(depth, group.depths).mean()) for group, _, depth in predicted
        },
    }


def num_edges(groups: list[Group]) -> int:
    """Counts the gold edges that UUAS asks for.

    Args:
        groups: list of Group.

    Returns:
        int.
    """
    return sum(int(right_edges(group, np.full(group.heads.shape, -1))[1].sum()) for group in groups)


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
