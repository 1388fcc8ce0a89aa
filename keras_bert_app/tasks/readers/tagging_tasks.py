"""Tasks that tag words: entities (ner) and parts of speech or any other tag (pos), from files in columns."""

import dataclasses

from keras_bert_app.errors import UserError
from keras_bert_app.tasks.families import entities, tagging
from keras_bert_app.tasks.readers import conll
from keras_bert_app.tasks.task import Task

_NAMES = {"train": ("train",), "dev": ("valid", "dev", "testa"), "test": ("test", "testb")}
_ENDINGS = (".txt", ".conll", ".tsv")


def _files(endings, pattern=None):
    """Files of the splits: the same names with all endings, CoNLL-2003's own names, and those of a pattern."""
    files = {
        split: (*(name + ending for name in names for ending in endings), *(f"eng.{name}" for name in names))
        for split, names in _NAMES.items()
    }
    return {split: (*names, pattern.format(split)) if pattern else names for split, names in files.items()}


def read_entities(path, label_column, has_labels, advice, text_columns=(), tag_scheme="auto"):
    """The sentences of a file whose tags are those of entities, with the scheme that they are answered in.

    That is the run's, where the file's tags are not clearly of another one.

    Args:
        label_column, has_labels, text_columns: of conll.read_sentences. advice: what to do about a tag that is no entity's, for
            the error. tag_scheme: the run's, of entities.SCHEMES; auto where it has none.

    Raises:
        UserError: see conll.read_sentences; a tag that is no entity's where there must be tags; file:line.
    """
    sentences = conll.read_sentences(path, label_column, has_labels, text_columns)
    tags = set().union(*(sentence.tags or () for sentence in sentences))
    strange = {tag for tag in tags if not entities.is_entity_tag(tag)}
    if strange and has_labels:
        line, tag = next(
            (line, tag) for sentence in sentences for line, tag in zip(sentence.lines, sentence.tags) if tag in strange
        )
        raise UserError(
            f"{path}:{line}: tag {tag!r} is no entity's; expected O, or B-, I-, E- or S- and a type ({advice})"
        )
    # A file to answer need not have tags, and its last column may be another kind's, such as chunks: the answers are the run's.
    is_given = tag_scheme != "auto"
    if not is_given or has_labels and not all(entities.is_in(tag_scheme, sentence.tags) for sentence in sentences):
        tag_scheme = "IOB2" if strange else entities.scheme_of([sentence.tags or () for sentence in sentences])
    return [dataclasses.replace(sentence, scheme=tag_scheme) for sentence in sentences]


def _settled(run, path):
    """A run that answers in the scheme of its training examples."""
    if run.tag_scheme != "auto":
        return run
    sentences = _read_entities(path, run, has_labels=True)
    return dataclasses.replace(run, tag_scheme=sentences[0].scheme) if sentences else run


def _read_entities(path, run, has_labels):
    return read_entities(
        path,
        run.label_column,
        has_labels,
        "--label_column gives the column; --task=pos learns any tags",
        run.text_columns,
        run.tag_scheme,
    )


def _read_tags(path, run, has_labels):
    return conll.read_sentences(path, run.label_column, has_labels, run.text_columns)


TASKS = (
    Task(
        "ner",
        "entities in sentences, from files in CoNLL columns (IOB1, IOB2, BIOES)",
        tagging,
        "tagging",
        _read_entities,
        _files(_ENDINGS),
        (tagging.ENTITY_F1, "precision", "recall", "accuracy"),
        reads=("tag_scheme",),
        settle=_settled,
    ),
    Task(
        "pos",
        "a tag for each word, from files in CoNLL columns or CoNLL-U",
        tagging,
        "tagging",
        _read_tags,
        _files((*_ENDINGS, ".conllu"), "*-ud-{}.conllu"),
        ("accuracy",),
    ),
)
