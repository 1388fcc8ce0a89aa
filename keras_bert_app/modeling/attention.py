"""Multi-head self-attention."""

import keras

from keras_bert_app.modeling import backend
from keras_bert_app.modeling.layers import Dense, Dropout, dropped, initializer

MASKED_SCORE = -10000.0  # google-research/bert modeling.attention_layer: added, so that a fully padded row stays finite


class SelfAttention(keras.layers.Layer):
    """softmax(Q K^T / sqrt(D) + mask) V for every head, then the output projection.

    Query, key and value come out of one product with a kernel [H, 3 x N x D] whose columns are Q | K | V, heads within.

    Args:
        num_heads: N of this layer; fewer than the configuration's where heads were pruned, each of the same size D.

    Attributes:
        head_gates: None, or a tensor [N] or [B, N] that the heads' outputs are multiplied with; encoder.gated_heads sets it.

    Call arguments:
        x: [B, S, H].
        mask_scores: [B, 1, 1 or S, S], 0 where a key may be attended to and MASKED_SCORE where not.
        dropout_seed: int [2], or None for inference.

    Returns:
        (output [B, S, H], attention probabilities [B, N, S, S] before dropout).
    """

    def __init__(self, config, seed, dropout_place, num_heads, **kwargs):
        super().__init__(**kwargs)
        self.num_heads, self.head_size = num_heads, config.head_size
        self.width = num_heads * config.head_size
        self.head_gates = None
        self.query_key_value = Dense(
            config.hidden_size, 3 * self.width, initializer(config, seed, f"{self.name}/query_key_value"),
            dtype=self.dtype_policy, name="query_key_value")
        self.output_projection = Dense(
            self.width, config.hidden_size, initializer(config, seed, f"{self.name}/output"),
            dtype=self.dtype_policy, name="output")
        self.dropout = Dropout(config.attention_probs_dropout_prob, dropout_place)

    def build(self, input_shape=None):
        self.query_key_value.build()
        self.output_projection.build()

    def call(self, x, mask_scores, dropout_seed=None):
        ops = keras.ops
        batch_size, length = ops.shape(x)[0], ops.shape(x)[1]
        # [B, S, 3ND] -> [3, B, N, S, D]
        qkv = ops.reshape(self.query_key_value(x), (batch_size, length, 3, self.num_heads, self.head_size))
        query, key, value = ops.unstack(ops.transpose(qkv, (2, 0, 3, 1, 4)), num=3)
        # [B, N, S, S]; scaling the smaller query costs less than scaling the scores
        scores = ops.matmul(query * self.head_size ** -0.5, ops.transpose(key, (0, 1, 3, 2)))
        probabilities, seed = backend.fused(_probabilities, scores, mask_scores), self.dropout.seed(dropout_seed)
        # From the scores anew, of which the gradient has need; a graph in which nobody reads the others does not have them.
        dropped_out = probabilities if seed is None else backend.fused(
            _dropped_probabilities, scores, mask_scores, seed, rate=self.dropout.rate)
        context = ops.matmul(dropped_out, value)
        if self.head_gates is not None:
            context = context * ops.cast(self.head_gates, self.compute_dtype)[..., None, None]
        # [B, N, S, D] -> [B, S, ND]
        context = ops.reshape(ops.transpose(context, (0, 2, 1, 3)), (batch_size, length, self.width))
        return self.output_projection(context), probabilities


def _probabilities(scores, mask_scores):
    """softmax(scores + mask) over the keys, in float32, given back in the type of the scores."""
    ops = keras.ops
    probabilities = ops.softmax(ops.cast(scores, "float32") + ops.cast(mask_scores, "float32"), axis=-1)
    return ops.cast(probabilities, scores.dtype)


def _dropped_probabilities(scores, mask_scores, seed, *, rate):
    return dropped(_probabilities(scores, mask_scores), seed, rate=rate)
