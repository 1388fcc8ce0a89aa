"""Tests Hugging Face's layout against files and outputs of transformers.

The script tests/golden/generate_huggingface_files.py wrote these files and outputs.
"""

import dataclasses
import json

import numpy as np
import pytest

from keras_bert_app.config.weight_shapes import part_of
from keras_bert_app.errors import UserError
from keras_bert_app.interop import own_layout
from keras_bert_app.interop.huggingface import huggingface_layout, safetensors_files
from keras_bert_app.interop.load import build_model
from keras_bert_app.interop.weights import checked
from tests.interop.conftest import CONFIGS, assert_same, make_weights
from tests.interop.huggingface.huggingface_directories import FILES, assert_refused, change_config, change_tensors, copy

# Model -> (parts, task, number of outputs, labels).
MODELS = {
    "pretraining": (("encoder", "pooler", "masked_lm", "next_sentence"), "", 0, ()),
    "pretraining_sharded": (("encoder", "pooler", "masked_lm", "next_sentence"), "", 0, ()),
    "masked_lm": (("encoder", "masked_lm"), "", 0, ()),
    "masked_lm_untied": (("encoder", "masked_lm"), "", 0, ()),
    "next_sentence": (("encoder", "pooler", "next_sentence"), "", 0, ()),
    "encoder": (("encoder", "pooler"), "", 0, ()),
    "sequence_classification": (
        ("encoder", "pooler"),
        "sequence_classification",
        3,
        ("negative", "neutral", "positive"),
    ),
    "token_classification": (("encoder",), "token_classification", 5, ("O", "B-PER", "I-PER", "B-LOC", "I-LOC")),
    "question_answering": (("encoder",), "question_answering", 2, ()),
    "multiple_choice": (("encoder", "pooler"), "multiple_choice", 1, ()),
}
TASKS = {name: case[1:] for name, case in MODELS.items() if case[1]}


def with_task(weights, task, num_outputs, labels):
    generator = np.random.RandomState(3)
    layer = {
        "classifier/kernel": generator.normal(size=(weights.config.hidden_size, num_outputs)).astype(np.float32),
        "classifier/bias": generator.normal(size=num_outputs).astype(np.float32),
    }
    return dataclasses.replace(weights, tensors={**weights.tensors, **layer}, task=task, labels=labels)


def only(weights, *parts):
    return dataclasses.replace(
        weights, tensors={path: tensor for path, tensor in weights.tensors.items() if part_of(path) in parts}
    )


@pytest.mark.parametrize("model", MODELS)
def test_every_class_that_transformers_saves_computes_the_same_here_as_in_transformers(model):
    parts, task, num_outputs, labels = MODELS[model]
    assert huggingface_layout.recognizes(FILES / model)
    weights = huggingface_layout.read(FILES / model)
    assert (weights.parts(), weights.task, weights.labels) == (parts, task, labels)
    assert not weights.unexpected and set(weights.unused) <= {"cls.predictions.bias"}
    arrays = np.load(FILES / "outputs.npz")
    expected = {name.split("/")[-1]: arrays[name] for name in arrays.files if name.startswith(f"outputs/{model}/")}
    outputs = build_model(weights)(
        {name.removeprefix("inputs/"): arrays[name] for name in arrays.files if name.startswith("inputs/")}
    )
    by_their_name = {"last_hidden_state": outputs["sequence_output"]}
    by_their_name |= {
        theirs: outputs[ours]
        for ours, theirs in (
            ("pooled_output", "pooler_output"),
            ("nsp_logits", "seq_relationship_logits"),
            ("mlm_logits", "prediction_logits"),
        )
        if ours in outputs
    }
    if task:
        features = outputs["pooled_output" if "pooler" in parts else "sequence_output"]
        logits = features @ weights.tensors["classifier/kernel"] + weights.tensors["classifier/bias"]
        assert logits.shape[-1] == num_outputs
        by_their_name |= {
            "question_answering": {"start_logits": logits[..., 0], "end_logits": logits[..., -1]},
            "multiple_choice": {"logits": np.reshape(logits, (-1, 2))},
        }.get(task, {"logits": logits})
    if model.startswith("masked_lm"):  # For these models transformers names the outputs "logits".
        expected["prediction_logits"] = expected.pop("logits")
    if model == "next_sentence":
        expected["seq_relationship_logits"] = expected.pop("logits")
    assert by_their_name.keys() == expected.keys()
    for name, values in expected.items():
        np.testing.assert_allclose(by_their_name[name], values, atol=1e-5, rtol=0, err_msg=name)


