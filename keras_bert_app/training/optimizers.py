"""The optimizers of BERT's pre-training by the names of --optimizer, and what all of them have."""

import re

import tensorflow as tf

from keras_bert_app.training.adafactor import Adafactor
from keras_bert_app.training.adam import AdamWeightDecay, Lamb


def make_optimizer(run, variables, num_hidden_layers):
    """The optimizer that a PretrainingConfig names, of a dict path -> tf.Variable; call it in the strategy's scope."""
    factors = learning_rate_factors(variables, num_hidden_layers, run.layer_decay)
    if run.optimizer == "adafactor":
        return Adafactor(variables, run.weight_decay_rate, factors, run.not_decayed)
    return {"adamw": AdamWeightDecay, "lamb": Lamb}[run.optimizer](
        variables, run.weight_decay_rate, run.adam_beta_1, run.adam_beta_2, run.adam_epsilon,
        bias_correction=run.bias_correction, learning_rate_factors=factors, not_decayed=run.not_decayed)


def learning_rate_factors(paths, num_hidden_layers, layer_decay):
    """dict path -> factor of the learning rate: 1 for the heads, layer_decay once for each layer further down.

    Layer-wise decay of the rate is that of Howard and Ruder 2018 and ELECTRA (Clark et al. 2020, appendix A).
    """
    return {path: layer_decay ** (num_hidden_layers + 1 - depth(path, num_hidden_layers)) for path in paths}


def depth(path, num_hidden_layers):
    """How far up in the model a variable is: 0 for embeddings, 1 for the lowest layer, one more than layers for heads."""
    if match := re.search(r"layer_(\d+)/", path):
        return 1 + int(match[1])
    return 0 if "embeddings" in path else num_hidden_layers + 1


def norms(optimizer, learning_rate, step):
    """Global norms of the weights and of the last update, the number `step`, for people to watch; called outside of updates."""
    norms_of_updates = optimizer.update_norms(learning_rate, step)
    return {"parameter_norm": float(tf.linalg.global_norm(list(optimizer.variables_by_path.values()))),
            "update_norm": float(tf.norm([norm for path, norm in zip(optimizer.variables_by_path, norms_of_updates)
                                          if step > optimizer.first_steps.get(path, 0)]))}
