"""Tests that Google's checkpoints are read, and that ours have the names and shapes that Google's code expects."""

import dataclasses
import json
import os
import shutil

import numpy as np
import pytest
import tensorflow as tf

from keras_bert_app.config.bert_config import BertConfig
from keras_bert_app.errors import UserError
from keras_bert_app.interop import load
from keras_bert_app.interop.google_tf1 import google_layout
from keras_bert_app.interop.weights import checked
from keras_bert_app.runs import tf_checkpoints
from tests.interop.conftest import assert_same, make_weights

# The arguments of modeling.BertConfig.__init__, which are also all keys of its to_dict().
GOOGLE_KEYS = {
    "vocab_size",
    "hidden_size",
    "num_hidden_layers",
    "num_attention_heads",
    "hidden_act",
    "intermediate_size",
    "hidden_dropout_prob",
    "attention_probs_dropout_prob",
    "max_position_embeddings",
    "type_vocab_size",
    "initializer_range",
}
TINY = BertConfig(
    vocab_size=13,
    hidden_size=22,
    num_hidden_layers=1,
    num_attention_heads=2,
    intermediate_size=37,
    max_position_embeddings=17,
)


@pytest.fixture
def google(golden, tmp_path):
    """A copy of a checkpoint that Google's code wrote. Its parity.npz has the variables, inputs and outputs."""
    return shutil.copytree(golden / "google_tf1_tiny", tmp_path / "google")


def write_model(directory, **changes):
    """Writes a tiny model in Google's layout and returns its Weights. `changes` replaces fields of these Weights."""
    weights = dataclasses.replace(make_weights(TINY), **changes)
    google_layout.write(weights, directory)
    return weights


def save(prefix, tensors):
    tf.raw_ops.SaveV2(
        prefix=str(prefix),
        tensor_names=list(tensors),
        shape_and_slices=[""] * len(tensors),
        tensors=list(tensors.values()),
    )


def test_a_checkpoint_that_google_wrote_is_read_bit_for_bit_without_its_slots(google):
    weights = google_layout.read(google)
    with np.load(google / "parity.npz") as arrays:
        expected = {name.removeprefix("variables/"): arrays[name] for name in arrays.files if "variables/" in name}
    assert len(weights.tensors) == len(expected) - 2 * 2 * 2  # The reader joins query, key and value, in two layers.
    hidden = weights.config.hidden_size
    for layer in range(2):
        for part in ("kernel", "bias"):
            joined = weights.tensors[f"encoder/layer_{layer}/attention/query_key_value/{part}"]
            for place, name in enumerate(("query", "key", "value")):
                np.testing.assert_array_equal(
                    joined[..., place * hidden : (place + 1) * hidden],
                    expected[f"bert/encoder/layer_{layer}/attention/self/{name}/{part}"],
                )
    np.testing.assert_array_equal(
        weights.tensors["next_sentence/projection/kernel"], expected["cls/seq_relationship/output_weights"].T
    )
    np.testing.assert_array_equal(
        weights.tensors["encoder/layer_1/output_layer_norm/gamma"],
        expected["bert/encoder/layer_1/output/LayerNorm/gamma"],
    )
    assert weights.unused == {
        "global_step": "a counter of the run that wrote the checkpoint",
        f"{2 * len(expected)} optimizer slots": "adam_m, adam_v",
    }
    assert not weights.unexpected
    assert weights.config.do_lower_case and "the vocabulary is lower-cased" in weights.origin
    assert weights.vocabulary == (google / "vocab.txt").read_bytes()


def test_the_model_computes_what_googles_code_computed(google):
    weights, lines = load.load_weights(google, "google_tf1")
    with np.load(google / "parity.npz") as arrays:
        batch = {name.removeprefix("inputs/"): arrays[name] for name in arrays.files if name.startswith("inputs/")}
        expected = {name.removeprefix("outputs/"): arrays[name] for name in arrays.files if name.startswith("outputs/")}
    outputs = load.build_model(weights)(batch)
    all_outputs = {f"layer_{index}": state for index, state in enumerate(outputs["encoder_outputs"])} | outputs
    assert len(expected) == 6
    for name, values in expected.items():
        limit = 1e-4 if name.endswith("logits") else 1e-5
        np.testing.assert_allclose(all_outputs[name], values, rtol=0, atol=limit, err_msg=name)
    assert "38 tensors match (encoder 29, pooler 2, masked_lm 5, next_sentence 2)" in lines[0]
    assert [line for line in lines if "optimizer slots" in line] == ["  left out: 92 optimizer slots (adam_m, adam_v)"]


