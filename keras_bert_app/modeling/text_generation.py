"""Continues texts with a language model, piece by piece.

A row is [CLS], the prompt, and the continuation. A step is a function (ids int32 [B, T], place, cache) ->
(logits float32 [B, V] of the piece after the place, cache). ids has the pieces up to the place, and maybe pieces of the
prompt after it.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import keras

from keras_bert_app.modeling import backend
from keras_bert_app.modeling.text_decoding import IMPOSSIBLE, filtered


class Sampling(NamedTuple):
    """How the next piece is chosen. The tensors have one value for each of B rows.

    Attributes:
        seed: int32 [B]. The seed of the draws. The same seed and prompt give the same text, whatever the other rows.
        temperature: float32 [B]. Divides the logits before a draw. 0: the most probable piece.
        top_k: int32 [B]. A draw takes one of the top_k most probable pieces. 0: one of all pieces.
        top_p: float32 [B]. A draw takes one of the most probable pieces, as few as have this probability together
            (Holtzman et al. 2020, section 3.1). 1: one of all pieces.
        repetition_penalty: float32 [B]. Divides the positive logits of the row's pieces so far, and multiplies the
            negative ones (Keskar et al. 2019, CTRL, section 4.1). 1: no penalty.
    """

    seed: Any
    temperature: Any
    top_k: Any
    top_p: Any
    repetition_penalty: Any


class Generation(NamedTuple):
    """Texts that are being written.

    Attributes:
        place: int32 scalar. The place that the next step reads.
        ids: int32 [B, T]. The pieces so far, then zeros.
        has_ended: bool [B]. Whether a row has ended.
        cache: nest of tensors [B, ...].
    """

    place: Any
    ids: Any
    has_ended: Any
    cache: Any


def begin(prompt_ids, length: int, cache, first_place=0) -> Generation:
    """Makes the state before the first step.

    Args:
        prompt_ids: int32 [B, P]. [CLS] and the prompt, then zeros. P is at most `length`.
        length: int. T, the largest number of places of a row.
        cache: the first cache.
        first_place: int or int32 scalar. The first place that a step reads: the last piece of the shortest prompt, if
            the cache has the earlier ones.

    Returns:
        Generation.
    """
    ops = keras.ops
    ids = ops.pad(prompt_ids, [[0, 0], [0, length - ops.shape(prompt_ids)[1]]])
    ids = ops.reshape(ids, (-1, length))  # so that T is known
    return Generation(ops.cast(first_place, "int32"), ids, ids[:, 0] < 0, cache)


def advance(
    step: Callable,
    state: Generation,
    prompt_lengths,
    limits,
    last_place,
    sampling: Sampling,
    end_id: int,
    is_never,
) -> Generation:
    """Reads prompts and writes pieces, up to a place.

    Args:
        step: see the docstring of the module.
        state: Generation.
        prompt_lengths: int32 [B]. Pieces of [CLS] and the prompt.
        limits: int32 [B]. The largest number of pieces of each row.
        last_place: int32 scalar. The loop ends before it reads this place.
        sampling: Sampling.
        end_id: int. The piece that ends a text.
        is_never: bool [V]. Whether a piece is never written.

    Returns:
        Generation. It ends early if all rows have ended.
    """
    ops, length = keras.ops, state.ids.shape[1]
    places = ops.arange(length, dtype="int32")

    def is_open(place, ids, has_ended, cache):
        return ops.logical_and(place < last_place, ops.logical_not(ops.all(has_ended)))

    def body(place, ids, has_ended, cache):
        logits, cache = step(ids, place, cache)
        chosen = next_pieces(ops.where(is_never, IMPOSSIBLE, logits), ids, place, sampling)
        is_prompt, following = place + 1 < prompt_lengths, ids[:, ops.minimum(place + 1, length - 1)]
        has_ended = ops.logical_or(has_ended, place + 1 >= limits)
        pieces = ops.where(is_prompt, following, ops.where(has_ended, 0, chosen))
        ids = ops.where(places == place + 1, ops.expand_dims(pieces, 1), ids)
        return place + 1, ids, ops.logical_or(has_ended, ops.logical_and(pieces == end_id, ~is_prompt)), cache

    return Generation(*backend.while_loop(is_open, body, tuple(state)))


def next_pieces(logits, ids, place, sampling: Sampling):
    """Chooses the next piece of each row.

    Args:
        logits: float32 [B, V].
        ids: int32 [B, T]. The pieces so far, then zeros.
        place: int32 scalar. The place before the piece.
        sampling: Sampling.

    Returns:
        int32 [B].
    """
    ops, num_pieces = keras.ops, logits.shape[-1]
    penalty = ops.expand_dims(sampling.repetition_penalty, 1)
    has_occurred = backend.has_occurred(ids, num_pieces)
    logits = ops.where(has_occurred, ops.where(logits > 0, logits / penalty, logits * penalty), logits)
    temperature = ops.expand_dims(sampling.temperature, 1)
    top_k, top_p = ops.expand_dims(sampling.top_k, 1), ops.expand_dims(sampling.top_p, 1)
    logits = filtered(logits, top_k, top_p, ops.maximum(temperature, 1e-3))
    # A draw by softmax(logits / temperature). At temperature 0 it is the most probable piece.
    noise = backend.gumbel_noise(sampling.seed, place, num_pieces)
    return backend.argmax(logits + temperature * noise)


def masked_step(model, mask_id: int, sep_id: int, pad_id: int = 0) -> Callable:
    """Makes a step for a masked language model, which reads [CLS] text [MASK] [SEP] to predict the piece at [MASK].

    It has no cache: each step reads the whole row (Wang and Cho 2019, BERT has a mouth, section 4, left to right).

    Args:
        model: BertPretrainer with a masked-LM head.
        mask_id: int. The id of [MASK].
        sep_id: int. The id of [SEP].
        pad_id: int. The id of [PAD].

    Returns:
        function (ids int32 [B, T], place, cache) -> (logits float32 [B, V], cache). The place is at most T - 3.
    """
    ops = keras.ops

    def step(ids, place, cache):
        places = ops.arange(ids.shape[1], dtype="int32")
        row = ops.where(places == place + 1, mask_id, ops.where(places == place + 2, sep_id, ids))
        is_inside = ops.cast(places <= place + 2, "int32")
        inputs = {
            "input_word_ids": ops.where(is_inside > 0, row, pad_id),
            "input_mask": ops.zeros_like(ids) + is_inside,
            "input_type_ids": ops.zeros_like(ids),
            "masked_lm_positions": ops.zeros_like(ids[:, :1]) + place + 1,
        }
        return model(inputs, heads_only=True)["mlm_logits"][:, 0], cache

    return step
