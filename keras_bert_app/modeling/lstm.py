"""LSTMs (Hochreiter and Schmidhuber 1997, with the forget gate of Gers et al. 2000).

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
            shape=(_DIRECTIONS * width,), initializer=_both_forget_nothing, name="bias", autocast=False
        )

    def call(self, x, mask, execution: Execution = PLAIN):
        ops = keras.ops
        batch_size, length = ops.shape(x)[0], ops.shape(x)[1]
        gates = execution.fused(with_bias, execution.product(x, self.kernel), self.bias)
        gates = ops.transpose(ops.reshape(gates, (batch_size, length, _DIRECTIONS, _GATES * self.units)), (1, 2, 0, 3))
        mask = ops.expand_dims(ops.cast(ops.transpose(mask), "float32"), (1, 3))
        # [U, 2 x 4U] -> [2, U, 4U]
        kernel = ops.transpose(ops.reshape(self.recurrent_kernel, (self.units, _DIRECTIONS, -1)), (1, 0, 2))
        outputs, _ = states_of_gates(
            backward_turned(gates), kernel, backward_turned(ops.repeat(mask, 2, axis=1)), execution=execution
        )
        # [S, 2, B, U] -> [B, S, 2U]
        return ops.reshape(
            ops.transpose(backward_turned(outputs), (2, 0, 1, 3)), (batch_size, length, _DIRECTIONS * self.units)
        )


def forget_nothing(shape, dtype=None):
    """Makes the bias of an LSTM: zeros, with ones for the forget gates (Jozefowicz et al. 2015).

    Args:
        shape: (4U,).
        dtype: str.

    Returns:
        [4U].
    """
    units = shape[0] // _GATES
    gates = [keras.ops.zeros(units), keras.ops.ones(units), keras.ops.zeros(2 * units)]
    return keras.ops.cast(keras.ops.concatenate(gates), dtype)


def _both_forget_nothing(shape, dtype=None):
    return keras.ops.tile(forget_nothing((shape[0] // _DIRECTIONS,), dtype), _DIRECTIONS)


def backward_turned(x):
    """Reverses the steps of the second direction.

    Args:
        x: [S, 2, ...].

    Returns:
        [S, 2, ...].
    """
    return keras.ops.stack([x[:, 0], keras.ops.flip(x[:, 1], axis=0)], axis=1)


def states_of_gates(gates, kernel, mask, projection=None, state=None, clip: float = 0.0, execution: Execution = PLAIN):
    """Runs D independent LSTMs side by side over the places of rows.

    With a projection the output of a cell is a linear function of it (Sak et al. 2014).

    Args:
        gates: [S, D, B, 4U]. The contribution of the inputs to the gates.
        kernel: [D, P, 4U]. The recurrent kernel of each LSTM.
        mask: float32 [S, D, B, 1], 1 or 0. At a 0 the output is 0, and the next step starts from a zero state.
        projection: [D, U, P], or None for P = U.
        state: (output [D, B, P], cell [D, B, U]) before the first place, without a gradient; None for zeros.
        clip: float. The largest absolute value of a cell, and of a projected output; 0 for no limit.
        execution: Execution. How ops are executed.

    Returns:
        (outputs [S, D, B, P] in the type of gates, cells float32 [S, D, B, U]). The cells have no gradient.
    """
    ops = keras.ops
    if state is None:
        cell = ops.zeros_like(ops.cast(gates[0, :, :, : gates.shape[-1] // _GATES], "float32"))
        output = ops.cast(cell, gates.dtype)
        state = (output if projection is None else ops.matmul(output, projection)), cell
    projections = () if projection is None else (projection,)
    return _lstm(execution, clip)(gates, kernel, mask, *state, *projections)


@functools.cache
def _lstm(execution, clip):
    """Makes the function of (gates, kernel, mask, first output, first cell, projection) of states_of_gates."""
    ops = keras.ops

    def lstm(gates, kernel, mask, first_output, first_cell, *projection):
        def step(state, place):
            before, cell = state
            into, forget, candidate, out = _activated(gates[place] + ops.matmul(before, kernel))
            cell = mask[place] * _clipped(forget * cell + into * candidate, clip)
            output = ops.cast(out * ops.tanh(cell), gates.dtype)
            return _clipped(ops.matmul(output, projection[0]), clip) if projection else output, cell

        outputs, cells = backend.scan(step, (first_output, first_cell), ops.shape(gates)[0])

        def gradient(upstream, _):
            # The code computes the state before each step, and the gates of each step, for all steps together.
            before, cells_before = (
                ops.concatenate([ops.expand_dims(first, 0), each[:-1]], axis=0)
                for first, each in ((first_output, outputs), (first_cell, cells))
            )
            before = _rows(before)
            factors = execution.fused(_factors, gates, ops.matmul(before, kernel), cells, cells_before, mask, clip=clip)
            gate_gradient, *output_gradient = _gradient_of_gates(
                upstream, gates, kernel, outputs, factors, projection, clip
            )
            # [D, U, S x B] x [D, S x B, 4U]
            kernel_gradient = ops.matmul(ops.transpose(before, (0, 2, 1)), _rows(gate_gradient))
            gradients = gate_gradient, kernel_gradient, None, None, None
            if not projection:
                return gradients
            made = ops.transpose(_rows(ops.cast(factors[-1], gates.dtype)), (0, 2, 1))
            return *gradients, ops.matmul(made, _rows(*output_gradient))

        return (outputs, cells), gradient

    return execution.own_gradient(lstm)


def _gradient_of_gates(upstream, gates, kernel, outputs, factors, projection, clip):
    """Returns [gradient of the gates [S, D, B, 4U]], with a projection also that of its result [S, D, B, P]."""
    ops = keras.ops
    out_factor, cell_factor, gate_factor, forget, keep, _ = factors
    transposed, *back = (ops.transpose(each, (0, 2, 1)) for each in (kernel, *projection))
    inside = _is_inside(outputs, clip) if projection and clip else None

    def step_back(state, place):
        after, cell, *_ = state  # Gradients of the next step's gates, and of the cell through the next step.
        output = projected = upstream[place] + ops.matmul(after, transposed)
        if back:
            projected = output if inside is None else output * inside[place]
            output = ops.matmul(projected, back[0])
        output = ops.cast(output, "float32")
        cell = keep[place] * cell + output * cell_factor[place]
        step_gates = ops.concatenate(
            [ops.tile(cell, (1, 1, 3)) * gate_factor[place], output * out_factor[place]], axis=-1
        )
        return ops.cast(step_gates, gates.dtype), cell * forget[place], *([projected] if back else [])

    start = (ops.zeros_like(gates[0]), ops.zeros_like(forget[0]), *([ops.zeros_like(outputs[0])] if back else []))
    gates_and_cells = backend.scan(step_back, start, ops.shape(gates)[0], reverse=True)
    return [gates_and_cells[0], *gates_and_cells[2:]]


def _rows(x):
    """Reshapes [S, D, B, W] to [D, S x B, W]."""
    return keras.ops.reshape(keras.ops.transpose(x, (1, 0, 2, 3)), (x.shape[1], -1, x.shape[-1]))


def _clipped(x, clip):
    return keras.ops.clip(x, -clip, clip) if clip else x


def _is_inside(x, clip):
    """1 where a clipped value is not at its limit, where alone it has a gradient."""
    return keras.ops.cast(keras.ops.abs(x) < clip, x.dtype)


def _factors(gates, recurrent, cells, cells_before, mask, *, clip, execution):
    """Computes the factors of a step's gradients that do not depend on the next step.

    Args:
        recurrent: [D, S x B, 4U]. The contribution of the previous outputs to the gates.

    Returns:
        float32 (output to output gate, output to cell, cell to the other three gates, forget gate, cell to the cell
        before its mask, output before a projection).
    """
    del execution  # Every execution computes the same. Execution.fused passes this argument.
    ops = keras.ops
    recurrent = ops.transpose(ops.reshape(recurrent, (gates.shape[1], -1, *ops.shape(gates)[2:])), (1, 0, 2, 3))
    into, forget, candidate, out = _activated(gates + recurrent)
    tanh = ops.tanh(cells)
    gate_factor = ops.concatenate(
        [candidate * into * (1.0 - into), cells_before * forget * (1.0 - forget), into * (1.0 - ops.square(candidate))],
        axis=-1,
    )
    keep = mask * _is_inside(cells, clip) if clip else mask
    return tanh * out * (1.0 - out), keep * out * (1.0 - ops.square(tanh)), gate_factor, forget, keep, out * tanh


def _activated(gates):
    """Splits [..., 4U] into input gate, forget gate, candidate and output gate, float32 [..., U] each."""
    ops = keras.ops
    into, forget, candidate, out = ops.split(ops.cast(gates, "float32"), _GATES, axis=-1)
    return ops.sigmoid(into), ops.sigmoid(forget), ops.tanh(candidate), ops.sigmoid(out)