def test_a_key_of_another_library_does_not_change_the_gelu_and_the_report_names_the_form(google):
    plain = google_layout.read(google)
    config = json.loads((google / "bert_config.json").read_text())
    assert config["hidden_act"] == "gelu"
    for extra in ({"output_past": True}, {"model_type": "bert"}):
        (google / "bert_config.json").write_text(json.dumps(config | extra))
        weights, lines = checked(google_layout.read(google))
        assert weights.config == plain.config and weights.config.hidden_act == "gelu_tanh"
        end = f"as in every model of layout google_tf1; its key {next(iter(extra))!r} changes nothing"
        assert [line for line in lines if "hidden_act gelu is gelu_tanh" in line][0].endswith(end)


def test_a_rewritten_checkpoint_has_the_names_shapes_and_values_of_googles_checkpoint(google, tmp_path):
    assert google_layout.write(google_layout.read(google), tmp_path / "again") == []
    checkpoint = tf_checkpoints.open_checkpoint(str(tmp_path / "again" / "bert_model.ckpt"))
    with np.load(google / "parity.npz") as arrays:
        expected = {name.removeprefix("variables/"): arrays[name] for name in arrays.files if "variables/" in name}
    assert checkpoint.shapes == {name: values.shape for name, values in expected.items()}
    for name, values in expected.items():
        np.testing.assert_array_equal(checkpoint.tensor(name), values)
    assert json.loads((tmp_path / "again" / "bert_config.json").read_text()) == json.loads(
        (google / "bert_config.json").read_text()
    )
    assert sorted(os.listdir(tmp_path / "again")) == [
        "bert_config.json",
        "bert_model.ckpt.data-00000-of-00001",
        "bert_model.ckpt.index",
        "vocab.txt",
    ]


def test_a_model_of_any_shape_comes_back_bit_for_bit(config, tmp_path):
    weights = make_weights(config.replace(hidden_act="gelu_tanh"))
    lines = google_layout.write(weights, tmp_path / "model")
    assert_same(google_layout.read(tmp_path / "model"), weights)
    assert json.loads((tmp_path / "model" / "bert_config.json").read_text()).keys() == GOOGLE_KEYS
    assert any("--do_lower_case=false" in line for line in lines) == (not config.do_lower_case)


@pytest.mark.parametrize("do_lower_case", [True, False])
def test_the_casing_comes_back_even_if_the_vocabulary_does_not_show_it(tmp_path, do_lower_case):
    weights = dataclasses.replace(
        make_weights(TINY.replace(do_lower_case=do_lower_case)),
        vocabulary="[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n中\n".encode(),
    )
    google_layout.write(weights, tmp_path / "model")
    assert google_layout.read(tmp_path / "model").config.do_lower_case == do_lower_case


def test_the_casing_is_read_from_the_vocabulary_and_never_from_the_path(google):
    cased = google.rename(google.with_name("uncased_L-2_H-10_A-2"))
    pieces = (cased / "vocab.txt").read_text().replace("x\ny\nz\n", "X\nY\nZ\n")
    (cased / "vocab.txt").write_text(pieces)
    weights = google_layout.read(cased)
    assert not weights.config.do_lower_case and "the vocabulary has capitals" in weights.origin


@pytest.mark.parametrize("task, scope", [("sequence_classification", ""), ("question_answering", "cls/squad/")])
def test_a_fine_tuned_output_layer_has_the_names_that_googles_scripts_use(tmp_path, task, scope):
    kernel = np.arange(44, dtype=np.float32).reshape(22, 2)
    layer = {"classifier/kernel": kernel, "classifier/bias": np.float32([0.5, 0.25])}
    weights = write_model(tmp_path / "model", task=task, tensors=make_weights(TINY).tensors | layer)
    checkpoint = tf_checkpoints.open_checkpoint(str(tmp_path / "model" / "bert_model.ckpt"))
    np.testing.assert_array_equal(checkpoint.tensor(f"{scope}output_weights"), kernel.T)
    assert_same(google_layout.read(tmp_path / "model"), weights)
    assert load.load_weights(tmp_path / "model", "google_tf1")[0].task == task


