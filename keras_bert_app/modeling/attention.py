"""Multi-head self-attention."""

import functools

import keras

from keras_bert_app.modeling import backend, recomputed_attention
from keras_bert_app.modeling.layers import Dense, Dropout, dropped, initializer, with_bias

MASKED_SCORE = -10000.0  # google-research/bert modeling.attention_layer: added, so that a fully padded row stays finite


class SelfAttention(keras.layers.Layer):
    """softmax(Q K^T / sqrt(D) + mask) V for every head. The output projection is applied by the layer, which adds its bias with
    the residual.

    Query, key and value come out of one product with a kernel [H, 3 x N x D] whose columns are Q | K | V, heads within; or, in
    backend.products_apart and where only some places attend, out of a product with a third of it each.

    Args:
        num_heads: N of this layer; fewer than the configuration's where heads were pruned, each of the same size D.

    Attributes:
        head_gates: None, or a tensor [N] or [B, N] that the heads' outputs are multiplied with; encoder.gated_heads sets it.

    Call arguments:
        x: [B, S, H].
        mask_scores: [B, 1, 1 or S, S], 0 where a key may be attended to and MASKED_SCORE where not.
        dropout_stem: of the step's seed (backend.stem), or None for inference.
        attending: [B, P, H], the rows of x that attend, for which mask_scores are then; by default all of them.

    Returns:
        (context [B, S or P, ND], attention probabilities [B, N, S or P, S] before dropout).
    """

    def __init__(self, config, seed, dropout_place, num_heads, **kwargs):
        super().__init__(**kwargs)
        self.num_heads, self.head_size = num_heads, config.head_size
        self.width = num_heads * config.head_size
        self.head_gates = None
        self.query_key_value = Dense(
            config.hidden_size,
            3 * self.width,
            initializer(config, seed, f"{self.name}/query_key_value"),
            dtype=self.dtype_policy,
            name="query_key_value",
        )
        self.output_projection = Dense(
            self.width,
            config.hidden_size,
            initializer(config, seed, f"{self.name}/output"),
            dtype=self.dtype_policy,
            name="output",
        )
        self.dropout = Dropout(config.attention_probs_dropout_prob, dropout_place)

    def build(self, input_shape=None):
        self.query_key_value.build()
        self.output_projection.build()

    def call(self, x, mask_scores, dropout_stem=None, attending=None):
        if backend.compiles_all():
            return self._call_whole(x, mask_scores, dropout_stem, x if attending is None else attending)
        ops = keras.ops
        # Of all layers' same tensor: a graph asks for them once.
        batch_size, length = ops.shape(mask_scores)[0], ops.shape(mask_scores)[-1]
        projection = self.query_key_value
        # [B x S, 3ND] -> [B, N, S, D] each
        if attending is not None:
            query, key, value = self._heads_apart(x, attending)
            length = ops.shape(attending)[1]
        elif backend.are_products_apart():
            query, key, value = self._heads_apart(x, x)
        else:
            query, key, value = backend.fused(
                _heads, projection.product(x), projection.bias, mask_scores, num_heads=self.num_heads
            )
        # [B, N, S, S]
        scores = ops.matmul(query, ops.transpose(key, (0, 1, 3, 2)))
        probabilities, seed = backend.fused(softmax, scores, mask_scores), self.dropout.seed(dropout_stem)
        # From the scores anew, of which the gradient has need; a graph in which nobody reads the others does not have them.
        weights = (
            probabilities
            if seed is None and not backend.compiles_parts()
            else attention_weights(scores, mask_scores, seed, self.dropout.rate)
        )
        context = ops.matmul(weights, value)
        if self.head_gates is not None:
            context = context * ops.cast(self.head_gates, self.compute_dtype)[..., None, None]
        # [B, N, S, D] -> [B, S, ND]
        return ops.reshape(ops.transpose(context, (0, 2, 1, 3)), (batch_size, length, self.width)), probabilities

    def _heads_apart(self, x, attending):
        """As _heads, of a product each, the query of the rows that attend."""

        def heads(x, kernel, bias, scale=1.0):
            product = keras.ops.reshape(backend.product(x, kernel), (*keras.ops.shape(x)[:2], self.width))
            return backend.fused(_heads_of_one, product, bias, num_heads=self.num_heads, scale=scale)

        query, key, value = zip(*self._thirds())
        return heads(attending, *query, self.head_size**-0.5), heads(x, *key), heads(x, *value)

    def _thirds(self):
        """(kernels, biases) of query, key and value."""
        return [
            keras.ops.split(keras.ops.convert_to_tensor(values), 3, axis=-1)
            for values in (self.query_key_value.kernel, self.query_key_value.bias)
        ]

    def _call_whole(self, x, mask_scores, dropout_stem, attending):
        """As call, of arrays whose layout is left to XLA. Query, key and value are products of their own: as parts of one each
        would be cut out of a copy."""
        ops = keras.ops

        def heads(x, kernel, bias):
            # [B, S, ND] -> [B, S, N, D]
            return ops.reshape(
                with_bias(backend.product(x, kernel), bias), (*ops.shape(x)[:2], self.num_heads, self.head_size)
            )

        query, key, value = map(heads, (attending, x, x), *self._thirds())
        query = query * self.head_size**-0.5
        context = recomputed_attention.attended(
            query, key, value, mask_scores, self.dropout.seed(dropout_stem), self.dropout.rate
        )
        if self.head_gates is not None:
            context = context * ops.expand_dims(ops.cast(self.head_gates, self.compute_dtype), (-3, -1))
        probabilities = softmax(recomputed_attention.scores_of(query, key), mask_scores)
        return ops.reshape(context, (*ops.shape(attending)[:2], self.width)), probabilities


