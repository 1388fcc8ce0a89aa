"""The model equals golden values of transformers' BertForPreTraining (tests/golden/generate_huggingface.py)."""

import shutil

import numpy as np
import pytest

from keras_bert_app.interop import load
from keras_bert_app.interop.huggingface import safetensors_files


def load_reference(golden, directory, variant, config_variant):
    """Returns (model with the weights of variant and the configuration of config_variant, the reference's arrays)."""
    arrays = np.load(golden / f"huggingface_{variant}.npz")
    safetensors_files.write(
        directory / "model.safetensors",
        {name.removeprefix("state_dict/"): arrays[name] for name in arrays.files if name.startswith("state_dict/")},
    )
    shutil.copy(golden / f"huggingface_{config_variant}_config.json", directory / "config.json")
    return load.load_pretrained(directory), arrays


@pytest.fixture(params=["gelu", "gelu_new"])
def case(request, golden, tmp_path):
    """Returns (model with the reference's weights, the reference's arrays) for exact and tanh gelu."""
    return load_reference(golden, tmp_path, request.param, request.param)


def inputs_of(arrays):
    return {name.removeprefix("inputs/"): arrays[name] for name in arrays.files if name.startswith("inputs/")}


def test_every_hidden_state_is_within_1e_5_with_padding_and_segments(case):
    model, arrays = case
    outputs = model(inputs_of(arrays), return_attention_scores=True)
    states = [outputs["embedding_output"], *outputs["encoder_outputs"]]
    for layer, state in enumerate(states):
        np.testing.assert_allclose(state, arrays[f"outputs/hidden_state_{layer}"], atol=1e-5, rtol=0)
    np.testing.assert_allclose(outputs["sequence_output"], states[-1], atol=0)
    np.testing.assert_allclose(outputs["pooled_output"], arrays["outputs/pooler_output"], atol=1e-5, rtol=0)
    for layer, probabilities in enumerate(outputs["attention_scores"]):
        np.testing.assert_allclose(probabilities, arrays[f"outputs/attention_probs_{layer}"], atol=1e-5, rtol=0)


def test_both_heads_logits_are_within_1e_4(case):
    model, arrays = case
    inputs = inputs_of(arrays)
    outputs = model(inputs)
    np.testing.assert_allclose(outputs["mlm_logits"], arrays["outputs/masked_prediction_logits"], atol=1e-4, rtol=0)
    np.testing.assert_allclose(outputs["nsp_logits"], arrays["outputs/seq_relationship_logits"], atol=1e-4, rtol=0)
    del inputs["masked_lm_positions"]
    np.testing.assert_allclose(model(inputs)["mlm_logits"], arrays["outputs/prediction_logits"], atol=1e-4, rtol=0)


def test_the_exact_and_the_tanh_gelu_give_different_states(golden, tmp_path):
    model, arrays = load_reference(golden, tmp_path, "gelu", "gelu_new")
    state = model(inputs_of(arrays))["encoder_outputs"][0]
    assert np.abs(state - arrays["outputs/hidden_state_1"]).max() > 1e-4


def test_a_key_bias_is_copied_although_no_output_shows_it(case):
    model, arrays = case
    fused = {variable.path: variable for variable in model.weights}["encoder/layer_1/attention/query_key_value/bias"]
    np.testing.assert_array_equal(
        np.split(fused.numpy(), 3)[1], arrays["state_dict/bert.encoder.layer.1.attention.self.key.bias"]
    )
