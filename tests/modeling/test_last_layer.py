"""A last layer that computes only the outputs that are read gives the logits and gradients of a whole layer."""

import numpy as np
import pytest
import tensorflow as tf

from keras_bert_app.config.bert_config import PARTS, BertConfig
from keras_bert_app.modeling.encoder import BertEncoder, gated_heads
from keras_bert_app.modeling.execution import PLAIN, STEP, UNCOMPILED, Execution
from keras_bert_app.modeling.pretrainer import BertPretrainer
from tests.modeling.test_compiled_whole import CONFIG, SEED, batch_of, random

LOGITS = ("mlm_logits", "nsp_logits")
COMPILED_PARTS = Execution("parts")  # the name PARTS means the parts of a model in this file


def logits_and_gradients(model, execution, **options):
    """Returns (logits by name, gradients by path) of a step without dropout."""
    batch, variables = batch_of(), model.trainable_variables

    def step():
        with tf.GradientTape() as tape:
            outputs = model(batch, execution=execution, **options)
            logits = {name: outputs[name] for name in LOGITS if name in outputs}
            loss = sum(tf.reduce_sum(values * random(values.shape)) for values in logits.values())
        return logits, tape.gradient(
            loss, [variable.value for variable in variables], unconnected_gradients=tf.UnconnectedGradients.ZERO
        )

    logits, gradients = tf.function(step, jit_compile=execution.compiles_all, autograph=False)()
    paths = [variable.path for variable in variables]
    return logits, dict(zip(paths, map(tf.convert_to_tensor, gradients), strict=True))


@pytest.mark.parametrize(
    "changes, parts, execution",
    [
        # STEP has the same ops, and XLA compiles each layer for several seconds. One case of one layer is enough.
        ({}, PARTS, STEP),
        *(
            (changes, parts, execution)
            for changes, parts in (
                ({"num_hidden_layers": 2}, PARTS),
                ({"is_causal": True, "num_heads_by_layer": (2,)}, ("encoder", "masked_lm")),
                ({"num_hidden_layers": 0}, PARTS),
                ({"tie_word_embeddings": False}, ("encoder", "pooler", "next_sentence")),
            )
            for execution in (PLAIN, UNCOMPILED, COMPILED_PARTS)
        ),
    ],
)
def test_logits_and_gradients_of_pretraining_are_those_of_the_whole_layer(changes, parts, execution):
    model = BertPretrainer(CONFIG.replace(initializer_range=0.3, **changes), parts=parts)
    whole, partial = logits_and_gradients(model, execution), logits_and_gradients(model, execution, heads_only=True)
    assert set(partial[0]) == {name for name, part in zip(LOGITS, CONFIG.parts[2:], strict=True) if part in parts}
    for mine, expected in zip(tf.nest.flatten(partial), tf.nest.flatten(whole), strict=True):
        np.testing.assert_allclose(mine, expected, atol=5e-6 * (1 + np.abs(expected).max()))


@pytest.mark.slow
@pytest.mark.parametrize("execution", [UNCOMPILED, COMPILED_PARTS])
def test_in_bfloat16_logits_are_near_those_of_the_whole_layer(execution):
    model = BertPretrainer(CONFIG, dtype="mixed_bfloat16")
    (whole, _), (partial, _) = (
        logits_and_gradients(model, execution, heads_only=heads_only) for heads_only in (False, True)
    )
    for name in LOGITS:
        np.testing.assert_allclose(partial[name], whole[name], atol=0.02 * np.abs(whole[name]).max())


def test_a_batch_without_predictions_has_next_sentence_logits():
    model, batch = BertPretrainer(CONFIG), batch_of()
    none = {**batch, "masked_lm_positions": batch["masked_lm_positions"][:, :0]}
    logits = model(none, heads_only=True)
    assert logits["mlm_logits"].shape == (3, 0, 41)
    np.testing.assert_allclose(logits["nsp_logits"], model(batch)["nsp_logits"], atol=1e-6)


@pytest.mark.parametrize("execution", [PLAIN, STEP])
@pytest.mark.parametrize("is_causal", [False, True])
def test_outputs_and_attention_at_output_positions_equal_those_of_the_whole_layer_with_gates(execution, is_causal):
    config = BertConfig(
        vocab_size=41,
        hidden_size=24,
        num_hidden_layers=2,
        num_attention_heads=3,
        intermediate_size=37,
        max_position_embeddings=19,
        initializer_range=0.3,
        is_causal=is_causal,
    )
    encoder, positions = BertEncoder(config), np.array([[0, 16, 5, 5], [0, 3, 10, 0], [0, 0, 0, 0]])
    with gated_heads(encoder, [tf.constant([1.0, 0.3, -1.0])] * 2):
        whole = encoder(batch_of(), return_attention_scores=True, execution=execution)
        partial = encoder(
            batch_of(), return_attention_scores=True, output_positions=tf.constant(positions), execution=execution
        )
    rows = np.arange(3)[:, None]
    np.testing.assert_allclose(partial["sequence_output"], whole["sequence_output"].numpy()[rows, positions], atol=1e-6)
    np.testing.assert_allclose(partial["pooled_output"], whole["pooled_output"], atol=1e-6)
    expected_scores = whole["attention_scores"][1].numpy().transpose(0, 2, 1, 3)[rows, positions].transpose(0, 2, 1, 3)
    np.testing.assert_allclose(partial["attention_scores"][1], expected_scores, atol=1e-6)
    np.testing.assert_array_equal(partial["encoder_outputs"][0], whole["encoder_outputs"][0])
    assert partial["encoder_outputs"][1] is partial["sequence_output"]


@pytest.mark.slow
@pytest.mark.parametrize("execution", [UNCOMPILED, COMPILED_PARTS, STEP])
def test_dropout_follows_the_seed(execution):
    model, batch = BertPretrainer(CONFIG), batch_of()

    @tf.function(jit_compile=execution.compiles_all, autograph=False)
    def logits(seed):
        return model(batch, dropout_seed=seed, heads_only=True, execution=execution)["mlm_logits"]

    first, again, other = (logits(seed).numpy() for seed in (SEED, SEED, SEED + 1))
    np.testing.assert_array_equal(first, again)
    assert np.abs(first - other).max() > 1e-3
