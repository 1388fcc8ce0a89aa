"""BERT's optimizer against google-research/bert's own (tests/golden/generate_optimizer.py), the others against their papers."""
import numpy as np
import tensorflow as tf

from keras_bert_app.run_config import PretrainingConfig
from keras_bert_app.training import optimizers
from keras_bert_app.training.optimizers import AdamWeightDecay, Lamb
from keras_bert_app.training.schedules import learning_rate

# Google's variable names, and what such weights are called here.
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
            np.testing.assert_allclose(optimizer.slots["m"][ours], arrays[f"adam_m/{theirs}"][step], atol=2e-6)
            np.testing.assert_allclose(optimizer.slots["v"][ours], arrays[f"adam_v/{theirs}"][step], atol=2e-6)


def test_biases_and_layer_norms_of_a_bert_are_not_decayed_and_all_else_is():
    from keras_bert_app import BertConfig, BertPretrainer
    model = BertPretrainer(BertConfig(vocab_size=31, hidden_size=14, num_attention_heads=2, num_hidden_layers=1,
                                      intermediate_size=17, max_position_embeddings=11))
    variables = {variable.path: variable.value for variable in model.trainable_variables}
    before = {path: variable.numpy() for path, variable in variables.items()}
    optimizer = AdamWeightDecay(variables, weight_decay_rate=0.5)
    optimizer.apply([tf.zeros_like(variable) for variable in variables.values()], tf.constant(0.1))
    for path, variable in variables.items():
        factor = 1.0 if path.endswith(("bias", "gamma", "beta")) else 0.95
        np.testing.assert_allclose(variable, before[path] * factor, rtol=1e-6, err_msg=path)


def steps_of(optimizer_class, path, num_steps=7, **arguments):
    """(variable after each step as optimizer_class makes it, initial value, gradients)"""
    generator = np.random.RandomState(3)
    initial = generator.normal(size=(5, 6)).astype(np.float32)
    gradients = generator.normal(size=(num_steps, 5, 6)).astype(np.float32)
    variable = tf.Variable(initial)
    optimizer, found = optimizer_class({path: variable}, **arguments), []
    for step, gradient in enumerate(gradients):
        optimizer.apply([tf.constant(gradient)], tf.constant(0.01), tf.constant(step))
        found.append(variable.numpy())
    return found, initial.astype(np.float64), gradients.astype(np.float64)


def test_bias_correction_is_that_of_kingma_and_ba_with_epsilon_beside_the_corrected_root():
    found, weights, gradients = steps_of(AdamWeightDecay, "layer/kernel", bias_correction=True, epsilon=1e-2)
    m = v = 0.0
    for step, (gradient, after) in enumerate(zip(gradients, found), start=1):
        m, v = 0.9 * m + 0.1 * gradient, 0.999 * v + 0.001 * gradient ** 2
        update = (m / (1 - 0.9 ** step)) / (np.sqrt(v / (1 - 0.999 ** step)) + 1e-2)
        weights = weights - 0.01 * (update + 0.01 * weights)
        np.testing.assert_allclose(after, weights, atol=3e-6)


def test_lamb_scales_each_matrix_by_its_trust_ratio_and_takes_query_key_and_value_apart():
    for path, parts in (("layer/kernel", 1), ("encoder/layer_0/attention/query_key_value/kernel", 3), ("layer/bias", 0)):
        found, weights, gradients = steps_of(Lamb, path, bias_correction=True)
        m = v = 0.0
        for step, (gradient, after) in enumerate(zip(gradients, found), start=1):
            m, v = 0.9 * m + 0.1 * gradient, 0.999 * v + 0.001 * gradient ** 2
            update = (m / (1 - 0.9 ** step)) / (np.sqrt(v / (1 - 0.999 ** step)) + 1e-6) + (0.01 if parts else 0.0) * weights
            for columns in np.split(np.arange(6), parts or 1):
                norm = np.linalg.norm(weights[:, columns]) / np.linalg.norm(update[:, columns]) if parts else 1.0
                update[:, columns] *= norm
            weights = weights - 0.01 * update
            np.testing.assert_allclose(after, weights, atol=3e-6, err_msg=path)


def test_a_step_that_is_not_good_changes_neither_weights_nor_slots():
    variable = tf.Variable([1.0, 2.0])
    optimizer = AdamWeightDecay({"layer/kernel": variable})
    optimizer.apply([tf.constant([np.nan, 1.0])], tf.constant(0.1), is_good=False)
    assert variable.numpy().tolist() == [1.0, 2.0] and not optimizer.slots["m"]["layer/kernel"].numpy().any()


def test_the_norm_of_the_update_is_that_of_what_changed():
    for kind in (AdamWeightDecay, Lamb):
        variable = tf.Variable(np.random.RandomState(1).normal(size=(5, 6)).astype(np.float32))
        optimizer = kind({"layer/kernel": variable}, bias_correction=True)
        for step in range(3):
            before = variable.numpy()
            optimizer.apply([tf.ones([5, 6]) * (step + 1.0)], tf.constant(1e-3), tf.constant(step))
        norms = optimizers.norms(optimizer, 1e-3, 3)
        np.testing.assert_allclose(norms["update_norm"], np.linalg.norm(variable.numpy() - before), rtol=2e-3)
        np.testing.assert_allclose(norms["parameter_norm"], np.linalg.norm(variable.numpy()), rtol=1e-5)


def test_layer_decay_lowers_the_rate_from_the_heads_down():
    paths = ["bert/masked_lm/output_bias", "encoder/pooler/kernel", "encoder/layer_1/output/kernel",
             "encoder/layer_0/attention/output/bias", "encoder/embeddings/word_embeddings"]
    assert list(optimizers.learning_rate_factors(paths, 2, 0.5).values()) == [1.0, 1.0, 0.5, 0.25, 0.125]
    variable = tf.Variable([1.0])
    optimizer = AdamWeightDecay({"encoder/layer_0/kernel": variable}, weight_decay_rate=0.0,
                                learning_rate_factors={"encoder/layer_0/kernel": 0.25})
    optimizer.apply([tf.constant([0.1])], tf.constant(0.01))
    np.testing.assert_allclose(variable.numpy(), 1 - 0.25 * 0.01 * 0.01 / np.sqrt(1e-5), rtol=1e-4)
