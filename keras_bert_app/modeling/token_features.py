"""Vectors of pieces that a head learns beside the states of its encoder (Peters et al. 2017, TagLM, section 2.3)."""

import math

import keras

from keras_bert_app.config.bert_config import BertConfig
from keras_bert_app.config.lstm_config import LstmConfig
from keras_bert_app.modeling import backend
from keras_bert_app.modeling.character_vectors import CharacterVectors
from keras_bert_app.modeling.execution import PLAIN, Execution
from keras_bert_app.modeling.keras_contract import Configured, registered
from keras_bert_app.modeling.layers import Dropout, initializer, uniform_initializer
from keras_bert_app.modeling.lstm import BiLstm

_FILTERS = ((3, 30),)  # (width, number) of the convolutions over characters; Ma and Hovy 2016, table 1


@registered
class TokenFeatures(Configured, keras.layers.Layer):
    """A BiLSTM over vectors of pieces: a table beside convolutions over characters.

    Args:
        config: BertConfig. Its vocab_size is the number of pieces, and its initializer_range the deviation of the
            kernels of the BiLSTM.
        token_vector_size: int. Width of the table.
        units: int. U, the units of each direction of the BiLSTM.
        dropout: float. The dropout rate of its inputs.
        place: int. A number that no other dropout of the model has.
        seed: int. The seed of the initial weights.

    Call arguments:
        input_word_ids: int32 [B, S].
        input_mask: [B, S], 1 or 0.
        dropout_stem: backend.stem of the step's seed, or None for inference.
        execution: Execution. How ops are executed.

    Returns:
        [B, S, 2U].
    """

    CONFIGURED = ("config", "token_vector_size", "units", "dropout", "place", "seed")

    def __init__(
        self, config: BertConfig, token_vector_size: int, units: int, dropout: float, place: int, seed: int, **kwargs
    ):
        super().__init__(**kwargs)
        self.config, self.token_vector_size, self.units, self.seed = config, token_vector_size, units, seed
        self.dropout, self.place = dropout, place
        self.input_dropout = Dropout(dropout, place)
        of_characters = self._config_of_characters()
        self.characters = CharacterVectors(of_characters, seed, dtype=self.dtype_policy, name="characters")
        self.bilstm = BiLstm(
            units,
            token_vector_size + of_characters.direction_size,
            initializer(config, seed, "token_features/kernel"),
            initializer(config, seed, "token_features/recurrent_kernel"),
            dtype=self.dtype_policy,
            name="bilstm",
        )

    def _config_of_characters(self):
        """An LstmConfig whose CharacterVectors have the sizes of the head; it has no LSTM here."""
        size = sum(number for _, number in _FILTERS)
        return LstmConfig(
            vocab_size=self.config.vocab_size,
            hidden_size=size,
            intermediate_size=size,
            num_hidden_layers=1,
            character_filters=_FILTERS,
            num_highway_layers=0,
        )

    def build(self, input_shape=None):
        self.word_embeddings = self.add_weight(
            shape=(self.config.vocab_size, self.token_vector_size),
            # Ma and Hovy 2016, section 3.1
            initializer=uniform_initializer(math.sqrt(3.0 / self.token_vector_size), self.seed, "token_features/words"),
            name="word_embeddings",
            autocast=False,
        )
        self.characters.build()
        self.bilstm.build()

    def call(self, input_word_ids, input_mask, dropout_stem=None, execution: Execution = PLAIN):
        ops = keras.ops
        gather = backend.rows_in_order if execution.is_deterministic else backend.rows
        words = ops.cast(gather(self.word_embeddings, input_word_ids), self.compute_dtype)
        x = ops.concatenate([words, self.characters(input_word_ids, execution=execution)], axis=-1)
        x = self.input_dropout(x, dropout_stem, execution)
        return self.bilstm(x, input_mask, execution=execution)
