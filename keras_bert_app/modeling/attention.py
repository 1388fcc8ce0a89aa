"""Multi-head self-attention, and the arithmetic that all attention shares."""

import functools
from typing import Any

import keras

from keras_bert_app.config.bert_config import BertConfig
from keras_bert_app.modeling import backend
from keras_bert_app.modeling.execution import PLAIN, Execution
from keras_bert_app.modeling.keras_contract import Configured, registered
from keras_bert_app.modeling.layers import Dense, Dropout, dropped, initializer, with_bias
from keras_bert_app.modeling.mask_scores import MASKED_SCORE


@registered
class SelfAttention(Configured, keras.layers.Layer):
    """softmax(Q K^T / sqrt(D) + mask) V for every head, without the output projection.

    The Transformer layer applies the output projection, because it adds the bias together with the residual. The kernel
    of query, key and value is [H, 3 x N x D]. Its columns are Q | K | V, and each third is ordered by head. One product
    computes all three. The layer makes three separate products if execution.has_one_projection is False, or if only
    some positions attend.

    Args:
        config: BertConfig. The configuration of the model.
        seed: int or str. The seed of the initial weights.
        dropout_place: int. The number of this layer's dropout.
        num_heads: int. N of this layer. Pruning removes heads and keeps the head size D.

    Attributes:
        head_gates: None, or a tensor [N] or [B, N] that multiplies the outputs of the heads. encoder.gated_heads sets
            this attribute.

    Call arguments:
        x: [B, S, H].
        mask_scores: [B, 1, 1 or S, S]. 0 for a visible key, MASKED_SCORE or less for a masked key.
        dropout_stem: backend.stem of the step's seed, or None for inference.
        attending: [B, P, H]. The vectors of the positions of x that attend. mask_scores then belongs to these
            positions. None for all positions.
        execution: Execution. How ops are executed.

    Returns:
        (context [B, S or P, N x D], attention probabilities [B, N, S or P, S] before dropout).
    """

    CONFIGURED = ("config", "seed", "dropout_place", "num_heads")

    def __init__(self, config: BertConfig, seed: int | str, dropout_place: int, num_heads: int, **kwargs):
        super().__init__(**kwargs)
        self.config, self.seed, self.dropout_place = config, seed, dropout_place
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

    def call(self, x, mask_scores, dropout_stem=None, attending=None, execution: Execution = PLAIN):
        ops = keras.ops
        # All layers share the mask tensor, so the graph computes its sizes once.
        batch_size, length = ops.shape(mask_scores)[0], ops.shape(mask_scores)[-1]
        if attending is not None:
            length = ops.shape(attending)[1]
        query, key, value = self._query_key_value(x, mask_scores, attending, execution)
        context, probabilities = attend(
            query, key, value, mask_scores, self.dropout.seed(dropout_stem), self.dropout.rate, execution
        )
        if self.head_gates is not None:
            gates = ops.cast(self.head_gates, self.compute_dtype)
            context = context * (
                gates[..., None, None] if execution.is_heads_first else ops.expand_dims(gates, (-3, -1))
            )
        if execution.is_heads_first:
            # [B, N, S, D] -> [B, S, N, D]
            context = ops.transpose(context, (0, 2, 1, 3))
        return ops.reshape(context, (batch_size, length, self.width)), probabilities

    def filled_cache(self, x, length: int, execution: Execution = PLAIN):
        """Computes the keys and values of the first places for `step`.

        Args:
            x: [R, S, H]. The vectors of the first S places.
            length: int. T, the number of places.
            execution: Execution. How ops are executed.

        Returns:
            (keys, values), [R, N, T, D] each, with zeros after the first S places. See Execution.is_heads_first.
        """
        ops = keras.ops
        axis = 2 if execution.is_heads_first else 1
        # _query_key_value reads the length S from the last axis of the mask scores, and nothing else.
        _, *filled = self._query_key_value(x, ops.expand_dims(x[:, :, 0], (1, 2)), None, execution)
        paddings = [[0, 0]] * axis + [[0, length - ops.shape(x)[1]]] + [[0, 0]] * (3 - axis)
        size = (self.num_heads, length) if execution.is_heads_first else (length, self.num_heads)
        return tuple(ops.reshape(ops.pad(each, paddings), (-1, *size, self.head_size)) for each in filled)

    def empty_cache(self, num_rows, length: int, execution: Execution = PLAIN):
        """Makes keys and values of zeros for `step`.

        Args:
            num_rows: int or int32 scalar. R.
            length: int. T, the number of places.
            execution: Execution. How ops are executed.

        Returns:
            (keys, values), [R, N, T, D] each. See Execution.is_heads_first.
        """
        size = (self.num_heads, length) if execution.is_heads_first else (length, self.num_heads)
        empty = keras.ops.zeros((num_rows, *size, self.head_size), self.compute_dtype)
        return empty, empty

    def step(self, x, keys, values, place, execution: Execution = PLAIN):
        """Attends from one place to itself and all earlier places, whose keys and values are known.

        Args:
            x: [B, 1, H]. The vectors of the place.
            keys: the keys of all places, [B, N, T, D] (see Execution.is_heads_first). Later places are not read.
            values: like keys.
            place: int32 scalar. The number of the place.
            execution: Execution. How ops are executed.

        Returns:
            (context [B, 1, N x D], keys with the place's key, values with the place's value).
        """
        ops = keras.ops
        query, key, value = self._query_key_value(x, ops.zeros_like(x[:, None, :, :1]), None, execution)
        axis = 2 if execution.is_heads_first else 1
        places = ops.arange(keys.shape[axis], dtype="int32")
        keys, values = (
            backend.with_place(old, new, place, axis, execution.compiles_all)
            for old, new in ((keys, key), (values, value))
        )
        context, _ = attend_from_one_place(query, keys, values, places > place, execution)
        # One place has the same order of numbers in both layouts.
        return ops.reshape(context, (-1, 1, self.width)), keys, values

    def _query_key_value(self, x, mask_scores, attending, execution):
        """Computes query (scaled), key and value in the layout of the execution."""
        projection = self.query_key_value
        if attending is None and execution.has_one_projection:
            return execution.fused(
                _heads_of_all, projection.product(x, execution), projection.bias, mask_scores, num_heads=self.num_heads
            )

        def heads(x, kernel, bias, scale=1.0):
            # [B, S, H] -> [B, S, ND]
            product = keras.ops.reshape(execution.product(x, kernel), (*keras.ops.shape(x)[:2], self.width))
            return execution.fused(heads_of_one, product, bias, num_heads=self.num_heads, scale=scale)

        query, key, value = zip(
            *(keras.ops.split(backend.tensor(values), 3, axis=-1) for values in (projection.kernel, projection.bias)),
            strict=True,
        )
        attending = x if attending is None else attending
        return heads(attending, *query, self.head_size**-0.5), heads(x, *key), heads(x, *value)


