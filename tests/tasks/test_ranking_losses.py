"""The losses of rerankers against numbers by hand and against those of sentence-transformers."""

import math

import numpy as np
import pytest
import tensorflow as tf

from keras_bert_app.modeling.task_head import TEXT, Head
from keras_bert_app.modeling.task_model import BertTaskModel
from keras_bert_app.tasks import ranking_objective
from keras_bert_app.tasks.ranking_objective import BINARY, GRADED, LISTWISE, RankingObjective
from tests.tasks.test_vector_losses import CONFIG

HEAD = Head(TEXT, 1)


def losses_of(objective, logits, batch):
    sums = objective.loss_sums({"logits": logits}, batch)
    return objective.mean_loss(sums, *objective.counts(batch)), sums


def pairs(labels, weights=None):
    weights = [1.0] * len(labels) if weights is None else weights
    return {"labels": tf.constant(labels), "example_weights": tf.constant(weights)}


def lists(labels, has_document, weights=None):
    mask = tf.constant(has_document, tf.int32)[:, :, None]
    return {**pairs(labels, weights), "input_mask": mask}


def test_a_pair_has_the_sigmoid_cross_entropy_of_its_label():
    loss, sums = losses_of(
        RankingObjective(BINARY, HEAD), tf.constant([[2.0], [-1.0], [9.0]]), pairs([1.0, 1.0, 0.0], [1.0, 1.0, 0.0])
    )
    expected = (math.log(1 + math.exp(-2.0)) + math.log(1 + math.exp(1.0))) / 2
    assert float(loss) == pytest.approx(expected, abs=1e-6)
    assert (float(sums["correct"]), float(sums["count"])) == (1.0, 2.0)


def test_grades_are_shares_between_the_lowest_and_the_highest():
    head = Head(TEXT, 1, scale=4.0, offset=1.0)
    objective = RankingObjective(GRADED, head)
    logits = tf.constant([[1.0 + 4.0 * 0.5], [1.0 - 4.0 * 2.0]])  # the outputs 0.5 and -2
    loss, sums = losses_of(objective, logits, pairs([4.0, 1.0]))  # the shares 0.75 and 0
    expected = (math.log(1 + math.exp(0.5)) - 0.75 * 0.5 + math.log(1 + math.exp(-2.0))) / 2
    assert float(loss) == pytest.approx(expected, abs=1e-6)
    assert list(objective.metrics({name: float(value) for name, value in sums.items()})) == ["loss"]
    assert objective.description == "loss graded: how well a document answers its query, from 1 to 5"
    answers = ranking_objective.answers(logits, head, GRADED)[:, 0]
    np.testing.assert_allclose(answers, [1 + 4 / (1 + math.exp(-0.5)), 1 + 4 / (1 + math.exp(2.0))], rtol=1e-6)
    assert ranking_objective.answers(logits, HEAD, BINARY) is logits


def test_relevant_documents_of_a_list_share_the_probability_and_padding_has_none():
    logits = tf.constant([[1.0, 0.0, 2.0, 50.0], [0.0, 3.0, 1.0, -1.0]])
    batch = lists([[2.0, 0.0, 1.0, 0.0, 0.0], [1.0, 0.0, 0.0, 0.0, 0.0]], [[1, 1, 1, 0], [1, 1, 1, 1]], [1.0, 0.0])
    loss, sums = losses_of(RankingObjective(LISTWISE, HEAD), logits, batch)
    log_sum = math.log(sum(map(math.exp, (1.0, 0.0, 2.0))))
    assert float(loss) == pytest.approx(log_sum - (2 / 3 * 1.0 + 1 / 3 * 2.0), abs=1e-6)
    assert (float(sums["correct"]), float(sums["count"])) == (1.0, 1.0)  # the third document is first, and relevant


@pytest.mark.parametrize("name", ["binary", "graded", "listwise", "shares"])
def test_losses_and_gradients_are_those_of_sentence_transformers(golden, name):
    values = np.load(golden / "ranking_losses.npz")
    has_document = np.arange(5) < values["counts"][:, None]
    given = tf.constant(values["logits"])
    with tf.GradientTape() as tape:
        tape.watch(given)
        if name in ("binary", "graded"):
            labels = values[name][has_document]
            logits = tf.boolean_mask(given, has_document)[:, None]
            loss, _ = losses_of(RankingObjective(name, HEAD), logits, pairs(labels))
        elif name == "shares":
            loss, _ = losses_of(RankingObjective(LISTWISE, HEAD), given, lists(values["binary"], has_document))
        else:  # a probability for each label, and not in proportion to it
            shares = tf.nn.softmax(tf.where(has_document, values["graded"], -np.inf))
            loss = tf.reduce_mean(ranking_objective.list_net(given, shares, tf.constant(has_document)))
    assert float(loss) == pytest.approx(float(values[f"{name}_loss"]), rel=1e-5)
    np.testing.assert_allclose(tape.gradient(loss, given), values[f"{name}_gradient"], atol=1e-6)


@pytest.mark.parametrize("loss", [BINARY, LISTWISE])
def test_rows_of_padding_change_nothing_and_two_passes_differ_by_dropout(loss):
    generator = np.random.default_rng(1)
    shape = (3, 4, 8) if loss == LISTWISE else (3, 8)
    ids = generator.integers(5, 30, shape).astype(np.int32)
    mask = np.ones_like(ids)
    if loss == LISTWISE:
        mask[0, 2:] = 0
    labels = np.zeros(shape[:-1], np.float32)
    labels[..., 0] = 1.0
    batch = {**pairs(labels), "input_word_ids": ids * mask, "input_mask": mask, "input_type_ids": 0 * ids}
    batch = {name: tf.constant(values) for name, values in batch.items()}
    config = CONFIG.replace(hidden_dropout_prob=0.3)
    objective = RankingObjective(loss, HEAD, consistency_weight=1.0)
    model = BertTaskModel(config, HEAD, seed=1, passes=2)
    outputs = objective.outputs(model, batch)
    assert outputs["logits"].shape == (shape[:-1] if loss == LISTWISE else (3, 1))
    sums = objective.loss_sums(outputs, batch)
    other = {**batch, "input_word_ids": tf.where(mask > 0, batch["input_word_ids"], 7)}
    again = objective.loss_sums(objective.outputs(model, other), other)
    assert float(sums["loss_sum"]) == pytest.approx(float(again["loss_sum"]), abs=1e-6)
    twice = objective.loss_sums(objective.outputs(model, batch, tf.constant([1, 2])), batch)
    without = RankingObjective(loss, HEAD).loss_sums(objective.outputs(model, batch, tf.constant([1, 2])), batch)
    assert np.isfinite(float(twice["loss_sum"])) and float(twice["loss_sum"]) > float(without["loss_sum"]) + 1e-6
