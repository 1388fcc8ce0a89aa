"""Vectors of pieces from their characters (Peters et al. 2018, ELMo, section 3.4; Kim et al. 2016)."""

import math
from collections.abc import Sequence

import keras
import numpy as np

from keras_bert_app.config.lstm_config import NUM_CHARACTERS, LstmConfig
from keras_bert_app.modeling import backend
from keras_bert_app.modeling.execution import PLAIN, Execution
from keras_bert_app.modeling.keras_contract import Configured, registered
from keras_bert_app.modeling.layers import Dense, uniform_initializer

# The numbers 0 to 255 are bytes. allennlp's ELMo has the same marks, with other numbers.
_BEGINS, _ENDS, _PADDING, _SPECIAL = range(256, NUM_CHARACTERS)


@registered
class CharacterVectors(Configured, keras.layers.Layer):
    """Convolutions over the bytes of a piece, their maxima, highway layers, and a projection.

    A piece is its bytes (UTF-8) between a mark of its begin and a mark of its end. A special piece such as [CLS] is a
    mark and its number. Longer pieces lose their last bytes.

    Args:
        config: LstmConfig. The configuration of the model.
        seed: int. The seed of the initial weights.

    Call arguments:
        input_word_ids: int32 [B, S].
        execution: Execution. How ops are executed.

    Returns:
        [B, S, direction_size].
    """

    CONFIGURED = ("config", "seed")

    def __init__(self, config: LstmConfig, seed: int, **kwargs):
        super().__init__(**kwargs)
        self.config, self.seed = config, seed
        width = sum(number for _, number in config.character_filters)
        limit = math.sqrt(3.0 / width)  # the code of ELMo has this deviation, 1 / sqrt(width)
        names = [f"highway_{number}" for number in range(config.num_highway_layers)]
        sizes = dict.fromkeys(names, 2 * width) | {"projection": config.direction_size}
        *self.highways, self.projection = (
            Dense(width, size, uniform_initializer(limit, seed, name), dtype=self.dtype_policy, name=name)
            for name, size in sizes.items()
        )

    def build(self, input_shape=None):
        config = self.config
        # Numbers of characters. They are weights, so that they travel with the model, but no run trains them.
        self.characters = self.add_weight(
            shape=(config.vocab_size, config.max_characters),
            name="characters",
            initializer="zeros",
            trainable=False,
            autocast=False,
        )
        self.table = self.add_weight(
            shape=(NUM_CHARACTERS, config.character_size),
            name="table",
            initializer=uniform_initializer(1.0, self.seed, "characters"),  # as in the code of ELMo
            autocast=False,
        )
        self.filters = [
            self.add_weight(
                shape=(width * config.character_size, number),
                name=f"filters_{width}",
                initializer=uniform_initializer(0.05, self.seed, f"filters_{width}"),
            )
            for width, number in config.character_filters
        ]
        self.biases = [
            self.add_weight(shape=(number,), name=f"bias_{width}", initializer="zeros", autocast=False)
            for width, number in config.character_filters
        ]
        for part in (*self.highways, self.projection):
            part.build()
        for highway in self.highways:
            # A highway layer begins by carrying its input (Srivastava et al. 2015, section 3.1).
            half = highway.bias.shape[0] // 2
            highway.bias.assign(keras.ops.concatenate([keras.ops.zeros(half), keras.ops.ones(half)]))

    def call(self, input_word_ids, execution: Execution = PLAIN):
        ops, shape = keras.ops, keras.ops.shape(input_word_ids)
        characters = backend.rows(self.characters, ops.reshape(input_word_ids, (-1,)))
        # [N, characters, character_size]
        gather = backend.rows_in_order if execution.is_deterministic else backend.rows
        vectors = gather(self.table, ops.cast(characters, "int32"))
        vectors = ops.cast(vectors, self.compute_dtype)
        maxima = [
            ops.max(_convolved(vectors, width, kernel, bias, execution), axis=1)
            for (width, _), kernel, bias in zip(self.config.character_filters, self.filters, self.biases, strict=True)
        ]
        x = ops.relu(ops.concatenate(maxima, axis=-1))
        for highway in self.highways:
            changed, carried = ops.split(highway(x, execution=execution), 2, axis=-1)
            carried = ops.sigmoid(carried)
            x = carried * x + (1 - carried) * ops.relu(changed)
        return ops.reshape(self.projection(x, execution=execution), (*shape, self.config.direction_size))


def _convolved(vectors, width, kernel, bias, execution):
    """Computes the filters of one width at every place, [N, places, number of filters]."""
    ops = keras.ops
    num_places = vectors.shape[1] - width + 1
    windows = ops.concatenate([vectors[:, i : i + num_places] for i in range(width)], axis=-1)
    product = ops.reshape(execution.product(windows, kernel), (-1, num_places, kernel.shape[1]))
    return product + ops.cast(bias, product.dtype)


def numbers_of_characters(pieces: Sequence[str], config: LstmConfig, special: Sequence[str]) -> np.ndarray:
    """The numbers of the characters of every piece.

    Args:
        pieces: str. The vocabulary.
        config: LstmConfig. Its table may have more rows than the vocabulary.
        special: str. The special pieces, which are not spelled.

    Returns:
        float32 [vocab_size, max_characters].
    """
    numbers = np.full((config.vocab_size, config.max_characters), _PADDING, np.float32)
    for row, piece in enumerate(pieces):
        inner = [_SPECIAL, special.index(piece)] if piece in special else [*piece.encode()]
        spelled = [_BEGINS, *inner[: config.max_characters - 2], _ENDS]
        numbers[row, : len(spelled)] = spelled
    return numbers
