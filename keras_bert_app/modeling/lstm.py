"""A bidirectional LSTM (Hochreiter and Schmidhuber 1997, with the forget gate of Gers et al. 2000).

Keras' own has a gradient that TensorFlow makes of its loop, with lists whose elements have no known shape: a TPU cannot be
given that. Here the gradient is a loop written out, forward and backward direction run side by side in one, and all products
that need not wait for the step before are taken at once.
"""

import keras

from keras_bert_app.modeling import backend
from keras_bert_app.modeling.layers import with_bias

_DIRECTIONS, _GATES = 2, 4  # gates in the order input, forget, candidate, output


class BiLstm(keras.layers.Layer):
    """Outputs of both directions side by side.

    Args:
        units: U, of each direction. input_width: F. kernel_initializer, recurrent_initializer: Keras initializers.

    Call arguments:
        x: [B, S, F]. mask: [B, S], 1 where there is something. A place where it is 0 is empty: its output is 0, and what comes
            after it starts anew.

    Returns:
        [B, S, 2U]: forward, backward.
    """

    def __init__(self, units, input_width, kernel_initializer, recurrent_initializer, **kwargs):
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

    def call(self, x, mask):
        ops = keras.ops
        batch_size, length = ops.shape(x)[0], ops.shape(x)[1]
        gates = backend.fused(with_bias, backend.product(x, self.kernel), self.bias)
        gates = ops.transpose(ops.reshape(gates, (batch_size, length, _DIRECTIONS, _GATES * self.units)), (1, 2, 0, 3))
        mask = ops.expand_dims(ops.cast(ops.transpose(mask), "float32"), (1, 3))
        # [U, 2 x 4U] -> [2, U, 4U]
        kernel = ops.transpose(ops.reshape(self.recurrent_kernel, (self.units, _DIRECTIONS, -1)), (1, 0, 2))
        outputs = _outputs(_backward_turned(gates), kernel, _backward_turned(ops.repeat(mask, 2, axis=1)))
        # [S, 2, B, U] -> [B, S, 2U]
        return ops.reshape(
            ops.transpose(_backward_turned(outputs), (2, 0, 1, 3)), (batch_size, length, _DIRECTIONS * self.units)
        )


def _forget_nothing(shape, dtype=None):
    """Zeros, and ones for the forget gates (Jozefowicz et al. 2015)."""
    units = shape[0] // (_DIRECTIONS * _GATES)
    gates = keras.ops.concatenate([keras.ops.zeros(units), keras.ops.ones(units), keras.ops.zeros(2 * units)])
    return keras.ops.cast(keras.ops.tile(gates, _DIRECTIONS), dtype)


def _backward_turned(x):
    """[S, 2, ...] with the second direction's steps from last to first."""
    return keras.ops.stack([x[:, 0], keras.ops.flip(x[:, 1], axis=0)], axis=1)


@backend.own_gradient
def _outputs(gates, kernel, mask):
    """h of every step, [S, 2, B, U] in the type of gates.

    Args:
        gates: [S, 2, B, 4U], what the inputs give to the gates. kernel: [2, U, 4U]. mask: float32 [S, 2, B, 1].
    """
    ops = keras.ops
    zeros = ops.zeros_like(gates[0, :, :, : kernel.shape[1]])

    def step(state, place):
        before, cell = state
        into, forget, candidate, out = _activated(gates[place] + ops.matmul(before, kernel))
        cell = mask[place] * (forget * cell + into * candidate)
        return ops.cast(out * ops.tanh(cell), gates.dtype), cell

    length = ops.shape(gates)[0]
    outputs, cells = backend.scan(step, (zeros, ops.cast(zeros, "float32")), length)

    def gradient(upstream):
        # What each step started from, and its gates, of all steps at once.
        before, cells_before = (
            ops.concatenate([ops.zeros_like(each[:1]), each[:-1]], axis=0) for each in (outputs, cells)
        )
        before = _rows(before)
        of_out, of_cell, of_gates, forget = backend.fused(
            _factors, gates, ops.matmul(before, kernel), cells, cells_before, mask
        )
        transposed = ops.transpose(kernel, (0, 2, 1))

        def step_back(state, place):
            after, cell = state  # gradients of the gates of the step after, and of the cell, by way of that step
            output = ops.cast(upstream[place] + ops.matmul(after, transposed), "float32")
            cell = mask[place] * cell + output * of_cell[place]
            found = ops.concatenate([ops.tile(cell, (1, 1, 3)) * of_gates[place], output * of_out[place]], axis=-1)
            return ops.cast(found, gates.dtype), cell * forget[place]

        found, _ = backend.scan(step_back, (ops.zeros_like(gates[0]), ops.zeros_like(cells[0])), length, reverse=True)
        # [2, U, S x B] x [2, S x B, 4U]
        return found, ops.matmul(ops.transpose(before, (0, 2, 1)), _rows(found)), None

    return outputs, gradient


def _rows(x):
    """[2, S x B, W] of [S, 2, B, W]."""
    return keras.ops.reshape(keras.ops.transpose(x, (1, 0, 2, 3)), (_DIRECTIONS, -1, x.shape[-1]))


def _factors(gates, recurrent, cells, cells_before, mask):
    """Factors of a step's gradients that do not hang on the step after it: of the output gate and of the cell by the output, of
    the other gates by the cell, and the forget gate. float32.

    Args:
        recurrent: [2, S x B, 4U], what the outputs before gave to the gates.
    """
    ops = keras.ops
    recurrent = ops.transpose(ops.reshape(recurrent, (_DIRECTIONS, -1, *ops.shape(gates)[2:])), (1, 0, 2, 3))
    into, forget, candidate, out = _activated(gates + recurrent)
    tanh = ops.tanh(cells)
    of_gates = ops.concatenate(
        [candidate * into * (1.0 - into), cells_before * forget * (1.0 - forget), into * (1.0 - ops.square(candidate))],
        axis=-1,
    )
    return tanh * out * (1.0 - out), mask * out * (1.0 - ops.square(tanh)), of_gates, forget


def _activated(gates):
    """Input gate, forget gate, candidate and output gate in float32, [..., U] each, of [..., 4U]."""
    ops = keras.ops
    into, forget, candidate, out = ops.split(ops.cast(gates, "float32"), _GATES, axis=-1)
    return ops.sigmoid(into), ops.sigmoid(forget), ops.tanh(candidate), ops.sigmoid(out)
