"""The losses of sentence vectors against numbers by hand, and gradients in parts against those of the whole batch."""

import functools
import math

import numpy as np
import pytest
import tensorflow as tf

from keras_bert_app.config.bert_config import BertConfig
from keras_bert_app.config.finetuning_config import FinetuningConfig
from keras_bert_app.modeling import backend
from keras_bert_app.modeling.execution import UNCOMPILED
from keras_bert_app.modeling.vector_model import VectorHead, VectorModel
from keras_bert_app.tasks import vector_losses
from keras_bert_app.tasks.vector_objective import CONTRASTIVE, COSENT, COSINE, DISTILL, TRIPLET, VectorObjective
from keras_bert_app.training import steps
from keras_bert_app.training.cached_gradients import forward_backward_in_parts
from keras_bert_app.training.optimizers import choice

ONES = tf.ones([2])


def test_info_nce_is_the_cross_entropy_of_the_own_candidate():
    anchors = tf.constant([[1.0, 0.0], [0.0, 1.0]])
    candidates = tf.constant([[0.6, 0.8], [0.8, 0.6], [1.0, 0.0]])
    loss, hits = vector_losses.info_nce(anchors, candidates, tf.constant([0, 1]), ONES, temperature=0.5)

    def cross_entropy(cosines, own):
        return -cosines[own] / 0.5 + math.log(sum(math.exp(cosine / 0.5) for cosine in cosines))

    assert float(loss) == pytest.approx(cross_entropy([0.6, 0.8, 1.0], 0) + cross_entropy([0.8, 0.6, 0.0], 1), abs=1e-5)
    assert float(hits) == 0.0
    excluded = tf.constant([[False, True, True]])
    loss, hits = vector_losses.info_nce(anchors[:1], candidates, tf.constant([0]), ONES[:1], 0.5, excluded)
    assert float(loss) == pytest.approx(0.0, abs=1e-6) and float(hits) == 1.0


def test_cosent_counts_each_pair_in_the_wrong_order():
    cosines, scores = tf.constant([0.2, 0.5, 0.9]), tf.constant([3.0, 2.0, 2.0])
    # Only the first example has a higher score than another one: than both of them.
    expected = math.log(1 + math.exp((0.5 - 0.2) / 0.1) + math.exp((0.9 - 0.2) / 0.1))
    assert float(vector_losses.cosent(cosines, scores, tf.ones([3]), 0.1)) == pytest.approx(expected, abs=1e-4)
    without_third = vector_losses.cosent(cosines, scores, tf.constant([1.0, 1.0, 0.0]), 0.1)
    assert float(without_third) == pytest.approx(math.log(1 + math.exp(3.0)), abs=1e-4)


def test_triplets_take_the_farthest_of_the_same_and_the_nearest_of_another_label():
    vectors = tf.constant([[0.0, 0.0], [3.0, 4.0], [0.0, 1.0], [6.0, 8.0]])
    labels = tf.constant([0, 0, 1, 2])
    loss, count = vector_losses.batch_hard_triplets(vectors, labels, tf.ones([4]), margin=0.5)
    # From (0, 0): 5 to its own, 1 to the nearest other. From (3, 4): 5 to its own, sqrt(18) to the nearest other.
    assert float(count) == 2.0 and float(loss) == pytest.approx(4.5 + (5.5 - math.sqrt(18)), abs=1e-5)
    loss, count = vector_losses.batch_hard_triplets(vectors, labels, tf.constant([1.0, 0.0, 1.0, 1.0]), margin=0.5)
    assert (float(loss), float(count)) == (0.0, 0.0)  # no example has another one of its label


def test_distillation_by_hand():
    vectors = tf.constant([[[1.0, 0.0], [0.0, 1.0]], [[0.6, 0.8], [5.0, 5.0]], [[9.0, 9.0], [9.0, 9.0]]])
    teacher = tf.constant([[1.0, 0.0], [0.0, 1.0], [1.0, 0.0]])
    weights = tf.constant([[1.0, 1.0], [1.0, 0.0], [0.0, 0.0]])
    loss = vector_losses.distillation(vectors, teacher, weights)
    assert float(loss) == pytest.approx(0.0 + 2.0 + (0.36 + 0.04), abs=1e-6)

    def loss_of(num_texts):
        units = tf.math.l2_normalize(tf.random.stateless_normal([3, 3, 2], [1, 2]), axis=-1)[:, :num_texts]
        batch = {"input_mask": tf.ones([3, num_texts, 1]), "example_weights": tf.ones([3]), "teacher_vectors": teacher}
        return float(VectorObjective(DISTILL, 0.1).loss_sums({"vectors": units}, batch)["loss_sum"])

    assert loss_of(3) == pytest.approx(loss_of(2), abs=1e-5)  # a negative is no text to learn
    assert loss_of(1) < loss_of(2) - 0.1


