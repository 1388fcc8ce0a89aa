"""A bidirectional LSTM (Hochreiter and Schmidhuber 1997, with the forget gate of Gers et al. 2000).

TensorFlow derives the gradient of Keras' own LSTM from its loop, with lists whose elements have no known shape. A TPU
cannot run these lists. Here the gradient is a separate loop. One loop runs both directions side by side. If a
product does not depend on the previous step, the layer computes it for all steps together.
"""

import functools

import keras

from keras_bert_app.modeling import backend
from keras_bert_app.modeling.execution import PLAIN, Execution
from keras_bert_app.modeling.keras_contract import Configured, registered
from keras_bert_app.modeling.layers import with_bias

_DIRECTIONS, _GATES = 2, 4  # The order of the gates is input, forget, candidate, output.


@registered
class BiLstm(Configured, keras.layers.Layer):
    """A bidirectional LSTM that returns the outputs of both directions side by side.

    Args:
        units: int. U, the units of each direction.
        input_width: int. F.
        kernel_initializer: Keras initializer.
        recurrent_initializer: Keras initializer.

    Call arguments:
        x: [B, S, F].
        mask: [B, S], 1 or 0. At a 0 the output is 0, and the next step starts from a zero state.
        execution: Execution. How ops are executed.

    Returns:
        [B, S, 2U]: forward, backward.
    """

    CONFIGURED = ("units", "input_width", "kernel_initializer", "recurrent_initializer")

    def __init__(self, units: int, input_width: int, kernel_initializer, recurrent_initializer, **kwargs):
        super().__init__(**kwargs)
        self.units, self.input_width = units, input_width
        self.kernel_initializer, self.recurrent_initializer = kernel_initializer, recurrent_initializer

    def build(self, input_shape=None):
        width = _GATES * self.units
        self.kernel = self.add_weight(
            shape=(self.input_width, _DIRECTIONS * width), initializer=self.kernel_initializer, name="kernel"
        )
        self.recurrent_kernel = self.add_weight(
            shape=(self.units, _DIRECTIONS * width), initializer=self.recurrent_initializer, name="recurrent_kernel"
        )
        self.bias = self.add_weight(
            shape=(_DIRECTIONS * width,), initializer=_forget_nothing, name="bias", autocast=False
        )

    def call(self, x, mask, execution: Execution = PLAIN):
        ops = keras.ops
        batch_size, length = ops.shape(x)[0], ops.shape(x)[1]
        gates = execution.fused(with_bias, execution.product(x, self.kernel), self.bias)
        gates = ops.transpose(ops.reshape(gates, (batch_size, length, _DIRECTIONS, _GATES * self.units)), (1, 2, 0, 3))
        mask = ops.expand_dims(ops.cast(ops.transpose(mask), "float32"), (1, 3))
        # [U, 2 x 4U] -> [2, U, 4U]
        kernel = ops.transpose(ops.reshape(self.recurrent_kernel, (self.units, _DIRECTIONS, -1)), (1, 0, 2))
        outputs = _lstm(execution)(_backward_turned(gates), kernel, _backward_turned(ops.repeat(mask, 2, axis=1)))
        # [S, 2, B, U] -> [B, S, 2U]
        return ops.reshape(
            ops.transpose(_backward_turned(outputs), (2, 0, 1, 3)), (batch_size, length, _DIRECTIONS * self.units)
        )


def _forget_nothing(shape, dtype=None):
    """Makes a bias of zeros, with ones for the forget gates (Jozefowicz et al. 2015)."""
    units = shape[0] // (_DIRECTIONS * _GATES)
    gates = keras.ops.concatenate([keras.ops.zeros(units), keras.ops.ones(units), keras.ops.zeros(2 * units)])
    return keras.ops.cast(keras.ops.tile(gates, _DIRECTIONS), dtype)


def _backward_turned(x):
    """Reverses the steps of the second direction in [S, 2, ...]."""
    return keras.ops.stack([x[:, 0], keras.ops.flip(x[:, 1], axis=0)], axis=1)


