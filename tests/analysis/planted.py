"""A toy encoder that contains planted answers, while untrained encoders contain noise."""

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
    """Makes a function from words to states and attention that contain the trees of the words.

    The states are [3, S, 14], the attention is [2, 2, S, S].

    In layer 2, head 1 gives all attention of a subject to its head word, and head 2 does so for an object. The states
    of layer 1 have a coordinate for each word on the way to the root, so squared distances are those of the tree.
    """
    tree_of_words, generator = {tree.words: tree for tree in trees}, np.random.default_rng(5)

    def answer(words):
        tree, size = tree_of_words[tuple(words)], len(words) + 2
        states, attention = noise(generator, size)
        states[1] = 0
        for word, head in enumerate(tree.heads):
            if tree.relations[word] in RELATIONS:
                attention[1, RELATIONS.index(tree.relations[word]), 1 + word] = np.eye(size)[1 + head]
            at = word
            while tree.heads[at] >= 0:
                states[1, 1 + word, at] = 1
                at = tree.heads[at]
        return states, attention

    return answer


def noise(generator, size):
    """(states, attention) of random numbers, which contain no information."""
    return generator.normal(size=(3, size, 14)), generator.dirichlet(np.ones(size), (2, 2, size))


def plant(monkeypatch, answer):
    """Makes the encoder of the subject "toy" return `answer` of the words, and all other encoders noise."""
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
