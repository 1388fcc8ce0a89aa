"""Tests that other models, unsupported formats and hostile files in a transformers directory are refused."""

import json
import shutil

import pytest

from keras_bert_app.config.weight_shapes import shapes
from keras_bert_app.interop.huggingface import huggingface_layout
from tests.interop.conftest import assert_same
from tests.interop.huggingface.huggingface_directories import FILES, assert_refused, change_config, copy


@pytest.mark.parametrize(
    "model_type, architecture",
    [
        ("distilbert", "DistilBertForMaskedLM"),
        ("roberta", "RobertaModel"),
        ("albert", "AlbertForPreTraining"),
        ("electra", "ElectraForPreTraining"),
        ("bert", "JinaBertForMaskedLM"),
        ("modernbert", None),
    ],
)
def test_relatives_of_bert_are_refused_by_name(model_type, architecture, tmp_path):
    directory = copy("pretraining", tmp_path)
    change_config(directory, model_type=model_type, architectures=architecture and [architecture])
    assert_refused(directory, architecture or "modernbert", f"model_type '{model_type}' is not read here")


@pytest.mark.parametrize(
    "change, message",
    [
        ({"auto_map": {"AutoModel": "x.py"}}, "has auto_map"),
        ({"quantization_config": {"bits": 8}}, "has quantization_config"),
        ({"position_embedding_type": "relative_key"}, "'position_embedding_type' is 'relative_key'"),
        ({"is_decoder": True}, "'is_decoder' is True"),
        ({"pruned_heads": {"0": [1]}}, "'pruned_heads' is not empty"),
        ({"num_hidden_layers": 1_000_000_000}, "'num_hidden_layers' is 1000000000; expected 0 to 1,000"),
        ({"architectures": "BertModel"}, "expected a list"),
        ({"hidden_size": "14"}, "'hidden_size' is '14'"),
        ({"hidden_act": ["gelu"]}, "hidden_act is ['gelu']; expected a name"),
        ({"architectures": ["BertForTokenClassification"], "id2label": {"0": "a"}}, None),
    ],
)
def test_a_configuration_of_another_model_is_refused(change, message, tmp_path):
    directory = copy("pretraining" if message else "token_classification", tmp_path)
    change_config(directory, **change)
    assert_refused(directory, message or "id2label is {'0': 'a'}, but the output layer has 5 outputs")


def test_pickles_are_never_opened_and_the_error_says_how_to_convert_them(tmp_path):
    directory = copy("pretraining", tmp_path)
    (directory / "model.safetensors").unlink()
    (directory / "pytorch_model.bin").write_bytes(b"cos\nsystem\n(S'touch opened'\ntR.")
    assert huggingface_layout.recognizes(directory)
    assert_refused(directory, "pytorch_model.bin, a pickle", "never opened here", 'python -c "import glob, torch; ')


@pytest.mark.parametrize("name", ["tf_model.h5", "flax_model.msgpack"])
def test_weights_of_other_libraries_are_refused_by_name(name, tmp_path):
    directory = copy("encoder", tmp_path)
    (directory / "model.safetensors").rename(directory / name)
    assert huggingface_layout.recognizes(directory)
    assert_refused(directory, f"{name}, which is not read here")


def test_a_directory_without_config_json_is_refused_and_without_weights_not_recognized(tmp_path):
    directory = copy("encoder", tmp_path)
    (directory / "config.json").unlink()
    assert_refused(directory, "has no config.json")
    (directory / "model.safetensors").unlink()
    assert not huggingface_layout.recognizes(directory) and not huggingface_layout.recognizes(tmp_path / "nothing")


SHARDED = "pretraining_sharded"
FIRST = "model-00001-of-00003.safetensors"


def change_index(directory, change):
    path = directory / "model.safetensors.index.json"
    values = json.loads(path.read_text())
    change(values)
    path.write_text(json.dumps(values))


def renamed_shard(name):
    def change(directory):
        def rename(values):
            values["weight_map"] = {
                key: name if shard == FIRST else shard for key, shard in values["weight_map"].items()
            }

        change_index(directory, rename)

    return change


def linked_out(directory):
    (directory / FIRST).rename(directory.parent / FIRST)
    (directory / FIRST).symlink_to(directory.parent / FIRST)


@pytest.mark.parametrize(
    "damage, message",
    [
        (renamed_shard(f"../{FIRST}"), "expected plain names"),
        (renamed_shard(f"/etc/{FIRST}"), "expected plain names"),
        (renamed_shard(f"a\\{FIRST}"), "expected plain names"),
        (renamed_shard("gs://bucket/x.safetensors"), "plain names"),
        (renamed_shard(".."), "expected plain names"),
        (renamed_shard("config.json"), "expected plain names"),
        (renamed_shard("a\n.safetensors"), "expected plain names"),
        (renamed_shard("other.safetensors"), "is missing"),
        (linked_out, "is a link that leads out of the directory"),
        (lambda directory: (directory / FIRST).unlink(), f"the index names {FIRST}, but this file is missing"),
        (
            lambda directory: shutil.copyfile(directory / FIRST.replace("1-", "2-"), directory / FIRST),
            "but the index says",
        ),
        (
            lambda directory: change_index(
                directory, lambda values: values["weight_map"].pop("bert.pooler.dense.bias")
            ),
            "'bert.pooler.dense.bias' is in model-00003",
        ),
        (
            lambda directory: change_index(directory, lambda values: values["weight_map"].update(crf=FIRST)),
            "'crf' is not in",
        ),
        (lambda directory: change_index(directory, lambda values: values.update(weight_map=[])), "has no weight_map"),
        (
            lambda directory: change_index(directory, lambda values: values["weight_map"].update(crf=3)),
            "has no weight_map",
        ),
    ],
    ids=[
        "parent",
        "absolute",
        "backslash",
        "bucket",
        "dots",
        "other file",
        "two lines",
        "not there",
        "link",
        "lost",
        "swapped",
        "too little",
        "too much",
        "list",
        "number",
    ],
)
def test_an_index_that_leaves_the_folder_or_contradicts_its_shards_is_refused(damage, message, tmp_path):
    directory = copy(SHARDED, tmp_path)
    damage(directory)
    assert_refused(directory, message)


def test_the_links_in_the_cache_of_the_hub_are_followed(tmp_path):
    """huggingface_hub stores a file as a link models--X/snapshots/REVISION/FILE -> models--X/blobs/HASH."""
    blobs, snapshot = tmp_path / "models--x" / "blobs", tmp_path / "models--x" / "snapshots" / "0f"
    blobs.mkdir(parents=True)
    snapshot.mkdir(parents=True)
    for number, source in enumerate(sorted((FILES / SHARDED).iterdir())):
        shutil.copyfile(source, blobs / str(number))
        (snapshot / source.name).symlink_to(f"../../blobs/{number}")
    expected = huggingface_layout.read(FILES / SHARDED)
    assert_same(huggingface_layout.read(snapshot), expected)
    assert {path: tensor.shape for path, tensor in expected.tensors.items()} == shapes(expected.config)
