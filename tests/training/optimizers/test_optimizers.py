"""Optimizers against references.

AdamW is compared with google-research/bert (tests/golden/generate_optimizer.py), Adafactor and Muon with Keras, and the
others with their papers.
"""

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_bert_app.config.pretraining_config import PretrainingConfig
from keras_bert_app.errors import UserError
from keras_bert_app.modeling.execution import PARTS, UNCOMPILED
from keras_bert_app.training.optimizers import choice
from keras_bert_app.training.optimizers.adafactor import Adafactor
from keras_bert_app.training.optimizers.adam import AdamWeightDecay, Lamb
from keras_bert_app.training.optimizers.muon import Muon, orthogonalized
from keras_bert_app.training.optimizers.schedules import learning_rate
from tests.training.conftest import two_replicas

# Google's names of variables, and the names of the same weights here.
PATHS = {"layer/kernel": "layer/kernel", "layer/LayerNorm/gamma": "layer/layer_norm/gamma", "layer/bias": "layer/bias"}


def test_twelve_clipped_and_decayed_steps_equal_google_s(golden):
    arrays = np.load(golden / "optimizer_google.npz")
    variables = {ours: tf.Variable(arrays[f"initial/{theirs}"]) for theirs, ours in PATHS.items()}
    optimizer = AdamWeightDecay(variables)
    run = PretrainingConfig(learning_rate=1e-2, num_warmup_steps=4, num_train_steps=10)
    for step, expected_rate in enumerate(arrays["learning_rate"]):
        rate = learning_rate(run, step, step / 10)
        np.testing.assert_allclose(rate, expected_rate, atol=1e-8)
        gradients = [tf.constant(arrays[f"gradients/{theirs}"][step]) for theirs in PATHS]
        gradients, norm = tf.clip_by_global_norm(gradients, 1.0)
        np.testing.assert_allclose(norm, arrays["gradient_global_norm"][step], rtol=1e-5)
        optimizer.apply(gradients, rate)
        for theirs, ours in PATHS.items():
            np.testing.assert_allclose(variables[ours], arrays[f"variables/{theirs}"][step], atol=2e-6)
            np.testing.assert_allclose(optimizer.slots["adam_m"][ours], arrays[f"adam_m/{theirs}"][step], atol=2e-6)
            np.testing.assert_allclose(optimizer.slots["adam_v"][ours], arrays[f"adam_v/{theirs}"][step], atol=2e-6)


@pytest.mark.parametrize("kind", [AdamWeightDecay, Adafactor, Muon])
def test_biases_and_layer_norms_of_a_bert_are_not_decayed_and_all_else_is(kind):
    from keras_bert_app import BertConfig, BertPretrainer

    model = BertPretrainer(
        BertConfig(
            vocab_size=31,
            hidden_size=14,
            num_attention_heads=2,
            num_hidden_layers=1,
            intermediate_size=17,
            max_position_embeddings=11,
        )
    )
    variables = {variable.path: variable.value for variable in model.trainable_variables}
    before = {path: variable.numpy() for path, variable in variables.items()}
    optimizer = kind(variables, weight_decay_rate=0.5)
    optimizer.apply([tf.zeros_like(variable) for variable in variables.values()], tf.constant(0.1))
    for path, variable in variables.items():
        factor = 1.0 if path.endswith(("bias", "gamma", "beta")) else 0.95
        np.testing.assert_allclose(variable, before[path] * factor, rtol=1e-6, err_msg=path)


def steps_of(optimizer_class, path, num_steps=7, **arguments):
    """(values of a variable after each step of an optimizer, initial value, gradients)."""
    generator = np.random.RandomState(3)
    initial = generator.normal(size=(5, 6)).astype(np.float32)
    gradients = generator.normal(size=(num_steps, 5, 6)).astype(np.float32)
    variable = tf.Variable(initial)
    optimizer, values = optimizer_class({path: variable}, **arguments), []
    for step, gradient in enumerate(gradients):
        optimizer.apply([tf.constant(gradient)], tf.constant(0.01), tf.constant(step))
        values.append(variable.numpy())
    return values, initial.astype(np.float64), gradients.astype(np.float64)


def test_bias_correction_is_that_of_kingma_and_ba_with_epsilon_added_to_the_corrected_root():
    values, weights, gradients = steps_of(AdamWeightDecay, "layer/kernel", bias_correction=True, epsilon=1e-2)
    m = v = 0.0
    for step, (gradient, after) in enumerate(zip(gradients, values, strict=True), start=1):
        m, v = 0.9 * m + 0.1 * gradient, 0.999 * v + 0.001 * gradient**2
        update = (m / (1 - 0.9**step)) / (np.sqrt(v / (1 - 0.999**step)) + 1e-2)
        weights = weights - 0.01 * (update + 0.01 * weights)
        np.testing.assert_allclose(after, weights, atol=3e-6)


