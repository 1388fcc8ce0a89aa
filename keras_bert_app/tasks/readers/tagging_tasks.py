"""Tasks that tag words, from files in columns: ner for entities, pos for any other tags."""

import dataclasses

from keras_bert_app.errors import UserError
from keras_bert_app.tasks.families import entities, tagging
from keras_bert_app.tasks.readers import conll
from keras_bert_app.tasks.task import Task

_NAMES = {"train": ("train",), "dev": ("valid", "dev", "testa"), "test": ("test", "testb")}
_ENDINGS = (".txt", ".conll", ".tsv")


def _files(endings, pattern=None):
    """The files of the splits: usual names with all endings, the names of CoNLL-2003, and the pattern."""
    files = {
        split: (*(name + ending for name in names for ending in endings), *(f"eng.{name}" for name in names))
        for split, names in _NAMES.items()
    }
    return {split: (*names, pattern.format(split)) if pattern else names for split, names in files.items()}


def read_entities(
    path: str,
    label_column: str,
    has_labels: bool,
    advice: str,
    text_columns: tuple[str, ...] = (),
    tag_scheme: str = "auto",
) -> list[conll.Sentence]:
    """The sentences of a file whose tags mark entities, with the scheme for the tags of answers.

    The scheme is that of the run. If the run has none, or if the labels of the file break it, the file decides.

    Args:
        path: str. The file.
        label_column: str. See conll.read_sentences.
        has_labels: bool. Whether the file must have tags.
        advice: str. Part of the error message about a tag that marks no entity.
        text_columns: See conll.read_sentences.
        tag_scheme: str. The scheme of the run, a key of SCHEMES; auto if the run has none.

    Raises:
        UserError: see conll.read_sentences; or has_labels is True and a tag marks no entity (file:line).
    """
    sentences = conll.read_sentences(path, label_column, has_labels, text_columns)
    tags = set().union(*(sentence.tags or () for sentence in sentences))
    strange = {tag for tag in tags if not entities.is_entity_tag(tag)}
    if strange and has_labels:
        line, tag = next(
            (line, tag)
            for sentence in sentences
            for line, tag in zip(sentence.lines, sentence.tags, strict=True)
            if tag in strange
        )
        raise UserError(
            f"{path}:{line}: tag {tag!r} marks no entity; expected O, or B-, I-, E- or S- and a type ({advice})"
        )
    # A file without labels may have another last column, such as chunks; its answers follow the scheme of the run.
    is_given = tag_scheme != "auto"
    if not is_given or has_labels and not all(entities.is_in(tag_scheme, sentence.tags) for sentence in sentences):
        tag_scheme = "IOB2" if strange else entities.scheme_of([sentence.tags or () for sentence in sentences])
    return [dataclasses.replace(sentence, scheme=tag_scheme) for sentence in sentences]


def _settled(run, path):
    """The run with the tag scheme of its training examples."""
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
