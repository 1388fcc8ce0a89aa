"""Another vocabulary for a BERT, whose tables keep what can be kept bit for bit."""

import dataclasses

import numpy as np

from keras_bert_app.errors import UserError
from pipelines.wordpiece import casing
from pipelines.wordpiece.vocabulary import SPECIAL_PIECES, UNUSED_PIECE, parse_vocabulary
from pipelines.wordpiece.words import MAX_CHARACTERS_PER_WORD

# Tables with a row for each entry.
_TABLES = ("encoder/embeddings/word_embeddings", "masked_lm/output_embeddings", "masked_lm/output_bias")
_INNER = "##"
_FAULTS_SHOWN = 5


def replace_vocabulary(weights, vocabulary_bytes):
    """(Weights, a line) for another vocabulary: grown by extend_vocab, trimmed, or in another order.

    An entry of both vocabularies keeps its row of every table, wherever its id moves. A new entry starts as the mean of
    the rows of the pieces that the old vocabulary cuts it into (Gee et al. 2022, Fast Vocabulary Transfer), and its
    output bias as the mean of theirs; "##x" is cut as the inside of a word. A special or [unusedN] entry, and one that
    the old vocabulary makes [UNK], starts as the mean of the rows of all old entries. Rows of a table beyond the old
    vocabulary stand for nothing and are not kept.

    Args:
        vocabulary_bytes: of the new vocab.txt.

    Raises:
        UserError: there is no old vocabulary, or one of the two is not usable.
    """
    if weights.vocabulary is None:
        raise UserError(
            f"{weights.origin}: has no vocab.txt, so that nothing tells what its rows stand for; put the "
            "vocabulary of these weights beside them"
        )
    old = _entries(weights.vocabulary, f"the vocabulary of {weights.origin}")
    new = _entries(vocabulary_bytes, "the new vocabulary")
    casing.verify(new, weights.config.do_lower_case, "the new one")
    rows = weights.config.vocab_size
    if len(old) > rows:
        raise UserError(
            f"{weights.origin}: its vocabulary has {len(old):,} entries, its table of embeddings {rows:,} "
            "rows; expected no more entries than rows"
        )
    old_ids = {entry: number for number, entry in enumerate(old)}
    both = [(number, old_ids[entry]) for number, entry in enumerate(new) if entry in old_ids]
    cuts = {number: _cut(entry, old_ids) for number, entry in enumerate(new) if entry not in old_ids}
    tensors = dict(weights.tensors)
    for path in _TABLES:
        if path in tensors:
            tensors[path] = _rows_of(tensors[path], len(old), len(new), both, cuts)
    moved, from_pieces = sum(now != before for now, before in both), sum(map(bool, cuts.values()))
    line = (
        f"vocabulary {len(old):,} -> {len(new):,} entries: {len(both) - moved:,} kept in place, {moved:,} moved, "
        f"{from_pieces:,} new from the mean of their pieces, {len(cuts) - from_pieces:,} new from the mean of all, "
        f"{len(old) - len(both):,} dropped"
    )
    if rows > len(old):
        line += f"; {rows - len(old):,} rows beyond the old vocabulary dropped"
    return dataclasses.replace(weights, vocabulary=vocabulary_bytes).changed(tensors, vocab_size=len(new)), line


def _entries(vocabulary_bytes, name):
    """The entries of a vocabulary, in order of their ids; UserError if it is not usable."""
    entries, faults = parse_vocabulary(vocabulary_bytes)
    if faults:
        more = f"; and {len(faults) - _FAULTS_SHOWN} more" if len(faults) > _FAULTS_SHOWN else ""
        raise UserError(
            f"{name}: {'; '.join(faults[:_FAULTS_SHOWN])}{more}; expected one UTF-8 piece a line, each "
            "once, with [PAD] first and [UNK], [CLS], [SEP], [MASK] among them (check_vocab tells more)"
        )
    return entries


def _cut(entry, ids):
    """The ids of the pieces that the greedy longest match cuts an entry into; empty where it has none."""
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


def _rows_of(table, num_old, num_new, both, cuts):
    """A table [V, H] or bias [V] for a new vocabulary.

    Args:
        both: (new id, old id) of entries that stay. cuts: new id -> old ids of its pieces.
    """
    rows = np.empty((num_new, *table.shape[1:]), table.dtype)
    now, before = np.array(both).T
    rows[now] = table[before]
    mean = table[:num_old].mean(axis=0, dtype=np.float64)
    for number, pieces in cuts.items():
        rows[number] = table[pieces].mean(axis=0, dtype=np.float64) if pieces else mean
    return rows