def test_equal_vectors_have_a_finite_gradient():
    vectors = tf.Variable([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    with tf.GradientTape() as tape:
        loss, _ = vector_losses.batch_hard_triplets(vectors, tf.constant([0, 0, 1]), tf.ones([3]), 2.0)
    assert np.isfinite(tape.gradient(loss, vectors).numpy()).all()


CONFIG = BertConfig(
    vocab_size=30,
    hidden_size=16,
    num_hidden_layers=1,
    num_attention_heads=2,
    intermediate_size=24,
    max_position_embeddings=12,
    hidden_dropout_prob=0.0,
    attention_probs_dropout_prob=0.0,
    initializer_range=0.3,
)


def batch_of(num_examples, group_size, **labels):
    generator = np.random.default_rng(1)
    ids = generator.integers(5, 30, (num_examples, group_size, 8)).astype(np.int32)
    mask = np.ones_like(ids)
    mask[:, -1, 5:] = 0
    if group_size > 2:
        mask[0, 2] = 0  # the first example lacks its negative
    weights = np.ones(num_examples, np.float32)
    weights[-1] = 0.0
    inputs = {"input_word_ids": ids * mask, "input_mask": mask, "input_type_ids": 0 * ids}
    return {name: tf.constant(values) for name, values in {**inputs, "example_weights": weights, **labels}.items()}


CASES = {
    CONTRASTIVE: (3, {}, {"is_symmetric": True}),
    COSENT: (2, {"scores": np.linspace(0, 1, 8).astype(np.float32)}, {"sizes": (8,)}),
    COSINE: (2, {"scores": np.linspace(0, 1, 8).astype(np.float32)}, {}),
    DISTILL: (3, {"teacher_vectors": np.eye(8, 16, dtype=np.float32)}, {}),
    TRIPLET: (1, {"labels": np.array([0, 1, 2, 0, 1, 2, 0, 1], np.int32)}, {}),
}


FIRST_PLACES = 3


def with_short_first_texts(batch):
    """The batch with first texts of FIRST_PLACES tokens, which the model reads in rows of this length."""
    mask = batch["input_mask"].numpy()
    mask[:, 0, FIRST_PLACES:] = 0
    places = tf.zeros([len(mask), 1, FIRST_PLACES], tf.int32)
    return {**batch, "input_mask": tf.constant(mask), "input_first_places": places}


def relative_error(gradients, expected):
    """The largest difference of two gradients of all weights, divided by the length (norm) of the second one."""
    one, other = (
        np.concatenate([np.ravel(tf.convert_to_tensor(each)) for each in gradient]).astype(np.float64)
        for gradient in (gradients, expected)
    )
    return np.abs(one - other).max() / np.linalg.norm(other)


@pytest.mark.parametrize("loss, is_first_apart", [*((loss, False) for loss in CASES), (CONTRASTIVE, True)])
def test_gradients_in_parts_are_those_of_the_whole_batch(loss, is_first_apart):
    group_size, labels, options = CASES[loss]
    model = VectorModel(CONFIG, VectorHead("mean"), seed=1)
    objective, batch = VectorObjective(loss, 0.1, **options), batch_of(8, group_size, **labels)
    batch = with_short_first_texts(batch) if is_first_apart else batch
    variables = [variable.value for variable in model.trainable_variables]

    def loss_of(vectors, batch):
        sums = objective.loss_sums({"vectors": vectors}, batch)
        return objective.mean_loss(sums, *objective.counts(batch)), tf.stack(list(sums.values()))

    def vectors_of(rows, part):
        return objective.outputs(model, rows)["vectors"]

    def gradients_of(rows, part, of_vectors):
        with tf.GradientTape() as tape:
            product = tf.reduce_sum(vectors_of(rows, part) * of_vectors)
        return [tf.convert_to_tensor(gradient) for gradient in tape.gradient(product, variables)]

    results = [
        tf.function(forward_backward_in_parts(vectors_of, gradients_of, loss_of, n), autograph=False)(batch)
        for n in (1, 4)
    ]
    with tf.GradientTape() as tape:
        value, sums = loss_of(objective.outputs(model, batch)["vectors"], batch)
    whole = tape.gradient(value, variables)
    assert float(value) > 0.01
    for gradients, sums_of_parts in results:
        np.testing.assert_allclose(sums_of_parts, sums, rtol=1e-6, atol=1e-6)
        assert relative_error(gradients, whole) < 1e-6


@pytest.mark.parametrize("is_first_apart", [False, True])
def test_both_passes_of_a_part_have_the_same_dropout(is_first_apart):
    model = VectorModel(CONFIG.replace(hidden_dropout_prob=0.3), VectorHead("mean"), seed=1)
    objective, batch = VectorObjective(CONTRASTIVE, 0.1), batch_of(8, 2)
    batch = with_short_first_texts(batch) if is_first_apart else batch
    run = FinetuningConfig(task="similarity", gradient_accumulation_steps=4, global_batch_size=8, seed=5)
    variables = {variable.path: variable.value for variable in model.trainable_variables}
    optimizer = choice.make_optimizer(run, variables, 1)
    step, replica, counts = 3, 0, objective.counts(batch)
    forward_backward = steps._forward_backward(model, optimizer, run, objective, UNCOMPILED, False, 1)
    gradients, sums = forward_backward(batch, (tf.constant(step), tf.constant(replica)), *counts)

    def vectors_of(part, step):
        numbers = step, replica, part
        seed = functools.reduce(backend.fold_in, numbers, tf.constant([run.seed, steps._DROPOUT], tf.int64))
        rows = {name: values[2 * part : 2 * part + 2] for name, values in batch.items()}
        return objective.outputs(model, rows, seed, UNCOMPILED)["vectors"]

    def gradient_of(step):
        """(gradient of one tape over the vectors of all parts, loss)"""
        with tf.GradientTape() as tape:
            vectors = tf.concat([vectors_of(part, step) for part in range(4)], axis=0)
            loss = objective.mean_loss(objective.loss_sums({"vectors": vectors}, batch), *counts)
        return tape.gradient(loss, list(variables.values())), loss

    expected, loss = gradient_of(step)
    assert float(sums[0]) == pytest.approx(float(loss), abs=1e-6)
    assert relative_error(gradients, expected) < 1e-6
    assert relative_error(gradient_of(step + 1)[0], expected) > 1e-3


def test_an_absent_text_and_an_example_of_weight_zero_change_nothing():
    model = VectorModel(CONFIG, VectorHead("mean"), seed=1)
    objective, batch = VectorObjective(CONTRASTIVE, 0.1), batch_of(8, 3)
    sums = objective.loss_sums(objective.outputs(model, batch), batch)
    # Other ids in the row without mask, and in the last example, whose weight is 0.
    ids = batch["input_word_ids"].numpy()
    ids[0, 2], ids[-1] = 7, 9
    other = {**batch, "input_word_ids": tf.constant(ids)}
    again = objective.loss_sums(objective.outputs(model, other), other)
    assert float(sums["loss_sum"]) == pytest.approx(float(again["loss_sum"]), abs=1e-6)
    assert float(sums["examples"]) == 7.0


@pytest.mark.parametrize("group_size", [2, 3])
def test_short_first_texts_in_rows_of_their_own_length_change_nothing(group_size):
    model = VectorModel(CONFIG, VectorHead("mean"), seed=1)
    objective, batch = VectorObjective(CONTRASTIVE, 0.1), batch_of(8, group_size)
    most = 3
    mask = batch["input_mask"].numpy()
    mask[:, 0, most:] = 0
    batch["input_mask"] = tf.constant(mask)
    apart = {**batch, "input_first_places": tf.zeros([8, 1, most], tf.int32)}
    results = []
    for inputs in (batch, apart):
        with tf.GradientTape() as tape:
            outputs = objective.outputs(model, inputs)
            loss = objective.loss_sums(outputs, inputs)["loss_sum"]
        results += [(outputs["vectors"], tape.gradient(loss, model.trainable_variables))]
    (vectors, gradients), (again, others) = results
    is_present = mask[:, :, 0] > 0
    np.testing.assert_allclose(again.numpy()[is_present], vectors.numpy()[is_present], atol=1e-6)
    for one, other in zip(gradients, others, strict=True):
        np.testing.assert_allclose(tf.convert_to_tensor(other), tf.convert_to_tensor(one), atol=1e-5)
    # The dropout of the two texts of a pair differs, also if the texts are the same.
    same = {name: tf.repeat(values[:, :1], 2, axis=1) for name, values in batch.items() if name.startswith("input_")}
    same["input_first_places"] = tf.zeros([8, 1, mask.shape[2]], tf.int32)
    with_dropout = VectorModel(CONFIG.replace(hidden_dropout_prob=0.5), VectorHead("mean"), seed=1)
    first, second = tf.unstack(with_dropout(same, dropout_seed=tf.constant([1, 2]))["vectors"], axis=1)
    assert np.abs(first - second).max() > 0.1


def test_vectors_have_length_1_and_their_pooling():
    batch = batch_of(4, 2)
    vectors = {
        name: VectorModel(CONFIG, VectorHead(name), seed=1)(batch)["vectors"].numpy() for name in ("mean", "cls")
    }
    assert vectors["mean"].shape == (4, 2, 16) and np.abs(vectors["mean"] - vectors["cls"]).max() > 0.01
    np.testing.assert_allclose(np.linalg.norm(vectors["mean"], axis=-1), 1.0, atol=1e-6)


@pytest.mark.parametrize("name", ["contrastive", "symmetric", "cosent", "cosine", "triplet", "distill"])
def test_losses_and_gradients_are_those_of_sentence_transformers(golden, name):
    values = np.load(golden / "vector_losses.npz")
    given = tf.constant(values["vectors"])
    vectors = given[:, : {"contrastive": 3, "triplet": 1}.get(name, 2)]
    loss = CONTRASTIVE if name == "symmetric" else name
    objective = VectorObjective(loss, 0.05, is_symmetric=name == "symmetric", margin=0.5)
    batch = {
        "input_mask": tf.ones([*vectors.shape[:2], 1], tf.int32),
        "example_weights": tf.ones([8]),
        "scores": tf.constant(values["scores"]),
        "labels": tf.constant(values["labels"], tf.int32),
        "teacher_vectors": tf.math.l2_normalize(values["vectors"][:, 2], axis=-1),
    }
    # Its MSELoss is the mean over two texts of 16 numbers; ours is the sum over both.
    factor = 2 * 16 if name == "distill" else 1
    with tf.GradientTape() as tape:
        tape.watch(given)
        units = tf.math.l2_normalize(given[:, : vectors.shape[1]], axis=-1)
        value = objective.mean_loss(objective.loss_sums({"vectors": units}, batch), *objective.counts(batch))
    assert float(value) == pytest.approx(factor * float(values[f"{name}_loss"]), rel=1e-5)
    np.testing.assert_allclose(tape.gradient(value, given), factor * values[f"{name}_gradient"], atol=2e-6)


def test_sizes_are_learned_beside_the_whole_vector_and_equal_texts_are_no_negatives():
    vectors = tf.math.l2_normalize(tf.random.stateless_normal([4, 3, 6], [1, 2]), axis=-1)
    batch = {"input_mask": tf.ones([4, 3, 1], tf.int32), "example_weights": tf.ones([4])}

    def loss(**changes):
        sums = VectorObjective(CONTRASTIVE, 0.1, sizes=changes.pop("sizes", ())).loss_sums(
            {"vectors": changes.pop("vectors", vectors)}, {**batch, **changes}
        )
        return float(sums["loss_sum"])

    first_two = tf.math.l2_normalize(vectors[:, :, :2], axis=-1)
    assert loss(sizes=(6, 2)) == pytest.approx((loss() + loss(vectors=first_two)) / 2, abs=1e-5)
    numbers = np.arange(12).reshape(4, 3)
    assert loss(text_numbers=tf.constant(numbers)) == pytest.approx(loss(), abs=1e-6)
    numbers[0, 2] = numbers[1, 0]  # the negative of the first example is the second anchor
    numbers[2, 2] = numbers[3, 1]  # that of the third is the positive of the fourth
    cosines = np.einsum("bd,cd->bc", vectors[:, 0], tf.reshape(tf.transpose(vectors[:, 1:], [1, 0, 2]), [8, 6])) / 0.1
    cosines[1, 4] = cosines[3, 6] = -np.inf
    expected = np.mean([np.log(np.exp(row).sum()) - row[number] for number, row in enumerate(cosines)])
    assert loss(text_numbers=tf.constant(numbers)) == pytest.approx(expected, abs=1e-4)
