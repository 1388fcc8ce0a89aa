"""Features: the rows of token ids of examples, stored one after the other without padding."""

import dataclasses
import functools
import hashlib
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from keras_bert_app.errors import UserError
from pipelines.channels import line_fault

_TEXTS_PER_CALL = 1024


@dataclasses.dataclass
class Features:
    """R rows in U units. The model gives one answer to each unit, which is one row or a group of rows.

    Attributes:
        token_ids: int32 [T]. The rows one after the other, with their special tokens.
        row_splits: int64 [R + 1]. Where each row begins in token_ids.
        b_starts: int32 [R]. Index in the row of the first token of segment B.
        examples: int32 [U]. Number of the example of each unit.
        unit_splits: int64 [U + 1]. First row of each unit. None: every row is a unit, and batches have no axis G for
            the rows of a unit.
        labels: dict name -> array [U, ...].
        token_labels: dict name -> array [T]. Only for features whose units are rows.
        notes: list of str. Lines for the log, such as how many texts were cut.
        for_decode: dict name -> values that only decode reads, such as facts about each token [T, ...].
        target_ids: int32 [T']. The target texts one after the other, each [CLS] pieces [SEP]. None: the answers are no
            texts. Only for features whose units are rows.
        target_splits: int64 [R + 1]. Where each target begins in target_ids.
        has_first_apart: whether the model can read the first row of each unit in a shorter length than the others.
        text_numbers: int64 [U, n]. Texts of each unit, such as an anchor and its positive; equal texts have equal
            numbers. Two units of a training batch then have no number in common. None: they may have.
        columns: int32 [T, C]. The columns of the tokens (pipelines.wordpiece.token_columns), None without columns.
        column_inputs: function of columns int32 [rows, S, C]. It gives the further inputs of the encoder.
    """

    token_ids: np.ndarray
    row_splits: np.ndarray
    b_starts: np.ndarray
    examples: np.ndarray
    unit_splits: np.ndarray | None = None
    labels: dict = dataclasses.field(default_factory=dict)
    token_labels: dict = dataclasses.field(default_factory=dict)
    notes: list = dataclasses.field(default_factory=list)
    for_decode: dict = dataclasses.field(default_factory=dict)
    target_ids: np.ndarray | None = None
    target_splits: np.ndarray | None = None
    has_first_apart: bool = False
    text_numbers: np.ndarray | None = None
    columns: np.ndarray | None = None
    column_inputs: Callable | None = None

    @property
    def num_units(self) -> int:
        """U, the number of units."""
        return len(self.examples)

    @property
    def has_pairs(self) -> bool:
        """Whether any row has a segment B."""
        return bool(np.any(self.b_starts < self.row_lengths()))

    def fingerprint(self) -> str:
        """The sha256 of rows and labels, in hexadecimal digits."""
        digest = hashlib.sha256()
        targets = () if self.target_ids is None else (self.target_ids, self.target_splits)
        columns = () if self.columns is None else (self.columns,)
        labels = (*self.labels.values(), *self.token_labels.values())
        for values in (self.token_ids, self.row_splits, *labels, *targets, *columns):
            digest.update(np.ascontiguousarray(values).tobytes())
        return digest.hexdigest()

    def rows_of(self, unit: int) -> Sequence[int]:
        """(first row of a unit, row after its last row)."""
        return (unit, unit + 1) if self.unit_splits is None else self.unit_splits[unit : unit + 2]

    def row_lengths(self) -> np.ndarray:
        """int64 [R]: tokens in each row."""
        return np.diff(self.row_splits)

    def longest_rows(self) -> np.ndarray:
        """int64 [U]: tokens in the longest row of each unit, or in its target if that is longer."""
        lengths = self.row_lengths()
        if self.target_splits is not None:
            return np.maximum(lengths, np.diff(self.target_splits))
        return lengths if self.unit_splits is None else np.maximum.reduceat(lengths, self.unit_splits[:-1])

    def work(self) -> np.ndarray:
        """int64 [U]: tokens of each unit when all its rows are padded to its longest row."""
        return self.longest_rows() * self.group_sizes()

    def group_sizes(self) -> np.ndarray:
        """int64 [U]: rows of each unit."""
        return np.ones(self.num_units, np.int64) if self.unit_splits is None else np.diff(self.unit_splits)


class RowBuilder:
    """Collects rows [CLS] A [SEP] or [CLS] A [SEP] B [SEP] and makes Features from them.

    Args:
        tokenizer: A tokenizer of pipelines.wordpiece.
    """

    def __init__(self, tokenizer):
        self.columns = tokenizer.columns
        self.cls, self.sep = (_tokens_of([id], self.columns) for id in (tokenizer.cls_id, tokenizer.sep_id))
        self.parts, self.lengths, self.b_starts = [], [], []

    def add(self, a: np.ndarray, b: np.ndarray | None = None) -> None:
        """Appends a row.

        Args:
            a: int32 [tokens of A], or [tokens of A, 1 + C] with columns.
            b: the same for B; None for a single text.
        """
        row = [self.cls, a, self.sep]
        b_start = len(a) + 2
        if b is not None:
            row += [b, self.sep]
        self.parts += row
        self.lengths.append(sum(map(len, row)))
        self.b_starts.append(b_start)

    def features(
        self,
        examples: Sequence[int],
        unit_splits: Sequence[int] | None = None,
        labels: dict[str, np.ndarray] | None = None,
        token_labels: dict[str, np.ndarray] | None = None,
        notes: Iterable[str] = (),
        for_decode: dict[str, np.ndarray] | None = None,
    ) -> Features:
        """The Features of all rows. The arguments are the attributes of Features."""
        tokens = np.concatenate([self.sep[:0], *(np.asarray(part, np.int32) for part in self.parts)])
        has_columns = self.columns is not None
        splits = np.concatenate([[0], np.cumsum(self.lengths, dtype=np.int64)]).astype(np.int64)
        return Features(
            np.ascontiguousarray(tokens[:, 0]) if has_columns else tokens,
            splits,
            np.array(self.b_starts, np.int32),
            np.asarray(examples, np.int32),
            None if unit_splits is None else np.asarray(unit_splits, np.int64),
            dict(labels or {}),
            dict(token_labels or {}),
            list(notes),
            dict(for_decode or {}),
            columns=tokens[:, 1:] if has_columns else None,
            column_inputs=self.columns.inputs if has_columns else None,
        )


