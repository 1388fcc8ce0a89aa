"""LstmEncoder: the LSTMs of ELMo (Peters et al. 2018) or AWD-LSTM (Merity et al. 2017)."""

import math
from typing import Any

import keras

from keras_bert_app.config.lstm_config import LstmConfig
from keras_bert_app.modeling import backend
from keras_bert_app.modeling.character_vectors import CharacterVectors
from keras_bert_app.modeling.embeddings import check_length
from keras_bert_app.modeling.execution import PLAIN, Execution
from keras_bert_app.modeling.keras_contract import Configured, Uncast, dropout_counter, registered, seed_of_call
from keras_bert_app.modeling.layers import Dropout, dropped, rows_at, uniform_initializer, with_bias
from keras_bert_app.modeling.lstm import forget_nothing, states_of_gates

_DIRECTIONS = ("forward", "backward")
# The numbers of the dropouts. A layer has three: of the recurrent weights in each direction, and of its output.
_PIECES_PLACE, _INPUT_PLACE, _OUTPUT_PLACE, _LAYER_PLACE, _PLACES_A_LAYER = 0, 1, 2, 3, 3


@registered
class PieceTable(Configured, keras.layers.Layer):
    """A learned table of pieces, with dropout of whole pieces.

    Args:
        config: LstmConfig. The configuration of the model.
        seed: int. The seed of the initial weights.

    Call arguments:
        input_word_ids: int32 [B, S].
        dropout_stem: backend.stem of the step's seed, or None for inference.
        execution: Execution. How ops are executed.

    Returns:
        [B, S, direction_size].
    """

    CONFIGURED = ("config", "seed")

    def __init__(self, config: LstmConfig, seed: int, **kwargs):
        super().__init__(**kwargs)
        self.config, self.seed = config, seed
        self.dropout = Dropout(config.embedding_dropout_prob, _PIECES_PLACE)

    def build(self, input_shape=None):
        self.word_table = self.add_weight(
            shape=(self.config.vocab_size, self.config.direction_size),
            name="word_embeddings",
            autocast=False,
            initializer=uniform_initializer(0.1, self.seed, "word_embeddings"),  # as in the code of AWD-LSTM
        )

    def call(self, input_word_ids, dropout_stem=None, execution: Execution = PLAIN):
        ops = keras.ops
        gather = backend.rows_in_order if execution.is_deterministic else backend.rows
        words = gather(self.word_table, input_word_ids)
        if (seed := self.dropout.seed(dropout_stem)) is not None:
            # One mask for all occurrences of a piece in the step.
            kept = execution.dropout(ops.ones((self.config.vocab_size, 1)), self.dropout.rate, seed)
            words = words * backend.rows(kept, input_word_ids)
        return ops.cast(words, self.compute_dtype)


