"""Beam search, greedy search and sampling of texts from a model that predicts the next piece.

A step is a function (ids int32 [R], place, cache) -> (logits float32 [R, V], cache). ids has the piece directly
before the place for each of R rows. The cache is a nest of tensors [R, ...].
"""

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

import keras

from keras_bert_app.modeling import backend

IMPOSSIBLE = -1e9  # lower than the score of every possible text


@dataclasses.dataclass(frozen=True)
class DecodingOptions:
    """How texts are decoded.

    Attributes:
        max_length: int. T, the largest number of pieces of a text, including the piece that ends it.
        num_beams: int. K, the number of beams. 1: no beam search, but a greedy search, or draws if the temperature is
            not 0. A beam search ignores temperature, top_k, top_p and seed.
        length_penalty: float. The exponent alpha of the length penalty ((5 + length) / 6)^alpha (Wu et al. 2016, GNMT,
            equation 14). 0 for no penalty.
        temperature: float. Divides the logits before a draw. 0: a greedy search, which takes the most probable piece.
        top_k: int. A draw takes one of the top_k most probable pieces. 0: one of all pieces.
        top_p: float. A draw takes one of the most probable pieces, as few as have the probability top_p together
            (Holtzman et al. 2020, section 3.1). 1: one of all pieces.
        seed: int. The seed of draws. A text gets the same draws for the same seed, whatever the other texts.
    """

    max_length: int
    num_beams: int = 1
    length_penalty: float = 0.6
    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    seed: int = 0

    def __post_init__(self):
        if self.max_length < 1 or self.num_beams < 1 or self.temperature < 0.0 or self.top_k < 0:
            raise ValueError(f"{self}: expected max_length and num_beams of 1 or more, and no negative number")
        if not 0.0 < self.top_p <= 1.0:
            raise ValueError(f"top_p is {self.top_p}; expected a number above 0 and at most 1")
        if self.num_beams > 1 and self.temperature:
            raise ValueError(f"temperature is {self.temperature}, but a beam search draws nothing; give num_beams=1")


class Decoded(NamedTuple):
    """The decoded texts of a batch.

    Attributes:
        ids: int32 [B, K, T]. The pieces of the K best texts, best first, with the piece that ends a text, then zeros.
        scores: float32 [B, K]. The logarithm of the probability, divided by the length penalty.
    """

    ids: Any
    scores: Any


def decode(
    step: Callable,
    cache: Any,
    batch_size: Any,
    begin_id: int,
    end_id: int,
    options: DecodingOptions,
    seeds: Any = None,
) -> Decoded:
    """Decodes a batch of texts.

    Args:
        step: see the docstring of the module. Its R rows are the B texts, or the K beams of each text, text by text.
        cache: the first cache, with the same rows.
        batch_size: int or int32 scalar. B.
        begin_id: int. The piece before the first place.
        end_id: int. The piece that ends a text.
        options: DecodingOptions.
        seeds: int32 [B]. The seed of each text's draws. None is enough for a search.

    Returns:
        Decoded.
    """
    if options.num_beams > 1:
        return beam_search(step, cache, batch_size, begin_id, end_id, options)
    return _one_text(step, cache, batch_size, begin_id, end_id, options, seeds)


def length_penalty(length: Any, alpha: float) -> Any:
    """Computes ((5 + length) / 6)^alpha (Wu et al. 2016, GNMT, equation 14).

    Args:
        length: int or int32 scalar. Pieces of a text, with the piece that ends it.
        alpha: float.

    Returns:
        float32 scalar.
    """
    return ((5.0 + keras.ops.cast(length, "float32")) / 6.0) ** alpha