def test_the_writer_lists_the_properties_that_the_layout_cannot_store(tmp_path):
    layer = {"classifier/kernel": np.ones((22, 3), np.float32), "classifier/bias": np.ones(3, np.float32)}
    weights = make_weights(TINY.replace(hidden_act="gelu_exact", layer_norm_eps=1e-5))
    tensors = {path: tensor for path, tensor in weights.tensors.items() if not path.startswith("encoder/pooler")}
    tagger = dataclasses.replace(weights, tensors=tensors | layer, task="token_classification", labels=("a", "b", "c"))
    report = " | ".join(google_layout.write(tagger, tmp_path / "tagger"))
    for text in ("no pooler", "gelu_exact", "layer_norm_eps 1e-05", "classifier is left out", "token_classification"):
        assert text in report
    classifier = dataclasses.replace(tagger, task="sequence_classification", vocabulary=None)
    report = " | ".join(google_layout.write(classifier, tmp_path / "classifier"))
    assert "left out: a, b, c" in report and "no vocab.txt" in report and "classifier is left out" not in report
    config = json.loads((tmp_path / "classifier" / "bert_config.json").read_text())
    assert config["hidden_act"] == "gelu" and config.keys() == GOOGLE_KEYS


def test_an_untied_model_without_the_masked_lm_head_can_be_written(tmp_path):
    weights = make_weights(TINY.replace(tie_word_embeddings=False))
    encoder = dataclasses.replace(
        weights, tensors={path: tensor for path, tensor in weights.tensors.items() if path.startswith("encoder/")}
    )
    google_layout.write(encoder, tmp_path / "model")
    assert google_layout.read(str(tmp_path / "model")).parts() == ("encoder", "pooler")


@pytest.mark.parametrize(
    "changes, named",
    [
        ({"tie_word_embeddings": False}, "give --tie_word_embeddings=true"),
        ({"hidden_act": "silu"}, "gelu_tanh, gelu_exact, relu, tanh"),
    ],
)
def test_a_model_that_googles_code_could_not_run_is_refused(tmp_path, changes, named):
    with pytest.raises(UserError, match=named):
        google_layout.write(make_weights(TINY.replace(**changes)), tmp_path / "model")
    assert not os.listdir(tmp_path)


@pytest.mark.parametrize("dtype", [tf.float16, tf.bfloat16, tf.float64])
def test_other_floating_types_become_float32(google, dtype):
    checkpoint = tf_checkpoints.open_checkpoint(str(google / "model.ckpt-3"))
    save(
        google / "other.ckpt",
        {
            name: tf.cast(checkpoint.tensor(name), dtype)
            if checkpoint.dtypes[name].is_floating
            else checkpoint.tensor(name)
            for name in checkpoint.shapes
        },
    )
    read, original = google_layout.read(google / "other.ckpt"), google_layout.read(google / "model.ckpt-3")
    for path, tensor in original.tensors.items():
        assert read.tensors[path].dtype == np.float32
        np.testing.assert_array_equal(read.tensors[path], tf.cast(tf.cast(tensor, dtype), tf.float32), err_msg=path)


def test_the_newest_checkpoint_of_a_run_is_read(google):
    for step in (90, 1000):
        for suffix in ("index", "data-00000-of-00001"):
            shutil.copy(google / f"model.ckpt-3.{suffix}", google / f"model.ckpt-{step}.{suffix}")
    assert tf_checkpoints.find_prefix(google) == str(google / "model.ckpt-1000")
    # Google's runs write absolute paths into this file. On another machine these paths do not exist.
    state = google / "checkpoint"
    state.write_text(
        'model_checkpoint_path: "/elsewhere/run/model.ckpt-90"\n'
        'all_model_checkpoint_paths: "/elsewhere/run/model.ckpt-3"\n'
    )
    assert "model.ckpt-90 (" in google_layout.read(google).origin
    for useless in ('model_checkpoint_path: "/elsewhere/run/model.ckpt-7"\n', "\0\0"):
        state.write_text(useless)
        assert tf_checkpoints.find_prefix(google) == str(google / "model.ckpt-1000")