def _tokens_of(ids, columns):
    """Tokens without values, int32 [N], or [N, 1 + C] with columns."""
    ids = np.array(ids, np.int32)
    return ids if columns is None else np.pad(ids[:, None], [(0, 0), (0, columns.size)])


def piece_ids(tokenizer, texts: Sequence[str]) -> list[np.ndarray]:
    """The word pieces of each text, without special tokens.

    Args:
        tokenizer: A tokenizer of pipelines.wordpiece.
        texts: list of str.

    Returns:
        list of int32 arrays [N], one for each text; [N, 1 + C] if the tokenizer has columns.

    Raises:
        UserError: a symbol has a value that its channel does not have.
    """
    for text in texts if tokenizer.columns is not None else ():
        if fault := line_fault(text.encode("utf-8", "replace").decode(), tokenizer.columns.channels):
            raise UserError(f"the text that begins {text[:40]!r}: {fault}")
    return [ids for (ids,) in _by_text(_tokenize_function(tokenizer, has_spans=False), texts)]


def pieces_with_spans(tokenizer, texts: Sequence[str]) -> list[tuple[np.ndarray, np.ndarray]]:
    """The word pieces of each text, without special tokens, and their places in the text.

    Args:
        tokenizer: A tokenizer of pipelines.wordpiece.
        texts: list of str.

    Returns:
        list of (pieces int32 [N], spans int32 [N, 2]). A span is (first character, character after the last) in the
        text.
    """
    return _by_text(_tokenize_function(tokenizer, has_spans=True), texts)


@functools.lru_cache(maxsize=4)  # tracing takes half a second, and a run calls the function many times
def _tokenize_function(tokenizer, has_spans):
    """A tf.function from strings [B] to a tuple of RaggedTensors: pieces, and their spans if has_spans."""

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string)], autograph=False)
    def tokenize(strings):
        if not has_spans:
            return (tokenizer.tokenize_with_columns(strings),)
        ids, _, _, starts, ends = tokenizer.tokenize_with_offsets(strings)
        return ids, starts.with_flat_values(tf.stack([starts.flat_values, ends.flat_values], axis=1))

    return tokenize


def _by_text(tokenize, texts):
    """For each text, a tuple of arrays: its row of each RaggedTensor that `tokenize` returns."""
    by_text = []
    for start in range(0, len(texts), _TEXTS_PER_CALL):
        # JSON may contain half of a surrogate pair, which UTF-8 cannot encode.
        rows = tokenize(
            tf.constant([text.encode("utf-8", "replace") for text in texts[start : start + _TEXTS_PER_CALL]])
        )
        by_text += zip(
            *(np.split(part.flat_values.numpy(), part.row_splits.numpy()[1:-1]) for part in rows), strict=True
        )
    return by_text


def notes_of_empty(examples: Sequence[Any], empty: Sequence[int], what: str = "a text") -> list[str]:
    """The log line about examples that have a text without tokens.

    Args:
        examples: list of the family's examples.
        empty: list of int. Numbers of these examples, in order.
        what: str. The words for the text without tokens in the line.

    Returns:
        [] or one line with the place of the first such example.
    """
    return (
        [f"{len(empty):,} of {len(examples):,} have {what} without a word piece, the first {examples[empty[0]].place}"]
        if empty
        else []
    )


def truncated(parts: Sequence[np.ndarray], max_tokens: int) -> list[np.ndarray]:
    """Cuts the parts of a row to a total length.

    The longest part loses its last token, again and again until the row fits. Among equally long parts, the last part
    loses its token first. For a pair this is run_classifier._truncate_seq_pair of google-research/bert.

    Args:
        parts: sequence of arrays.
        max_tokens: int. Limit of the total length.

    Returns:
        list of the parts, or of their beginnings.
    """
    room = max_tokens
    for count, length in zip(range(len(parts), 0, -1), sorted(map(len, parts)), strict=True):
        level = room // count  # length of each cut part; the first parts keep one token more while there is room
        if length > level:
            break
        room -= length
    else:
        return list(parts)
    rest, kept = room - level * count, []
    for part in parts:
        if len(part) > level:
            part, rest = part[: level + (rest > 0)], rest - 1
        kept.append(part)
    return kept


def head_length(room: int) -> int:
    """The number of tokens that a row of head and tail takes from the head of a text.

    Sun et al. 2019, "How to Fine-Tune BERT for Text Classification?": the first 128 and the last 382 of 510 tokens.

    Args:
        room: int. Tokens of the row without special tokens.
    """
    return room * 128 // 510
