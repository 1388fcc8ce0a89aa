"""What edge probing asks about: words, pairs of words and names, each with its label and its vectors at every layer.

Dimensions: L layers (L + 1 vectors), n items, H hidden size, D = H or 2 H.
"""

import dataclasses

import numpy as np

from keras_bert_app.analysis import treebank
from keras_bert_app.analysis.word_vectors import word_vectors
from keras_bert_app.finetuning_config import FinetuningConfig
from keras_bert_app.tasks import conll, entities

_MOST_ITEMS = 10_000  # of each task and file, taken evenly: memory is (L + 1) x items x D x 2 bytes


@dataclasses.dataclass(frozen=True)
class Items:
    """vectors: float16 [L + 1, n, D]. labels: n str."""

    vectors: np.ndarray
    labels: list


def of_trees(subject, path, max_sentences, log):
    """(Items of words with their parts of speech, Items of dependents and their heads with the relation)."""
    trees = treebank.read_trees(path, max_sentences)
    vectors, fits = word_vectors(subject, [tree.words for tree in trees], log)
    tags, arcs, start = [], [], 0
    for tree, fit in zip(trees, fits):
        if fit:
            tags += [(start + word, tag) for word, tag in enumerate(tree.tags)]
            arcs += [(start + word, start + int(head), tree.relations[word])
                     for word, head in enumerate(tree.heads) if head >= 0]
        start += len(tree)
    tags, arcs = _evenly(tags), _evenly(arcs)
    words = vectors[:, [word for word, _ in tags]]
    pairs = np.concatenate([vectors[:, [arc[end] for arc in arcs]] for end in (0, 1)], axis=2)
    return Items(words, [tag for _, tag in tags]), Items(pairs, [relation for *_, relation in arcs])


def of_names(subject, path, max_sentences, log):
    """Items of the names of a file in columns with their types; a name's vector is the mean of its words'."""
    given = conll.read_sentences(path, FinetuningConfig.label_column, True)[:max_sentences or None]
    vectors, fits = word_vectors(subject, [sentence.words for sentence in given], log)
    names, start = [], 0
    for sentence, fit in zip(given, fits):
        if fit:
            names += [(start + first, start + end, kind) for kind, first, end in entities.spans(sentence.tags)]
        start += len(sentence.words)
    names = _evenly(names)
    means = np.stack([vectors[:, first:end].mean(axis=1, dtype=np.float32) for first, end, _ in names], axis=1)
    return Items(means.astype(np.float16), [kind for *_, kind in names])


def _evenly(items):
    return [items[at] for at in np.linspace(0, len(items) - 1, min(len(items), _MOST_ITEMS)).astype(int)]
