"""Attention of which nothing [S, S] is kept for the gradient, for programs that are compiled whole.

A head's scores are the largest arrays of a layer, while the vectors that they come from are small and at hand: the gradient
takes their product once more (Dao et al. 2022, FlashAttention, sections 3.1 and B.2).
"""

import functools

import keras

from keras_bert_app.modeling import backend
from keras_bert_app.modeling.layers import dropped


def attended(query, key, value, mask_scores, seed, rate):
    """dropout(softmax(query key^T + mask)) value, [B, S, N, D].

    Args:
        query (scaled): [B, S or P, N, D], of all places or of those that attend. key, value: [B, S, N, D].
        mask_scores: [B, 1, 1 or as many, S], no variable: it has no gradient.
        seed: int [2] of the dropout, or None for none. rate: of the dropout.
    """
    return _attended(rate)(query, key, value, mask_scores, *([] if seed is None else [seed]))


def scores_of(query, key):
    """[B, N, S, S] of [B, S, N, D] each."""
    return backend.einsum("bsnd,btnd->bnst", query, key)


def masked(scores, mask_scores):
    """scores + mask in float32."""
    return keras.ops.cast(scores, "float32") + keras.ops.cast(mask_scores, "float32")


@functools.cache
def _attended(rate):
    ops, einsum = keras.ops, backend.einsum

    @backend.own_gradient
    def attention(query, key, value, mask_scores, seed=None):
        scores = masked(scores_of(query, key), mask_scores)
        log_sums = ops.logsumexp(scores, axis=-1, keepdims=True)
        weights = dropped(ops.cast(ops.exp(scores - log_sums), value.dtype), seed, rate=rate)
        context = einsum("bnst,btnd->bsnd", weights, value)

        def gradient(upstream):
            return _gradient(
                rate, *backend.computed_anew(query, key, value, mask_scores, seed, log_sums, context, upstream)
            )[: 3 + (1 if seed is None else 2)]

        return context, gradient

    return attention


def _gradient(rate, query, key, value, mask_scores, seed, log_sums, context, upstream):
    """Of query, key, value, and None for mask and seed."""
    ops, einsum = keras.ops, backend.einsum
    probabilities = ops.exp(masked(scores_of(query, key), mask_scores) - log_sums)
    weights = dropped(ops.cast(probabilities, value.dtype), seed, rate=rate)
    of_value = einsum("bnst,bsnd->btnd", weights, upstream)
    of_probabilities = ops.cast(dropped(einsum("bsnd,btnd->bnst", upstream, value), seed, rate=rate), "float32")
    # The sum of a row's probabilities times their gradients, without a pass over them.
    mean = ops.sum(ops.cast(upstream, "float32") * ops.cast(context, "float32"), axis=-1)
    mean = ops.expand_dims(ops.transpose(mean, (0, 2, 1)), -1)
    of_scores = ops.cast(probabilities * (of_probabilities - mean), query.dtype)
    return (
        einsum("bnst,btnd->bsnd", of_scores, key),
        einsum("bnst,bsnd->btnd", of_scores, query),
        of_value,
        None,
        None,
    )