def test_parts_that_a_class_never_has_are_reported_and_no_fault_if_they_may_be_missing():
    weights = huggingface_layout.read(FILES / "masked_lm")
    with pytest.raises(UserError, match="encoder/pooler/kernel, encoder/pooler/bias: missing .*next_sentence"):
        checked(weights)
    for allowed in ({"allow_absent": True}, {"allow_missing": ("pooler", "next_sentence")}):
        loaded, lines = checked(weights, **allowed)
        assert lines[0].endswith("22 tensors match (encoder 17, masked_lm 5)") and not loaded.missing(["masked_lm"])
        assert lines[1:3] == [
            "  has no pooler: BertForMaskedLM never has one",
            "  has no next_sentence: BertForMaskedLM never has one",
        ]


def test_the_error_names_allow_missing_if_a_part_that_the_class_should_have_is_missing(tmp_path):
    whole = huggingface_layout.read(FILES / "pretraining")
    for lost in ("encoder/pooler/", "masked_lm/transform/"):
        tensors = {path: tensor for path, tensor in whole.tensors.items() if not path.startswith(lost)}
        part = part_of(f"{lost}kernel")
        with pytest.raises(UserError, match=rf"{lost}kernel, {lost}bias: missing \(--allow_missing={part} continues"):
            checked(dataclasses.replace(whole, tensors=tensors), allow_absent=True)
    # A part with only some of its tensors is damaged, whatever the class.
    incomplete = {
        **huggingface_layout.read(FILES / "encoder").tensors,
        "masked_lm/output_bias": np.zeros(17, np.float32),
    }
    encoder = dataclasses.replace(huggingface_layout.read(FILES / "encoder"), tensors=incomplete)
    with pytest.raises(UserError, match="--allow_missing=masked_lm continues"):
        checked(encoder, allow_absent=True)


@pytest.mark.parametrize("is_tied", [True, False])
def test_a_round_trip_keeps_every_bit(config, is_tied, tmp_path):
    weights = make_weights(config.replace(tie_word_embeddings=is_tied))
    assert huggingface_layout.write(weights, tmp_path / "model") == []
    loaded = huggingface_layout.read(tmp_path / "model")
    assert_same(loaded, weights)
    assert not loaded.unexpected


@pytest.mark.parametrize("task", TASKS)
def test_a_round_trip_keeps_task_and_labels(task, tmp_path):
    weights = with_task(only(make_weights(CONFIGS["three_layers"]), *MODELS[task][0]), *TASKS[task])
    assert huggingface_layout.write(weights, tmp_path / "model") == []
    assert_same(huggingface_layout.read(tmp_path / "model"), weights)


@pytest.mark.parametrize("problem_type", ["multi_label_classification", "regression", ""])
def test_the_problem_type_is_kept_on_the_way_to_a_run_and_back(problem_type, tmp_path):
    task = "sequence_classification"
    weights = with_task(only(make_weights(CONFIGS["three_layers"]), *MODELS[task][0]), *TASKS[task])
    weights = dataclasses.replace(weights, problem_type=problem_type)
    huggingface_layout.write(weights, tmp_path / "model")
    assert json.loads((tmp_path / "model" / "config.json").read_text()).get("problem_type", "") == problem_type
    own_layout.write(huggingface_layout.read(tmp_path / "model"), str(tmp_path / "run"))
    assert (
        own_layout.read(str(tmp_path / "run")).problem_type
        == huggingface_layout.read(tmp_path / "model").problem_type
        == problem_type
    )


@pytest.mark.parametrize("model", [name for name in MODELS if not name.endswith("sharded")])
def test_files_of_transformers_are_written_again_byte_for_byte(model, tmp_path):
    huggingface_layout.write(huggingface_layout.read(FILES / model), tmp_path / model)
    written, original = (directory / model for directory in (tmp_path, FILES))
    if model == "masked_lm_untied":  # transformers stores two biases here, and uses only one.
        actual, expected = (
            safetensors_files.read_header(directory / "model.safetensors") for directory in (written, original)
        )
        assert actual.keys() == expected.keys()
    else:
        assert (written / "model.safetensors").read_bytes() == (original / "model.safetensors").read_bytes()
    written, original = (json.loads((directory / "config.json").read_text()) for directory in (written, original))
    assert all(written[key] == original[key] for key in written.keys() & original.keys() - {"label2id"})
    assert (
        not original.keys()
        - written.keys()
        - {
            "add_cross_attention",
            "bos_token_id",
            "classifier_dropout",
            "eos_token_id",
            "is_decoder",
            "transformers_version",
            "use_cache",
        }
    )