@registered
class LstmLayer(Configured, keras.layers.Layer):
    """An LSTM in each direction, with a projection of its output or without one.

    Args:
        config: LstmConfig. The configuration of the model.
        seed: int. The seed of the initial weights.
        number: int. The number of the layer, from 0.

    Call arguments:
        inputs: list of [B, S, F], the input of each direction.
        mask: int32 [B, S], 1 or 0. At a 0 the output is 0, and the next place starts from a zero state.
        state: (output [B, P], cell [B, U]) of the forward direction before the first place; None for zeros. An Uncast
            keeps the cells float32.
        dropout_stem: backend.stem of the step's seed, or None for inference.
        execution: Execution. How ops are executed.

    Returns:
        (list of [B, S, P], the outputs of each direction; cells of the forward direction [S, B, U]).
    """

    CONFIGURED = ("config", "seed", "number")

    def __init__(self, config: LstmConfig, seed: int, number: int, **kwargs):
        super().__init__(**kwargs)
        self.config, self.seed, self.number = config, seed, number
        self.units, self.output_size = config.units(number), config.output_size(number)
        first = _LAYER_PLACE + _PLACES_A_LAYER * number
        self.weight_dropouts = [Dropout(config.recurrent_dropout_prob, first + i) for i in range(config.num_directions)]
        self.dropout = Dropout(config.hidden_dropout_prob, first + 2)

    def build(self, input_shape=None):
        config = self.config
        input_size = config.output_size(self.number - 1) if self.number else config.direction_size
        limit = 1.0 / math.sqrt(self.units)  # as torch.nn.LSTM and so the code of AWD-LSTM
        shapes = {"kernel": (input_size, 4 * self.units), "recurrent_kernel": (self.output_size, 4 * self.units)}
        if config.has_projection:
            shapes["projection_kernel"] = (self.units, self.output_size)
        self.directions = []
        for direction in _DIRECTIONS[: config.num_directions]:
            weights = {
                name: self.add_weight(
                    shape=shape,
                    name=f"{direction}_{name}",
                    initializer=uniform_initializer(limit, self.seed, f"layer_{self.number}/{direction}_{name}"),
                )
                for name, shape in shapes.items()
            }
            weights["bias"] = self.add_weight(
                shape=(4 * self.units,), name=f"{direction}_bias", initializer=forget_nothing, autocast=False
            )
            self.directions.append(weights)

    def call(self, inputs, mask, state=None, dropout_stem=None, execution: Execution = PLAIN):
        ops = keras.ops
        batch_size, length = ops.shape(mask)[0], ops.shape(mask)[1]
        mask = ops.expand_dims(ops.cast(ops.transpose(mask), "float32"), -1)
        gates, masks, kernels, projections = [], [], [], []
        for number, (x, weights) in enumerate(zip(inputs, self.directions, strict=True)):
            each = execution.fused(with_bias, execution.product(x, weights["kernel"]), weights["bias"])
            # [B, S, 4U] -> [S, B, 4U]
            each = ops.transpose(ops.reshape(each, (batch_size, length, 4 * self.units)), (1, 0, 2))
            gates.append(_turned(each, number))
            masks.append(_turned(mask, number))
            kernel = ops.cast(weights["recurrent_kernel"], self.compute_dtype)
            kernels.append(self.weight_dropouts[number](kernel, dropout_stem, execution))
            if self.config.has_projection:
                projections.append(ops.cast(weights["projection_kernel"], self.compute_dtype))
        gates, masks = ops.stack(gates, axis=1), ops.stack(masks, axis=1)
        outputs, cells = states_of_gates(
            gates,
            ops.stack(kernels),
            masks,
            ops.stack(projections) if projections else None,
            self._first(Uncast.values_of(state), gates),
            self.config.state_clip,
            execution,
        )
        by_direction = [
            ops.transpose(_turned(outputs[:, number], number), (1, 0, 2)) for number in range(len(self.directions))
        ]
        return by_direction, cells[:, 0]

    def _first(self, state, gates):
        """The states of all directions before their first places. The backward direction begins at zero."""
        if state is None:
            return None
        ops, (output, cell) = keras.ops, state
        outputs, cells = [ops.cast(output, gates.dtype)], [ops.cast(cell, "float32")]
        if len(self.directions) > 1:
            outputs, cells = ([each[0], ops.zeros_like(each[0])] for each in (outputs, cells))
        return ops.stack(outputs), ops.stack(cells)


def _joined(directions):
    """Puts the states of both directions side by side."""
    return keras.ops.concatenate(directions, axis=-1) if directions[1:] else directions[0]


def _turned(x, direction):
    """Reverses the places of the backward direction in [S, ...]."""
    return keras.ops.flip(x, axis=0) if direction else x


