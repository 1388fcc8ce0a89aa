"""transformers' GPT-2 directories: read, written, and refused. tests/golden/generate_gpt2.py wrote the files."""

import dataclasses
import json
import shutil

import numpy as np
import pytest

from keras_bert_app.config.bert_config import BertConfig
from keras_bert_app.errors import UserError
from keras_bert_app.interop import load, surgery, vocabulary_surgery
from keras_bert_app.interop.gpt2 import gpt2_layout
from keras_bert_app.interop.huggingface import safetensors_files
from keras_bert_app.interop.weights import checked
from tests.interop.conftest import CONFIGS, make_weights

GPT = CONFIGS["three_layers"].replace(architecture="gpt", layer_norm_eps=1e-5, hidden_act="gelu_tanh")


@pytest.fixture
def copied(golden, tmp_path):
    shutil.copytree(golden / "gpt2", tmp_path / "copy")
    return tmp_path / "copy"


def change_config(directory, **changes):
    path = directory / "config.json"
    values = {**json.loads(path.read_text()), **changes}
    path.write_text(json.dumps({key: value for key, value in values.items() if value is not None}))


def change_tensors(directory, change):
    path = directory / "model.safetensors"
    tensors = {
        name: np.array(safetensors_files.read_tensor(entry))
        for name, entry in safetensors_files.read_header(path).items()
    }
    safetensors_files.write(path, change(tensors))


def test_the_directory_that_transformers_writes_is_found_and_read_whole(golden):
    assert load.detect(str(golden / "gpt2")) == "gpt2"
    weights, lines = load.load_weights(golden / "gpt2")
    assert weights.config == BertConfig(
        architecture="gpt",
        vocab_size=97,
        hidden_size=22,
        num_hidden_layers=3,
        num_attention_heads=2,
        intermediate_size=37,
        max_position_embeddings=41,
        initializer_range=0.3,
        layer_norm_eps=1e-5,
    )
    assert lines == [f"{weights.origin}: 40 tensors match (encoder 40)"] and weights.vocabulary is None


@pytest.mark.parametrize("is_tied", [True, False])
def test_a_model_comes_back_bit_for_bit(tmp_path, is_tied):
    weights = make_weights(GPT.replace(tie_word_embeddings=is_tied))
    (line,) = load.write_weights(weights, "gpt2", str(tmp_path / "out"))
    assert line.endswith(f"{len(weights.tensors)} of {len(weights.tensors)} tensors, read back bit for bit")
    again, _ = load.load_weights(tmp_path / "out")
    assert (again.config, again.vocabulary) == (weights.config, weights.vocabulary)
    values = json.loads((tmp_path / "out" / "config.json").read_text())
    assert (values["bos_token_id"], values["eos_token_id"], values["pad_token_id"]) == (2, 3, 0)
    settings = json.loads((tmp_path / "out" / "tokenizer_config.json").read_text())
    assert settings["model_input_names"] == ["input_ids", "attention_mask"]


def test_our_own_layout_keeps_a_gpt_too(tmp_path):
    weights = make_weights(GPT)
    load.write_weights(weights, "workdir", str(tmp_path / "out"))
    again, _ = load.load_weights(tmp_path / "out")
    assert again.config == weights.config and again.parts() == ("encoder", "language_model")


@pytest.mark.parametrize("layout", ["huggingface", "google_tf1", "keras_hub", "model_garden"])
def test_other_layouts_refuse_a_gpt(tmp_path, layout):
    with pytest.raises(UserError, match=f"is causal .* {layout} cannot store this"):
        load.write_weights(make_weights(GPT), layout, str(tmp_path / "out"))


def test_a_bert_and_a_pruned_gpt_cannot_be_written(tmp_path):
    with pytest.raises(UserError, match="random: is a bert, not a gpt"):
        load.write_weights(make_weights(CONFIGS["three_layers"]), "gpt2", str(tmp_path / "out"))
    with pytest.raises(UserError, match="heads were pruned, and this layout has no place"):
        load.write_weights(make_weights(GPT.replace(num_heads_by_layer=(1, 2, 3))), "gpt2", str(tmp_path / "out"))


