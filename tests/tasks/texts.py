"""Helpers for the tests of readers and families: files of a few lines, and a tokenizer with letters as words."""

import functools
import itertools

from keras_bert_app.config.finetuning_config import FinetuningConfig
from keras_bert_app.tasks import registry
from pipelines.wordpiece.tokenizer import BertTokenizer
from pipelines.wordpiece.vocabulary import SPECIAL_PIECES

WORDS = tuple("abcdefghijklmnopqrstuvwxyz")  # pieces 5 to 30


@functools.cache
def tokenizer():
    """A tokenizer whose pieces are the letters of the alphabet."""
    return BertTokenizer(
        "".join(f"{piece}\n" for piece in (*SPECIAL_PIECES, *WORDS)).encode(), True, verify_casing=False
    )


def pieces(text):
    """The ids of letters that are separated by spaces."""
    return [5 + WORDS.index(letter) for letter in text.split()]


def written(directory, name, content):
    """Writes a file, str or bytes, and the directories above it. Returns its path."""
    path = directory / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else content.encode("utf-8"))
    return str(path)


def read(name, path, has_labels=True, **settings):
    """Reads the examples of a task from a file."""
    return registry.find(name).read_file(path, FinetuningConfig(**settings), has_labels)


def split(name, directory, which, has_labels=True, **settings):
    """Reads the examples of a split of a task."""
    return registry.find(name).read_split(str(directory), which, FinetuningConfig(**settings), has_labels)


def rows_of(features):
    """The rows of Features as lists of ids."""
    return [features.token_ids[start:end].tolist() for start, end in itertools.pairwise(features.row_splits)]