def test_the_path_of_a_checkpoint_selects_one_of_several(google, tmp_path):
    write_model(tmp_path / "model")
    for suffix in ("index", "data-00000-of-00001"):
        shutil.copy(google / f"model.ckpt-3.{suffix}", tmp_path / "model" / f"other.ckpt.{suffix}")
    assert google_layout.recognizes(tmp_path / "model" / "bert_model.ckpt")
    assert google_layout.read(tmp_path / "model" / "bert_model.ckpt").config == TINY
    with pytest.raises(UserError, match="several checkpoints .bert_model.ckpt, other.ckpt.; give the path of one"):
        google_layout.read(tmp_path / "model")
    shutil.copy(google / "model.ckpt-3.index", google / "another_run.ckpt-5.index")
    with pytest.raises(UserError, match="several checkpoints .another_run.ckpt-5, model.ckpt-3."):
        google_layout.read(google)


def test_only_googles_own_layout_is_recognized(google, tmp_path):
    assert google_layout.recognizes(google) and google_layout.recognizes(str(google))
    for other in (tmp_path / "missing", tmp_path, google / "vocab.txt"):
        assert not google_layout.recognizes(other)
    tf.train.Checkpoint(bert=tf.Variable(1.0)).write(str(tmp_path / "model_garden" / "bert_model.ckpt"))
    assert not google_layout.recognizes(tmp_path / "model_garden")


def test_unknown_names_are_unexpected_and_refused_unless_allowed(google):
    checkpoint = tf_checkpoints.open_checkpoint(str(google / "model.ckpt-3"))
    strange = {
        "bert/encoder/layer_2/output/dense/bias": np.ones(10, np.float32),  # The configuration has two layers.
        "bert/encoder/layer_01/output/dense/bias": np.ones(10, np.float32),
        "bert/embeddings/embedding_hidden_mapping_in/kernel": np.ones((5, 3), np.float32),
        "output_weights": np.ones(3, np.float32),
    }
    save(google / "strange.ckpt", {name: checkpoint.tensor(name) for name in checkpoint.shapes} | strange)
    weights = google_layout.read(google / "strange.ckpt")
    assert weights.unexpected == {name: values.shape for name, values in strange.items()}
    assert weights.tensors.keys() == google_layout.read(google / "model.ckpt-3").tensors.keys() and not weights.task
    with pytest.raises(UserError, match="layer_2/output/dense/bias .10.: unexpected"):
        load.load_weights(str(google / "strange.ckpt"), "google_tf1")
    load.load_weights(str(google / "strange.ckpt"), "google_tf1", allow_unexpected=True)


@pytest.mark.parametrize(
    "changes, named",
    [
        ({"vocab_size": 37}, r"word_embeddings: expected \[37, 10\], found \[31, 10\]"),
        ({"intermediate_size": 11}, r"layer_1/intermediate/kernel: expected \[10, 11\], found \[10, 7\]"),
        ({"num_hidden_layers": 3}, "encoder/layer_2/.*: missing"),
        ({"num_hidden_layers": 1}, "bert/encoder/layer_1/.*: unexpected"),
        ({"num_hidden_layers": 900}, "num_hidden_layers is 900"),
        ({"hidden_size": 14}, r"attention/self/key/bias is \[10\], hidden_size is 14"),
        ({"num_memory_blocks": 2}, "num_memory_blocks"),
    ],
)
def test_a_configuration_that_contradicts_the_tensors_is_refused(google, changes, named):
    config = json.loads((google / "bert_config.json").read_text())
    (google / "bert_config.json").write_text(json.dumps(config | changes))
    with pytest.raises(UserError, match=named) as refusal:
        load.load_weights(google, "google_tf1")
    assert "\n" not in str(refusal.value)


def test_a_directory_without_checkpoint_or_configuration_is_refused(google, tmp_path):
    with pytest.raises(UserError, match="there is no checkpoint; expected a directory with bert_model.ckpt.index"):
        google_layout.read(tmp_path)
    (google / "bert_config.json").unlink()
    with pytest.raises(UserError, match="has no bert_config.json; put the bert_config.json of model.ckpt-3 there"):
        google_layout.read(google)