def beam_search(
    step: Callable, cache: Any, batch_size: Any, begin_id: int, end_id: int, options: DecodingOptions
) -> Decoded:
    """Finds the texts with the best scores among those that K beams reach.

    The search ends when no beam can become better than the worst of the K best texts that have ended. A text that has
    not ended at the last place counts only if fewer than K texts have ended.

    Args:
        step: see the module, with K rows for each text.
        cache: the first cache, a nest of tensors [B x K, ...].
        batch_size: int or int32 scalar. B.
        begin_id: int. The piece before the first place.
        end_id: int. The piece that ends a text.
        options: DecodingOptions.

    Returns:
        Decoded.
    """
    ops, num_beams, length = keras.ops, options.num_beams, options.max_length

    def is_open(beams):
        # Scores are negative, so the divisor of the longest text gives the best score that a beam can reach.
        best = ops.max(beams.scores, axis=1) / length_penalty(length, options.length_penalty)
        return ops.logical_and(beams.place < length, ops.any(best > ops.min(beams.ended_scores, axis=1)))

    def next_beams(beams):
        logits, cache = step(ops.reshape(beams.last_ids, (-1,)), beams.place, beams.cache)
        return (_next_beams(beams, ops.log_softmax(logits), cache, end_id, options),)

    nothing = ops.zeros((batch_size, num_beams, length), "int32")
    none_ended = ops.full((batch_size, num_beams), IMPOSSIBLE, "float32")
    # All beams begin with the same text, so only the first beam may continue.
    first = ops.where(ops.arange(num_beams) == 0, ops.zeros_like(none_ended), none_ended)
    begin = ops.full((batch_size, num_beams), begin_id, "int32")
    beams = _Beams(ops.convert_to_tensor(0, "int32"), begin, nothing, first, nothing, none_ended, cache)
    (beams,) = backend.while_loop(is_open, next_beams, (beams,))
    # Texts that have not ended come after all texts that have ended. They are sorted already, and top_k keeps the order
    # of equal numbers, which these become.
    unended = beams.scores / length_penalty(beams.place, options.length_penalty)
    _, best = ops.top_k(ops.concatenate([beams.ended_scores, unended + IMPOSSIBLE / 2], axis=1), num_beams)
    best = ops.cast(best, "int32")
    return Decoded(
        backend.rows_of_groups(ops.concatenate([beams.ended_ids, beams.ids], axis=1), best),
        backend.rows_of_groups(ops.concatenate([beams.ended_scores, unended], axis=1), best),
    )


class _Beams(NamedTuple):
    """The state of a beam search.

    Attributes:
        place: int32 scalar. The number of the next place.
        last_ids: int32 [B, K]. The last piece of each beam.
        ids: int32 [B, K, T]. The pieces of each beam.
        scores: float32 [B, K]. The logarithm of each beam's probability.
        ended_ids: int32 [B, K, T]. The K best texts that have ended.
        ended_scores: float32 [B, K]. Their scores.
        cache: a nest of tensors [B x K, ...].
    """

    place: Any
    last_ids: Any
    ids: Any
    scores: Any
    ended_ids: Any
    ended_scores: Any
    cache: Any


def _next_beams(beams, log_probabilities, cache, end_id, options):
    """The beams after one more piece, from log_probabilities [B x K, V] of the pieces."""
    ops, num_beams, num_pieces = keras.ops, options.num_beams, log_probabilities.shape[-1]
    # [B, K, V]
    totals = ops.reshape(log_probabilities, (-1, num_beams, num_pieces)) + ops.expand_dims(beams.scores, -1)
    # Only one candidate of each beam ends its text, so at least K of the 2K candidates continue.
    candidates, indices = backend.top_k(ops.reshape(totals, (-1, num_beams * num_pieces)), 2 * num_beams)
    origins, pieces = indices // num_pieces, indices % num_pieces
    # [B, 2K, T]
    is_here = ops.arange(options.max_length, dtype="int32") == beams.place
    ids = ops.where(is_here, ops.expand_dims(pieces, -1), backend.rows_of_groups(beams.ids, origins))
    is_end = pieces == end_id

    # A text ends only with one of the K best candidates, as in fairseq and transformers.
    has_ended = ops.logical_and(is_end, ops.arange(2 * num_beams) < num_beams)
    ended_scores = candidates / length_penalty(beams.place + 1, options.length_penalty)
    ended_scores = ops.concatenate([beams.ended_scores, ops.where(has_ended, ended_scores, IMPOSSIBLE)], axis=1)
    ended_scores, kept = ops.top_k(ended_scores, num_beams)
    ended_ids = ops.concatenate([beams.ended_ids, ids], axis=1)
    ended_ids = backend.rows_of_groups(ended_ids, ops.cast(kept, "int32"))

    scores, kept = ops.top_k(ops.where(is_end, IMPOSSIBLE, candidates), num_beams)
    kept = ops.cast(kept, "int32")
    cache = _of_beams(cache, backend.rows_of_groups(origins, kept), num_beams)
    last_ids, ids = backend.rows_of_groups(pieces, kept), backend.rows_of_groups(ids, kept)
    return _Beams(beams.place + 1, last_ids, ids, scores, ended_ids, ended_scores, cache)


