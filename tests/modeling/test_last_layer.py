"""A last layer that computes its output at the places that are read, and no others: logits and gradients are those of one that computes all."""

import numpy as np
import pytest
import tensorflow as tf

from keras_bert_app.config.bert_config import PARTS, BertConfig
from keras_bert_app.modeling import backend
from keras_bert_app.modeling.encoder import BertEncoder, gated_heads
from keras_bert_app.modeling.pretrainer import BertPretrainer
from tests.modeling.test_compiled_whole import CONFIG, SEED, batch_of, random

LOGITS = ("mlm_logits", "nsp_logits")


def logits_and_gradients(model, what, **options):
    """(logits by name, gradients by path), of a step without dropout that is compiled so."""
    batch, variables = batch_of(), model.trainable_variables

    def step():
        with backend.compiled(what), tf.GradientTape() as tape:
            outputs = model(batch, **options)
            logits = {name: outputs[name] for name in LOGITS if name in outputs}
            loss = sum(tf.reduce_sum(values * random(values.shape)) for values in logits.values())
        return logits, tape.gradient(
            loss, [variable.value for variable in variables], unconnected_gradients=tf.UnconnectedGradients.ZERO
        )

    logits, gradients = tf.function(step, jit_compile=what == "step", autograph=False)()
    return logits, {variable.path: tf.convert_to_tensor(gradient) for variable, gradient in zip(variables, gradients)}


@pytest.mark.parametrize(
    "changes, parts, what",
    [
        # The step as a whole is the plain ops once more, and takes XLA ten seconds each.
        ({"num_hidden_layers": 2}, PARTS, "step"),
        *(
            (changes, parts, what)
            for changes, parts in (
                ({"num_hidden_layers": 2}, PARTS),
                ({"is_causal": True}, PARTS),
                ({"num_hidden_layers": 0}, PARTS),
                ({"num_heads_by_layer": (2,)}, ("encoder", "masked_lm")),
                ({"tie_word_embeddings": False, "num_hidden_layers": 2}, ("encoder", "pooler", "next_sentence")),
            )
            for what in ("", "none", "parts")
        ),
    ],
)
def test_logits_and_gradients_of_pretraining_are_those_of_the_whole_layer(changes, parts, what):
    model = BertPretrainer(CONFIG.replace(initializer_range=0.3, **changes), parts=parts)
    whole, spared = logits_and_gradients(model, what), logits_and_gradients(model, what, heads_only=True)
    assert set(spared[0]) == {name for name, part in zip(LOGITS, PARTS[2:]) if part in parts}
    for mine, expected in zip(tf.nest.flatten(spared), tf.nest.flatten(whole), strict=True):
        np.testing.assert_allclose(mine, expected, atol=5e-6 * (1 + np.abs(expected).max()))


@pytest.mark.parametrize("what", ["none", "parts"])
def test_in_bfloat16_logits_are_near_those_of_the_whole_layer(what):
    model = BertPretrainer(CONFIG.replace(num_hidden_layers=2), dtype="mixed_bfloat16")
    (whole, _), (spared, _) = (logits_and_gradients(model, what, heads_only=heads_only) for heads_only in (False, True))
    for name in LOGITS:
        np.testing.assert_allclose(spared[name], whole[name], atol=0.02 * np.abs(whole[name]).max())


def test_without_predictions_the_next_sentence_is_still_told():
    model, batch = BertPretrainer(CONFIG), batch_of()
    none = {**batch, "masked_lm_positions": batch["masked_lm_positions"][:, :0]}
    logits = model(none, heads_only=True)
    assert logits["mlm_logits"].shape == (3, 0, 41)
    np.testing.assert_allclose(logits["nsp_logits"], model(batch)["nsp_logits"], atol=1e-6)


@pytest.mark.parametrize("what", ["", "step"])
@pytest.mark.parametrize("is_causal", [False, True])
def test_outputs_attention_and_gates_are_those_of_the_places_asked_for(what, is_causal):
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
    with backend.compiled(what), gated_heads(encoder, [tf.constant([1.0, 0.3, -1.0])] * 2):
        whole = encoder(batch_of(), return_attention_scores=True)
        found = encoder(batch_of(), return_attention_scores=True, output_positions=tf.constant(positions))
    rows = np.arange(3)[:, None]
    np.testing.assert_allclose(found["sequence_output"], whole["sequence_output"].numpy()[rows, positions], atol=1e-6)
    np.testing.assert_allclose(found["pooled_output"], whole["pooled_output"], atol=1e-6)
    of_places = whole["attention_scores"][1].numpy().transpose(0, 2, 1, 3)[rows, positions].transpose(0, 2, 1, 3)
    np.testing.assert_allclose(found["attention_scores"][1], of_places, atol=1e-6)
    np.testing.assert_array_equal(found["encoder_outputs"][0], whole["encoder_outputs"][0])
    assert found["encoder_outputs"][1] is found["sequence_output"]


@pytest.mark.parametrize("what", ["none", "parts", "step"])
def test_dropout_follows_the_seed(what):
    model, batch = BertPretrainer(CONFIG), batch_of()

    @tf.function(jit_compile=what == "step", autograph=False)
    def logits(seed):
        with backend.compiled(what):
            return model(batch, dropout_seed=seed, heads_only=True)["mlm_logits"]

    first, again, other = (logits(seed).numpy() for seed in (SEED, SEED, SEED + 1))
    np.testing.assert_array_equal(first, again)
    assert np.abs(first - other).max() > 1e-3