@pytest.mark.parametrize("kind", [AdamWeightDecay, Lamb, Muon, Adafactor])
def test_the_running_mean_counts_the_weights_only_after_updates_that_were_made(kind):
    paths = ("encoder/layer_0/output/kernel", "encoder/layer_1/output/bias", "late/kernel")
    variables = {path: tf.Variable(np.random.RandomState(5).normal(size=(5, 6)), dtype=tf.float32) for path in paths}
    optimizer = kind(variables)
    optimizer.keep_average(0.75)
    optimizer.first_steps = {"late/kernel": 3}
    step_of = tf.function(
        lambda gradient, step, is_good: optimizer.apply([gradient] * 3, tf.constant(0.01), step, is_good)
    )
    weights, expected = [], {path: variable.numpy() for path, variable in variables.items()}
    with optimizer.averaged_weights():
        assert all(np.array_equal(variables[path], expected[path]) for path in paths)  # before any update
    for step, is_good in enumerate((False, True, True, False, True, True)):
        step_of(tf.fill([5, 6], float(step)), tf.constant(step), tf.constant(is_good))
        weights.append({path: variable.numpy() for path, variable in variables.items()})
    for path in paths:
        update_steps = [1, 2, 4, 5] if path != "late/kernel" else [4, 5]
        shares = np.array([0.75**age for age in reversed(range(len(update_steps)))])
        expected[path] = np.tensordot(
            shares / shares.sum(), np.array([weights[step][path] for step in update_steps]), 1
        )
    with pytest.raises(UserError), optimizer.averaged_weights():
        for path in paths:
            np.testing.assert_allclose(variables[path], expected[path], rtol=1e-5, atol=1e-7)
        raise UserError("an error inside the block restores the weights too")
    assert all(np.array_equal(variables[path], weights[-1][path]) for path in paths)


def test_lamb_scales_each_matrix_by_its_trust_ratio_and_splits_query_key_and_value():
    for path, parts in (
        ("layer/kernel", 1),
        ("encoder/layer_0/attention/query_key_value/kernel", 3),
        ("layer/bias", 0),
    ):
        values, weights, gradients = steps_of(Lamb, path, bias_correction=True)
        m = v = 0.0
        for step, (gradient, after) in enumerate(zip(gradients, values, strict=True), start=1):
            m, v = 0.9 * m + 0.1 * gradient, 0.999 * v + 0.001 * gradient**2
            update = (m / (1 - 0.9**step)) / (np.sqrt(v / (1 - 0.999**step)) + 1e-6) + (
                0.01 if parts else 0.0
            ) * weights
            for columns in np.split(np.arange(6), parts or 1):
                norm = np.linalg.norm(weights[:, columns]) / np.linalg.norm(update[:, columns]) if parts else 1.0
                update[:, columns] *= norm
            weights = weights - 0.01 * update
            np.testing.assert_allclose(after, weights, atol=3e-6, err_msg=path)


def assert_equal_to_keras_own(make_ours, make_theirs, cases, num_steps, atol):
    """Compares steps at a rate of 0.02 with gradients of very different sizes.

    Args:
        make_ours: function of dict path -> tf.Variable that makes an Optimizer.
        make_theirs: function that makes a Keras optimizer.
        cases: list of (shape, path, number of matrices side by side).
        num_steps: number of steps.
        atol: largest absolute difference.
    """
    generator = np.random.RandomState(5)
    for shape, path, parts in cases:
        initial = generator.normal(size=shape).astype(np.float32)
        gradients = [generator.normal(size=shape) * 10 ** generator.uniform(-4, 1) for _ in range(num_steps)]
        variable = tf.Variable(initial)
        ours, keras_own = make_ours({path: variable}), make_theirs()
        theirs = [keras.Variable(part) for part in np.split(initial, parts, axis=-1)]
        keras_own.build(theirs)
        for step, gradient in enumerate(np.float32(gradients)):
            ours.apply([tf.constant(gradient)], tf.constant(0.02), tf.constant(step))
            keras_own.apply([tf.constant(part) for part in np.split(gradient, parts, axis=-1)])
            expected = np.concatenate([part.numpy() for part in theirs], axis=-1)
            np.testing.assert_allclose(variable, expected, atol=atol, err_msg=f"{path} after step {step}")
        assert np.abs(variable.numpy() - initial).max() > 0.02


