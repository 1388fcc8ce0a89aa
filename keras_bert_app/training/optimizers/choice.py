"""The optimizers of BERT's pre-training by the names of --optimizer, and what all of them have."""

import functools
import re

import numpy as np
import tensorflow as tf

from keras_bert_app.training.optimizers.adafactor import Adafactor
from keras_bert_app.training.optimizers.adam import AdamWeightDecay, Lamb
from keras_bert_app.training.optimizers.muon import Muon


def make_optimizer(run, variables, num_hidden_layers):
    """The optimizer that a PretrainingConfig names, of a dict path -> tf.Variable; call it in the strategy's scope."""
    factors = learning_rate_factors(variables, num_hidden_layers, run.layer_decay)
    if run.optimizer == "adafactor":
        return Adafactor(variables, run.weight_decay_rate, factors, run.not_decayed)
    kind = {
        "adamw": AdamWeightDecay,
        "lamb": Lamb,
        "muon": functools.partial(Muon, compute_dtype="bfloat16" if run.precision == "bfloat16" else "float32"),
    }[run.optimizer]
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


def learning_rate_factors(paths, num_hidden_layers, layer_decay):
    """dict path -> factor of the learning rate: 1 for the heads, layer_decay once for each layer further down.

    Layer-wise decay of the rate is that of Howard and Ruder 2018 and ELECTRA (Clark et al. 2020, appendix A).
    """
    return {path: layer_decay ** (num_hidden_layers + 1 - depth(path, num_hidden_layers)) for path in paths}


def depth(path, num_hidden_layers):
    """How far up in the model a variable is: 0 for embeddings, 1 for the lowest layer, one more than layers for heads."""
    if match := re.search(r"layer_(\d+)/", path):
        return 1 + int(match[1])
    return 0 if path.startswith("encoder/embeddings/") else num_hidden_layers + 1


def make_norms_call(strategy, optimizer):
    """A function (learning_rate, step) of global norms for people to watch, called outside of updates.

    It returns a dict: parameter_norm of the weights, update_norm of the last update, the number `step`.
    """
    # A TPU computes what is compiled for it alone, and its weights are too many to be fetched for a figure.
    is_tpu = isinstance(strategy, tf.distribute.TPUStrategy)
    call = norms_function(strategy, optimizer) if is_tpu else functools.partial(_norms, optimizer)

    def norms(learning_rate, step):
        of_weights, of_updates = call(tf.constant(learning_rate, tf.float32), tf.constant(step, tf.int32))
        is_trained = [step > optimizer.first_steps.get(path, 0) for path in optimizer.variables_by_path]
        return {
            "parameter_norm": float(of_weights),
            "update_norm": float(np.linalg.norm(of_updates.numpy()[is_trained])),
        }

    return norms


def norms_function(strategy, optimizer):
    """The tf.function that make_norms_call calls on a TPU, of learning_rate float32 and step int32."""

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
