"""Our training step, for training_step. reference_answers runs this script in the environment of this project."""

import functools
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", ".."))

import numpy as np
import step_answers

from benchmarks.common.adam_settings import optimizer_settings
from benchmarks.step.our_step import step_function
from keras_bert_app.config.pretraining_config import PretrainingConfig
from keras_bert_app.interop import load
from keras_bert_app.modeling.pretrainer import BertPretrainer
from keras_bert_app.training.losses import PretrainingObjective
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
    make_model = functools.partial(BertPretrainer, config, dtype=KERAS_POLICIES[run.precision])
    return step_function(make_model, weights, run, PretrainingObjective(), batch)


answer = step_answers.answers_of_steps(make)
