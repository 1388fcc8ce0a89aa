"""Word, position, segment and channel embeddings."""

import types
from collections.abc import Mapping

import keras

from keras_bert_app.config.bert_config import BertConfig
from keras_bert_app.modeling import backend
from keras_bert_app.modeling.execution import PLAIN, Execution
from keras_bert_app.modeling.keras_contract import Configured, registered
from keras_bert_app.modeling.layers import Dropout, LayerNorm, dropped, initializer, layer_norm
from keras_bert_app.modeling.token_vectors import TokenVectors


@registered
class BertEmbeddings(Configured, keras.layers.Layer):
    """Adds rows of learned tables for pieces, positions and segments, normalizes the sum and applies dropout.

    The sum also has a vector for each channel of the configuration: a row of the channel's table for its number, or the
    product of its vector with a learned kernel. Row 0 of a table is for tokens without a value. Source: Li et al. 2020,
    BEHRT, figure 2.

    Args:
        config: BertConfig. The configuration of the model.
        seed: int. The seed of the initial weights.
        dropout_place: int. The number of this layer's dropout.

    Call arguments:
        input_word_ids: int32 [B, S]. S is at most max_position_embeddings.
        input_type_ids: int32 [B, S]. The segment of each piece.
        positions: int32 [S] or [B, S]. The positions of the pieces; None for 0 to S - 1.
        channels: dict of a channel's name -> int32 [B, S], v + 1 for the value v, or float32 [B, S, width].
        dropout_stem: backend.stem of the step's seed, or None for inference.
        execution: Execution. How ops are executed.

    Returns:
        [B, S, H].
    """

    CONFIGURED = ("config", "seed", "dropout_place")

    def __init__(self, config: BertConfig, seed: int, dropout_place: int, **kwargs):
        super().__init__(**kwargs)
        self.config = config
        self.seed = seed
        self.dropout_place = dropout_place
        self.layer_norm = LayerNorm(
            config.hidden_size, config.layer_norm_eps, dtype=self.dtype_policy, name="layer_norm"
        )
        self.dropout = Dropout(config.hidden_dropout_prob, dropout_place)
        self.token_vectors = (
            TokenVectors(config, seed, dtype=self.dtype_policy, name="token_vectors") if config.token_vectors else None
        )

    @property
    def word_table(self):
        """The table of pieces, [V, H]. With token_vectors a call computes it."""
        return self.word_weights if self.token_vectors is None else self.token_vectors(self.word_weights)

    def build(self, input_shape=None):
        sizes = {
            "word_embeddings": self.config.vocab_size,
            "position_embeddings": self.config.max_position_embeddings,
            "token_type_embeddings": self.config.type_vocab_size,
        }
        self.word_weights, self.position_table, self.type_table = (
            # Without autocast only the rows that a step reads are cast, not the whole table.
            self.add_weight(
                shape=(size, self.config.hidden_size),
                name=name,
                autocast=False,
                initializer=initializer(self.config, self.seed, name),
            )
            for name, size in sizes.items()
        )
        self.channel_kernels = {
            channel.name: self.add_weight(
                shape=(channel.size + 1 if channel.size else channel.width, self.config.hidden_size),
                name=f"channel_{channel.name}",
                autocast=False,
                initializer=initializer(self.config, self.seed, f"channel_{channel.name}"),
            )
            for channel in self.config.channels
        }
        self.layer_norm.build()
        if self.token_vectors is not None:
            self.token_vectors.build()

    def call(
        self,
        input_word_ids,
        input_type_ids,
        dropout_stem=None,
        positions=None,
        channels: Mapping = types.MappingProxyType({}),
        execution: Execution = PLAIN,
    ):
        check_length(input_word_ids, self.config)
        gather = backend.rows_in_order if execution.is_deterministic else backend.rows
        words = gather(self.word_table, input_word_ids)
        for channel in self.config.channels:
            values, kernel = channels[channel.name], self.channel_kernels[channel.name]
            words += gather(kernel, values) if channel.size else keras.ops.matmul(values, kernel)
        if positions is None:
            positions = self.position_table[: keras.ops.shape(input_word_ids)[1]]
        else:
            positions = (gather if len(positions.shape) == 2 else backend.rows)(self.position_table, positions)
        # The gradient of a product with one-hot rows is a matrix product, not a scatter into two rows.
        # keras.ops.one_hot first casts the ids to int64, a type that a TPU only emulates.
        numbers = keras.ops.arange(self.config.type_vocab_size, dtype="int32")
        one_hot = keras.ops.cast(keras.ops.equal(keras.ops.expand_dims(input_type_ids, -1), numbers), "float32")
        segments = keras.ops.matmul(one_hot, self.type_table)
        return execution.fused(
            _normalized_sum,
            words,
            positions,
            segments,
            self.layer_norm.gamma,
            self.layer_norm.beta,
            self.dropout.seed(dropout_stem),
            rate=self.dropout.rate,
            epsilon=self.layer_norm.epsilon,
            dtype=self.compute_dtype,
        )


def column_inputs(inputs: Mapping, config: BertConfig) -> dict:
    """Selects the inputs of the embeddings that only some configurations have.

    Args:
        inputs: dict of the inputs of an encoder.
        config: BertConfig. The configuration of the model.

    Returns:
        dict of the arguments positions and channels of BertEmbeddings. It is empty for a model of text.

    Raises:
        ValueError: an input is missing.
    """
    names = {channel.name: channel.input_name for channel in config.channels}
    if missing := [name for name in config.input_names if name not in inputs]:
        raise ValueError(
            f"inputs: {', '.join(missing)} is missing; this model has channels or positions of lines, so make its "
            "inputs with BertTokenizer.pack"
        )
    arguments = {"channels": {name: inputs[key] for name, key in names.items()}} if names else {}
    return arguments | ({"positions": inputs["input_positions"]} if config.positions == "lines" else {})


def check_length(input_word_ids, config: BertConfig) -> None:
    """Checks that rows have no more tokens than the model has positions, if their length is known.

    Args:
        input_word_ids: int32 [B, S].
        config: BertConfig. The configuration of the model.

    Raises:
        ValueError: the rows are too long.
    """
    static_length = input_word_ids.shape[1]
    if static_length is not None and static_length > config.max_position_embeddings:
        raise ValueError(
            f"input_word_ids has rows of {static_length} tokens; this model takes at most "
            f"{config.max_position_embeddings} (max_position_embeddings); cut the rows, or give the model more "
            "positions (convert --max_position_embeddings)"
        )


def _normalized_sum(words, positions, segments, gamma, beta, seed, *, rate, epsilon, dtype, execution):
    normalized = layer_norm(words + positions + segments, gamma, beta, epsilon=epsilon, execution=execution)
    return dropped(keras.ops.cast(normalized, dtype), seed, rate, execution)
