"""Our training step of a GPT or an LSTM, for language_model_step. reference_answers runs this script."""

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
from keras_bert_app.modeling.architectures import make_pretrainer
from keras_bert_app.training.language_model_objective import (
    BidirectionalObjective,
    LanguageModelObjective,
    LstmObjective,
)
from keras_bert_app.training.strategies import KERAS_POLICIES

PACKAGES = ("tensorflow", "keras")
# torch.nn.LSTM has nothing like these.
_NOT_IN_TORCH = (
    "embedding_dropout_prob",
    "recurrent_dropout_prob",
    "activation_penalty",
    "temporal_penalty",
    "state_clip",
)


def make(request):
    weights, _ = load.load_weights(request["directory"])
    is_gpt, dropout = request["architecture"] == "gpt", request["dropout"]
    names = ("hidden_dropout_prob", *(("attention_probs_dropout_prob",) if is_gpt else ()))
    names += () if is_gpt else ("input_dropout_prob", "output_dropout_prob")
    without = {} if is_gpt else dict.fromkeys(_NOT_IN_TORCH, 0.0)
    config = weights.config.replace(**dict.fromkeys(names, dropout), **without)
    ids = np.load(request["batch_file"])["input_word_ids"]
    batch = {"input_word_ids": ids, "input_mask": np.ones_like(ids), "input_type_ids": np.zeros_like(ids)}
    run = PretrainingConfig(
        language_model=config.language_model,
        global_batch_size=ids.shape[0],
        max_seq_length=ids.shape[1],
        jit_compile=request["compiled"],
        **optimizer_settings(
            **{name: request[name] for name in ("precision", "learning_rate", "beta_2", "epsilon", "weight_decay")}
        ),
    ).resolved()
    make_model = functools.partial(
        make_pretrainer, config, dtype=KERAS_POLICIES[run.precision], parts=run.trained_parts()
    )
    lstm_objective = BidirectionalObjective if request["is_bidirectional"] else LstmObjective
    objective = LanguageModelObjective() if is_gpt else lstm_objective()
    return step_function(make_model, weights, run, objective, batch)


answer = step_answers.answers_of_steps(make)
