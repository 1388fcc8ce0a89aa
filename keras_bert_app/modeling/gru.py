"""Gated recurrent units (Cho et al. 2014, equations 5 to 8, but the reset gate acts after the product, as in cuDNN)."""

from typing import Any

import keras

from keras_bert_app.modeling import backend
from keras_bert_app.modeling.execution import PLAIN, Execution
from keras_bert_app.modeling.keras_contract import registered
from keras_bert_app.modeling.layers import with_bias
from keras_bert_app.modeling.lstm import BiLstm, backward_turned

_DIRECTIONS = 2
GATES = 3  # The order is update, reset, candidate.


def next_state(state: Any, inputs: Any, recurrent: Any) -> Any:
    """Computes the next state of a gated recurrent unit, as keras.layers.GRU with reset_after does.

    Args:
        state: [..., H]. s_{t-1}.
        inputs: [..., 3H]. The part of the gates that the input gives.
        recurrent: [..., 3H]. The part of the gates that the state gives.

    Returns:
        [..., H].
    """
    ops = keras.ops
    update, reset, candidate = ops.split(inputs, GATES, axis=-1)
    update_of_state, reset_of_state, candidate_of_state = ops.split(recurrent, GATES, axis=-1)
    update = ops.sigmoid(update + update_of_state)
    candidate = ops.tanh(candidate + ops.sigmoid(reset + reset_of_state) * candidate_of_state)
    return update * state + (1.0 - update) * candidate


@registered
class BiGru(BiLstm):
    """A bidirectional layer of gated recurrent units. Its arguments, inputs and outputs are those of BiLstm."""

    def build(self, input_shape=None):
        width = _DIRECTIONS * GATES * self.units
        self.kernel = self.add_weight(
            shape=(self.input_width, width), initializer=self.kernel_initializer, name="kernel"
        )
        self.recurrent_kernel = self.add_weight(
            shape=(self.units, width), initializer=self.recurrent_initializer, name="recurrent_kernel"
        )
        self.bias, self.recurrent_bias = (
            self.add_weight(shape=(width,), initializer="zeros", name=name, autocast=False)
            for name in ("bias", "recurrent_bias")
        )

    def call(self, x, mask, execution: Execution = PLAIN):
        ops = keras.ops
        batch_size, length = ops.shape(x)[0], ops.shape(x)[1]
        gates = execution.fused(with_bias, execution.product(x, self.kernel), self.bias)
        gates = ops.transpose(ops.reshape(gates, (batch_size, length, _DIRECTIONS, -1)), (1, 2, 0, 3))
        mask = ops.expand_dims(ops.cast(ops.transpose(mask), gates.dtype), (1, 3))
        # [S, 2, B, 3U] and [S, 2, B, 1]
        gates, mask = backward_turned(gates), backward_turned(ops.repeat(mask, 2, axis=1))
        # [U, 2 x 3U] -> [2, U, 3U]
        kernel = ops.transpose(
            ops.reshape(backend.tensor(self.recurrent_kernel), (self.units, _DIRECTIONS, -1)), (1, 0, 2)
        )
        bias = ops.cast(ops.reshape(backend.tensor(self.recurrent_bias), (_DIRECTIONS, 1, -1)), gates.dtype)

        def step(state, place):
            (before,) = state
            return (mask[place] * next_state(before, gates[place], ops.matmul(before, kernel) + bias),)

        (outputs,) = backend.scan(step, (ops.zeros_like(gates[0, :, :, : self.units]),), length)
        # [S, 2, B, U] -> [B, S, 2U]
        return ops.reshape(
            ops.transpose(backward_turned(outputs), (2, 0, 1, 3)), (batch_size, length, _DIRECTIONS * self.units)
        )