def heads_of_one(product, bias, *, num_heads: int, scale: float, execution: Execution):
    """Adds the bias to a product, splits it into heads, and multiplies the heads by scale.

    Args:
        product: [B, S, ND].
        bias: [ND].
        num_heads: int. N.
        scale: float. The factor.
        execution: Execution. How ops are executed.

    Returns:
        [B, N, S, D] or [B, S, N, D]. See Execution.is_heads_first.
    """
    ops = keras.ops
    size = product.shape[-1] // num_heads
    heads = ops.reshape(with_bias(product, bias, execution), (*ops.shape(product)[:2], num_heads, size))
    if execution.is_heads_first:
        heads = ops.transpose(heads, (0, 2, 1, 3))
    return heads if scale == 1.0 else heads * scale


def _heads_of_all(product, bias, mask_scores, *, num_heads, execution):
    """Splits a product [B x S, 3ND] into query (scaled), key and value, [B, N, S, D] each. mask_scores gives S."""
    ops = keras.ops
    length, size = ops.shape(mask_scores)[-1], product.shape[-1] // (3 * num_heads)
    # [B, S, 3, N, D] -> [3, B, N, S, D]
    qkv = ops.reshape(with_bias(product, bias, execution), (-1, length, 3, num_heads, size))
    query, key, value = ops.unstack(ops.transpose(qkv, (2, 0, 3, 1, 4)), num=3)
    # The query is smaller than the scores, so scaling the query is cheaper.
    return query * size**-0.5, key, value