def test_adafactor_equals_that_of_keras_and_splits_query_key_and_value():
    # Some gradients are so large that Adafactor clips their updates.
    assert_equal_to_keras_own(
        lambda variables: Adafactor(variables, weight_decay_rate=0.0),
        lambda: keras.optimizers.Adafactor(0.02, relative_step=False),
        [((5, 6), "layer/kernel", 1), ((7,), "layer/bias", 1), ((4, 9), "attention/query_key_value/kernel", 3)],
        12,
        atol=1e-6,
    )


def test_muon_equals_that_of_keras_and_splits_query_key_and_value():
    assert_equal_to_keras_own(
        lambda variables: Muon(variables, weight_decay_rate=0.1),
        lambda: keras.optimizers.Muon(0.02, weight_decay=0.1),
        [
            ((5, 6), "encoder/layer_0/output/kernel", 1),
            ((11, 4), "encoder/layer_1/intermediate/kernel", 1),
            ((4, 9), "encoder/layer_0/attention/query_key_value/kernel", 3),
        ],
        8,
        atol=2e-6,
    )


def test_muon_equals_adamw_for_all_weights_but_the_matrices_of_layers():
    paths = [
        "encoder/embeddings/word_embeddings",
        "masked_lm/transform/kernel",
        "encoder/layer_0/output/bias",
        "encoder/layer_0/output/kernel",
    ]
    initial = np.random.RandomState(4).normal(size=(3, 5)).astype(np.float32)
    results = []
    for kind in (AdamWeightDecay, Muon):
        variables = {path: tf.Variable(initial[0] if "bias" in path else initial) for path in paths}
        optimizer = kind(variables)
        for step in range(3):
            optimizer.apply(
                [variable * (step + 1.0) for variable in variables.values()], tf.constant(0.01), tf.constant(step)
            )
        results.append([variable.numpy() for variable in variables.values()])
    assert [np.array_equal(adam, muon) for adam, muon in zip(*results, strict=True)] == [True, True, True, False]


def test_orthogonalized_keeps_singular_vectors_and_brings_singular_values_near_1():
    generator = np.random.RandomState(8)
    matrices = generator.normal(size=(2, 7, 12)) * [[[1.0]], [[1e-6]]]
    for values, dtype, error in (
        (matrices, "float32", 1e-3),
        (matrices.transpose(0, 2, 1), "float32", 1e-3),
        (matrices, "bfloat16", 0.04),
    ):
        result = orthogonalized(tf.constant(values, tf.float32), dtype).numpy()
        assert result.dtype == np.float32
        left, _, right = np.linalg.svd(values, full_matrices=False)
        singular_values = np.einsum("mrk,mrc,mkc->mk", left, result, right)
        np.testing.assert_allclose(np.einsum("mrk,mk,mkc->mrc", left, singular_values, right), result, atol=error)
        assert 0.65 < singular_values.min() and singular_values.max() < 1.25
    assert not orthogonalized(tf.zeros([1, 3, 4])).numpy().any()


def test_adafactor_gives_one_and_two_replicas_the_same_weights_and_slots():
    generator = np.random.RandomState(6)
    initial = {
        path: generator.normal(size=shape).astype(np.float32)
        for path, shape in (("a/query_key_value/kernel", (4, 9)), ("a/bias", (7,)))
    }
    gradients = [
        [generator.normal(size=value.shape).astype(np.float32) for value in initial.values()] for _ in range(3)
    ]

    def weights_and_slots(strategy):
        with strategy.scope():
            variables = {path: tf.Variable(value) for path, value in initial.items()}
            optimizer = Adafactor(variables, learning_rate_factors={"a/query_key_value/kernel": 1.0, "a/bias": 0.5})

        @tf.function
        def take_step(values, step):
            strategy.run(lambda: optimizer.apply(values, tf.constant(0.1), step))

        for step, values in enumerate(gradients):
            take_step([tf.constant(value) for value in values], tf.constant(step))
        return [variable.numpy() for by_path in (variables, *optimizer.slots.values()) for variable in by_path.values()]

    one, two = (weights_and_slots(strategy) for strategy in (tf.distribute.OneDeviceStrategy("CPU:0"), two_replicas()))
    assert all(np.array_equal(*pair) for pair in zip(one, two, strict=True))
    assert np.abs(one[0] - initial["a/query_key_value/kernel"]).max() > 0.1


