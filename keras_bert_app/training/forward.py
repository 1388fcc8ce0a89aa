"""Evaluations and predictions over all replicas, as functions of whole global batches."""

from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

from keras_bert_app.modeling.execution import PLAIN, Execution
from keras_bert_app.training.replicas import split_over_replicas, sum_over_replicas, tracer
from keras_bert_app.training.strategies import device_kind


def make_evaluation_call(
    strategy: tf.distribute.Strategy, model: Any, objective: Any, execution: Execution = PLAIN
) -> Callable[[dict], np.ndarray]:
    """Makes a function that computes the sums of an objective for one global batch.

    Args:
        strategy: the strategy of the model.
        model: the model that the objective calls.
        objective: see training.losses.
        execution: Execution of compilation.inference_execution.

    Returns:
        function of a global batch -> float32 [len(objective.sum_names)].
    """
    call = evaluation_function(strategy, model, objective, execution)
    return lambda batch: call(split_over_replicas(strategy, batch, row_axis=0)).numpy()


def evaluation_function(
    strategy: tf.distribute.Strategy, model: Any, objective: Any, execution: Execution = PLAIN
) -> Callable:
    """Makes the tf.function of make_evaluation_call. Its batch is split over the replicas.

    Args:
        strategy: the strategy of the model.
        model: the model that the objective calls.
        objective: see training.losses.
        execution: Execution of compilation.inference_execution.
    """

    def replica_step(batch):
        sums = objective.loss_sums(objective.outputs(model, batch, execution=execution), batch, execution)
        return sum_over_replicas(
            tf.distribute.get_replica_context(), tf.stack([sums[name] for name in objective.sum_names])
        )

    @tf.function(autograph=False)
    def call(batch):
        return strategy.experimental_local_results(strategy.run(replica_step, args=(batch,)))[0]

    return call


def logits_of(model: Any, batch: dict, execution: Execution) -> Any:
    """The logits of a model that returns a dict with logits.

    Args:
        model: the model.
        batch: dict of tensors [B, ...].
        execution: Execution.
    """
    return model(batch, execution=execution)["logits"]


def make_prediction_call(
    strategy: tf.distribute.Strategy, model: Any, execution: Execution = PLAIN, answers: Callable = logits_of
) -> Callable[[dict], Any]:
    """Makes a function that computes the answers to one global batch on every process.

    Args:
        strategy: the strategy of the model.
        model: the model.
        execution: Execution of compilation.inference_execution.
        answers: function (model, batch, execution) -> tensor [B, ...], or dict of such tensors.

    Returns:
        function of a global batch -> array [B, ...] of all rows, or dict of such arrays.
    """
    call = prediction_function(strategy, model, execution, answers)
    # A program for a TPU cannot leave a size open, so each size has its own program.
    trace = tracer(call, not execution.is_compiled, row_axis=0) if device_kind(strategy) != "TPU" else None

    def predict_call(batch):
        batch = split_over_replicas(strategy, batch, row_axis=0)
        if trace:
            trace(batch)
        return tf.nest.map_structure(lambda values: values.numpy(), call(batch))

    return predict_call


def prediction_function(
    strategy: tf.distribute.Strategy, model: Any, execution: Execution = PLAIN, answers: Callable = logits_of
) -> Callable:
    """Makes the tf.function of make_prediction_call. Its batch is split over the replicas.

    Args:
        strategy: the strategy of the model.
        model: the model.
        execution: Execution of compilation.inference_execution.
        answers: see make_prediction_call.
    """

    def replica_step(batch):
        outputs = answers(model, batch, execution)
        context = tf.distribute.get_replica_context()
        if context.num_replicas_in_sync == 1:
            return outputs
        return tf.nest.map_structure(lambda values: context.all_gather(values, axis=0), outputs)

    # A program for a TPU cannot leave the length open, so each length has its own program.
    @tf.function(reduce_retracing=device_kind(strategy) != "TPU", autograph=False)
    def call(batch):
        return strategy.experimental_local_results(strategy.run(replica_step, args=(batch,)))[0]

    return call
