"""Our training step, for training_step. reference_answers runs this script in the environment of this project."""

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", ".."))

import numpy as np
import step_answers
import tensorflow as tf

from benchmarks.common.adam_settings import optimizer_settings
from keras_bert_app.config.pretraining_config import PretrainingConfig
from keras_bert_app.interop import load
from keras_bert_app.modeling.pretrainer import BertPretrainer
from keras_bert_app.training import steps
from keras_bert_app.training.losses import PretrainingObjective
from keras_bert_app.training.optimizers import choice
from keras_bert_app.training.strategies import KERAS_POLICIES

PACKAGES = ("tensorflow", "keras")


def make(request):
    weights, _ = load.load_weights(request["directory"])
    config = weights.config.replace(
        hidden_dropout_prob=request["dropout"], attention_probs_dropout_prob=request["dropout"]
    )
    batch = dict(np.load(request["batch_file"]))
    rows, length = batch["input_word_ids"].shape
    run = PretrainingConfig(
        global_batch_size=rows,
        max_seq_length=length,
        max_predictions_per_seq=batch["masked_lm_ids"].shape[1],
        jit_compile=request["compiled"],
        **optimizer_settings(
            **{name: request[name] for name in ("precision", "learning_rate", "beta_2", "epsilon", "weight_decay")}
        ),
    ).resolved()
    strategy, objective = tf.distribute.OneDeviceStrategy("CPU:0"), PretrainingObjective()
    with strategy.scope():
        model = BertPretrainer(config, dtype=KERAS_POLICIES[run.precision])
        load.assign(model, weights)
        optimizer = choice.make_optimizer(
            run, {variable.path: variable.value for variable in model.trainable_variables}, config.num_hidden_layers
        )
    train_call = steps.make_train_call(strategy, model, optimizer, run, objective)
    stacked = {name: tf.constant(values[None]) for name, values in batch.items()}
    number = iter(range(10**9))

    def step():
        (sums,) = train_call(stacked, next(number))
        return float(objective.metrics(dict(zip(objective.sum_names, sums, strict=False)))["loss"])

    return step, model.count_params()


answer = step_answers.answers_of_steps(make)
