"""States of LSTMs that a run carries from batch to batch, where a row continues the text of a row before.

A table has one row for each place of the global batch: the output and the cell of the forward direction of each layer.
"""

import keras

from keras_bert_app.config.lstm_config import LstmConfig
from keras_bert_app.modeling import backend


def width(config: LstmConfig) -> int:
    """The width of the table.

    Args:
        config: LstmConfig. The configuration of the model.
    """
    return sum(config.output_size(layer) + config.units(layer) for layer in range(config.num_hidden_layers))


def states_of(table, batch, config: LstmConfig) -> list:
    """The states with which the rows of a batch begin. A row that continues no row begins with zeros.

    Args:
        table: float32 [places, width].
        batch: dict with stream_places and continues, int32 [B].
        config: LstmConfig. The configuration of the model.

    Returns:
        list of (output [B, P], cell [B, U]) of each layer.
    """
    ops = keras.ops
    rows = backend.rows(table, batch["stream_places"]) * ops.expand_dims(ops.cast(batch["continues"], "float32"), 1)
    states, start = [], 0
    for layer in range(config.num_hidden_layers):
        middle = start + config.output_size(layer)
        end = middle + config.units(layer)
        states.append((rows[:, start:middle], rows[:, middle:end]))
        start = end
    return states


def new_table(forward_states: list, batch, shape):
    """A table with the states after the rows of a batch, and zeros elsewhere. Tables of several devices add up.

    The last piece of a row is the first piece of the row that continues it, so the states are those before this piece.

    Args:
        forward_states: list of (outputs [B, S, P], cells [S, B, U]) of each layer.
        batch: dict with stream_places, int32 [B].
        shape: (places, width).

    Returns:
        float32 [places, width], without a gradient.
    """
    ops = keras.ops
    parts = [part for outputs, cells in forward_states for part in (outputs[:, -2], cells[-2])]
    rows = ops.stop_gradient(ops.concatenate([ops.cast(part, "float32") for part in parts], axis=-1))
    return ops.scatter(ops.expand_dims(batch["stream_places"], 1), rows, tuple(shape))
