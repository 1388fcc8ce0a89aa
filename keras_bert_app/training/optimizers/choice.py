"""The optimizer that --optimizer names, learning rates by layer, and norms for the log."""

import functools
import re
from collections.abc import Callable, Iterable, Mapping

import numpy as np
import tensorflow as tf

from keras_bert_app.config.training_config import TrainingConfig
from keras_bert_app.training.optimizers.adam import AdamWeightDecay, Lamb
from keras_bert_app.training.optimizers.optimizer_base import Optimizer

_MIX = re.compile("(?:^|/)(?:scalar_mix|output_mix)/scores$")  # the shares of task_model.ScalarMix


def make_optimizer(run: TrainingConfig, variables: Mapping[str, tf.Variable], num_hidden_layers: int) -> Optimizer:
    """Makes the optimizer that a run names. Call this function in the strategy's scope.

    Args:
        run: TrainingConfig, resolved.
        variables: dict path -> tf.Variable of the variables that are trained.
        num_hidden_layers: number of the encoder's layers, for layer_decay.
    """
    optimizer = _make_optimizer(run, variables, num_hidden_layers)
    if run.precision == "float16":
        optimizer.scale_loss()
    return optimizer


def _make_optimizer(run, variables, num_hidden_layers):
    factors = learning_rate_factors(variables, num_hidden_layers, run.layer_decay, run.mix_rate_factor)
    # Most runs train with AdamW, and load no other optimizer.
    if run.optimizer == "adafactor":
        from keras_bert_app.training.optimizers.adafactor import Adafactor

        return Adafactor(variables, run.weight_decay_rate, factors, run.not_decayed)
    kind = {"adamw": AdamWeightDecay, "lamb": Lamb}.get(run.optimizer)
    if run.optimizer == "muon":
        from keras_bert_app.training.optimizers.muon import Muon

        kind = functools.partial(Muon, compute_dtype="bfloat16" if run.precision == "bfloat16" else "float32")
    return kind(
        variables,
        run.weight_decay_rate,
        run.adam_beta_1,
        run.adam_beta_2,
        run.adam_epsilon,
        bias_correction=run.bias_correction,
        learning_rate_factors=factors,
        not_decayed=run.not_decayed,
    )


def learning_rate_factors(
    paths: Iterable[str], num_hidden_layers: int, layer_decay: float, mix_rate_factor: float = 1.0
) -> dict[str, float]:
    """The factor of the learning rate for each variable, as dict path -> factor.

    The factor of heads and decoders is 1, but the shares of a mix of layers have mix_rate_factor. The factor of each
    layer is layer_decay times the factor of the layer above. Howard and Ruder 2018 and ELECTRA (Clark et al. 2020,
    appendix A) use such a layer-wise decay.

    Args:
        paths: paths of the variables.
        num_hidden_layers: number of the encoder's layers.
        layer_decay: factor for each layer.
        mix_rate_factor: factor for the shares of a mix.
    """
    return {
        path: mix_rate_factor
        if _MIX.search(path)
        else layer_decay ** (num_hidden_layers + 1 - depth(path, num_hidden_layers))
        for path in paths
    }


def depth(path: str, num_hidden_layers: int) -> int:
    """The height of a variable in the model.

    Args:
        path: path of the variable.
        num_hidden_layers: number of the encoder's layers.

    Returns:
        0 for embeddings, 1 for the encoder's lowest layer, num_hidden_layers + 1 for heads and decoders.
    """
    if match := re.match(r"encoder/layer_(\d+)/", path):
        return 1 + int(match[1])
    return 0 if path.startswith("encoder/embeddings/") else num_hidden_layers + 1


def make_norms_call(strategy: tf.distribute.Strategy, optimizer: Optimizer) -> Callable[[float, int], dict[str, float]]:
    """Makes a function (learning_rate, step) that computes global norms for the log, outside of updates.

    Args:
        strategy: the devices.
        optimizer: Optimizer.

    Returns:
        function that returns a dict: parameter_norm is the norm of the weights, and update_norm is the norm of the last
            update, whose number is `step`.
    """
    # A TPU runs only compiled programs, and fetching all weights for one figure would take too long.
    is_tpu = isinstance(strategy, tf.distribute.TPUStrategy)
    call = norms_function(strategy, optimizer) if is_tpu else functools.partial(_norms, optimizer)

    def norms(learning_rate, step):
        weight_norm, update_norms = call(tf.constant(learning_rate, tf.float32), tf.constant(step, tf.int32))
        is_trained = [step > optimizer.first_steps.get(path, 0) for path in optimizer.variables_by_path]
        return {
            "parameter_norm": float(weight_norm),
            "update_norm": float(np.linalg.norm(update_norms.numpy()[is_trained])),
        }

    return norms


def norms_function(strategy: tf.distribute.Strategy, optimizer: Optimizer) -> Callable:
    """Makes the tf.function that make_norms_call uses on a TPU.

    Args:
        strategy: the devices.
        optimizer: Optimizer.

    Returns:
        tf.function (learning_rate float32, step int32) -> [norm of all weights, norms of the updates].
    """

    def replica_norms(learning_rate, step):
        return _norms(optimizer, learning_rate, step)

    @tf.function(autograph=False)
    def call(learning_rate, step):
        return [
            strategy.experimental_local_results(norms)[0]
            for norms in strategy.run(replica_norms, (learning_rate, step))
        ]

    return call


def _norms(optimizer, learning_rate, step):
    """(norm of all weights, norms of the updates [number of variables])."""
    weights = [tf.convert_to_tensor(variable) for variable in optimizer.variables_by_path.values()]
    return tf.linalg.global_norm(weights), tf.stack(optimizer.update_norms(learning_rate, step))