def _heads_of_one(product, bias, *, num_heads, scale):
    """[B, N, S, D] of a product [B, S, ND], its bias added, times scale."""
    ops = keras.ops
    rows = ops.reshape(with_bias(product, bias), (*ops.shape(product)[:2], num_heads, product.shape[-1] // num_heads))
    heads = ops.transpose(rows, (0, 2, 1, 3))
    return heads if scale == 1.0 else heads * scale


def _heads(product, bias, mask_scores, *, num_heads):
    """Query, which is scaled, key and value of every head, [B, N, S, D] each, from their product [B x S, 3ND].

    S is that of mask_scores [..., S].
    """
    ops = keras.ops
    length, size = ops.shape(mask_scores)[-1], product.shape[-1] // (3 * num_heads)
    # [B, S, 3, N, D] -> [3, B, N, S, D]
    qkv = ops.reshape(with_bias(product, bias), (-1, length, 3, num_heads, size))
    query, key, value = ops.unstack(ops.transpose(qkv, (2, 0, 3, 1, 4)), num=3)
    # Scaling the smaller query costs less than scaling the scores.
    return query * size**-0.5, key, value


def softmax(scores, mask_scores):
    """softmax(scores + mask) over the keys, in float32, given back in the type of the scores."""
    return keras.ops.cast(keras.ops.softmax(recomputed_attention.masked(scores, mask_scores), axis=-1), scores.dtype)


def attention_weights(scores, mask_scores, seed, rate):
    """softmax(scores + mask) after dropout, what the values are multiplied with.

    Args:
        mask_scores: no variable; compiled in parts it has no gradient. seed: int [2], or None for no dropout.
    """
    if not backend.compiles_parts():
        return dropped(softmax(scores, mask_scores), seed, rate=rate)
    return _compiled_weights(rate)(scores, mask_scores, *([] if seed is None else [seed]))


@functools.cache
def _compiled_weights(rate):
    @backend.own_gradient
    def weights(scores, mask_scores, seed=None):
        found, log_sums = backend.fused(_weights_and_log_sums, scores, mask_scores, seed, rate=rate)

        def gradient(upstream):
            of_scores = backend.fused(_gradient_of_scores, scores, mask_scores, seed, log_sums, upstream, rate=rate)
            return [of_scores, None] if seed is None else [of_scores, None, None]

        return found, gradient

    return weights


def _weights_and_log_sums(scores, mask_scores, seed, *, rate):
    masked = recomputed_attention.masked(scores, mask_scores)
    log_sums = keras.ops.logsumexp(masked, axis=-1, keepdims=True)
    return dropped(keras.ops.cast(keras.ops.exp(masked - log_sums), scores.dtype), seed, rate=rate), log_sums


def _gradient_of_scores(scores, mask_scores, seed, log_sums, upstream, *, rate):
    """With the sums known probabilities are one pass over the scores (Dao et al. 2022, FlashAttention, section 3.1)."""
    ops = keras.ops
    probabilities = ops.exp(recomputed_attention.masked(scores, mask_scores) - log_sums)
    upstream = ops.cast(dropped(upstream, seed, rate=rate), "float32")
    mean = ops.sum(upstream * probabilities, axis=-1, keepdims=True)
    return ops.cast(probabilities * (upstream - mean), scores.dtype)
