"""A model compiled whole (TPU, GPU) has the outputs, gradients and dropout masks of a model with compiled parts."""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf

from keras_bert_app.config.bert_config import BertConfig
from keras_bert_app.config.pretraining_config import PretrainingConfig
from keras_bert_app.modeling.encoder import BertEncoder, gated_heads
from keras_bert_app.modeling.execution import GPU_STEP, PARTS, STEP
from keras_bert_app.modeling.pretrainer import BertPretrainer
from tests.estimation.traced_step import kept_arrays, traced_step

SEED = tf.constant([7, -3], tf.int64)
DETERMINISTIC = dataclasses.replace(GPU_STEP, is_deterministic=True)
CONFIG = BertConfig(
    vocab_size=41,
    hidden_size=24,
    num_hidden_layers=1,
    num_attention_heads=3,
    intermediate_size=37,
    max_position_embeddings=19,
    hidden_dropout_prob=0.2,
    attention_probs_dropout_prob=0.3,
)


def batch_of(rows=3):
    ids = np.random.RandomState(1).randint(0, 41, (rows, 17))
    mask = np.arange(17) < np.array([17, 11, 1])[:rows, None]
    batch = {
        "input_word_ids": ids,
        "input_mask": mask,
        "input_type_ids": ids % 2,
        "masked_lm_positions": ids[:, :4] % 17,
    }
    return {name: tf.constant(values, tf.int32) for name, values in batch.items()}


def outputs_and_gradients(execution, model, seed):
    """Returns (outputs, gradients by path) of a model in a training step."""
    batch, variables = batch_of(), model.trainable_variables
    # The function below must not draw these values, because XLA draws other numbers from the same seed.
    upstream = {name: random(values.shape) for name, values in model(batch).items() if not isinstance(values, list)}

    def step():
        with tf.GradientTape() as tape:
            outputs = model(batch, dropout_seed=seed, execution=execution)
            loss = sum(
                tf.reduce_sum(tf.cast(outputs[name], tf.float32) * tf.cast(values, tf.float32))
                for name, values in upstream.items()
            )
        return outputs, tape.gradient(
            loss, [variable.value for variable in variables], unconnected_gradients=tf.UnconnectedGradients.ZERO
        )

    outputs, gradients = tf.function(step, jit_compile=execution.compiles_all, autograph=False)()
    paths = [variable.path for variable in variables]
    return outputs, dict(zip(paths, map(tf.convert_to_tensor, gradients), strict=True))


def random(shape):
    return tf.random.stateless_normal(shape, seed=(len(shape), 5))


@pytest.mark.parametrize(
    "execution, changes, seed",
    (
        (STEP, {"num_hidden_layers": 2}, SEED),
        (GPU_STEP, {}, SEED),
        (DETERMINISTIC, {"is_causal": True}, None),
        pytest.param(STEP, {"hidden_act": "relu", "tie_word_embeddings": False}, SEED, marks=pytest.mark.slow),
    ),
)
def test_outputs_and_gradients_of_pretraining_equal_those_of_compiled_parts(execution, changes, seed):
    model = BertPretrainer(CONFIG.replace(**changes))
    whole, parts = (outputs_and_gradients(each, model, seed) for each in (execution, PARTS))
    for mine, expected in zip(tf.nest.flatten(whole), tf.nest.flatten(parts), strict=True):
        np.testing.assert_allclose(mine, expected, atol=1e-6 * (10 + np.abs(expected).max()))


@pytest.fixture(scope="module")
def float32_gradients():
    """The gradients of a float32 model with compiled parts, by path."""
    return outputs_and_gradients(PARTS, BertPretrainer(CONFIG), SEED)[1]


@pytest.mark.parametrize("execution", (pytest.param(STEP, marks=pytest.mark.slow), GPU_STEP))
def test_in_bfloat16_gradients_are_near_those_of_float32(execution, float32_gradients):
    expected = float32_gradients
    _, gradients = outputs_and_gradients(execution, BertPretrainer(CONFIG, dtype="mixed_bfloat16"), SEED)
    for path, gradient in gradients.items():
        assert gradient.dtype == tf.float32
        size = tf.norm(expected[path])
        # The bias of a key adds one number to all scores of a row, and softmax cancels this number. So the gradient of
        # a third of these biases is noise.
        limit = 0.05 if "query_key_value/bias" in path else 0.03
        assert tf.norm(gradient - expected[path]) < limit * size, path


@pytest.mark.parametrize("gates", ([0.5, 1.0, 0.0], [[0.5, 1.0, 0.0], [1.0, 1.0, 1.0], [0.0, 2.0, 0.1]]), ids=repr)
def test_gates_of_heads_have_the_same_effect_in_a_compiled_encoder(gates):
    encoder = BertEncoder(CONFIG)
    with gated_heads(encoder, [tf.constant(gates)]):
        plain = encoder(batch_of(), return_attention_scores=True)

        @tf.function(jit_compile=True, autograph=False)
        def whole():
            return encoder(batch_of(), return_attention_scores=True, execution=STEP)

        for mine, expected in zip(tf.nest.flatten(whole()), tf.nest.flatten(plain), strict=True):
            np.testing.assert_allclose(mine, expected, atol=1e-5)


@pytest.mark.parametrize("precision", ("float32", "bfloat16"))
def test_no_scores_and_no_masks_are_kept_and_no_array_exceeds_the_scores_or_inner_states(precision):
    config = CONFIG.replace(vocab_size=43, num_hidden_layers=2)
    run = PretrainingConfig(
        max_seq_length=17, max_predictions_per_seq=3, global_batch_size=5, precision=precision, jit_compile="step"
    )
    step = traced_step(config, run)
    rows, heads, length = 5, config.num_attention_heads, 17
    scores = rows * heads * length * length
    # Both the forward and the backward pass compute scores, and the program keeps none. A dropout mask would be as
    # large as the states.
    sizes = [
        tensor.shape.num_elements()
        for operation in step.operations
        for tensor in operation.outputs
        if tensor.shape.is_fully_defined()
    ]
    assert sizes.count(scores) > 10
    kept = kept_arrays(step)
    assert not [tensor for tensor in kept if tensor.shape.num_elements() == scores]
    states = rows * length * config.hidden_size
    assert not [tensor for tensor in kept if tensor.shape.num_elements() == states and not tensor.dtype.is_floating]
    # A barrier delays the inputs of the recomputation. Otherwise XLA would keep the results of the forward pass.
    barriers = [
        operation for operation in step.operations[step.num_forward :] if operation.type == "XlaOptimizationBarrier"
    ]
    # The embeddings have one barrier. Each layer has one for attention and one at the end of each of its two halves.
    assert len(barriers) == 1 + 3 * config.num_hidden_layers
    # The largest arrays are scores, inner states, logits and tables. No gradient is made for each row.
    assert max(sizes) <= max(scores, rows * length * config.intermediate_size)
