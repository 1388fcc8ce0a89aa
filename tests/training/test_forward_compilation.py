"""Compiled parts give the same evaluations and predictions, and are chosen where they save time."""

import numpy as np
import pytest
import tensorflow as tf

from benchmarks.step.random_batches import random_batch
from keras_bert_app.config.bert_config import BertConfig
from keras_bert_app.config.pretraining_config import PretrainingConfig
from keras_bert_app.modeling import execution
from keras_bert_app.modeling.execution import PARTS, PLAIN
from keras_bert_app.modeling.pretrainer import BertPretrainer
from keras_bert_app.modeling.task_head import TEXT, Head
from keras_bert_app.modeling.task_model import BertTaskModel
from keras_bert_app.training import forward
from keras_bert_app.training.compilation import inference_execution
from keras_bert_app.training.losses import PretrainingObjective

CONFIG = BertConfig(
    vocab_size=97,
    hidden_size=24,
    num_attention_heads=3,
    num_hidden_layers=2,
    intermediate_size=40,
    max_position_embeddings=32,
    hidden_dropout_prob=0.1,
)
RUN = PretrainingConfig(max_seq_length=32, global_batch_size=4, max_predictions_per_seq=5, precision="bfloat16")


@pytest.mark.parametrize("policy, limit", [("float32", 1e-6), ("mixed_bfloat16", 2e-2)])
def test_compiled_predictions_equal_plain_ones_at_every_length(monkeypatch, policy, limit):
    model = BertTaskModel(CONFIG, Head(TEXT, 3, pooling="mean"), seed=5, dtype=policy)
    plain, compiled = (
        forward.make_prediction_call(tf.distribute.get_strategy(), model, each) for each in (PLAIN, PARTS)
    )
    batch = random_batch(CONFIG, RUN)
    kernels = []
    real = execution._kernel
    monkeypatch.setattr(execution, "_kernel", lambda *key: kernels.append(key) or real(*key))
    for length in (32, 9, 17):
        rows = {name: batch[name][:, :length] for name in ("input_word_ids", "input_mask", "input_type_ids")}
        before, expected = len(kernels), plain(rows)
        assert len(kernels) == before
        np.testing.assert_allclose(compiled(rows), expected, atol=limit, rtol=0)
    assert kernels


@pytest.mark.parametrize("policy, limit", [("float32", 1e-6), ("mixed_bfloat16", 1e-2)])
def test_compiled_evaluations_equal_plain_ones(policy, limit):
    model, objective = BertPretrainer(CONFIG, seed=5, dtype=policy), PretrainingObjective()
    plain, compiled = (
        forward.make_evaluation_call(tf.distribute.get_strategy(), model, objective, each)(random_batch(CONFIG, RUN))
        for each in (PLAIN, PARTS)
    )
    np.testing.assert_allclose(compiled, plain, rtol=limit)
    assert (plain != 0).any()


@pytest.mark.parametrize(
    "precision, is_worth, expected",
    [("bfloat16", True, PARTS), ("bfloat16", False, PLAIN), ("float32", True, PLAIN)],
)
def test_parts_are_compiled_only_in_bfloat16_and_only_where_it_is_worth_it(precision, is_worth, expected):
    run = PretrainingConfig(precision=precision)
    assert inference_execution(run, tf.distribute.get_strategy(), is_worth) == expected


@pytest.mark.parametrize(
    "strategy, graphs",
    [(tf.distribute.get_strategy(), [[None, None]]), (tf.distribute.MirroredStrategy(["CPU:0"]), [[3, 8], [3, None]])],
)
def test_the_number_of_graphs_does_not_grow_with_the_number_of_lengths(strategy, graphs):
    traced = []

    def model(batch, execution):
        traced.append(batch["input_mask"].shape.as_list())
        return {"logits": tf.reduce_sum(batch["input_mask"], axis=1, keepdims=True)}

    call = forward.make_prediction_call(strategy, model)
    for length in (8, 16, 5):
        assert (call({"input_mask": tf.ones([3, length], tf.int32)}) == length).all()
    assert traced == graphs
    assert (call({"input_mask": tf.ones([2, 7], tf.int32)}) == 7).all()
    # MirroredStrategy needs one more graph, which serves all numbers of rows.
    assert traced[len(graphs) :] == ([] if graphs[-1] == [None, None] else [[None, None]])
