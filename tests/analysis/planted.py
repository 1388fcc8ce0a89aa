"""Replaces the encoder "toy" by planted answers, and all untrained encoders by noise."""

import itertools
import string

import numpy as np

from keras_bert_app.analysis import encoded_sentences
from keras_bert_app.analysis.treebank import Tree

RELATIONS = ("nsubj", "obj")
_NAMES = map("".join, itertools.product(string.ascii_lowercase, repeat=4))  # no word occurs in two sentences


def random_trees(generator, count):
    """Yields trees of 3 to 11 words with relations from RELATIONS. The last word is punctuation."""
    for _ in range(count):
        length = int(generator.integers(2, 11))
        order, heads = generator.permutation(length), np.full(length + 1, -1, np.int32)
        for place in range(1, length):
            heads[order[place]] = order[generator.integers(place)]
        heads[length] = order[0]
        relations = ["root" if head < 0 else str(generator.choice(RELATIONS)) for head in heads]
        yield Tree(
            "planted.conllu",
            tuple(range(1, length + 2)),
            0,
            tuple(itertools.islice(_NAMES, length + 1)),
            ("NOUN",) * length + ("PUNCT",),
            heads,
            (*relations[:-1], "punct"),
            ("_",) * (length + 1),
        )


def tree_answers(trees):
    """Makes a function from words to (states [3, S, 14], attention [2, 2, S, S]) that contain the tree of the words.

    In layer 2, head 1 gives all attention of a subject to its head word, and head 2 does so for an object. In the
    states of layer 1, a word has a 1 for itself and for each word between it and the root. Squared distances are
    therefore the distances in the tree.
    """
    tree_of_words, generator = {tree.words: tree for tree in trees}, np.random.default_rng(5)

    def answer(words):
        tree, size = tree_of_words[tuple(words)], len(words) + 2
        states, attention = noise(generator, size)
        states[1] = 0
        for word, head in enumerate(tree.heads):
            if tree.relations[word] in RELATIONS:
                attention[1, RELATIONS.index(tree.relations[word]), 1 + word] = np.eye(size)[1 + head]
            ancestor = word
            while tree.heads[ancestor] >= 0:
                states[1, 1 + word, ancestor] = 1
                ancestor = tree.heads[ancestor]
        return states, attention

    return answer


def noise(generator, size):
    """Draws random (states, attention), which contain no information."""
    return generator.normal(size=(3, size, 14)), generator.dirichlet(np.ones(size), (2, 2, size))


def plant(monkeypatch, answer):
    """Replaces encoded_sentences.encode: the subject "toy" gets answer(words), and all other subjects get noise."""
    generator = np.random.default_rng(6)

    def encode(subject, given, with_attention=False):
        for number, words in enumerate(given):
            assert len(words) + 2 <= subject.config.max_position_embeddings, (
                "sentences that do not fit must not be encoded"
            )
            states, attention = answer(words) if subject.name == "toy" else noise(generator, len(words) + 2)
            places = np.arange(1, len(words) + 1)
            yield encoded_sentences.Encoded(
                number,
                np.arange(len(words) + 2),
                np.stack([places, places + 1], axis=1),
                states.astype(np.float32),
                attention.astype(np.float32),
            )

    monkeypatch.setattr(encoded_sentences, "encode", encode)