@pytest.mark.parametrize(
    "parts, architecture, lines",
    [
        (
            ("encoder", "pooler", "masked_lm"),
            "BertForMaskedLM",
            ["pooler: left out; transformers' BertForMaskedLM has none"],
        ),
        (
            ("encoder", "masked_lm", "next_sentence"),
            "BertForMaskedLM",
            ["next_sentence: left out; transformers' BertForMaskedLM has none"],
        ),
        (("encoder", "pooler", "next_sentence"), "BertForNextSentencePrediction", []),
        (("encoder", "pooler"), "BertModel", []),
        (
            ("encoder",),
            "BertModel",
            [
                "pooler: missing; transformers draws one at random, unless BertModel is loaded with "
                "add_pooling_layer=False"
            ],
        ),
    ],
)
def test_the_class_with_the_most_parts_is_written_and_left_out_parts_are_reported(parts, architecture, lines, tmp_path):
    weights = only(make_weights(CONFIGS["one_layer"]), *parts)
    assert huggingface_layout.write(weights, tmp_path / "model") == lines
    assert json.loads((tmp_path / "model" / "config.json").read_text())["architectures"] == [architecture]
    loaded = huggingface_layout.read(tmp_path / "model")
    left_out = {line.split(":")[0] for line in lines if "left out" in line}
    assert_same(loaded, only(weights, *set(parts) - left_out))


def test_a_model_that_cannot_be_written_leaves_no_files_behind(tmp_path):
    weights = make_weights(CONFIGS["one_layer"])
    for broken, message in (
        (dataclasses.replace(weights, vocabulary=b"[PAD]\na\n"), "cannot be written for transformers"),
        (only(weights, "pooler", "masked_lm"), "has no whole encoder"),
        (with_task(only(weights, "encoder"), "sequence_classification", 2, ()), "has no pooler, which a model"),
        (with_task(weights, "sequence_classification", 3, ("a", "b")), "2 labels for 3 outputs"),
    ):
        with pytest.raises(UserError, match=message):
            huggingface_layout.write(broken, tmp_path / "model")
        assert not list(tmp_path.iterdir())
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "mine").touch()
    with pytest.raises(UserError, match="not empty"):
        huggingface_layout.write(weights, tmp_path / "model")


def old_names(tensors):
    return {
        name.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta"): values
        for name, values in tensors.items()
    }


@pytest.mark.parametrize(
    "rename",
    [
        old_names,
        lambda tensors: {name.removeprefix("bert."): values for name, values in tensors.items()},
        lambda tensors: {f"model.{name}": values for name, values in tensors.items()},
        lambda tensors: {f"module._orig_mod.{name}": values for name, values in tensors.items()},
    ],
    ids=["gamma and beta", "no prefix", "model.", "module._orig_mod."],
)
def test_other_names_of_the_same_tensors_are_understood(rename, tmp_path):
    directory = copy("pretraining", tmp_path)
    expected = huggingface_layout.read(directory)
    change_tensors(directory, rename)
    loaded = huggingface_layout.read(directory)
    assert_same(loaded, expected)
    assert not loaded.unexpected


def test_two_names_for_one_tensor_are_refused(tmp_path):
    directory = copy("pretraining", tmp_path)
    change_tensors(directory, lambda tensors: tensors | {"pooler.dense.bias": tensors["bert.pooler.dense.bias"]})
    assert_refused(directory, "'bert.pooler.dense.bias' and 'pooler.dense.bias' are the same tensor")


