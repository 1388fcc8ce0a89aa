"""Pairs of words, as questions about their relation in the tree.

Dimensions: W words, n pairs.
"""

import dataclasses

import numpy as np

from keras_bert_app.analysis import treebank
from keras_bert_app.analysis.even_samples import evenly_spaced

TASKS = ("related (any pair)", "related (as far apart)", "which relation")
MOST_PAIRS = 10_000
_UNRELATED = "(none)"


@dataclasses.dataclass(frozen=True)
class Pairs:
    """Pairs of words of one file.

    Attributes:
        trees: int64 [n]. The number of each pair's tree.
        words: int64 [2, n]. Places in the sentence.
        labels: str [n].
    """

    trees: np.ndarray
    words: np.ndarray
    labels: np.ndarray

    def distances(self) -> np.ndarray:
        """Returns int64 [n]: the offset of the second word from the first one."""
        return self.words[1] - self.words[0]

    def first_words(self, trees: list[treebank.Tree]) -> list[str]:
        """Returns the first word of each pair, which is the dependent in the third task.

        Args:
            trees: list of treebank.Tree. The trees of the file.

        Returns:
            list of n str.
        """
        return [trees[tree].words[first] for tree, first in zip(self.trees, self.words[0], strict=True)]


def pairs_of(trees: list[treebank.Tree], task: str, relations: set[str], generator: np.random.Generator) -> Pairs:
    """Collects pairs of words for a task.

    In the first two tasks the words stand in the order of the sentence, so that only attention reveals a relation. In
    the third task they are dependent and head. No pair contains punctuation, because punctuation alone would reveal the
    answer.

    Args:
        trees: list of treebank.Tree.
        task: str. One of TASKS.
        relations: set of str. The relations that the third task asks for.
        generator: np.random.Generator. Draws the pairs of unrelated words.

    Returns:
        Pairs.
    """
    numbers, words, labels = [], [], []
    for number, tree in enumerate(trees):
        is_word = spoken_words(tree)
        arcs = [
            (word, int(head)) for word, head in enumerate(tree.heads) if head >= 0 and is_word[word] and is_word[head]
        ]
        if task == TASKS[2]:
            chosen = [(pair, tree.relations[pair[0]]) for pair in arcs if tree.relations[pair[0]] in relations]
        else:
            related, chosen = {tuple(sorted(pair)) for pair in arcs}, []
            for first, second in sorted(related):
                unrelated = _unrelated(
                    np.flatnonzero(is_word).tolist(), related, second - first if task == TASKS[1] else None, generator
                )
                if unrelated:
                    chosen += [((first, second), "related"), (unrelated, _UNRELATED)]
        numbers += [number] * len(chosen)
        words += [pair for pair, _ in chosen]
        labels += [label for _, label in chosen]
    if task == TASKS[2]:
        keep = evenly_spaced(list(range(len(labels))), MOST_PAIRS)
    else:  # a related pair and its unrelated pair stay together, so that both kinds are equally frequent
        keep = [
            at for first in evenly_spaced(list(range(0, len(labels), 2)), MOST_PAIRS // 2) for at in (first, first + 1)
        ]
    return Pairs(
        np.array(numbers, np.int64)[keep],
        np.array(words, np.int64).reshape(-1, 2).T[:, keep],
        np.array(labels, str)[keep],
    )


def spoken_words(tree: treebank.Tree) -> np.ndarray:
    """Marks the words that pairs may contain.

    These are all words except words with the relation punct, and a root that is punctuation.

    Args:
        tree: treebank.Tree.

    Returns:
        bool [W].
    """
    return np.array(
        [
            relation != "punct" and not (head < 0 and is_mark)
            for relation, head, is_mark in zip(tree.relations, tree.heads, tree.is_punctuation(), strict=True)
        ]
    )


def _unrelated(words, related, distance, generator):
    """Draws two words that the tree does not join, in the order of the sentence.

    They stand at the given distance, if it is not None. The result is None if no pair fits.
    """
    pairs = [
        (first, second)
        for at, first in enumerate(words)
        for second in words[at + 1 :]
        if (first, second) not in related and distance in (None, second - first)
    ]
    return pairs[generator.integers(len(pairs))] if pairs else None
