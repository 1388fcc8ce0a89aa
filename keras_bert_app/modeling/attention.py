"""Multi-head self-attention."""

import keras

from keras_bert_app.modeling.layers import Dense, Dropout, initializer

MASKED_SCORE = -10000.0  # google-research/bert modeling.attention_layer: added, so that a fully padded row stays finite


class SelfAttention(keras.layers.Layer):
    """softmax(Q K^T / sqrt(D) + mask) V for every head, then the output projection.

    Query, key and value come out of one product with a kernel [H, 3 x H] whose columns are Q | K | V, heads within.

    Call arguments:
        x: [B, S, H].
        mask_scores: [B, 1, 1, S], 0 where a key may be attended to and MASKED_SCORE where not.
        dropout_seed: int [2], or None for inference.

    Returns:
        (output [B, S, H], attention probabilities [B, N, S, S] before dropout).
    """

    def __init__(self, config, seed, dropout_place, **kwargs):
        super().__init__(**kwargs)
        self.num_heads = config.num_attention_heads
        self.hidden_size = config.hidden_size
        self.head_size = config.hidden_size // config.num_attention_heads
        self.query_key_value = Dense(
            config.hidden_size, 3 * config.hidden_size, initializer(config, seed, f"{self.name}/query_key_value"),
            dtype=self.dtype_policy, name="query_key_value")
        self.output_projection = Dense(
            config.hidden_size, config.hidden_size, initializer(config, seed, f"{self.name}/output"),
            dtype=self.dtype_policy, name="output")
        self.dropout = Dropout(config.attention_probs_dropout_prob, dropout_place)

    def build(self, input_shape=None):
        self.query_key_value.build()
        self.output_projection.build()

    def call(self, x, mask_scores, dropout_seed=None):
        ops = keras.ops
        batch_size, length = ops.shape(x)[0], ops.shape(x)[1]
        # [B, S, 3H] -> [3, B, N, S, D]
        qkv = ops.reshape(self.query_key_value(x), (batch_size, length, 3, self.num_heads, self.head_size))
        query, key, value = ops.unstack(ops.transpose(qkv, (2, 0, 3, 1, 4)), num=3)
        # [B, N, S, S]; scaling the smaller query costs less than scaling the scores
        scores = ops.matmul(query * self.head_size ** -0.5, ops.transpose(key, (0, 1, 3, 2)))
        probabilities = ops.softmax(ops.cast(scores, "float32") + ops.cast(mask_scores, "float32"), axis=-1)
        probabilities = ops.cast(probabilities, self.compute_dtype)
        # [B, N, S, D] -> [B, S, H]
        context = ops.matmul(self.dropout(probabilities, dropout_seed), value)
        context = ops.reshape(ops.transpose(context, (0, 2, 1, 3)), (batch_size, length, self.hidden_size))
        return self.output_projection(context), probabilities