def attend(query, key, value, mask_scores, seed, rate: float, execution: Execution) -> tuple[Any, Any]:
    """Computes dropout(softmax(query key^T + mask)) value for every head.

    Args:
        query: [B, N, P, D] or [B, P, N, D], scaled. See Execution.is_heads_first. P is S if all places attend.
        key: like query, with S instead of P.
        value: like key.
        mask_scores: [B, 1, 1 or P, S]. With the modes "parts" and "step" this tensor gets no gradient.
        seed: int [2]. The seed of the dropout, or None for no dropout.
        rate: float. The share of weights that is dropped.
        execution: Execution. How ops are executed.

    Returns:
        (weighted sums of the values in the layout of the query, probabilities before dropout [B, N, P, S]).
    """
    seeds = [] if seed is None else [seed]
    if execution.recomputes_attention:
        context = _recomputed(rate, execution)(query, key, value, mask_scores, *seeds)
        return context, softmax(execution.query_key_products(query, key), mask_scores)
    # [B, N, P, S]
    scores = execution.query_key_products(query, key)
    # If nothing reads the probabilities, the graph does not compute them.
    probabilities = execution.fused(softmax, scores, mask_scores)
    if execution.compiles_parts:
        weights = _fused_weights(rate, execution)(scores, mask_scores, *seeds)
    else:
        weights = probabilities if seed is None else dropped(softmax(scores, mask_scores), seed, rate, execution)
    return execution.weighted_sums(weights, value), probabilities


def attend_from_one_place(query, keys, values, is_hidden, execution: Execution) -> tuple[Any, Any]:
    """Computes softmax(query key^T) value for one place, or for P places, over the keys that are not hidden.

    `attend` adds a mask to the products. In a loop, TensorFlow 2.21 with oneDNN fuses a product with such a sum into an
    op that fails without an error: the loop then returns empty tensors. This function therefore adds no mask.

    Args:
        query: [B, N, P, D] or [B, P, N, D], scaled. See Execution.is_heads_first. P is 1 for one place.
        keys: like query, with S instead of P.
        values: like keys.
        is_hidden: bool, broadcast to [B, N, P, S].
        execution: Execution. How ops are executed.

    Returns:
        (weighted sums of the values in the layout of the query, probabilities [B, N, P, S]).
    """
    scores = keras.ops.cast(execution.query_key_products(query, keys), "float32")
    probabilities = keras.ops.softmax(keras.ops.where(is_hidden, MASKED_SCORE, scores), axis=-1)
    probabilities = keras.ops.cast(probabilities, query.dtype)
    return execution.weighted_sums(probabilities, values), probabilities


def softmax(scores, mask_scores, execution: Execution = PLAIN):
    """Computes softmax(scores + mask) over the keys in float32.

    Args:
        scores: [B, N, P, S].
        mask_scores: [B, 1, 1 or P, S].
        execution: Execution. Unused; Execution.fused passes it.

    Returns:
        [B, N, P, S] in the type of the scores.
    """
    return keras.ops.cast(keras.ops.softmax(_masked(scores, mask_scores), axis=-1), scores.dtype)


def _masked(scores, mask_scores):
    """Adds the mask to the scores in float32."""

    return keras.ops.cast(scores, "float32") + keras.ops.cast(mask_scores, "float32")