def test_adafactor_keeps_one_number_for_each_row_and_each_column_of_a_matrix():
    optimizer = Adafactor({"a/kernel": tf.Variable(tf.zeros([31, 17])), "a/bias": tf.Variable(tf.zeros([17]))})
    sizes = {
        name: {path: int(tf.size(slot)) for path, slot in slots.items()} for name, slots in optimizer.slots.items()
    }
    assert sizes == {
        "adafactor_rows": {"a/kernel": 31},
        "adafactor_columns": {"a/kernel": 17},
        "adafactor_v": {"a/bias": 17},
        "adafactor_update_norm": {"a/kernel": 1, "a/bias": 1},
    }


def test_bias_correction_is_refused_for_adafactor():
    with pytest.raises(UserError, match="--bias_correction is for adamw, lamb and muon"):
        PretrainingConfig(optimizer="adafactor", bias_correction=True)


@pytest.mark.parametrize("kind", [AdamWeightDecay, Lamb, Muon, Adafactor])
def test_a_step_that_is_not_good_changes_neither_weights_nor_slots(kind):
    variables = {"layer_0/kernel": tf.Variable([[1.0, 2.0]]), "layer_0/bias": tf.Variable([1.0, 2.0])}
    optimizer = kind(variables)
    gradients = [tf.constant([[0.5, 1.0]]), tf.constant([0.5, 1.0])]
    optimizer.apply(gradients, tf.constant(0.1))
    watched = [*variables.values(), *(slot for slots in optimizer.slots.values() for slot in slots.values())]
    before = [variable.numpy() for variable in watched]
    optimizer.apply([gradient * np.nan for gradient in gradients], tf.constant(0.1), tf.constant(1), is_good=False)
    assert all(np.array_equal(variable.numpy(), value) for variable, value in zip(watched, before, strict=True))
    optimizer.apply(gradients, tf.constant(0.1), tf.constant(1))
    # The variables are the first of the watched values.
    assert not any(np.array_equal(*pair) for pair in zip(variables.values(), before, strict=False))


@pytest.mark.parametrize(
    "kind, arguments",
    [(AdamWeightDecay, {"bias_correction": True}), (Lamb, {"bias_correction": True}), (Muon, {}), (Adafactor, {})],
)
def test_the_update_norm_is_the_norm_of_the_change_of_the_weights(kind, arguments):
    variables = {
        "layer_0/kernel": tf.Variable(np.random.RandomState(1).normal(size=(5, 6)).astype(np.float32)),
        "layer_0/bias": tf.Variable(tf.ones([6])),
    }
    optimizer = kind(variables, learning_rate_factors={"layer_0/kernel": 1.0, "layer_0/bias": 0.5}, **arguments)
    for step in range(3):
        before = np.concatenate([variable.numpy().ravel() for variable in variables.values()])
        gradients = [tf.ones_like(variable) * (step + 1.0) for variable in variables.values()]
        optimizer.apply(gradients, tf.constant(1e-3), tf.constant(step))
    after = np.concatenate([variable.numpy().ravel() for variable in variables.values()])
    norms = choice.make_norms_call(tf.distribute.get_strategy(), optimizer)(1e-3, 3)
    np.testing.assert_allclose(norms["update_norm"], np.linalg.norm(after - before), rtol=2e-3)
    np.testing.assert_allclose(norms["parameter_norm"], np.linalg.norm(after), rtol=1e-5)


def test_layer_decay_lowers_the_rate_from_the_heads_down():
    paths = [
        "bert/masked_lm/output_bias",
        "encoder/pooler/kernel",
        "encoder/layer_1/output/kernel",
        "encoder/layer_0/attention/output/bias",
        "encoder/embeddings/word_embeddings",
    ]
    assert list(choice.learning_rate_factors(paths, 2, 0.5).values()) == [1.0, 1.0, 0.5, 0.25, 0.125]
    mixes = ["scalar_mix/scores", "output_mix/scores", "scalar_mix/gamma", "encoder/layer_1/output/kernel"]
    assert list(choice.learning_rate_factors(mixes, 2, 0.5, 20.0).values()) == [20.0, 20.0, 1.0, 0.5]
    decoder = ["decoder/layer_0/query/kernel", "decoder/layer_5/query/kernel"]
    assert choice.learning_rate_factors(decoder, 2, 0.0) == dict.fromkeys(decoder, 1.0)
    # The masked-LM head's own output table belongs to the head.
    assert choice.learning_rate_factors(["masked_lm/output_embeddings"], 2, 0.5) == {"masked_lm/output_embeddings": 1.0}
    variable = tf.Variable([1.0])
    optimizer = AdamWeightDecay(
        {"encoder/layer_0/kernel": variable},
        weight_decay_rate=0.0,
        learning_rate_factors={"encoder/layer_0/kernel": 0.25},
    )
    optimizer.apply([tf.constant([0.1])], tf.constant(0.01))
    np.testing.assert_allclose(variable.numpy(), 1 - 0.25 * 0.01 * 0.01 / np.sqrt(1e-5), rtol=1e-4)


