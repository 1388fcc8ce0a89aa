"""BiLstm has the outputs of Keras' LSTM, and its own loop for gradients has the gradients of Keras' LSTM."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_bert_app.modeling.execution import PARTS, PLAIN, STEP, UNCOMPILED
from keras_bert_app.modeling.lstm import BiLstm

UNITS, WIDTH, LENGTHS = 5, 7, (9, 4, 1)
X = tf.random.stateless_normal([3, 9, WIDTH], seed=(1, 2))
UPSTREAM = tf.random.stateless_normal([3, 9, 2 * UNITS], seed=(4, 5))
MASK = tf.sequence_mask(LENGTHS, 9, dtype=tf.int32)


def built(seed=3):
    """Builds a BiLstm whose weights are all random."""
    layer = BiLstm(UNITS, WIDTH, "zeros", "zeros")
    layer.build()
    generator = np.random.RandomState(seed)
    layer.set_weights([generator.normal(0, 0.5, weight.shape) for weight in layer.weights])
    return layer


def keras_bilstm(layer):
    """Builds keras.layers.Bidirectional with the weights of a BiLstm."""
    theirs = keras.layers.Bidirectional(keras.layers.LSTM(UNITS, return_sequences=True))
    theirs.build((None, None, WIDTH))
    kernel, recurrent, bias = layer.get_weights()
    theirs.set_weights(
        [
            part
            for number in range(2)
            for part in (
                np.split(kernel, 2, axis=1)[number],
                np.split(recurrent, 2, axis=1)[number],
                np.split(bias, 2)[number],
            )
        ]
    )
    return theirs


def result_and_gradients(function, tensors):
    """Returns [result of the function, gradient of each tensor]."""
    with tf.GradientTape() as tape:
        tape.watch(tensors)
        result = function()
        loss = tf.reduce_sum(tf.cast(result, tf.float32) * UPSTREAM[:, : tf.shape(result)[1]])
    return [result, *tape.gradient(loss, tensors)]


def joined(gradients):
    """Joins the six gradients of Keras to three, as in a BiLstm."""
    forward, backward = gradients[:3], gradients[3:]
    return [
        tf.concat([forward[0], backward[0]], 1),
        tf.concat([forward[1], backward[1]], 1),
        tf.concat([forward[2], backward[2]], 0),
    ]


@pytest.mark.parametrize("execution", (PLAIN, UNCOMPILED, PARTS, STEP))
def test_outputs_and_gradients_are_those_of_keras(execution):
    layer = built()
    theirs = keras_bilstm(layer)

    def ours():
        return layer(X, MASK, execution=execution)

    run = tf.function(
        lambda: result_and_gradients(ours, [X, *[weight.value for weight in layer.weights]]),
        jit_compile=execution.compiles_all,
        autograph=False,
    )
    output, x_gradient, *mine = run()
    expected, expected_x_gradient, *others = result_and_gradients(
        lambda: theirs(X, mask=tf.cast(MASK, tf.bool)) * tf.cast(MASK, tf.float32)[:, :, None],
        [X, *[weight.value for weight in theirs.weights]],
    )
    np.testing.assert_allclose(output, expected, atol=1e-6)
    np.testing.assert_allclose(x_gradient, expected_x_gradient, atol=1e-5)
    for gradient, other in zip(mine, joined(others), strict=True):
        np.testing.assert_allclose(gradient, other, atol=2e-5)


def test_a_bilstm_in_bfloat16_stays_near_float32():
    layer = built()
    narrow = BiLstm(UNITS, WIDTH, "zeros", "zeros", dtype="mixed_bfloat16")
    narrow.build()
    narrow.set_weights(layer.get_weights())
    output, *gradients = result_and_gradients(
        lambda: narrow(tf.cast(X, tf.bfloat16), MASK, execution=UNCOMPILED),
        [weight.value for weight in narrow.weights],
    )
    expected, *others = result_and_gradients(
        lambda: layer(X, MASK, execution=UNCOMPILED), [weight.value for weight in layer.weights]
    )
    assert output.dtype == tf.bfloat16
    np.testing.assert_allclose(tf.cast(output, tf.float32), expected, atol=0.02)
    for mine, other in zip(gradients, others, strict=True):
        assert mine.dtype == tf.float32
        assert tf.norm(mine - other) < 0.03 * tf.norm(other)


def test_the_state_is_reset_at_a_masked_position_and_masked_positions_give_zeros():
    layer = built()
    mask = tf.constant([[1, 1, 0, 1, 1, 1, 0, 0, 0]])
    output = layer(X[:1], mask)
    np.testing.assert_array_equal(output[0, 2], np.zeros(2 * UNITS))
    alone = layer(X[:1, 3:6], tf.ones([1, 3], tf.int32))
    np.testing.assert_allclose(output[0, 3:6], alone[0], atol=1e-6)


def test_the_initial_bias_is_one_for_the_forget_gate_and_zero_for_the_others():
    layer = BiLstm(2, WIDTH, "zeros", "zeros")
    layer.build()
    np.testing.assert_array_equal(layer.bias, [0, 0, 1, 1, 0, 0, 0, 0] * 2)


def test_rows_of_any_length_share_one_graph():
    layer = built()

    @tf.function(
        input_signature=[tf.TensorSpec([None, None, WIDTH]), tf.TensorSpec([None, None], tf.int32)], autograph=False
    )
    def run(x, mask):
        weights = [weight.value for weight in layer.weights]
        return result_and_gradients(lambda: layer(x, mask, execution=UNCOMPILED), weights)[0]

    for length in (9, 4):
        np.testing.assert_allclose(
            run(X[:, :length], MASK[:, :length]), layer(X[:, :length], MASK[:, :length]), atol=1e-6
        )