def _weights_and_log_sums(scores, mask_scores, seed, *, rate, execution):
    """Returns (weights of the values after dropout, logarithms of the softmax denominators, float32 [..., 1])."""
    masked = _masked(scores, mask_scores)
    log_sums = keras.ops.logsumexp(masked, axis=-1, keepdims=True)
    weights = keras.ops.cast(keras.ops.exp(masked - log_sums), scores.dtype)
    return dropped(weights, seed, rate, execution), log_sums


def _gradient_of_scores(scores, mask_scores, seed, log_sums, upstream, mean=None, *, rate, execution):
    """Computes the gradient of the scores from the gradient of the weights.

    The log sums are known, so one pass over the scores gives the probabilities (Dao et al. 2022, FlashAttention,
    section 3.1).

    Args:
        upstream: [B, N, P, S]. The gradient of the weights.
        mean: [B, N, P, 1]. For each row, the sum of probabilities times their gradients. None to compute it here.
    """
    ops = keras.ops
    probabilities = ops.exp(_masked(scores, mask_scores) - log_sums)
    upstream = ops.cast(dropped(upstream, seed, rate, execution), "float32")
    if mean is None:
        mean = ops.sum(upstream * probabilities, axis=-1, keepdims=True)
    return ops.cast(probabilities * (upstream - mean), scores.dtype)


@functools.cache
def _fused_weights(rate, execution):
    """Makes the function of (scores, mask_scores, seed) that gives the weights.

    The forward pass is one kernel, and the gradient is another.
    """

    def weights(scores, mask_scores, seed=None):
        values, log_sums = execution.fused(_weights_and_log_sums, scores, mask_scores, seed, rate=rate)

        def gradient(upstream):
            score_gradient = execution.fused(
                _gradient_of_scores, scores, mask_scores, seed, log_sums, upstream, rate=rate
            )
            return [score_gradient, None] if seed is None else [score_gradient, None, None]

        return values, gradient

    return execution.own_gradient(weights)


@functools.cache
def _recomputed(rate, execution):
    """Makes the function of (query, key, value, mask_scores, seed) that keeps no [S, S] array for the gradient.

    The gradient multiplies query and key again. Both are small and already in memory.
    """
    ops = keras.ops

    def attention(query, key, value, mask_scores, seed=None):
        scores = execution.query_key_products(query, key)
        weights, log_sums = _weights_and_log_sums(scores, mask_scores, seed, rate=rate, execution=execution)
        context = execution.weighted_sums(weights, value)

        def gradient(upstream):
            gradients = gradient_of(
                *execution.recomputed(query, key, value, mask_scores, seed, log_sums, context, upstream)
            )
            return [*gradients, None] if seed is None else [*gradients, None, None]

        return context, gradient

    def gradient_of(query, key, value, mask_scores, seed, log_sums, context, upstream):
        scores = execution.query_key_products(query, key)
        probabilities = ops.exp(_masked(scores, mask_scores) - log_sums)
        weights = dropped(ops.cast(probabilities, value.dtype), seed, rate, execution)
        # The sum of probabilities times their gradients equals the sum of upstream x context over D. So the code
        # needs no pass over the probabilities.
        mean = ops.sum(ops.cast(upstream, "float32") * ops.cast(context, "float32"), axis=-1)
        mean = ops.expand_dims(mean if execution.is_heads_first else ops.transpose(mean, (0, 2, 1)), -1)
        score_gradient = _gradient_of_scores(
            scores,
            mask_scores,
            seed,
            log_sums,
            execution.query_key_products(upstream, value),
            mean,
            rate=rate,
            execution=execution,
        )
        return (
            execution.weighted_sums(score_gradient, key),
            execution.weighted_sums_over_queries(score_gradient, query),
            execution.weighted_sums_over_queries(weights, upstream),
        )

    return execution.own_gradient(attention)
