"""Word, position and segment embeddings."""

import keras

from keras_bert_app.config.bert_config import BertConfig
from keras_bert_app.modeling import backend
from keras_bert_app.modeling.execution import PLAIN, Execution
from keras_bert_app.modeling.keras_contract import Configured, registered
from keras_bert_app.modeling.layers import Dropout, LayerNorm, dropped, initializer, layer_norm


@registered
class BertEmbeddings(Configured, keras.layers.Layer):
    """Adds rows of three learned tables, normalizes the sum and applies dropout.

    Args:
        config: BertConfig. The configuration of the model.
        seed: int. The seed of the initial weights.
        dropout_place: int. The number of this layer's dropout.

    Call arguments:
        input_word_ids: int32 [B, S]. S is at most max_position_embeddings.
        input_type_ids: int32 [B, S]. The segment of each piece.
        positions: int32 [S]. The positions of the pieces; None for 0 to S - 1.
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

    def build(self, input_shape=None):
        sizes = {
            "word_embeddings": self.config.vocab_size,
            "position_embeddings": self.config.max_position_embeddings,
            "token_type_embeddings": self.config.type_vocab_size,
        }
        self.word_table, self.position_table, self.type_table = (
            # Without autocast only the rows that a step reads are cast, not the whole table.
            self.add_weight(
                shape=(size, self.config.hidden_size),
                name=name,
                autocast=False,
                initializer=initializer(self.config, self.seed, name),
            )
            for name, size in sizes.items()
        )
        self.layer_norm.build()

    def call(self, input_word_ids, input_type_ids, dropout_stem=None, positions=None, execution: Execution = PLAIN):
        check_length(input_word_ids, self.config)
        gather = backend.rows_in_order if execution.is_deterministic else backend.rows
        words = gather(self.word_table, input_word_ids)
        if positions is None:
            positions = self.position_table[: keras.ops.shape(input_word_ids)[1]]
        else:
            positions = backend.rows(self.position_table, positions)
        # The gradient of a product with one-hot rows is a matrix product, not a scatter into two rows.
        # keras.ops.one_hot first casts the ids to int64, a type that a TPU only emulates.
        numbers = keras.ops.arange(self.config.type_vocab_size, dtype="int32")
        one_hot = keras.ops.cast(keras.ops.equal(keras.ops.expand_dims(input_type_ids, -1), numbers), "float32")
        types = keras.ops.matmul(one_hot, self.type_table)
        return execution.fused(
            _normalized_sum,
            words,
            positions,
            types,
            self.layer_norm.gamma,
            self.layer_norm.beta,
            self.dropout.seed(dropout_stem),
            rate=self.dropout.rate,
            epsilon=self.layer_norm.epsilon,
            dtype=self.compute_dtype,
        )


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


def _normalized_sum(words, positions, types, gamma, beta, seed, *, rate, epsilon, dtype, execution):
    normalized = layer_norm(words + positions + types, gamma, beta, epsilon=epsilon, execution=execution)
    return dropped(keras.ops.cast(normalized, dtype), seed, rate, execution)
