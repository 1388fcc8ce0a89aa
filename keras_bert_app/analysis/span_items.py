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
        types: list of n str. The text that decides the label of the control task: the word itself, the dependent of a
            pair, or all words of a name. Lower case for an uncased encoder.
        sentences: int64 [n]. The number of each item's sentence.
        documents: int64 [n]. The number of each item's document.
    """

    vectors: np.ndarray
    labels: list
    types: list
    sentences: np.ndarray
    documents: np.ndarray


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
        raise UserError(f"{path}: each of its {len(trees):,} sentences has one word; expected longer ones")
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
    if not any(map(has_name, kept)):
        raise UserError(
            f"{path}: none of its {len(kept):,} sentences that were read has a name; raise --max_sentences, or give a "
            "file with names"
        )
    return Source(kept, remark)


def has_name(sentence) -> bool:
    """Says whether a sentence of read_names contains a name.

    Args:
        sentence: a sentence with tags.

    Returns:
        bool.
    """
    return bool(entities.spans(sentence.tags))


def require_two(path: str, has_items: list[bool]) -> None:
    """Checks that two dev sentences have items: one to choose the layer, and one to report.

    Args:
        path: str. The dev file.
        has_items: list of bool. Whether each sentence has an item.

    Raises:
        UserError: less than two sentences have items.
    """
    if sum(has_items) < 2:
        raise UserError(
            f"{path}: only {sum(has_items)} of its {len(has_items):,} sentences that were read can be used; expected "
            "at least two, one to choose the layer and one to measure it; raise --max_sentences, or give a larger file"
        )


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
    tags, arcs, start = [], [], 0  # (label, type, sentence, document, place, place of the head)
    for number, tree in enumerate(trees):
        for word, (text, tag, relation, head) in enumerate(
            zip(_types(subject, tree.words), tree.tags, tree.relations, tree.heads, strict=True)
        ):
            tags.append((tag, text, number, tree.document, start + word))
            if head >= 0:
                arcs.append((relation, text, number, tree.document, start + word, start + int(head)))
        start += len(tree)
    tags, arcs = evenly_spaced(tags, MOST_ITEMS), evenly_spaced(arcs, MOST_ITEMS)
    words = vectors[:, [tag[4] for tag in tags]]
    pairs = np.concatenate([vectors[:, [arc[end] for arc in arcs]] for end in (4, 5)], axis=2)
    return _items(words, tags), _items(pairs, arcs)


def _types(subject, words):
    return [word.lower() if subject.config.do_lower_case else word for word in words]


def _items(vectors, described):
    """Items of vectors and of tuples that begin with label, type, sentence and document."""
    labels, types, sentences, documents = ([row[at] for row in described] for at in range(4))
    return Items(vectors, labels, types, np.array(sentences, np.int64), np.array(documents, np.int64))


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
    for number, sentence in enumerate(source.sentences):
        types = _types(subject, sentence.words)
        names += [
            (kind, " ".join(types[first:end]), number, sentence.document, start + first, start + end)
            for kind, first, end in entities.spans(sentence.tags)
        ]
        start += len(sentence.words)
    names = evenly_spaced(names, MOST_ITEMS)
    means = np.stack([vectors[:, first:end].mean(axis=1, dtype=np.float32) for *_, first, end in names], axis=1)
    return _items(means.astype(np.float16), names)
