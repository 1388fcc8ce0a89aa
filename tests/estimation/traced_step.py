"""Traces a pre-training step and an optimizer's update, and counts the FLOP and the memory of their graphs."""

import collections

import tensorflow as tf

from keras_bert_app.modeling.execution import Execution
from keras_bert_app.modeling.pretrainer import BertPretrainer
from keras_bert_app.training.losses import PretrainingObjective
from keras_bert_app.training.optimizers.choice import make_optimizer
from keras_bert_app.training.strategies import KERAS_POLICIES

PRODUCTS = ("MatMul", "BatchMatMulV2")
# Operations whose result shares the memory of their first input. A matrix product absorbs transposes of its inputs.
_SAME_MEMORY = ("Reshape", "Unpack", "Transpose", "Identity", "IdentityN")

TracedStep = collections.namedtuple("TracedStep", "model operations num_forward")


def traced_step(config, run):
    """Traces the gradient of the pre-training loss. The operations of the forward pass come first."""
    model, objective = BertPretrainer(config, dtype=KERAS_POLICIES[run.precision]), PretrainingObjective()
    variables = [variable.value for variable in model.trainable_variables]
    num_forward = []

    def gradients(batch, seed):
        execution = Execution(run.jit_compile)
        with tf.GradientTape() as tape:
            outputs = objective.outputs(model, batch, seed if model.has_dropout else None, execution)
            loss = objective.mean_loss(objective.loss_sums(outputs, batch, execution), *objective.counts(batch))
        num_forward.append(len(tf.compat.v1.get_default_graph().get_operations()))
        return [tf.convert_to_tensor(gradient) for gradient in tape.gradient(loss, variables)]

    rows, length, predictions = run.global_batch_size, run.max_seq_length, run.max_predictions_per_seq
    token_spec, prediction_spec = tf.TensorSpec([rows, length], tf.int32), tf.TensorSpec([rows, predictions], tf.int32)
    batch = {
        **dict.fromkeys(("input_word_ids", "input_mask", "input_type_ids"), token_spec),
        **dict.fromkeys(("masked_lm_positions", "masked_lm_ids"), prediction_spec),
        "masked_lm_weights": tf.TensorSpec([rows, predictions], tf.float32),
        "next_sentence_labels": tf.TensorSpec([rows], tf.int32),
    }
    graph = tf.function(gradients).get_concrete_function(batch, tf.TensorSpec([2], tf.int64)).graph
    return TracedStep(model, graph.get_operations(), num_forward[-1])


def traced_update(run, variables, num_hidden_layers):
    """Traces one update of all variables, without a model."""
    optimizer = make_optimizer(run, variables, num_hidden_layers)

    def update():
        for path, variable in variables.items():
            optimizer.update(
                variable,
                optimizer.slots_of(path),
                tf.ones_like(variable),
                tf.constant(1e-3),
                optimizer.step_terms(tf.constant(0)),
                optimizer.traits_of(path),
            )

    return TracedStep(None, tf.function(update).get_concrete_function().graph.get_operations(), 0)


def product_flop(step):
    """The FLOP of all matrix products of the graph."""

    def flop_of(operation):
        is_transposed = operation.get_attr("transpose_a" if operation.type == "MatMul" else "adj_x")
        inner = operation.inputs[0].shape[-2 if is_transposed else -1]
        return 2 * inner * operation.outputs[0].shape.num_elements()

    return sum(flop_of(operation) for operation in step.operations if operation.type in PRODUCTS)


def kept_bytes(step):
    """The bytes of all arrays that the forward pass makes and the backward pass reads."""
    return sum(tensor.shape.num_elements() * tensor.dtype.size for tensor in kept_arrays(step))


def kept_arrays(step):
    """The arrays that the forward pass makes and the backward pass reads, as graph tensors."""
    forward = {operation.name for operation in step.operations[: step.num_forward]}
    kept = {}
    for operation in step.operations[step.num_forward :]:
        for tensor in operation.inputs:
            if tensor.op.name in forward:
                tensor = _owner(tensor)
                kept[tensor.name] = tensor
    return [
        tensor
        for tensor in kept.values()
        if tensor.op.type not in ("ReadVariableOp", "Placeholder", "Const") and tensor.shape.rank
    ]


def _owner(tensor):
    while tensor.op.type in _SAME_MEMORY and _is_folded(tensor):
        tensor = tensor.op.inputs[tensor.value_index if tensor.op.type == "IdentityN" else 0]
    return tensor


def _is_folded(tensor):
    return tensor.op.type != "Transpose" or all(user.type in (*PRODUCTS, "Transpose") for user in tensor.consumers())
