"""How near predicted distances and depths come to trees (Hewitt and Manning 2019, section 3.1 and their code).

Dimensions: M sentences of one length, W words of each.
"""

import dataclasses

import numpy as np

from keras_bert_app.analysis import treebank

_SPEARMAN_LENGTHS = range(5, 51)  # Hewitt and Manning 2019: the mean over sentences of a length, then over lengths 5-50
BY_LENGTH = ("distance_spearman", "depth_spearman")


@dataclasses.dataclass(frozen=True)
class Group:
    """Sentences of one length.

    Attributes:
        numbers: int64 [M], their places among all. words: int64 [M, W], places of their words among all words.
        distances: int32 [M, W, W]. depths, heads: int32 [M, W]. counted: bool [M, W], False at punctuation.
    """

    numbers: np.ndarray
    words: np.ndarray
    distances: np.ndarray
    depths: np.ndarray
    heads: np.ndarray
    counted: np.ndarray


def groups_of(trees, starts):
    """list of Group. starts: int64, the place of each tree's first word among all words."""
    lengths, result = np.array([len(tree) for tree in trees]), []
    for length in np.unique(lengths):
        numbers = np.flatnonzero(lengths == length)
        ours = [trees[number] for number in numbers]
        result.append(
            Group(
                numbers,
                starts[numbers][:, None] + np.arange(length),
                np.stack([treebank.distances(tree.heads) for tree in ours]),
                np.stack([treebank.depths(tree.heads) for tree in ours]),
                np.stack([tree.heads for tree in ours]),
                np.stack([~tree.is_punctuation() for tree in ours]),
            )
        )
    return result


def score(groups, distances, depths):
    """dict of figures over all groups; None where nothing could be counted.

    Args:
        distances: for each group float [M, W, W]. depths: for each group float [M, W].

    Returns:
        uuas: of the gold edges between words that are no punctuation the share that the minimum spanning tree over such
        words has. distance_spearman: of a word the correlation of its distances to all words, itself included, averaged
        over the sentence, the sentences of a length, and lengths 5 to 50. root_accuracy: how often the shallowest word
        that is no punctuation is the root. depth_spearman: alike.
    """
    right = edges = roots = sentences = 0
    for group, distance, depth in zip(groups, distances, depths):
        found, gold = right_edges(group, minimum_spanning_trees(distance, group.counted))
        right, edges = right + int(found.sum()), edges + int(gold.sum())
        some = group.counted.any(axis=1)
        shallowest = np.where(group.counted, depth, np.inf).argmin(axis=1)
        roots += int(np.sum(some & (group.heads[np.arange(len(shallowest)), shallowest] < 0)))
        sentences += int(some.sum())
    by_length = spearman_by_length(groups, distances, depths)
    return {
        "uuas": right / edges if edges else None,
        "root_accuracy": roots / sentences if sentences else None,
        **{name: float(np.mean(list(values.values()))) if values else None for name, values in by_length.items()},
    }


def spearman_by_length(groups, distances, depths):
    """dict of BY_LENGTH -> dict length (5 to 50) -> mean correlation of the sentences of that length. Args: see score."""
    predicted = [
        (group, distance, depth)
        for group, distance, depth in zip(groups, distances, depths)
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


def num_edges(groups):
    """How many edges uuas counts."""
    return sum(int(right_edges(group, np.full(group.heads.shape, -1))[1].sum()) for group in groups)


def right_edges(group, parents):
    """(bool [M, W]: the word's gold edge to its head is among the edges word-parent; bool [M, W]: there is such a gold
    edge, between words that are no punctuation).

    Args:
        parents: int [M, W], as minimum_spanning_trees gives them.
    """
    heads = np.maximum(group.heads, 0)
    gold = (group.heads >= 0) & group.counted & np.take_along_axis(group.counted, heads, axis=1)
    words = np.arange(heads.shape[1])
    return gold & ((parents == heads) | (np.take_along_axis(parents, heads, axis=1) == words)), gold


def minimum_spanning_trees(distances, counted):
    """int64 [M, W]: of each word the one that it joins the tree by (Prim's algorithm); -1 at the first and the others.

    Args:
        distances: float [M, W, W]. counted: bool [M, W], the words that are to be joined.
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


def spearman(found, gold):
    """float64 [...]: Spearman's correlation along the last axis, ties at their mean rank; 0 where one is constant."""
    from scipy.stats import rankdata

    found, gold = (rankdata(one, axis=-1) for one in (found, gold))
    found, gold = (ranks - ranks.mean(axis=-1, keepdims=True) for ranks in (found, gold))
    norms = np.sqrt((found**2).sum(axis=-1) * (gold**2).sum(axis=-1))
    return np.where(norms > 0, (found * gold).sum(axis=-1) / np.maximum(norms, 1e-12), 0.0)
