"""BERT's optimizer against google-research/bert's own (tests/golden/generate_optimizer.py)."""
import numpy as np
import tensorflow as tf

from keras_bert_app.training.optimizers import AdamWeightDecay, warmup_linear_decay

# Google's variable names, and what such weights are called here.
PATHS = {"layer/kernel": "layer/kernel", "layer/LayerNorm/gamma": "layer/layer_norm/gamma", "layer/bias": "layer/bias"}


def test_twelve_clipped_and_decayed_steps_equal_google_s(golden):
    arrays = np.load(golden / "optimizer_google.npz")
    variables = {ours: tf.Variable(arrays[f"initial/{theirs}"]) for theirs, ours in PATHS.items()}
    optimizer = AdamWeightDecay(variables)
    for step, expected_rate in enumerate(arrays["learning_rate"]):
        rate = warmup_linear_decay(step, learning_rate=1e-2, num_warmup_steps=4, num_train_steps=10)
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
