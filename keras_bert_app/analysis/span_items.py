"""What edge probing asks about: words, pairs of words and names, each with its label and its vectors at every layer.

Dimensions: L layers (L + 1 vectors), n items, H hidden size, D = H or 2 H.
"""

import dataclasses

import numpy as np

from keras_bert_app.analysis import encoded_sentences, treebank
from keras_bert_app.analysis.samples import evenly
from keras_bert_app.analysis.word_vectors import word_vectors
from keras_bert_app.config.finetuning_config import FinetuningConfig
from keras_bert_app.errors import UserError
from keras_bert_app.tasks.families import entities
from keras_bert_app.tasks.readers import tagging_tasks

MOST_ITEMS = 10_000  # of each task and file, taken evenly: memory is (L + 1) x items x D x 2 bytes


@dataclasses.dataclass(frozen=True)
class Items:
    """vectors: float16 [L + 1, n, D]. labels: n str."""

    vectors: np.ndarray
    labels: list


@dataclasses.dataclass(frozen=True)
class Source:
    """Sentences that items are of: trees, or sentences with names. remark: what was left out of them."""

    sentences: list
    remark: str


def read_trees(subject, path, max_sentences):
    """Source of the trees of a CoNLL-U file.

    Raises:
        UserError: none of them has two words.
    """
    trees, remark = _fitting(subject, treebank.read_trees(path, max_sentences), path)
    if not any(len(tree) > 1 for tree in trees):
        raise UserError(f"{path}: each of its {len(trees):,} sentences is of one word; expected some with dependencies")
    return Source(trees, remark)


def read_names(subject, path, max_sentences):
    """Source of the sentences of a file in CoNLL-2003's columns.

    Raises:
        UserError: a tag is no entity's, or there is no name in the sentences that are read.
    """
    found = tagging_tasks.read_entities(
        path, FinetuningConfig.label_column, True, "give columns such as those of CoNLL-2003"
    )
    if not found:
        raise UserError(f"{path}: holds no sentence; expected words and tags in columns, such as those of CoNLL-2003")
    given, remark = _fitting(subject, found[: max_sentences or None], path)
    if not any(entities.spans(sentence.tags) for sentence in given):
        raise UserError(
            f"{path}: no name stands in its {len(given):,} sentences that were read; raise --max_sentences, or give "
            "a file with names"
        )
    return Source(given, remark)


def _fitting(subject, given, path):
    kept, left_out = encoded_sentences.fitting(subject, given, path)
    return (
        kept,
        f"{path}: {len(given):,} sentences read, {left_out:,} of them longer than the model's positions and left out",
    )


def of_trees(subject, source, log):
    """(Items of words with their parts of speech, Items of dependents and their heads with the relation)."""
    trees = source.sentences
    vectors = word_vectors(subject, [tree.words for tree in trees], log)
    tags, arcs, start = [], [], 0
    for tree in trees:
        tags += [(start + word, tag) for word, tag in enumerate(tree.tags)]
        arcs += [
            (start + word, start + int(head), tree.relations[word]) for word, head in enumerate(tree.heads) if head >= 0
        ]
        start += len(tree)
    tags, arcs = evenly(tags, MOST_ITEMS), evenly(arcs, MOST_ITEMS)
    words = vectors[:, [word for word, _ in tags]]
    pairs = np.concatenate([vectors[:, [arc[end] for arc in arcs]] for end in (0, 1)], axis=2)
    return Items(words, [tag for _, tag in tags]), Items(pairs, [relation for *_, relation in arcs])


def of_names(subject, source, log):
    """Items of the names with their types; a name's vector is the mean of its words'."""
    vectors = word_vectors(subject, [sentence.words for sentence in source.sentences], log)
    names, start = [], 0
    for sentence in source.sentences:
        names += [(start + first, start + end, kind) for kind, first, end in entities.spans(sentence.tags)]
        start += len(sentence.words)
    names = evenly(names, MOST_ITEMS)
    means = np.stack([vectors[:, first:end].mean(axis=1, dtype=np.float32) for first, end, _ in names], axis=1)
    return Items(means.astype(np.float16), [kind for *_, kind in names])
