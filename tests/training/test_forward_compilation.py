"""Evaluations and predictions whose parts XLA compiles: the plain ones' answers, and when that is done."""

import numpy as np
import pytest
import tensorflow as tf

from benchmarks.random_batches import random_batch
from keras_bert_app.config import BertConfig
from keras_bert_app.modeling.pretrainer import BertPretrainer
from keras_bert_app.modeling.task_model import TEXT, BertTaskModel, Head
from keras_bert_app.pretraining_config import PretrainingConfig
from keras_bert_app.training import steps
from keras_bert_app.training.losses import PretrainingObjective

CONFIG = BertConfig(vocab_size=97, hidden_size=24, num_attention_heads=3, num_hidden_layers=2, intermediate_size=40,
                    max_position_embeddings=32, hidden_dropout_prob=0.1)
RUN = PretrainingConfig(max_seq_length=32, global_batch_size=4, max_predictions_per_seq=5, precision="bfloat16")


@pytest.mark.parametrize("policy, limit", [("float32", 1e-6), ("mixed_bfloat16", 2e-2)])
def test_predictions_are_those_without_compilation_at_every_length(policy, limit):
    model = BertTaskModel(CONFIG, Head(TEXT, 3, pooling="mean"), seed=5, dtype=policy)
    plain, compiled = (steps.make_prediction_call(tf.distribute.get_strategy(), model, what) for what in ("none", "parts"))
    batch = random_batch(CONFIG, RUN)
    for length in (32, 9, 17):
        rows = {name: batch[name][:, :length] for name in ("input_word_ids", "input_mask", "input_type_ids")}
        np.testing.assert_allclose(compiled(rows), plain(rows), atol=limit, rtol=0)


@pytest.mark.parametrize("policy, limit", [("float32", 1e-6), ("mixed_bfloat16", 1e-2)])
def test_evaluations_are_those_without_compilation(policy, limit):
    model, objective = BertPretrainer(CONFIG, seed=5, dtype=policy), PretrainingObjective()
    plain, compiled = (steps.make_evaluation_call(tf.distribute.get_strategy(), model, objective, what)(random_batch(CONFIG, RUN))
                       for what in ("none", "parts"))
    np.testing.assert_allclose(compiled, plain, rtol=limit)
    assert (plain != 0).any()


@pytest.mark.parametrize("precision, is_long, what", [
    ("bfloat16", True, "parts"), ("bfloat16", False, "none"), ("float32", True, "none")])
def test_parts_are_compiled_for_many_batches_in_bfloat16(precision, is_long, what):
    run = PretrainingConfig(precision=precision)
    assert steps.forward_compilation(tf.distribute.get_strategy(), run, is_long) == what
