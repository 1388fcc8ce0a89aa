"""Replaces the vocabulary of a BERT. Rows of remaining entries are the same bit for bit."""

import dataclasses

import numpy as np

from keras_bert_app.errors import UserError
from keras_bert_app.interop.weights import Weights
from keras_bert_app.modeling.character_vectors import numbers_of_characters
from pipelines.wordpiece import vocabulary_checks
from pipelines.wordpiece.vocabulary import SPECIAL_PIECES, UNUSED_PIECE, checked_pieces
from pipelines.wordpiece.words import MAX_CHARACTERS_PER_WORD

# Tables with one row for each entry of the vocabulary.
_TABLES = (
    "encoder/embeddings/word_embeddings",
    "masked_lm/output_embeddings",
    "masked_lm/output_bias",
    "language_model/output_embeddings",
    "language_model/output_bias",
)
_CHARACTERS = "encoder/embeddings/characters"
_INNER = "##"


def replace_vocabulary(weights: Weights, vocabulary_bytes: bytes) -> tuple[Weights, str]:
    """Replaces the vocabulary by a longer or shorter one, or by one in another order.

    - An entry of both vocabularies keeps its row in every table, also if its id changes.
    - A new entry starts as the mean of the rows of its pieces in the old vocabulary (Gee et al. 2022, Fast Vocabulary
      Transfer). Its output bias is the mean of the pieces' biases. "##x" is cut like the inside of a word.
    - Some new entries start as the mean of all old rows: special and [unusedN] entries, and entries that the old
      vocabulary cannot cut into pieces.
    - Rows of a table beyond the old vocabulary belong to no entry and are dropped.

    Args:
        weights: Weights. Must include a vocabulary.
        vocabulary_bytes: bytes. Content of the new vocab.txt.

    Returns:
        Tuple (Weights, line for the user).

    Raises:
        UserError: The weights have no vocabulary, or the vocabularies do not fit the weights.
        DataError: One of the two vocabularies is not usable.
    """
    if weights.vocabulary is None:
        raise UserError(
            f"{weights.origin}: has no vocab.txt, so the meaning of its rows is unknown; put the "
            "vocabulary of these weights beside them"
        )
    if weights.config.token_vectors:
        raise UserError(
            f"{weights.origin}: has {weights.config.token_vectors} vectors for the entries of its own vocabulary; "
            "train a new model with the new vocabulary"
        )
    old = checked_pieces(weights.vocabulary, f"of {weights.origin}")
    new = checked_pieces(vocabulary_bytes, "(the new one)")
    vocabulary_checks.verify(new, weights.config.tokenizer, weights.config.do_lower_case, "the new one")
    rows = weights.config.vocab_size
    if len(old) > rows:
        raise UserError(
            f"{weights.origin}: its vocabulary has {len(old):,} entries, its table of embeddings {rows:,} "
            "rows; expected no more entries than rows"
        )
    old_ids = {entry: number for number, entry in enumerate(old)}
    kept = [(new_id, old_ids[entry]) for new_id, entry in enumerate(new) if entry in old_ids]
    pieces_of_new = {new_id: _cut(entry, old_ids) for new_id, entry in enumerate(new) if entry not in old_ids}
    tensors = dict(weights.tensors)
    for path in _TABLES:
        if path in tensors:
            tensors[path] = _new_table(tensors[path], len(old), len(new), kept, pieces_of_new)
    if _CHARACTERS in tensors:
        config = weights.config.replace(vocab_size=len(new))
        tensors[_CHARACTERS] = numbers_of_characters(new, config, SPECIAL_PIECES)
    num_moved = sum(new_id != old_id for new_id, old_id in kept)
    num_from_pieces = sum(map(bool, pieces_of_new.values()))
    line = (
        f"vocabulary {len(old):,} -> {len(new):,} entries: {len(kept) - num_moved:,} kept in place, "
        f"{num_moved:,} moved, {num_from_pieces:,} new from the mean of their pieces, "
        f"{len(pieces_of_new) - num_from_pieces:,} new from the mean of all, {len(old) - len(kept):,} dropped"
    )
    if rows > len(old):
        line += f"; {rows - len(old):,} rows beyond the old vocabulary dropped"
    return dataclasses.replace(weights, vocabulary=vocabulary_bytes).changed(tensors, vocab_size=len(new)), line


def _cut(entry, ids):
    """Returns the ids of an entry's pieces (greedy longest match). Empty if the entry cannot or must not be cut."""
    prefix, text = (_INNER, entry[len(_INNER) :]) if entry.startswith(_INNER) else ("", entry)
    if entry in SPECIAL_PIECES or UNUSED_PIECE.fullmatch(entry) or len(text) > MAX_CHARACTERS_PER_WORD:
        return []
    pieces, start = [], 0
    while start < len(text):
        for end in range(len(text), start, -1):
            if prefix + text[start:end] in ids:
                break
        else:
            return []
        pieces.append(ids[prefix + text[start:end]])
        start, prefix = end, _INNER
    return pieces


def _new_table(table, num_old, num_new, kept, pieces_of_new):
    """Builds a table [V, H] or bias [V] for a new vocabulary.

    Args:
        table: array [V, H] or [V]. The old table.
        num_old: int. Entries of the old vocabulary.
        num_new: int. Entries of the new vocabulary.
        kept: list of (new id, old id). The entries of both vocabularies.
        pieces_of_new: dict new id -> list of old ids. The pieces of every new entry.

    Returns:
        array [num_new, H] or [num_new].
    """
    rows = np.empty((num_new, *table.shape[1:]), table.dtype)
    new_ids, old_ids = np.array(kept).T
    rows[new_ids] = table[old_ids]
    mean = table[:num_old].mean(axis=0, dtype=np.float64)
    for new_id, pieces in pieces_of_new.items():
        rows[new_id] = table[pieces].mean(axis=0, dtype=np.float64) if pieces else mean
    return rows
