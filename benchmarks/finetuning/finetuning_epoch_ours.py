"""Our fine-tuning, for finetuning_epoch. reference_answers runs this script in the environment of this project.

The script calls the functions that `finetune` calls. The texts of a batch have similar lengths. Batches are padded to
lengths that fit the data.
"""

import dataclasses
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", ".."))

import epoch_answers
import numpy as np
import tensorflow as tf

from benchmarks.common.adam_settings import optimizer_settings
from keras_bert_app.config.finetuning_config import FinetuningConfig
from keras_bert_app.interop import load
from keras_bert_app.modeling.task_model import BertTaskModel
from keras_bert_app.tasks import batch_plans, batches, lengths, predicting, scoring
from keras_bert_app.tasks.labelled_data import load_data
from keras_bert_app.tasks.transfer import trained_variables
from keras_bert_app.training import forward, steps, strategies
from keras_bert_app.training.optimizers import choice
from pipelines.wordpiece.tokenizer import BertTokenizer

PACKAGES = ("tensorflow", "keras")
# The lengths of batches are chosen for this many epochs and evaluations, so that the first round compiles all lengths.
_EPOCHS = 40


def make(request):
    weights, _ = load.load_weights(request["directory"], allow_missing=("masked_lm", "next_sentence"))
    data, run = _data_and_run(request, BertTokenizer(weights.vocabulary, weights.config.do_lower_case))
    strategy, task = strategies.make_strategy(run.strategy), data.task
    num_layers = weights.config.num_hidden_layers
    with strategy.scope():
        head = task.family.make_head(task, run, data.labels)
        model = BertTaskModel(weights.config, head, dtype=strategies.KERAS_POLICIES[run.precision])
        load.assign(model, weights)
        optimizer = choice.make_optimizer(run, trained_variables(model, run), num_layers)
    objective = task.family.make_objective(task, run, model.head)
    train_call = steps.make_train_call(strategy, model, optimizer, run, objective, run.length_buckets)
    length_cost = lengths.cost(run.jit_compile, weights.config)
    compiled, shapes = scoring.compilation(strategy, run, weights.config, data.dev, _EPOCHS)
    predict_call = forward.make_prediction_call(strategy, model, compiled)
    long_run = dataclasses.replace(run, num_train_steps=_EPOCHS * run.num_train_steps)
    epochs, step_numbers = iter(range(10**9)), iter(range(10**9))

    def train():
        epoch = next(epochs)
        for batch, (next_epoch, _) in batches.training_batches(data.train, long_run, (epoch, 0), length_cost):
            train_call({name: values[tf.newaxis] for name, values in batch.items()}, next(step_numbers))
            if next_epoch > epoch:
                return

    def predict():
        logits = predicting.unit_logits(
            predict_call, model, data.dev, run, run.global_batch_size, times=_EPOCHS, **shapes
        )
        return np.array(logits)

    return train, predict


def _data_and_run(request, tokenizer):
    """(labelled data, resolved FinetuningConfig of one epoch) of a request."""
    run = FinetuningConfig(
        task="sst-2",
        data_dir=request["data_dir"],
        max_seq_length=request["max_seq_length"],
        global_batch_size=request["batch_size"],
        num_train_epochs=1.0,
        max_train_examples=request["examples"],
        max_eval_examples=request["dev_examples"],
        strategy="one_device",
        jit_compile=request["compiled"],
        log_steps=1,
        **optimizer_settings(precision=request["precision"], learning_rate=request["learning_rate"]),
    )
    data = load_data(run, tokenizer)
    return data, run.resolved(batch_plans.num_batches(data.train, run))


answer = epoch_answers.answers_of_epochs(make)
