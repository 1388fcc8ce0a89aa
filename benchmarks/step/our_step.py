"""A training step of ours with given weights, for the scripts that answer as ours."""

from collections.abc import Callable, Mapping

import numpy as np
import tensorflow as tf

from keras_bert_app.interop import load
from keras_bert_app.training import steps
from keras_bert_app.training.optimizers import choice


def step_function(
    make_model: Callable, weights, run, objective, batch: Mapping[str, np.ndarray]
) -> tuple[Callable, int]:
    """Makes a function that takes a step on one batch.

    Args:
        make_model: function of nothing that makes the model. It is called in the scope of the strategy.
        weights: Weights of the model.
        run: PretrainingConfig, resolved.
        objective: objective of pre-training.
        batch: dict of arrays [B, ...].

    Returns:
        (function that takes a step and returns its loss, number of parameters).
    """
    strategy = tf.distribute.OneDeviceStrategy("CPU:0")
    with strategy.scope():
        model = make_model()
        load.assign(model, weights)
        variables = {variable.path: variable.value for variable in model.trainable_variables}
        optimizer = choice.make_optimizer(run, variables, weights.config.num_hidden_layers)
    train_call = steps.make_train_call(strategy, model, optimizer, run, objective)
    stacked = {name: tf.constant(values[None]) for name, values in batch.items()}
    number = iter(range(10**9))

    def step():
        (sums,) = train_call(stacked, next(number))
        return float(objective.metrics(dict(zip(objective.sum_names, sums, strict=False)))["loss"])

    return step, model.count_params()