@pytest.mark.parametrize(
    "kind, arguments",
    [
        (AdamWeightDecay, {"bias_correction": True}),
        (Lamb, {"bias_correction": True}),
        (Muon, {"bias_correction": True}),
        (Adafactor, {}),
    ],
)
def test_a_weight_that_thaws_later_takes_the_same_steps_as_one_trained_from_the_beginning(kind, arguments):
    gradients = np.random.RandomState(5).normal(size=(4, 3, 7)).astype(np.float32)
    weights, norms = [], []
    for first in (0, 280):
        variables = {"head/kernel": tf.Variable(tf.ones([3, 7]))}
        optimizer = kind(variables, **arguments)
        optimizer.first_steps = {"head/kernel": first} if first else {}
        for number, gradient in enumerate(gradients):
            optimizer.apply([tf.constant(gradient)], tf.constant(0.1), tf.constant(first + number))
        weights.append(variables["head/kernel"].numpy())
        norms.append(optimizer.update_norms(tf.constant(0.1), tf.constant(first + 4))[0].numpy())
    np.testing.assert_array_equal(*weights)
    np.testing.assert_array_equal(*norms)


def test_a_frozen_weight_does_not_count_in_the_gradient_norm():
    optimizer = AdamWeightDecay({"low": tf.Variable([1.0]), "high": tf.Variable([1.0])})
    optimizer.first_steps = {"low": 3, "high": 0}
    gradients = [tf.constant([4.0]), tf.constant([3.0])]
    norms = [float(tf.linalg.global_norm(optimizer.without_frozen(gradients, tf.constant(step)))) for step in (2, 3)]
    assert norms == [3.0, 5.0]


@pytest.mark.parametrize(
    "kind, arguments",
    [(AdamWeightDecay, {}), (AdamWeightDecay, {"bias_correction": True}), (Lamb, {}), (Muon, {}), (Adafactor, {})],
)
def test_a_compiled_update_on_one_or_two_replicas_equals_an_update_by_plain_ops(kind, arguments):
    generator = np.random.RandomState(7)
    shapes = {
        "a/layer_0/query_key_value/kernel": (4, 9),
        "b/layer_0/kernel": (4, 9),
        "c/kernel": (4, 9),
        "c/bias": (9,),
        "d/layer_0/kernel": (4, 9),
    }
    initial = {path: generator.normal(size=shape).astype(np.float32) for path, shape in shapes.items()}
    gradients = [
        [generator.normal(size=value.shape).astype(np.float32) for value in initial.values()] for _ in range(4)
    ]

    def weights_and_slots(execution, strategy):
        """The values of weights and slots after each step."""
        values_by_step = []
        with strategy.scope():
            variables = {path: tf.Variable(value) for path, value in initial.items()}
            optimizer = kind(
                variables, learning_rate_factors={path: 0.5 if path[0] == "c" else 1.0 for path in shapes}, **arguments
            )
            optimizer.first_steps = {"d/layer_0/kernel": 2}
            optimizer.keep_average(0.75)

        def replica_step(values, step):
            optimizer.apply(values, tf.constant(0.1), step, step != 3, tf.constant(0.25), execution)

        @tf.function(autograph=False)
        def take_step(values, step):
            strategy.run(replica_step, (values, step))

        for step, values in enumerate(gradients):
            take_step([tf.constant(value) for value in values], tf.constant(step))
            values_by_step.append(
                [
                    variable.numpy()
                    for by_path in (variables, *optimizer.slots.values())
                    for variable in by_path.values()
                ]
            )
        return values_by_step

    one_device = tf.distribute.OneDeviceStrategy("CPU:0")
    plain = weights_and_slots(UNCOMPILED, one_device)
    for strategy in (one_device, two_replicas()):
        compiled = weights_and_slots(PARTS, strategy)
        for step, (mine, expected) in enumerate(zip(compiled, plain, strict=True)):
            for ours, theirs in zip(mine, expected, strict=True):
                np.testing.assert_allclose(ours, theirs, atol=2e-6, err_msg=f"step {step}")
        # Step 3 was skipped, because is_good was False.
        assert all(np.array_equal(*pair) for pair in zip(compiled[3], compiled[2], strict=True))
        assert not any(np.array_equal(*pair) for pair in zip(compiled[2][:5], initial.values(), strict=True))
