"""Sentences with dependency trees in CoNLL-U, and distances in a tree.

See universaldependencies.org/format.html for the format.
"""

import dataclasses
import re

import numpy as np

from keras_bert_app.errors import UserError
from keras_bert_app.tasks.readers.tables import lines_of
from pipelines.plurals import counted

_COLUMNS = ("ID", "FORM", "LEMMA", "UPOS", "XPOS", "FEATS", "HEAD", "DEPREL", "DEPS", "MISC")


@dataclasses.dataclass(frozen=True)
class Tree:
    """A sentence of W words with its dependency tree.

    Attributes:
        path: str. The file.
        lines: tuple of W int. The line of each word in the file.
        document: int. The number of the sentence's document.
        words: tuple of W str.
        tags: tuple of W str. The universal parts of speech (UPOS).
        heads: int32 [W]. The place of each word's head, from 0; -1 for the root.
        relations: tuple of W str.
        misc: tuple of W str. The MISC column.
    """

    path: str
    lines: tuple
    document: int
    words: tuple
    tags: tuple
    heads: np.ndarray
    relations: tuple
    misc: tuple

    def __len__(self) -> int:
        return len(self.words)

    def is_punctuation(self) -> np.ndarray:
        """Returns bool [W], from the tags."""
        return np.array([tag == "PUNCT" for tag in self.tags])


def read_trees(path: str, max_sentences: int = 0) -> list[Tree]:
    """Reads the trees of a CoNLL-U file in their order.

    Multiword ranges (3-4) and empty nodes (3.1) are left out. A document begins at # newdoc.

    Args:
        path: str.
        max_sentences: int. How many sentences to read; 0 for all.

    Returns:
        list of Tree.

    Raises:
        UserError: a line is not a word's line, a sentence is not a tree, or the file has no sentence. The message gives
            file and line.
    """
    trees, rows, document = [], [], 0
    for number, line in lines_of(path):
        if not line.strip(" \t"):
            if rows:
                trees.append(_tree(path, rows, document))
                rows = []
                if len(trees) == max_sentences:
                    return trees
        elif line.startswith("#"):
            document += line.startswith("# newdoc")
        elif not re.match(r"\d+[-.]\d+\t", line):
            rows.append((number, _fields(path, number, line, len(rows) + 1)))
    if rows:
        trees.append(_tree(path, rows, document))
    if not trees:
        raise UserError(f"{path}: holds no sentence; expected CoNLL-U")
    return trees


def depths(heads: np.ndarray) -> np.ndarray | None:
    """Counts the edges between each word and the root.

    Args:
        heads: int [W]. See Tree.

    Returns:
        int32 [W], or None if the heads form a cycle.
    """
    result, at = np.zeros(len(heads), np.int32), np.array(heads)
    for _ in range(len(heads)):
        if np.all(at < 0):
            return result
        result += at >= 0
        at = np.where(at >= 0, heads[at], -1)
    return result if np.all(at < 0) else None


def distances(heads: np.ndarray) -> np.ndarray:
    """Counts the edges between every two words of a tree.

    Args:
        heads: int [W]. See Tree.

    Returns:
        int32 [W, W].
    """
    order = np.argsort(depths(heads), kind="stable")
    result = np.zeros((len(heads), len(heads)), np.int32)
    for place, word in enumerate(order[1:], 1):
        before = order[:place]
        result[word, before] = result[before, word] = result[heads[word], before] + 1
    return result


def _fields(path, number, line, expected_id):
    fields = line.split("\t")
    if len(fields) != len(_COLUMNS):
        raise UserError(
            f"{path}:{number}: has {counted(len(fields), 'column')}; expected CoNLL-U, with {len(_COLUMNS)} columns "
            "between tabs"
        )
    fields = dict(zip(_COLUMNS, fields, strict=True))
    if fields["ID"] != str(expected_id):
        raise UserError(f"{path}:{number}: ID is {fields['ID']!r}; expected {expected_id}; number the words from 1")
    for name in ("FORM", "UPOS", "DEPREL"):
        if not fields[name]:
            raise UserError(f"{path}:{number}: the column {name} is empty")
    if not re.fullmatch(r"[0-9]{1,6}", fields["HEAD"]):
        raise UserError(f"{path}:{number}: HEAD is {fields['HEAD']!r}; expected a word's number, or 0 for the root")
    return fields


def _tree(path, rows, document):
    heads = np.array([int(fields["HEAD"]) - 1 for _, fields in rows], np.int32)
    for at, (number, _) in enumerate(rows):
        if heads[at] >= len(rows) or heads[at] == at:
            raise UserError(
                f"{path}:{number}: HEAD is {heads[at] + 1}; expected the number of another word of the sentence, at "
                f"most {len(rows)}, or 0 for the root"
            )
    lines, roots = tuple(number for number, _ in rows), int(np.sum(heads < 0))
    if roots != 1 or depths(heads) is None:
        fault = f"{roots} words have HEAD 0" if roots != 1 else "heads form a cycle"
        raise UserError(
            f"{path}:{lines[0]}: the sentence is not a tree: {fault}; expected one root that all other words depend "
            "on, directly or through other words"
        )
    columns = ([fields[name] for _, fields in rows] for name in ("FORM", "UPOS", "DEPREL", "MISC"))
    words, tags, relations, misc = map(tuple, columns)
    return Tree(path, lines, document, words, tags, heads, relations, misc)
