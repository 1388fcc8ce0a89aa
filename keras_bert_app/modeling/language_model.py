"""LanguageModel: a causal encoder with the output layer that predicts the next piece."""

from typing import Any

import keras

from keras_bert_app.config.bert_config import PARTS, BertConfig
from keras_bert_app.modeling.execution import PLAIN, Execution
from keras_bert_app.modeling.gpt_encoder import GptEncoder
from keras_bert_app.modeling.heads import product_with_rows
from keras_bert_app.modeling.keras_contract import Configured, dropout_counter, registered, seed_of_call
from keras_bert_app.modeling.layers import initializer


@registered
class LanguageModelHead(Configured, keras.layers.Layer):
    """A product with the word embeddings, without a bias (Radford et al. 2019).

    If the config has no tied table, the head has its own table for the product.

    Args:
        config: BertConfig. The configuration of the model.
        seed: int. The seed of the initial weights.

    Call arguments:
        states: [B, S, H]. Here H is the direction_size of the config.
        embedding_table: [V, H]. The table of the encoder, or None if the head has its own.
        execution: Execution. How ops are executed.
        columns: the result of `columns` for this table, or None.

    Returns:
        float32 [B, S, V].
    """

    CONFIGURED = ("config", "seed")

    def __init__(self, config: BertConfig, seed: int, **kwargs):
        super().__init__(**kwargs)
        self.config, self.seed = config, seed

    def build(self, input_shape=None):
        if not self.config.has_tied_table:
            self.output_embeddings = self.add_weight(
                shape=(self.config.vocab_size, self.config.direction_size),
                name="output_embeddings",
                initializer=self.table_initializer("language_model/output_embeddings"),
            )

    def table_initializer(self, name: str) -> keras.initializers.Initializer:
        """Makes the initializer of the head's own table.

        Args:
            name: str. The name of the table.
        """
        return initializer(self.config, self.seed, name)

    def columns(self, embedding_table):
        """Transposes the table, which decoding does once for all its places.

        Args:
            embedding_table: [V, H]. The table of the encoder, or None if the head has its own.

        Returns:
            [H, V].
        """
        return keras.ops.transpose(keras.ops.cast(self._table(embedding_table), self.compute_dtype))

    def call(self, states, embedding_table, execution: Execution = PLAIN, columns=None):
        ops, vocab_size = keras.ops, self.config.vocab_size
        x = ops.reshape(states, (-1, self.config.direction_size))
        if columns is not None:
            logits = ops.matmul(x, columns)
        else:
            table = ops.cast(self._table(embedding_table), self.compute_dtype)
            if missing := execution.missing_columns(vocab_size):
                table = ops.pad(table, [[0, missing], [0, 0]])
            logits = product_with_rows(execution)(x, table)
            logits = logits[:, :vocab_size] if missing else logits
        return ops.reshape(ops.cast(logits, "float32"), (*ops.shape(states)[:2], vocab_size))

    def _table(self, embedding_table):
        return embedding_table if self.config.has_tied_table else self.output_embeddings


@registered
class LanguageModel(Configured, keras.Model):
    """A model that predicts each piece from the pieces before it.

    Args:
        config: BertConfig. The configuration of the model. Its architecture is "gpt".
        seed: int. The seed of the initial weights.
        dtype: str. Keras type policy, "float32" or "mixed_bfloat16".
        parts: collection of str. The parts that the model has, "encoder" and "language_model". Other names have no
            meaning here.
        name: str. The name of the Keras model.

    Call arguments:
        inputs: dict with input_word_ids and input_mask, int32 [B, S].
        dropout_seed: int [2] for training with dropout, or None for inference.
        return_attention_scores: bool. Whether to return the attention probabilities too.
        heads_only: bool. Whether to return only the logits, and only for places that have a next place, as in training.
        execution: Execution. How ops are executed.
        training: bool or None. If True and dropout_seed is None, the model draws a dropout seed from its own counter.

    Returns:
        dict: the outputs of the encoder, and lm_logits float32 [B, S, V]. The logits at a place are those of the piece
        at the next place. With heads_only only the logits, [B, S - 1, V].
    """

    CONFIGURED = ("config", "seed", "parts")
    ENCODER, HEAD = GptEncoder, LanguageModelHead

    def __init__(
        self,
        config: BertConfig,
        seed: int = 0,
        dtype: str = "float32",
        parts: tuple[str, ...] = PARTS,
        name: str = "language_model",
    ):
        super().__init__(name=name, dtype=dtype)
        self.config, self.seed, self.has_dropout = config, seed, config.has_dropout
        self.dropout_counter = dropout_counter(seed) if self.has_dropout else None
        self.parts = tuple(part for part in config.parts if part in parts)
        self.encoder = self.ENCODER(config, seed=seed, dtype=dtype)
        self.language_model = None
        if "language_model" in self.parts:
            self.language_model = self.HEAD(config, seed, dtype=dtype, name="language_model")
            # The constructor builds the head, because in build() Keras would put the model's name before its path.
            self.language_model.build()
        self.built = True

    def call(
        self,
        inputs,
        dropout_seed=None,
        return_attention_scores: bool = False,
        heads_only: bool = False,
        execution: Execution = PLAIN,
        training: bool | None = None,
    ):
        dropout_seed = seed_of_call(dropout_seed, training, self.dropout_counter)
        outputs = self.encoder(
            inputs,
            dropout_seed=dropout_seed,
            return_attention_scores=return_attention_scores,
            execution=execution,
        )
        if self.language_model is None:
            return outputs
        states = outputs["sequence_output"]
        logits = self.language_model(states[:, :-1] if heads_only else states, self.word_table(), execution=execution)
        return {**({} if heads_only else outputs), "lm_logits": logits}

    def columns(self):
        """The transposed output table, which decoding makes once, [H, V]."""
        return self.language_model.columns(self.word_table())

    def word_table(self):
        """The table of pieces that the output layer shares with the encoder, [V, H], or None if it has its own."""
        return self.encoder.embeddings.word_table if self.config.has_tied_table else None

    def step(self, ids, place, cache: list, columns, execution: Execution = PLAIN) -> tuple[Any, list]:
        """Computes the logits of the piece after one place.

        Args:
            ids: int32 [R]. The piece at the place.
            place: int32 scalar. The number of the place.
            cache: the result of encoder.start, or of the step before.
            columns: [H, V]. The result of columns.
            execution: Execution. How ops are executed.

        Returns:
            (logits float32 [R, V], cache).
        """
        states, cache = self.encoder.step(ids, place, cache, execution)
        return self.language_model(states, None, execution=execution, columns=columns)[:, 0], cache