@registered
class LstmEncoder(Configured, keras.Model):
    """A stack of LSTM layers in one direction or two.

    Args:
        config: LstmConfig. The configuration of the model.
        seed: int. The seed of the initial weights.
        dtype: str. Keras type policy, "float32" or "mixed_bfloat16".
        has_pooler: bool. Must be False. No LSTM has BERT's pooler.
        name: str. The name of the Keras model.

    Call arguments:
        inputs: dict with input_word_ids and input_mask, int32 [B, S].
        dropout_seed: int [2] for training with dropout, or None for inference.
        return_attention_scores: bool. Must be False.
        output_positions: int32 [B, P]. Positions of the last layer's output to return; None for all.
        states: list of (output [B, P], cell [B, U]) of the forward direction of each layer before the first place;
            None for zeros. An Uncast of this list keeps the cells float32.
        execution: Execution. How ops are executed.
        training: bool or None. See keras_contract.seed_of_call.

    Returns:
        dict: sequence_output [B, S, H], the last layer's output, both directions side by side; encoder_outputs, every
        layer's output; embedding_output [B, S, H], the vectors of the pieces, repeated for each direction; and
        dropped_output, the last layer's output after its dropout. With output_positions the last layer has P places
        instead of S. forward_states has (outputs [B, S, P], cells [S, B, U]) of each layer.

    Raises:
        ValueError: has_pooler or return_attention_scores is True.
    """

    CONFIGURED = ("config", "seed", "has_pooler")

    def __init__(
        self,
        config: LstmConfig,
        seed: int = 0,
        dtype: str = "float32",
        has_pooler: bool = False,
        name: str = "encoder",
    ):
        if has_pooler:
            raise ValueError("has_pooler is True; an LSTM has no pooler, so give False")
        super().__init__(name=name, dtype=dtype)
        self.config, self.seed, self.has_pooler = config, seed, has_pooler
        self.pooler = None
        self.dropout_counter = dropout_counter(seed) if config.has_dropout else None
        make_embeddings = CharacterVectors if config.character_filters else PieceTable
        self.embeddings = make_embeddings(config, seed, dtype=dtype, name="embeddings")
        self.input_dropout = Dropout(config.input_dropout_prob, _INPUT_PLACE)
        self.output_dropout = Dropout(config.output_dropout_prob, _OUTPUT_PLACE)
        self.lstm_layers = [
            LstmLayer(config, seed, number, dtype=dtype, name=f"layer_{number}")
            for number in range(config.num_hidden_layers)
        ]
        self.build()

    def build(self, input_shape=None):
        if not self.built:
            for part in (self.embeddings, *self.lstm_layers):
                part.build()
            self.built = True

    def call(
        self,
        inputs,
        dropout_seed=None,
        return_attention_scores: bool = False,
        output_positions=None,
        states=None,
        execution: Execution = PLAIN,
        training: bool | None = None,
    ):
        if return_attention_scores:
            raise ValueError("return_attention_scores is True; an LSTM has no attention, so give False")
        check_length(inputs["input_word_ids"], self.config)
        dropout_seed = seed_of_call(dropout_seed, training, self.dropout_counter)
        ids, mask = inputs["input_word_ids"], inputs["input_mask"]
        states = Uncast.values_of(states)
        return self._outputs(ids, mask, backend.stem(dropout_seed), output_positions, states, execution)

    def _outputs(self, ids, mask, dropout_stem, output_positions, states, execution):
        embedded = self._embedded(ids, dropout_stem, execution)
        directions = [embedded] * self.config.num_directions
        embedding_output = _joined(directions)
        x = self._dropped(embedding_output, self.input_dropout, dropout_stem, execution)
        encoder_outputs, forward_states = [], []
        for number, layer in enumerate(self.lstm_layers):
            x = keras.ops.split(x, self.config.num_directions, axis=-1)
            state = states and Uncast(states[number])
            outputs, cells = layer(x, mask, state=state, dropout_stem=dropout_stem, execution=execution)
            forward_states.append((outputs[0], cells))
            if self.config.has_projection and number:
                outputs = [output + before for output, before in zip(outputs, directions, strict=True)]
            directions = outputs
            encoder_outputs.append(_joined(directions))
            x = self._dropped(encoder_outputs[-1], layer.dropout, dropout_stem, execution)
        last = encoder_outputs[-1]
        dropped_output = self._dropped(last, self.output_dropout, dropout_stem, execution)
        if output_positions is not None:
            last = encoder_outputs[-1] = rows_at(last, output_positions, execution)
            dropped_output = rows_at(dropped_output, output_positions, execution)
        return {
            "sequence_output": last,
            "encoder_outputs": encoder_outputs,
            "embedding_output": embedding_output,
            "dropped_output": dropped_output,
            "forward_states": forward_states,
        }

    def _embedded(self, ids, dropout_stem, execution):
        if self.config.character_filters:
            return self.embeddings(ids, execution=execution)
        return self.embeddings(ids, dropout_stem, execution=execution)

    def _dropped(self, x, dropout, dropout_stem, execution):
        """Applies dropout, with one mask for all places of a row if the configuration says so."""
        if not self.config.has_locked_dropout:
            return dropout(x, dropout_stem, execution)
        seed = dropout.seed(dropout_stem)
        return x if seed is None else x * dropped(keras.ops.ones_like(x[:, :1]), seed, dropout.rate, execution)

    def start(self, input_word_ids, length: int, first_place=0, execution: Execution = PLAIN) -> list:
        """Reads the places before first_place in one pass.

        Args:
            input_word_ids: int32 [R, S]. The pieces of the first S places.
            length: int. T, the number of places. An LSTM does not need it.
            first_place: int32 scalar. The first place that `step` reads.
            execution: Execution. How ops are executed.

        Returns:
            list with (output [R, P], cell [R, U]) of each layer. The encoder must have one direction.
        """
        del length
        ops = keras.ops
        places = ops.arange(ops.shape(input_word_ids)[1], dtype="int32")
        # A place of a zero piece keeps the shapes right if there is no place before the first one.
        ids = ops.pad(input_word_ids, [[0, 0], [1, 0]])
        mask = ops.ones_like(input_word_ids) * ops.cast(places < first_place, "int32")
        mask = ops.pad(mask, [[0, 0], [1, 0]])
        states = self._outputs(ids, mask, None, None, None, execution)["forward_states"]
        return [(outputs[:, first_place], cells[first_place]) for outputs, cells in states]

    def step(self, ids, place, cache: list, execution: Execution = PLAIN) -> tuple[Any, list]:
        """Computes one place.

        Args:
            ids: int32 [R]. The piece at the place.
            place: int32 scalar. The number of the place. An LSTM does not need it.
            cache: the result of start, or of the step before.
            execution: Execution. How ops are executed.

        Returns:
            (sequence_output of the place [R, 1, H], cache).
        """
        del place
        ids = keras.ops.expand_dims(ids, 1)
        inputs = {"input_word_ids": ids, "input_mask": keras.ops.ones_like(ids)}
        outputs = self(inputs, states=Uncast(cache), execution=execution)
        states = [(output[:, -1], cells[-1]) for output, cells in outputs["forward_states"]]
        return outputs["sequence_output"], states
