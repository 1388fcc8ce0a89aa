"""Context vectors of a run that starts from a translation run (McCann et al. 2017, CoVe).

A recurrent translation run has an LSTM over its encoder. In other tasks the head reads the outputs of this LSTM, the
context vectors, beside the states of the encoder.
"""

import dataclasses

from keras_bert_app.config.weight_shapes import part_of
from keras_bert_app.errors import UserError
from keras_bert_app.interop.weights import Weights
from keras_bert_app.modeling.task_head import TOKENS, Head
from keras_bert_app.modeling.task_model import CONTEXT_LSTM
from keras_bert_app.modeling.task_models import TaskHead


def chosen(
    weights: Weights, lines: list[str], choice: str, init_checkpoint: str, num_layers: int
) -> tuple[Weights, list[str], int]:
    """Moves the LSTM over the encoder from the head of an earlier run to the weights, if --context_vectors says so.

    Args:
        weights: Weights, as load.load_weights returns them.
        lines: log lines about the weights.
        choice: value of --context_vectors.
        init_checkpoint: value of --init_checkpoint, for messages.
        num_layers: value of --encoder_layers.

    Returns:
        (Weights, log lines, U). U is the number of units in each direction of the LSTM of the new run; 0 for no LSTM.
        With "auto", the tensors of the LSTM have the paths context_lstm/* in the weights.

    Raises:
        UserError: the weights have no LSTM that `choice` could change.
    """
    own = weights.own_head
    description = own.description if own else {}
    name, field = ("bilstm", "bilstm_units") if "decoder" in description else (CONTEXT_LSTM, "context_units")
    units, layers = description.get(field, 0), weights.config.num_hidden_layers
    if is_gru := description.get("recurrent_encoder") == "gru":
        lines = [*lines, "  no context vectors: its recurrent encoder is a GRU; only an LSTM gives them"]
    if not units or is_gru:
        if choice != "auto":
            raise UserError(
                f"--context_vectors={choice}: {init_checkpoint} has no LSTM over its encoder; leave it out, or give a "
                "translation run with --bilstm_units as --init_checkpoint"
            )
        return weights, lines, 0
    if -1 < num_layers < layers:
        if choice != "auto":
            raise UserError(
                f"--context_vectors={choice}: the LSTM of {init_checkpoint} reads layer {layers}, which "
                f"--encoder_layers={num_layers} removes; leave one of them out"
            )
        return weights, [*lines, f"  no context vectors: their LSTM reads layer {layers}, which is left out"], 0
    if choice == "none":
        return weights, lines, 0
    if choice == "random":
        # An output layer that was trained above this LSTM does not fit a random one.
        kept = own if "decoder" in description else None
        line = f"  context vectors: from a random LSTM with {units:,} units in each direction"
        return dataclasses.replace(weights, own_head=kept), [*lines, line], units
    lstm = {path: tensor for path, tensor in own.tensors.items() if part_of(path) == name}
    rest = dataclasses.replace(own, tensors={path: each for path, each in own.tensors.items() if path not in lstm})
    lines = [rest.left_out if line == own.left_out else line for line in lines]
    moved = {path.replace(name, CONTEXT_LSTM, 1): tensor for path, tensor in lstm.items()}
    return (
        dataclasses.replace(weights, tensors={**weights.tensors, **moved}, own_head=rest),
        [*lines, f"  context vectors: from its LSTM with {units:,} units in each direction"],
        units,
    )


def check_start(choice: str, init_checkpoint: str | None, takes_weights: bool) -> None:
    """Checks that --context_vectors fits the start of a run.

    Args:
        choice: value of --context_vectors.
        init_checkpoint: the model to start from, or None.
        takes_weights: whether the run uses the weights of init_checkpoint, not only its shape.

    Raises:
        UserError: the flag has no effect on this start.
    """
    if choice != "auto" and not init_checkpoint:
        raise UserError(
            f"--context_vectors={choice}: without --init_checkpoint there are no context vectors; leave it out"
        )
    if choice == "random" and not takes_weights:
        raise UserError("--context_vectors=random: with --random_init all weights are random already; leave it out")


def in_head(head: TaskHead, units: int, num_layers: int) -> TaskHead:
    """The Head of a run with its context vectors.

    Args:
        head: Head or Decoder. A Decoder has no context vectors.
        units: U of the LSTM, or 0.
        num_layers: layers of the encoder.

    Raises:
        UserError: the head would read one vector that does not depend on the text.
    """
    if not isinstance(head, Head):
        return head
    reads_first = head.stands_on != TOKENS and head.pooling in ("cls", "last") and not head.bilstm_units
    if reads_first and not units and not num_layers:
        raise UserError(
            f"--pooling={head.pooling}: the encoder has no layers, so the vector of a special piece does not depend "
            "on the text; give --pooling=mean, max or concat, or --bilstm_units"
        )
    return dataclasses.replace(head, context_units=units)