def _of_beams(cache, beams, num_beams):
    """Gathers the rows of a cache [B x K, ...] that belong to the beams [B, K] that continue."""

    def of_beams(values):
        grouped = keras.ops.reshape(values, (-1, num_beams, *values.shape[1:]))
        return keras.ops.reshape(backend.rows_of_groups(grouped, beams), (-1, *values.shape[1:]))

    return keras.tree.map_structure(of_beams, cache)


def _one_text(step, cache, batch_size, begin_id, end_id, options, seeds):
    """Decodes one text for each row, piece by piece."""
    ops, length = keras.ops, options.max_length

    def is_open(place, last_ids, ids, scores, lengths, has_ended, cache):
        return ops.logical_and(place < length, ops.logical_not(ops.all(has_ended)))

    def body(place, last_ids, ids, scores, lengths, has_ended, cache):
        logits, cache = step(last_ids, place, cache)
        pieces = _next_pieces(logits, place, options, seeds)
        log_probabilities = ops.log_softmax(logits)
        score = ops.take_along_axis(log_probabilities, ops.expand_dims(pieces, 1), axis=1)[:, 0]
        pieces = ops.where(has_ended, 0, pieces)
        scores = scores + ops.where(has_ended, 0.0, score)
        lengths = lengths + ops.cast(ops.logical_not(has_ended), "int32")
        ids = ops.where(ops.arange(length, dtype="int32") == place, ops.expand_dims(pieces, 1), ids)
        return place + 1, pieces, ids, scores, lengths, ops.logical_or(has_ended, pieces == end_id), cache

    rows = ops.zeros((batch_size,), "int32")
    state = (
        ops.convert_to_tensor(0, "int32"),
        rows + begin_id,
        ops.zeros((batch_size, length), "int32"),
        ops.cast(rows, "float32"),
        rows,
        ops.cast(rows, "bool"),
        cache,
    )
    _, _, ids, scores, lengths, *_ = backend.while_loop(is_open, body, state)
    scores = scores / length_penalty(lengths, options.length_penalty)
    return Decoded(ops.expand_dims(ids, 1), ops.expand_dims(scores, 1))


def _next_pieces(logits, place, options, seeds):
    """Chooses a piece for each row of logits [B, V]: the most probable one, or a draw."""
    if not options.temperature:
        return backend.argmax(logits)
    logits = filtered(logits / options.temperature, options.top_k, options.top_p)
    return backend.argmax(logits + backend.gumbel_noise(seeds, place, logits.shape[-1]))


def filtered(logits: Any, top_k: Any, top_p: Any, temperature: Any = 1.0) -> Any:
    """Makes the pieces impossible that a draw must not take.

    Args:
        logits: float32 [B, V].
        top_k: int, or int32 [B, 1] with a float32 top_p. The top_k most probable pieces stay possible. 0: all pieces.
        top_p: float, or float32 [B, 1]. Only the most probable pieces stay, as few as have this probability together
            (Holtzman et al. 2020, section 3.1). 1: all of them.
        temperature: float, or float32 [B, 1]. Divides the logits for these probabilities, but not in the result.

    Returns:
        float32 [B, V].
    """
    ops = keras.ops
    num_pieces = logits.shape[-1]
    if isinstance(top_k, int) and 0 < top_k < num_pieces:
        lowest = ops.top_k(logits, top_k)[0][:, -1:]
        logits = ops.where(logits < lowest, IMPOSSIBLE, logits)
    if isinstance(top_p, float) and top_p >= 1.0:
        return logits
    ordered = ops.flip(ops.sort(logits, axis=-1), axis=-1)
    if not isinstance(top_k, int):  # the rows have different numbers
        last = ops.where(top_k > 0, ops.minimum(top_k, num_pieces), num_pieces) - 1
        lowest = ops.take_along_axis(ordered, last, axis=-1)
        logits, ordered = (ops.where(values < lowest, IMPOSSIBLE, values) for values in (logits, ordered))
    shares = ops.softmax(ordered / temperature)
    # A piece is kept if the pieces that are more probable have less than top_p together.
    is_kept = ops.cumsum(shares, axis=-1) - shares < top_p
    lowest = ops.min(ops.where(is_kept, ordered, ordered[:, :1]), axis=-1, keepdims=True)
    return ops.where(logits < lowest, IMPOSSIBLE, logits)
