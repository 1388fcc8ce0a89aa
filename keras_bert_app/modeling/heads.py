"""The two pre-training heads: masked language model and next-sentence prediction."""

import keras

from keras_bert_app.modeling import backend
from keras_bert_app.modeling.layers import Dense, LayerNorm, activation, initializer, rows_at, with_bias


class MaskedLMHead(keras.layers.Layer):
    """Dense, activation, LayerNorm, then a product with the word embedding table and a bias of its own.

    With tie_word_embeddings False in the config the product is with a table of the head's own.

    Call arguments:
        sequence_output: [B, S, H].
        embedding_table: [V, H], the encoder's.
        masked_lm_positions: int32 [B, P], or None for every position. Only these go through the head.

    Returns:
        mlm_logits float32 [B, P, V] ([B, S, V] without positions).
    """

    def __init__(self, config, seed, **kwargs):
        super().__init__(**kwargs)
        self.config = config
        self.seed = seed
        self.transform = Dense(
            config.hidden_size,
            config.hidden_size,
            initializer(config, seed, "masked_lm/transform"),
            activation(config.hidden_act),
            dtype=self.dtype_policy,
            name="transform",
        )
        self.layer_norm = LayerNorm(
            config.hidden_size, config.layer_norm_eps, dtype=self.dtype_policy, name="layer_norm"
        )

    def build(self, input_shape=None):
        self.transform.build()
        self.layer_norm.build()
        self.output_bias = self.add_weight(
            shape=(self.config.vocab_size,), initializer="zeros", name="output_bias", autocast=False
        )
        if not self.config.tie_word_embeddings:
            self.output_embeddings = self.add_weight(
                shape=(self.config.vocab_size, self.config.hidden_size),
                name="output_embeddings",
                initializer=initializer(self.config, self.seed, "masked_lm/output_embeddings"),
            )

    def call(self, sequence_output, embedding_table, masked_lm_positions=None):
        ops = keras.ops
        if not self.config.tie_word_embeddings:
            embedding_table = self.output_embeddings
        x = sequence_output if masked_lm_positions is None else rows_at(sequence_output, masked_lm_positions)
        batch_size, length = ops.shape(x)[0], ops.shape(x)[1]
        x = self.layer_norm(self.transform(ops.reshape(x, (-1, self.config.hidden_size))))
        logits = product_with_rows(x, ops.cast(embedding_table, self.compute_dtype))
        if self.compute_dtype == "float32":
            # Not as a kernel, whose gradient would copy that of the logits: it is the same with and without the bias.
            logits = with_bias(logits, self.output_bias)
        else:
            logits = backend.fused(_wide_with_bias, logits, self.output_bias)
        return ops.reshape(logits, (batch_size, length, self.config.vocab_size))


@backend.own_gradient
def product_with_rows(x, table):
    """[N, H] x [V, H]^T. TensorFlow's gradient of the table is made as [H, V] and transposed, for half of its time again."""
    ops = keras.ops

    def gradient(upstream):
        return ops.matmul(upstream, table), ops.matmul(ops.transpose(upstream), x)

    return ops.matmul(x, ops.transpose(table)), gradient


def _wide_with_bias(product, bias):
    return with_bias(keras.ops.cast(product, "float32"), bias)


class NextSentenceHead(keras.layers.Layer):
    """A linear layer on the pooled output: class 0 = B follows A, 1 = B is random.

    Call arguments:
        pooled_output: [B, H].

    Returns:
        nsp_logits float32 [B, 2].
    """

    def __init__(self, config, seed, **kwargs):
        super().__init__(**kwargs)
        self.projection = Dense(
            config.hidden_size,
            2,
            initializer(config, seed, "next_sentence"),
            dtype=self.dtype_policy,
            name="projection",
        )

    def build(self, input_shape=None):
        self.projection.build()

    def call(self, pooled_output):
        return keras.ops.cast(self.projection(pooled_output), "float32")