@functools.cache
def _lstm(execution):
    """Makes the function of (gates, kernel, mask) that computes the output of every step.

    gates: [S, 2, B, 4U], the contribution of the inputs to the gates. kernel: [2, U, 4U]. mask: float32 [S, 2, B, 1].
    The function returns [S, 2, B, U] in the type of gates.
    """
    ops = keras.ops

    def lstm(gates, kernel, mask):
        zeros = ops.zeros_like(gates[0, :, :, : kernel.shape[1]])

        def step(state, place):
            before, cell = state
            into, forget, candidate, out = _activated(gates[place] + ops.matmul(before, kernel))
            cell = mask[place] * (forget * cell + into * candidate)
            return ops.cast(out * ops.tanh(cell), gates.dtype), cell

        length = ops.shape(gates)[0]
        outputs, cells = backend.scan(step, (zeros, ops.cast(zeros, "float32")), length)

        def gradient(upstream):
            gate_gradient, before = _gradient_of_gates(gates, kernel, mask, outputs, cells, upstream, execution)
            # [2, U, S x B] x [2, S x B, 4U]
            return gate_gradient, ops.matmul(ops.transpose(before, (0, 2, 1)), _rows(gate_gradient)), None

        return outputs, gradient

    return execution.own_gradient(lstm)


def _gradient_of_gates(gates, kernel, mask, outputs, cells, upstream, execution):
    """Returns (gradient of the gates [S, 2, B, 4U], the output before each step [2, S x B, U])."""
    ops = keras.ops
    # The code computes the state before each step, and the gates of each step, for all steps together.
    before, cells_before = (ops.concatenate([ops.zeros_like(each[:1]), each[:-1]], axis=0) for each in (outputs, cells))
    before = _rows(before)
    out_factor, cell_factor, gate_factor, forget = execution.fused(
        _factors, gates, ops.matmul(before, kernel), cells, cells_before, mask
    )
    transposed = ops.transpose(kernel, (0, 2, 1))

    def step_back(state, place):
        after, cell = state  # Gradients of the next step's gates, and of the cell through the next step.
        output = ops.cast(upstream[place] + ops.matmul(after, transposed), "float32")
        cell = mask[place] * cell + output * cell_factor[place]
        step_gates = ops.concatenate(
            [ops.tile(cell, (1, 1, 3)) * gate_factor[place], output * out_factor[place]], axis=-1
        )
        return ops.cast(step_gates, gates.dtype), cell * forget[place]

    length, start = ops.shape(gates)[0], (ops.zeros_like(gates[0]), ops.zeros_like(cells[0]))
    return backend.scan(step_back, start, length, reverse=True)[0], before


def _rows(x):
    """Reshapes [S, 2, B, W] to [2, S x B, W]."""
    return keras.ops.reshape(keras.ops.transpose(x, (1, 0, 2, 3)), (_DIRECTIONS, -1, x.shape[-1]))


def _factors(gates, recurrent, cells, cells_before, mask, *, execution):
    """Computes the factors of a step's gradients that do not depend on the next step.

    Args:
        recurrent: [2, S x B, 4U]. The contribution of the previous outputs to the gates.

    Returns:
        float32 (output to output gate, output to cell, cell to the other three gates, forget gate).
    """
    del execution  # Every execution computes the same. Execution.fused passes this argument.
    ops = keras.ops
    recurrent = ops.transpose(ops.reshape(recurrent, (_DIRECTIONS, -1, *ops.shape(gates)[2:])), (1, 0, 2, 3))
    into, forget, candidate, out = _activated(gates + recurrent)
    tanh = ops.tanh(cells)
    gate_factor = ops.concatenate(
        [candidate * into * (1.0 - into), cells_before * forget * (1.0 - forget), into * (1.0 - ops.square(candidate))],
        axis=-1,
    )
    return tanh * out * (1.0 - out), mask * out * (1.0 - ops.square(tanh)), gate_factor, forget


def _activated(gates):
    """Splits [..., 4U] into input gate, forget gate, candidate and output gate, float32 [..., U] each."""
    ops = keras.ops
    into, forget, candidate, out = ops.split(ops.cast(gates, "float32"), _GATES, axis=-1)
    return ops.sigmoid(into), ops.sigmoid(forget), ops.tanh(candidate), ops.sigmoid(out)
