"""Functions compiled as XLA kernels equal plain ops, forward and backward, and their dropout masks are random."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_bert_app.config.bert_config import BertConfig
from keras_bert_app.modeling import attention, backend, embeddings, heads, layers
from keras_bert_app.modeling.execution import PARTS, PLAIN, UNCOMPILED, Execution
from keras_bert_app.modeling.pretrainer import BertPretrainer
from keras_bert_app.training import losses

SEED = tf.constant([7, -3], tf.int64)


def random(*shape):
    return tf.random.stateless_normal(shape, seed=(len(shape), sum(shape)))


KERNEL = Execution("kernel")
QUERY, KEY, VALUE = (scale * random(2, 3, 5, 7) for scale in (0.3, 0.5, 1.0))


def attention_output(query, key, value, seed, execution):
    """Computes attention with a constant mask, because no code needs the gradient of a mask."""
    return attention.attend(query, key, value, 3 * random(2, 1, 1, 5), seed, 0.3, execution)[0]


def product_with_rows(x, table, execution):
    return heads.product_with_rows(execution)(x, table)


CASES = {
    "gelu_exact": (layers.activated, [random(7, 13), random(13)], {"activation": layers.activation("gelu_exact")}),
    "relu": (layers.activated, [random(7, 13), random(13)], {"activation": layers.activation("relu")}),
    "with_bias": (layers.with_bias, [random(3, 5, 13), random(13)], {}),
    "heads": (attention._heads_of_all, [random(10, 36), random(36), random(2, 1, 1, 5)], {"num_heads": 3}),
    "heads of one": (attention.heads_of_one, [random(2, 5, 12), random(12)], {"num_heads": 3, "scale": 0.5}),
    "layer_norm": (layers.layer_norm, [random(3, 5, 13), random(13), random(13)], {"epsilon": 1e-12}),
    "residual_layer_norm": (
        layers.residual_layer_norm,
        [random(15, 13), 2 * random(15, 13) + 1, random(13), random(13), random(13), SEED],
        {"rate": 0.3, "epsilon": 1e-12},
    ),
    "residual_layer_norm without dropout": (
        layers.residual_layer_norm,
        [random(15, 13), random(15, 13), random(13), random(13), random(13), None],
        {"rate": 0.3, "epsilon": 1e-12},
    ),
    "dropped": (layers.dropped, [random(7, 11), SEED], {"rate": 0.3}),
    "embeddings": (
        embeddings._normalized_sum,
        [random(3, 5, 13), random(5, 13), random(3, 5, 13), random(13), random(13), SEED],
        {"rate": 0.3, "epsilon": 1e-12, "dtype": "float32"},
    ),
    "attention": (attention_output, [QUERY, KEY, VALUE, SEED], {}),
    "attention without dropout": (attention_output, [QUERY, KEY, VALUE, None], {}),
    "cross_entropies": (losses.cross_entropies, [random(7, 11), tf.constant([0, 10, 3, 3, 5, 1, 9])], {}),
    "cross_entropies of large logits": (
        losses.cross_entropies,
        [1e4 * random(2, 3, 11), tf.constant([[0, 10, 3], [3, 5, 1]])],
        {},
    ),
    "cross_entropies with label smoothing": (
        losses.cross_entropies,
        [random(7, 11), tf.constant([0, 10, 3, 3, 5, 1, 9])],
        {"label_smoothing": 0.1},
    ),
    "wide_with_bias": (heads._wide_with_bias, [random(7, 11), random(11)], {}),
    "product_with_rows": (product_with_rows, [random(7, 5), random(11, 5)], {}),
}
# These functions call execution.fused themselves.
FUSE_THEMSELVES = (attention_output, losses.cross_entropies, product_with_rows)


def with_gradients(execution, function, tensors, constants):
    """Returns [each output, gradient of each float tensor]."""
    floats = [tensor for tensor in tensors if tf.is_tensor(tensor) and tensor.dtype.is_floating]
    with tf.GradientTape() as tape:
        tape.watch(floats)
        if function in FUSE_THEMSELVES:
            outputs = function(*tensors, execution=execution, **constants)
        else:
            outputs = execution.fused(function, *tensors, **constants)
        outputs = tf.nest.flatten(outputs)
        loss = sum(tf.reduce_sum(output * random(*output.shape)) for output in outputs)
    return [*outputs, *tape.gradient(loss, floats, unconnected_gradients=tf.UnconnectedGradients.ZERO)]


@pytest.mark.parametrize("name", CASES)
def test_a_compiled_part_and_its_gradients_equal_those_of_plain_ops(name):
    function, tensors, constants = CASES[name]
    compiled = with_gradients(PARTS, function, tensors, constants)
    has_dropout = any(tensor is SEED for tensor in tensors)
    # A single kernel draws the same masks. With PLAIN, the gradients are TensorFlow's own.
    for execution in (KERNEL,) if has_dropout else (KERNEL, UNCOMPILED, PLAIN):
        for mine, expected in zip(compiled, with_gradients(execution, function, tensors, constants), strict=True):
            np.testing.assert_allclose(mine, expected, atol=2e-5)


def test_layer_norms_gradient_with_dropout_is_that_of_tensorflow():
    function, tensors, constants = CASES["residual_layer_norm"]
    expected = with_gradients(PLAIN, function, tensors, constants)  # TensorFlow's masks and gradients
    for mine, other in zip(with_gradients(UNCOMPILED, function, tensors, constants), expected, strict=True):
        np.testing.assert_allclose(mine, other, atol=2e-5)


def test_the_gradient_passes_only_at_values_that_were_not_dropped():
    values = tf.ones([64, 32])
    output, gradient = with_gradients(PARTS, layers.dropped, [values, SEED], {"rate": 0.25})
    np.testing.assert_array_equal(output.numpy() == 0, gradient.numpy() == 0)
    np.testing.assert_allclose(output.numpy()[output.numpy() > 0], 1 / 0.75, rtol=1e-6)


@pytest.mark.parametrize("rate", (0.1, 0.5))
def test_hashed_masks_drop_their_share_without_a_pattern(rate):
    masks = []
    for seed in ((5, 2), (5, 3), (6, 2), (2**31 + 5, 2)):
        masks.append(layers.dropped(tf.ones([512, 256]), tf.constant(seed, tf.int64), rate, KERNEL).numpy() == 0)
    expected, deviation = rate * rate, (rate * (1 - rate) / masks[0].size) ** 0.5
    for mask in masks:
        assert abs(mask.mean() - rate) < 5 * deviation
        # Every row and every column drops about its share.
        for axis in (0, 1):
            assert abs(mask.mean(axis) - rate).max() < 6 * (rate * (1 - rate) / mask.shape[axis]) ** 0.5
        # Neighbouring values are dropped independently.
        for shift, axis in ((1, 0), (1, 1), (2, 1), (16, 1)):
            assert abs((mask & np.roll(mask, shift, axis)).mean() - expected) < 6 * deviation
    pairs = [(i, j) for i in range(len(masks)) for j in range(i)]
    assert all(abs((masks[i] & masks[j]).mean() - expected) < 6 * deviation for i, j in pairs)


def test_every_position_of_a_mask_has_its_own_bits_and_the_program_holds_no_array_of_positions():
    drawn = tf.function(lambda seed: backend.uniform_bits(seed, [13, 24, 40]))
    concrete = drawn.get_concrete_function(tf.TensorSpec([2], tf.int64))
    # The hash has an inverse, so different places have different bits.
    assert np.unique(concrete(tf.constant([5, 2**31 + 3], tf.int64))).size == 13 * 24 * 40
    module = tf.mlir.experimental.convert_function(concrete)
    constants = tf.mlir.experimental.run_pass_pipeline(module, "canonicalize")
    # An array in the text would take more than one character for each value.
    assert max(map(len, constants.splitlines())) < 13 * 24 * 40


def test_a_compiled_model_gives_every_output_of_a_plain_one():
    config = BertConfig(
        vocab_size=41,
        hidden_size=24,
        num_hidden_layers=2,
        num_attention_heads=3,
        intermediate_size=37,
        max_position_embeddings=19,
    )
    model = BertPretrainer(config)
    ids = np.random.RandomState(1).randint(0, 41, (3, 17))
    batch = {
        "input_word_ids": ids,
        "input_mask": (ids > 5).astype("int32"),
        "input_type_ids": ids % 2,
        "masked_lm_positions": ids[:, :4] % 17,
    }
    batch = {name: tf.constant(values, tf.int32) for name, values in batch.items()}
    compiled = model(batch, return_attention_scores=True, execution=PARTS)
    plain = model(batch, return_attention_scores=True)
    for mine, expected in zip(tf.nest.flatten(compiled), tf.nest.flatten(plain), strict=True):
        np.testing.assert_allclose(keras.ops.convert_to_numpy(mine), expected, atol=1e-5)


@pytest.mark.parametrize(
    "function, shapes, constants",
    [
        (layers.activated, [(64, 96), (96,)], {"activation": layers.activation("gelu_exact")}),
        (layers.residual_layer_norm, [(64, 96), (64, 96), (96,), (96,), (96,), None], {"rate": 0.3, "epsilon": 1e-12}),
    ],
)
def test_sums_over_rows_are_not_merged_with_the_computation_of_the_rows(function, shapes, constants):
    # A merged loop computes the rows again for each column. At 2,048 x 512 this takes 16 times as long.
    tensors = [shape and tf.cast(random(*shape), tf.bfloat16 if len(shape) > 1 else tf.float32) for shape in shapes]
    floats = [tensor for tensor in tensors if tensor is not None]

    @tf.function(jit_compile=True, autograph=False)
    def gradients(*floats):
        given = iter(floats)
        with tf.GradientTape() as tape:
            tape.watch(floats)
            output = function(*(next(given) if shape else None for shape in shapes), execution=KERNEL, **constants)
            return tape.gradient(output, floats, random(64, 96))

    program = gradients.experimental_get_compiler_ir(*floats)(stage="optimized_hlo")
    computations = program.split("\n\n")
    products = [computation.split("(")[0].strip() for computation in computations if " dot(" in computation]
    assert products and all(name.startswith("ENTRY") for name in products)