def test_buffers_and_a_tied_decoder_are_left_out_with_the_reason(tmp_path):
    directory = copy("pretraining", tmp_path)
    expected = huggingface_layout.read(directory)
    change_tensors(
        directory,
        lambda tensors: (
            tensors
            | {
                "bert.embeddings.position_ids": np.arange(13, dtype=np.float32)[None],
                "cls.predictions.decoder.weight": tensors["bert.embeddings.word_embeddings.weight"],
                "cls.predictions.decoder.bias": tensors["cls.predictions.bias"],
            }
        ),
    )
    loaded = huggingface_layout.read(directory)
    assert_same(loaded, expected)
    assert loaded.unused == {
        "bert.embeddings.position_ids": "a buffer with known values",
        "cls.predictions.decoder.weight": "tied to encoder/embeddings/word_embeddings, and equal to it",
        "cls.predictions.decoder.bias": "tied to masked_lm/output_bias, and equal to it",
    }


@pytest.mark.parametrize(
    "name, source",
    [
        ("cls.predictions.decoder.weight", "bert.embeddings.word_embeddings.weight"),
        ("cls.predictions.decoder.bias", "cls.predictions.bias"),
    ],
)
def test_a_tied_decoder_is_refused_if_it_differs_and_read_if_it_is_the_only_copy(name, source, tmp_path):
    directory = copy("pretraining", tmp_path)
    expected = huggingface_layout.read(directory)
    change_tensors(
        directory, lambda tensors: {name if key == source else key: values for key, values in tensors.items()}
    )
    assert_same(huggingface_layout.read(directory), expected)
    change_tensors(directory, lambda tensors: tensors | {source: tensors[name] + np.float32(1e-6)})
    assert_refused(directory, f"{name} differs from", "set tie_word_embeddings to false")


def test_an_untied_decoder_is_kept_with_the_bias_that_it_uses(tmp_path):
    directory = copy("masked_lm_untied", tmp_path)
    weights = huggingface_layout.read(directory)
    assert not weights.config.tie_word_embeddings
    raw = {
        name: safetensors_files.read_tensor(entry)
        for name, entry in safetensors_files.read_header(directory / "model.safetensors").items()
    }
    np.testing.assert_array_equal(weights.tensors["masked_lm/output_embeddings"], raw["cls.predictions.decoder.weight"])
    np.testing.assert_array_equal(weights.tensors["masked_lm/output_bias"], raw["cls.predictions.decoder.bias"])
    assert "cls.predictions.bias" in weights.unused


def test_a_tensor_that_a_bert_does_not_have_is_unexpected_with_its_shape(tmp_path):
    directory = copy("pretraining", tmp_path)
    extra = {
        "crf.transitions": np.zeros((3, 5), np.float32),
        "classifier.weight": np.zeros((3, 14), np.float32),
        "bert.encoder.layer.1.output.dense.bias": np.zeros(14, np.float32),
        "bert.encoder.layer.00.output.dense.bias": np.zeros(14, np.float32),
    }
    change_tensors(directory, lambda tensors: tensors | extra)
    weights = huggingface_layout.read(directory)
    assert weights.unexpected == {name: values.shape for name, values in extra.items()} and not weights.task
    with pytest.raises(UserError, match=r"crf.transitions \[3, 5\]: unexpected"):
        checked(weights)


def test_a_class_whose_output_layer_is_missing_has_no_task(tmp_path):
    directory = copy("pretraining", tmp_path)
    change_config(directory, architectures=["BertForTokenClassification"])
    weights = huggingface_layout.read(directory)
    assert (weights.task, weights.labels) == ("", ())
    assert "its output layer is not in the file" in weights.unused.values()


def test_a_tensor_of_another_shape_is_reported_not_reshaped(tmp_path):
    directory = copy("pretraining", tmp_path)
    change_tensors(directory, lambda tensors: tensors | {"bert.pooler.dense.weight": np.zeros((14, 13), np.float32)})
    with pytest.raises(UserError, match=r"encoder/pooler/kernel: expected \[14, 14\], found \[13, 14\]"):
        checked(huggingface_layout.read(directory))
    name = "bert.encoder.layer.0.attention.self.key.weight"
    change_tensors(directory, lambda tensors: tensors | {name: np.zeros((14, 28), np.float32)})
    assert_refused(directory, "encoder/layer_0/attention/key/kernel expected [14, 14], found [28, 14]")
    directory = copy("token_classification", tmp_path)
    change_tensors(directory, lambda tensors: tensors | {"classifier.weight": np.float32(3)})
    assert_refused(directory, "the output layer's kernel has shape []; expected two dimensions")
