"""The files from which the vectors of pieces come beside the text: groups of pieces, or a given matrix.

modeling/token_vectors.py has the equations.
"""

import collections
import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from keras_bert_app.config.bert_config import BertConfig
from keras_bert_app.config.pretraining_config import PretrainingConfig
from keras_bert_app.errors import UserError
from keras_bert_app.vectors.static.word_vector_files import read_word_vectors
from pipelines.plurals import counted
from pipelines.text.text_files import open_text, readable
from pipelines.wordpiece.vocabulary import SPECIAL_PIECES


@dataclasses.dataclass(frozen=True)
class TokenSource:
    """The values of the weights of TokenVectors that come from a file.

    Attributes:
        config: BertConfig with token_vectors and token_vectors_shape.
        name: the name of the weight, such as "given".
        values: float32 [V, ...].
        line: one line for the user.
    """

    config: BertConfig
    name: str
    values: np.ndarray
    line: str

    def assign(self, model: Any) -> None:
        """Sets the weight of a model.

        Args:
            model: model with an encoder whose configuration is `config`.
        """
        getattr(model.encoder.embeddings.token_vectors, self.name).assign(self.values)


def source_of(run: PretrainingConfig, config: BertConfig, pieces: Sequence[str]) -> TokenSource | None:
    """Reads the file of --token_groups or of --given_vectors.

    Args:
        run: PretrainingConfig.
        config: BertConfig of the model.
        pieces: the vocabulary.

    Returns:
        TokenSource, or None if the run names no file.

    Raises:
        UserError: a file has a fault, or names no piece of the vocabulary.
    """
    if run.token_groups:
        return _groups(run.token_groups, config, pieces)
    if run.given_vectors:
        return _given(run.given_vectors, config, pieces)
    if config.token_vectors and not run.init_checkpoint:
        raise UserError(
            f"config key 'token_vectors' is {config.token_vectors!r}, but no file gives these vectors; add "
            "--token_groups or --given_vectors"
        )
    if not config.token_vectors and (config.token_fusion, config.train_token_vectors) != ("replace", False):
        raise UserError(
            "--token_fusion, --train_token_vectors: need --token_groups or --given_vectors; add one of them"
        )
    return None


def _groups(path, config, pieces):
    parents = read_groups(path)
    of_pieces = [_above(piece, parents, path) if piece not in SPECIAL_PIECES else [] for piece in pieces]
    names = sorted({name for groups in of_pieces for name in groups})
    if not names:
        raise UserError(f"--token_groups={path}: has no group of a symbol of the vocabulary, such as {pieces[-1]!r}")
    numbers = {name: number for number, name in enumerate(names, start=1)}
    values = np.zeros((config.vocab_size, max(map(len, of_pieces))), np.float32)
    for row, groups in zip(values, of_pieces, strict=False):
        row[: len(groups)] = [numbers[name] for name in groups]
    num_found, num_symbols = sum(map(bool, of_pieces)), len(pieces) - len(SPECIAL_PIECES)
    line = f"groups: {num_found:,} of {counted(num_symbols, 'symbol')} are in {counted(len(names), 'group')} of {path}"
    config = config.replace(token_vectors="groups", token_vectors_shape=(len(names), values.shape[1]))
    return TokenSource(config, "groups_of_pieces", values, line)


def read_groups(path: str) -> dict[str, list[str]]:
    """Reads which groups symbols and groups belong to.

    Args:
        path: the file. Each line has a symbol or a group, a space or tab, and the group directly above it.

    Returns:
        dict from a name to the names directly above it.

    Raises:
        UserError: a line has another form.
        DataError: the file cannot be read.
    """
    parents = collections.defaultdict(list)
    with open_text(path) as stream, readable(path):
        for number, line in enumerate(stream, start=1):
            fields = [field.decode("utf-8", "replace") for field in line.removeprefix(b"\xef\xbb\xbf").split()]
            if len(fields) not in (0, 2):
                raise UserError(
                    f"{path}:{number}: has {counted(len(fields), 'name')}; expected a symbol or a group, and the group "
                    "above it"
                )
            if fields and fields[1] not in parents[fields[0]]:
                parents[fields[0]].append(fields[1])
    return dict(parents)


def _above(name, parents, path):
    """All groups above a name, the nearest first."""
    found, level = [], parents.get(name, [])
    while level:
        if name in level:
            raise UserError(f"--token_groups={path}: {name!r} is above itself; remove one of its lines")
        found += level
        level = list(dict.fromkeys(above for group in level for above in parents.get(group, []) if above not in found))
    return found


def _given(path, config, pieces):
    known = read_word_vectors(path)
    values = np.zeros((config.vocab_size, known.vectors.shape[1]), np.float32)
    rows = known.rows
    is_known = [piece in rows for piece in pieces]
    if not any(is_known):
        raise UserError(f"--given_vectors={path}: has no entry of the vocabulary, such as {pieces[-1]!r}")
    values[: len(pieces)][is_known] = known.vectors[[rows[piece] for piece in pieces if piece in rows]]
    line = f"given vectors: {sum(is_known):,} of {len(pieces):,} entries of the vocabulary have one in {path}"
    config = config.replace(token_vectors="given", token_vectors_shape=(values.shape[1],))
    return TokenSource(config, "given", values, line)
