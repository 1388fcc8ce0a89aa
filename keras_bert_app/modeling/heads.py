"""The two pre-training heads: masked language model and next-sentence prediction."""

import functools

import keras

from keras_bert_app.config.bert_config import BertConfig
from keras_bert_app.modeling.execution import PLAIN, Execution
from keras_bert_app.modeling.keras_contract import Configured, registered
from keras_bert_app.modeling.layers import Dense, LayerNorm, activation, initializer, rows_at, with_bias


@registered
class MaskedLMHead(Configured, keras.layers.Layer):
    """Dense, activation, LayerNorm, then a product with the word embedding table plus an output bias.

    If the config says tie_word_embeddings=False, the head has its own table for the product.

    Args:
        config: BertConfig. The configuration of the model.
        seed: int. The seed of the initial weights.

    Call arguments:
        sequence_output: [B, S, H].
        embedding_table: [V, H]. The table of the encoder.
        masked_lm_positions: int32 [B, P]. The head computes only these positions. None for every position.
        execution: Execution. How ops are executed.
        columns: the result of `columns` for this table, or None.

    Returns:
        mlm_logits, float32 [B, P, V]; [B, S, V] without positions.
    """

    CONFIGURED = ("config", "seed")

    def __init__(self, config: BertConfig, seed: int, **kwargs):
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

    def columns(self, embedding_table):
        """Transposes the table. A decoder does this once for all its places.

        TensorFlow takes up to twice as long for the product of a few rows with a table that it must transpose first.

        Args:
            embedding_table: [V, H]. The table of the encoder.

        Returns:
            [H, V].
        """
        table = embedding_table if self.config.tie_word_embeddings else self.output_embeddings
        return keras.ops.transpose(keras.ops.cast(table, self.compute_dtype))

    def call(
        self,
        sequence_output,
        embedding_table,
        masked_lm_positions=None,
        execution: Execution = PLAIN,
        columns=None,
    ):
        ops = keras.ops
        if not self.config.tie_word_embeddings:
            embedding_table = self.output_embeddings
        x = sequence_output
        if masked_lm_positions is not None:
            x = rows_at(x, masked_lm_positions, execution)
        batch_size, length = ops.shape(x)[0], ops.shape(x)[1]
        x = self.transform(ops.reshape(x, (-1, self.config.hidden_size)), execution=execution)
        x = self.layer_norm(x, execution=execution)
        table, bias = ops.cast(embedding_table, self.compute_dtype), self.output_bias
        missing = 0 if columns is not None else execution.missing_columns(self.config.vocab_size)
        if missing:
            table, bias = ops.pad(table, [[0, missing], [0, 0]]), ops.pad(bias, [[0, missing]])
        logits = product_with_rows(execution)(x, table) if columns is None else ops.matmul(x, columns)
        if self.compute_dtype == "float32":
            # The gradient of the logits is the same with and without the bias. execution.fused would copy the gradient.
            logits = with_bias(logits, bias, execution)
        else:
            logits = execution.fused(_wide_with_bias, logits, bias)
        if missing:
            logits = logits[:, : self.config.vocab_size]
        return ops.reshape(logits, (batch_size, length, self.config.vocab_size))


@functools.cache
def product_with_rows(execution: Execution):
    """Makes a function that computes x table^T with its own gradient.

    TensorFlow computes the gradient of the table as [H, V] and transposes it. This takes 1.5 times as long.

    Args:
        execution: Execution. How ops are executed.

    Returns:
        function of x [rows, H] and a table [V, H] that returns [rows, V].
    """
    ops = keras.ops

    def product(x, table):
        def gradient(upstream):
            return ops.matmul(upstream, table), ops.matmul(ops.transpose(upstream), x)

        return ops.matmul(x, ops.transpose(table)), gradient

    return execution.own_gradient(product)


def _wide_with_bias(product, bias, execution):
    if execution.is_for_gpu:
        return _wide_with_narrow_gradient(execution)(product, bias)
    return with_bias(keras.ops.cast(product, "float32"), bias, execution)


@functools.cache
def _wide_with_narrow_gradient(execution):
    """Makes the function of (product, bias) whose gradient is written once, in the type of the product.

    The logits are the largest array of a step. XLA for GPUs would also write their gradient in float32 for the bias.
    """
    ops = keras.ops

    def wide_with_bias(product, bias):
        def gradient(upstream):
            product_gradient = execution.written(ops.cast(upstream, product.dtype))
            return product_gradient, execution.sum_over_rows(ops.cast(product_gradient, "float32"))

        return ops.cast(product, "float32") + bias, gradient

    return execution.own_gradient(wide_with_bias)


@registered
class NextSentenceHead(Configured, keras.layers.Layer):
    """A linear layer on the pooled output. Class 0: segment B follows A. Class 1: B is random.

    Args:
        config: BertConfig. The configuration of the model.
        seed: int. The seed of the initial weights.

    Call arguments:
        pooled_output: [B, H].
        execution: Execution. How ops are executed.

    Returns:
        nsp_logits, float32 [B, 2].
    """

    CONFIGURED = ("config", "seed")

    def __init__(self, config: BertConfig, seed: int, **kwargs):
        super().__init__(**kwargs)
        self.config, self.seed = config, seed
        self.projection = Dense(
            config.hidden_size,
            2,
            initializer(config, seed, "next_sentence"),
            dtype=self.dtype_policy,
            name="projection",
        )

    def build(self, input_shape=None):
        self.projection.build()

    def call(self, pooled_output, execution: Execution = PLAIN):
        return keras.ops.cast(self.projection(pooled_output, execution=execution), "float32")
