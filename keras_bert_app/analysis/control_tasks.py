"""Control tasks, which show how much a probe can memorize without knowledge of language.

See Hewitt and Liang 2019, Designing and Interpreting Probes with Control Tasks. Each word type gets a random answer,
which is the same at every occurrence of the word, in training and in dev. A probe can only memorize these answers.
Selectivity is the accuracy on the linguistic task minus the accuracy on the control task.
"""

import dataclasses
from collections.abc import Sequence

import numpy as np

from keras_bert_app.analysis import treebank


def random_labels(
    train_types: Sequence[str], train_labels: Sequence[str], dev_types: Sequence[str], seed: int
) -> tuple[list[str], list[str]]:
    """Draws one label for each type from the distribution of the training labels.

    This is the control task of Hewitt and Liang for parts of speech.

    Args:
        train_types: sequence of str. The type of each training item, such as its word.
        train_labels: sequence of str. The linguistic label of each training item.
        dev_types: sequence of str. The type of each dev item.
        seed: int. The seed of the draw.

    Returns:
        (list of str, list of str): the control labels of the training items and of the dev items.
    """
    labels, counts = np.unique(train_labels, return_counts=True)
    types = sorted({*train_types, *dev_types})
    drawn = np.random.default_rng(seed).choice(labels, len(types), p=counts / counts.sum())
    label_of = dict(zip(types, map(str, drawn), strict=True))
    return [label_of[name] for name in train_types], [label_of[name] for name in dev_types]


def share_seen(train_types: Sequence[str], dev_types: Sequence[str]) -> float:
    """Computes the share of dev items whose type occurs in training.

    No probe can know the control labels of the remaining items.

    Args:
        train_types: sequence of str.
        dev_types: sequence of str.

    Returns:
        float, 0 to 1.
    """
    seen = set(train_types)
    return float(np.mean([name in seen for name in dev_types]))


def control_trees(
    train: list[treebank.Tree], dev: list[treebank.Tree], is_uncased: bool, seed: int
) -> tuple[list[treebank.Tree], list[treebank.Tree]]:
    """Replaces the tree of each sentence by a control tree, which random draws for word types decide.

    Hewitt and Liang have no control task for distances. Their control task for dependency edges draws one of three
    behaviours for each word type. The word attaches to the first word, to the last word, or to itself. See
    CorruptedEdgePositionTask in john-hewitt/control-tasks, task.py. In a tree a word cannot attach to itself. Here each
    type therefore draws one of the first two behaviours. The first word is the root, and the last word attaches to it.
    Punctuation does not count as the first or the last word, because the scores ignore punctuation.

    Args:
        train: list of treebank.Tree.
        dev: list of treebank.Tree.
        is_uncased: bool. Whether words that differ in case have one type, as for an uncased encoder.
        seed: int. The seed of the draw.

    Returns:
        (list of treebank.Tree, list of treebank.Tree): the same sentences with control trees.
    """
    types = sorted({_type(word, is_uncased) for tree in (*train, *dev) for word in tree.words})
    drawn = np.random.default_rng(seed).integers(0, 2, len(types)) == 1
    to_last = dict(zip(types, drawn, strict=True))
    return tuple([_control_tree(tree, to_last, is_uncased) for tree in trees] for trees in (train, dev))


def joined_to_first(tree: treebank.Tree) -> treebank.Tree:
    """Attaches all words to the first one, as a baseline for control trees.

    This is the best answer of a probe that knows no word type.

    Args:
        tree: treebank.Tree.

    Returns:
        treebank.Tree.
    """
    first, _ = _ends(tree)
    heads = np.full(len(tree), first, np.int32)
    heads[first] = -1
    return dataclasses.replace(tree, heads=heads)


def _control_tree(tree, to_last, is_uncased):
    first, last = _ends(tree)
    heads = np.array([last if to_last[_type(word, is_uncased)] else first for word in tree.words], np.int32)
    heads[last], heads[first] = first, -1  # in a sentence of one word the second value stays
    return dataclasses.replace(tree, heads=heads)


def _ends(tree):
    words = np.flatnonzero(~tree.is_punctuation())
    return (int(words[0]), int(words[-1])) if len(words) else (0, len(tree) - 1)


def _type(word, is_uncased):
    return word.lower() if is_uncased else word
