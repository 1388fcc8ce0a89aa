"""Features: the rows of token ids that examples become, in as much memory as their tokens need."""

import dataclasses
import functools
import hashlib

import numpy as np
import tensorflow as tf

_TEXTS_A_CALL = 1024


@dataclasses.dataclass
class Features:
    """R rows in U units; a unit is what a model gives one answer to: a row, or several that belong together.

    Attributes:
        token_ids: int32 [T], the rows one after the other, special pieces included. row_splits: int64 [R + 1].
        b_starts: int32 [R]; from where on in the row the tokens are of segment B.
        unit_splits: int64 [U + 1], rows of each unit; None where every row is a unit (its batches have no axis G).
        examples: int32 [U], which example the unit is of.
        labels: dict name -> array [U, ...]. token_labels: dict name -> array [T]; only where rows are units.
        notes: what to say of them, such as how many texts were cut.
        for_decode: dict name -> array [T, ...], what decode is to know of each token; no part of a batch.
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

    @property
    def num_units(self):
        return len(self.examples)

    @property
    def has_pairs(self):
        """Whether a row has a segment B."""
        return bool(np.any(self.b_starts < self.row_lengths()))

    def fingerprint(self):
        """Hash of rows and labels, a hex string."""
        found = hashlib.sha256()
        for values in (self.token_ids, self.row_splits, *self.labels.values(), *self.token_labels.values()):
            found.update(np.ascontiguousarray(values).tobytes())
        return found.hexdigest()

    def rows_of(self, unit):
        """First row of a unit, and the row after its last."""
        return (unit, unit + 1) if self.unit_splits is None else self.unit_splits[unit : unit + 2]

    def row_lengths(self):
        return np.diff(self.row_splits)

    def longest_rows(self):
        """int64 [U]: tokens in the longest row of each unit."""
        lengths = self.row_lengths()
        return lengths if self.unit_splits is None else np.maximum.reduceat(lengths, self.unit_splits[:-1])

    def work(self):
        """int64 [U]: what each unit costs, in tokens of rows as long as its longest."""
        return self.longest_rows() * self.group_sizes()

    def group_sizes(self):
        """int64 [U]: rows of each unit."""
        return np.ones(self.num_units, np.int64) if self.unit_splits is None else np.diff(self.unit_splits)


class RowBuilder:
    """Collects rows [CLS] A [SEP] or [CLS] A [SEP] B [SEP] of piece ids, and makes Features of them."""

    def __init__(self, tokenizer):
        self.cls_id, self.sep_id = tokenizer.cls_id, tokenizer.sep_id
        self.parts, self.lengths, self.b_starts = [], [], []

    def add(self, a, b=None):
        """Appends a row of int32 arrays of pieces."""
        row = [[self.cls_id], a, [self.sep_id]]
        b_start = len(a) + 2
        if b is not None:
            row += [b, [self.sep_id]]
        self.parts += row
        self.lengths.append(sum(map(len, row)))
        self.b_starts.append(b_start)

    def features(self, examples, unit_splits=None, labels=None, token_labels=None, notes=(), for_decode=None):
        """Features of the rows; arguments as its attributes."""
        token_ids = (
            np.concatenate([np.asarray(part, np.int32) for part in self.parts]) if self.parts else np.zeros(0, np.int32)
        )
        splits = np.concatenate([[0], np.cumsum(self.lengths, dtype=np.int64)]).astype(np.int64)
        return Features(
            token_ids,
            splits,
            np.array(self.b_starts, np.int32),
            np.asarray(examples, np.int32),
            None if unit_splits is None else np.asarray(unit_splits, np.int64),
            dict(labels or {}),
            dict(token_labels or {}),
            list(notes),
            dict(for_decode or {}),
        )


def piece_ids(tokenizer, texts):
    """List of int32 arrays, the pieces of each text, without special ones.

    Args:
        texts: list of str.
    """
    return [ids for (ids,) in _by_text(_tokenize_function(tokenizer, has_spans=False), texts)]


def pieces_with_spans(tokenizer, texts):
    """List of (int32 array [N], the pieces of each text, without special ones; int32 [N, 2], the characters of the text that
    each stands for, the end exclusive).

    Args:
        texts: list of str.
    """
    return _by_text(_tokenize_function(tokenizer, has_spans=True), texts)


@functools.lru_cache(maxsize=4)  # tracing takes half a second, and a run asks many times
def _tokenize_function(tokenizer, has_spans):
    """tf.function from strings [B] to a tuple of RaggedTensors: pieces, and with has_spans their characters."""

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string)], autograph=False)
    def tokenize(strings):
        if not has_spans:
            return (tokenizer.tokenize(strings),)
        ids, _, _, starts, ends = tokenizer.tokenize_with_offsets(strings)
        return ids, starts.with_flat_values(tf.stack([starts.flat_values, ends.flat_values], axis=1))

    return tokenize


def _by_text(tokenize, texts):
    """List of tuples of arrays: the rows of the RaggedTensors that a function makes of strings."""
    found = []
    for at in range(0, len(texts), _TEXTS_A_CALL):
        # Half a surrogate pair, which JSON can hold, is no character.
        rows = tokenize(tf.constant([text.encode("utf-8", "replace") for text in texts[at : at + _TEXTS_A_CALL]]))
        found += zip(*(np.split(part.flat_values.numpy(), part.row_splits.numpy()[1:-1]) for part in rows))
    return found


def notes_of_empty(examples, empty, what="a text"):
    """What to say of examples of whose texts no token is left: [] or one line with the place of the first.

    Args:
        empty: their numbers, in order.
    """
    return (
        [
            f"{len(empty):,} of {len(examples):,} have {what} of which no token is left, the first {examples[empty[0]].place}"
        ]
        if empty
        else []
    )


def truncated(parts, max_tokens):
    """Parts of a row, together at most max_tokens: the longest loses its end, token by token, of equally long ones the last.

    For a pair that is run_classifier._truncate_seq_pair of google-research/bert.

    Args:
        parts: sequence of arrays. Returns: list of them, or of their beginnings.
    """
    room = max_tokens
    for count, length in zip(range(len(parts), 0, -1), sorted(map(len, parts))):
        level = room // count  # what each of the longest may keep; the first of them one more, while there is room
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


def head_length(room):
    """How many tokens of a row of head and tail are head: Sun et al. 2019, "How to Fine-Tune BERT for Text Classification?",
    take the first 128 and the last 382 of 510."""
    return room * 128 // 510
