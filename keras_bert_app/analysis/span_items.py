"""Items of edge probing: words, pairs of words and names.

Each item has a label and its vectors at every layer.

Dimensions: L layers (L + 1 vectors), n items, H hidden size, D = H or 2 H.
"""

import dataclasses
from collections.abc import Callable

import numpy as np

from keras_bert_app.analysis import encoded_sentences, treebank
from keras_bert_app.analysis.encoders import Subject
from keras_bert_app.analysis.even_samples import evenly_spaced
from keras_bert_app.analysis.word_vectors import word_vectors
from keras_bert_app.config.finetuning_config import FinetuningConfig
from keras_bert_app.errors import UserError
from keras_bert_app.tasks.families import entities
from keras_bert_app.tasks.readers import tagging_tasks

MOST_ITEMS = 10_000  # for each task and file: the vectors take (L + 1) x items x D x 2 bytes


@dataclasses.dataclass(frozen=True)
class Items:
    """Labelled items of one task.

    Attributes:
        vectors: float16 [L + 1, n, D].
        labels: list of n str.
    """

    vectors: np.ndarray
    labels: list


@dataclasses.dataclass(frozen=True)
class Source:
    """The sentences that items are taken from.

    Attributes:
        sentences: list of treebank.Tree, or of sentences with words and tags.
        remark: str. How many sentences were read, and how many were left out.
    """

    sentences: list
    remark: str


def read_trees(subject: Subject, path: str, max_sentences: int) -> Source:
    """Reads the trees of a CoNLL-U file.

    Args:
        subject: Subject. Sentences that do not fit into its positions are left out.
        path: str.
        max_sentences: int. How many sentences to read; 0 for all.

    Returns:
        Source.

    Raises:
        UserError: no sentence has two words.
    """
    trees, remark = _fitting(subject, treebank.read_trees(path, max_sentences), path)
    if not any(len(tree) > 1 for tree in trees):
        raise UserError(f"{path}: each of its {len(trees):,} sentences is of one word; expected some with dependencies")
    return Source(trees, remark)


def read_names(subject: Subject, path: str, max_sentences: int) -> Source:
    """Reads the sentences of a file in CoNLL-2003's columns.

    Args:
        subject: Subject. Sentences that do not fit into its positions are left out.
        path: str.
        max_sentences: int. How many sentences to read; 0 for all.

    Returns:
        Source.

    Raises:
        UserError: a tag is no tag of an entity, or the sentences contain no name.
    """
    sentences = tagging_tasks.read_entities(
        path, FinetuningConfig.label_column, True, "give columns such as those of CoNLL-2003"
    )
    if not sentences:
        raise UserError(f"{path}: holds no sentence; expected words and tags in columns, such as those of CoNLL-2003")
    kept, remark = _fitting(subject, sentences[: max_sentences or None], path)
    if not any(entities.spans(sentence.tags) for sentence in kept):
        raise UserError(
            f"{path}: no name stands in its {len(kept):,} sentences that were read; raise --max_sentences, or give "
            "a file with names"
        )
    return Source(kept, remark)


def _fitting(subject, given, path):
    kept, left_out = encoded_sentences.fitting(subject, given, path)
    return (
        kept,
        f"{path}: {len(given):,} sentences read, {left_out:,} of them longer than the model's positions and left out",
    )


def items_of_trees(subject: Subject, source: Source, log: Callable[[str], None]) -> tuple[Items, Items]:
    """Collects the items of trees: words, and pairs of a dependent and its head.

    Args:
        subject: Subject. The encoder.
        source: Source. Trees.
        log: Callable. Receives progress lines.

    Returns:
        (Items of words with their parts of speech, Items of pairs with their relations).
    """
    trees = source.sentences
    vectors = word_vectors(subject, [tree.words for tree in trees], log)
    tags, arcs, start = [], [], 0
    for tree in trees:
        tags += [(start + word, tag) for word, tag in enumerate(tree.tags)]
        arcs += [
            (start + word, start + int(head), tree.relations[word]) for word, head in enumerate(tree.heads) if head >= 0
        ]
        start += len(tree)
    tags, arcs = evenly_spaced(tags, MOST_ITEMS), evenly_spaced(arcs, MOST_ITEMS)
    words = vectors[:, [word for word, _ in tags]]
    pairs = np.concatenate([vectors[:, [arc[end] for arc in arcs]] for end in (0, 1)], axis=2)
    return Items(words, [tag for _, tag in tags]), Items(pairs, [relation for *_, relation in arcs])


def items_of_names(subject: Subject, source: Source, log: Callable[[str], None]) -> Items:
    """Collects the items of names. The vector of a name is the mean of its words' vectors.

    Args:
        subject: Subject. The encoder.
        source: Source. Sentences with names.
        log: Callable. Receives progress lines.

    Returns:
        Items of names with their types.
    """
    vectors = word_vectors(subject, [sentence.words for sentence in source.sentences], log)
    names, start = [], 0
    for sentence in source.sentences:
        names += [(start + first, start + end, kind) for kind, first, end in entities.spans(sentence.tags)]
        start += len(sentence.words)
    names = evenly_spaced(names, MOST_ITEMS)
    means = np.stack([vectors[:, first:end].mean(axis=1, dtype=np.float32) for first, end, _ in names], axis=1)
    return Items(means.astype(np.float16), [kind for *_, kind in names])