def test_names_without_their_prefix_and_known_buffers_are_read(copied):
    def bare(tensors):
        tensors = {name.removeprefix("transformer."): tensor for name, tensor in tensors.items()}
        return {**tensors, "h.0.attn.bias": np.ones((1, 1, 4, 4), np.float32), "lm_head.weight": tensors["wte.weight"]}

    change_tensors(copied, bare)
    weights, _ = load.load_weights(copied)
    assert len(weights.tensors) == 40 and set(weights.unused) == {"h.0.attn.bias", "lm_head.weight"}


@pytest.mark.parametrize(
    "changes, message",
    [
        ({"architectures": ["GPT2DoubleHeadsModel"]}, "'GPT2DoubleHeadsModel' .* expected model_type gpt2 and one of"),
        ({"architectures": 5}, "architectures is '5'; expected a list such as"),
        ({"quantization_config": {"bits": 4}}, "has quantization_config"),
        ({"scale_attn_weights": False}, "scale_attn_weights is False; expected True"),
        ({"n_head": 5}, "hidden_size 22 is not a multiple of num_attention_heads 5"),
        ({"activation_function": "mish"}, "hidden_act 'mish' is not known"),
        ({"n_layer": 4}, "encoder/layer_3/attention/query_key_value/kernel.* missing"),
        ({"n_layer": 2}, r"transformer.h.2.attn.c_attn.weight \[22, 66\]: unexpected"),
    ],
)
def test_another_architecture_is_refused(copied, changes, message):
    change_config(copied, **changes)
    with pytest.raises(UserError, match=message):
        load.load_weights(copied)


def test_an_output_table_that_differs_from_the_tied_one_is_refused(copied):
    change_tensors(copied, lambda tensors: {**tensors, "lm_head.weight": tensors["transformer.wte.weight"] + 1})
    with pytest.raises(UserError, match="lm_head.weight differs from wte.weight, to which config.json ties it"):
        load.load_weights(copied)
    change_config(copied, tie_word_embeddings=False)
    assert "language_model/output_embeddings" in load.load_weights(copied)[0].tensors


def test_defaults_of_transformers_fill_missing_keys_and_another_dropout_is_a_remark(copied):
    change_config(copied, layer_norm_epsilon=None, embd_pdrop=0.3, n_inner=None)
    with pytest.raises(UserError, match=r"encoder/layer_0/intermediate/kernel: expected \[22, 88\], found \[22, 37\]"):
        load.load_weights(copied)
    change_config(copied, n_inner=37)
    weights, lines = load.load_weights(copied)
    assert weights.config.layer_norm_eps == 1e-5
    assert "  embd_pdrop 0.3 is not followed: embeddings also have dropout 0.1" in lines


def test_a_model_without_its_head_still_predicts_through_the_tied_table(copied):
    change_config(copied, architectures=["GPT2Model"])
    assert gpt2_layout.recognizes(copied)
    weights, _ = load.load_weights(copied)
    assert weights.parts() == ("encoder", "language_model")
    untied = dataclasses.replace(weights, config=weights.config.replace(tie_word_embeddings=False))
    assert untied.parts() == ("encoder",)


def test_surgery_reaches_the_head_of_a_gpt():
    untied, line = surgery.untie(make_weights(GPT))
    assert line.startswith("untied: language_model/output_embeddings") and untied.parts() == (
        "encoder",
        "language_model",
    )
    vocabulary = untied.vocabulary.replace(b"b\n", b"b\nzz\n")
    larger, _ = vocabulary_surgery.replace_vocabulary(untied, vocabulary)
    assert larger.tensors["language_model/output_embeddings"].shape[0] == larger.config.vocab_size
    tied, _ = surgery.tie(untied)
    assert tied.config == GPT and checked(larger)[0].config == larger.config
    dropped, line = surgery.drop_parts(untied, ["language_model"])
    assert (
        line == "dropped: language_model (1 tensors)" and checked(dropped)[0].tensors.keys() == dropped.tensors.keys()
    )


def test_a_classifier_is_left_out_with_a_line(tmp_path):
    layer = {"classifier/kernel": np.ones((33, 2), np.float32), "classifier/bias": np.ones(2, np.float32)}
    weights = make_weights(GPT)
    weights = dataclasses.replace(weights.changed({**weights.tensors, **layer}), task="token_classification")
    lines = load.write_weights(weights, "gpt2", str(tmp_path / "out"))
    assert lines[0] == "classifier is left out: this layout has no output layer for token_classification"
