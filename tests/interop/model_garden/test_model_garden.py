"""Tests that Model Garden's checkpoints are read and written, and that checkpoints of other models are refused."""

import dataclasses
import json
import pathlib
import shutil

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.core.protobuf import trackable_object_graph_pb2

from keras_bert_app.errors import UserError
from keras_bert_app.interop import parity
from keras_bert_app.interop.google_tf1 import google_layout
from keras_bert_app.interop.model_garden import model_garden_layout
from keras_bert_app.interop.model_garden.model_garden_names import path_finder
from keras_bert_app.interop.weights import checked
from keras_bert_app.runs import tf_checkpoints
from tests.interop.conftest import CONFIGS, assert_same, make_weights

GOLDEN = pathlib.Path(__file__).parents[2] / "golden"
RUN, RELEASED = GOLDEN / "model_garden_run", GOLDEN / "model_garden_released"
SUFFIX = "/.ATTRIBUTES/VARIABLE_VALUE"


def copied(source, target):
    """Copies a golden directory, so that a test can damage it."""
    return pathlib.Path(shutil.copytree(source, target / "model"))


def edit_json(directory, **changes):
    path = directory / "bert_config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


def edit_yaml(directory, old, new):
    path = directory / "params.yaml"
    assert old in path.read_text()
    path.write_text(path.read_text().replace(old, new))


def write_keys(directory, tensors):
    """Writes a checkpoint of `tensors`, a dict of key -> array."""
    tf.raw_ops.SaveV2(
        prefix=str(directory / "bert_model.ckpt"),
        tensor_names=list(tensors),
        shape_and_slices=[""] * len(tensors),
        tensors=list(tensors.values()),
    )


def object_paths(prefix):
    """Lists the objects of a checkpoint as dict path of attributes -> number of the object."""
    graph = trackable_object_graph_pb2.TrackableObjectGraph.FromString(
        tf.train.load_checkpoint(prefix).get_tensor("_CHECKPOINTABLE_OBJECT_GRAPH")
    )
    numbers, waiting = {}, [((), 0)]
    while waiting:
        path, number = waiting.pop()
        numbers["/".join(path)] = number
        waiting += [((*path, child.local_name), child.node_id) for child in graph.nodes[number].children]
    return numbers


@pytest.mark.parametrize("directory", [RUN, RELEASED], ids=lambda directory: directory.name)
def test_a_checkpoint_computes_the_same_here_as_in_model_garden(directory):
    weights, _ = checked(model_garden_layout.read(directory), () if directory == RUN else ["next_sentence"])
    with np.load(directory / "parity.npz") as arrays:
        batch, theirs = (
            {name.removeprefix(side): arrays[name] for name in arrays.files if name.startswith(side)}
            for side in ("inputs/", "outputs/")
        )
    ours = parity.our_outputs(weights, batch)
    assert ours.keys() == theirs.keys()
    for name, values in theirs.items():
        np.testing.assert_allclose(
            ours[name], values, rtol=0, atol=1e-4 if name.endswith("logits") else 1e-5, err_msg=name
        )


def test_runs_and_released_models_are_recognized_and_other_layouts_are_not(tmp_path):
    assert model_garden_layout.recognizes(RUN) and model_garden_layout.recognizes(RELEASED / "bert_model.ckpt")
    assert not google_layout.recognizes(RUN) and not google_layout.recognizes(RELEASED)
    assert not model_garden_layout.recognizes(GOLDEN) and not model_garden_layout.recognizes(GOLDEN / "google_tf1_tiny")
    tf.train.Checkpoint(model=tf.Module(), step=tf.Variable(3)).write(str(tmp_path / "ckpt"))
    assert not model_garden_layout.recognizes(tmp_path)


def test_the_pooler_of_the_next_sentence_head_is_read_and_training_state_is_left_out():
    loaded = model_garden_layout.read(RUN)
    stored = tf.train.load_checkpoint(str(RUN / "model.ckpt-3"))
    np.testing.assert_array_equal(
        loaded.tensors["encoder/pooler/kernel"], stored.get_tensor(f"next_sentence..pooler_dense/kernel{SUFFIX}")
    )
    assert "the pooler of the next-sentence head is read" in loaded.unused[f"encoder/_pooler_layer/kernel{SUFFIX}"]
    assert {"92 optimizer slots", "optimizer", "global_step", "save_counter"} <= loaded.unused.keys()
    assert not loaded.unexpected


def test_only_the_vocabulary_decides_the_casing():
    assert not model_garden_layout.read(RUN).config.do_lower_case
    assert model_garden_layout.read(RELEASED).config.do_lower_case


def test_a_key_of_another_library_does_not_change_the_gelu(tmp_path):
    plain, directory = model_garden_layout.read(RELEASED).config, copied(RELEASED, tmp_path)
    edit_json(directory, output_past=True, hidden_act="gelu")
    weights, lines = checked(model_garden_layout.read(directory), ("next_sentence",))
    assert weights.config == plain and plain.hidden_act == "gelu_tanh"
    start = "hidden_act gelu is gelu_tanh, Google's tanh form, as in every model of layout model_garden; its key "
    assert f"  {start}'output_past' changes nothing" in lines


@pytest.mark.parametrize("name", CONFIGS)
def test_all_parts_come_back_bit_for_bit(tmp_path, name):
    weights = make_weights(CONFIGS[name])
    lines = model_garden_layout.write(weights, tmp_path / "written")
    computed = weights.config.replace(hidden_act="gelu_tanh")  # Model Garden always computes this form.
    assert_same(model_garden_layout.read(tmp_path / "written"), dataclasses.replace(weights, config=computed))
    assert ["WARNING: hidden_act gelu_exact" in line for line in lines] == [True] * (computed != weights.config)


def test_a_written_checkpoint_has_every_name_that_model_gardens_objects_need(tmp_path):
    model_garden_layout.write(make_weights(CONFIGS["three_layers"]), tmp_path / "written")
    paths = object_paths(str(tmp_path / "written" / "bert_model.ckpt"))
    # The attributes of BertEncoderV2 and the numbers of BertEncoder lead to the same objects, in `encoder` and `model`.
    for attributes, number in (
        ("_embedding_layer", 0),
        ("_position_embedding_layer", 1),
        ("_type_embedding_layer", 2),
        ("_embedding_norm_layer", 3),
        ("_transformer_layers/2", 6),
        ("_pooler_layer", 7),
    ):
        names = [
            f"{owner}/{name}"
            for owner in ("encoder", "model/encoder_network")
            for name in (attributes, f"layer_with_weights-{number}")
        ]
        assert len({paths[name] for name in names}) == 1
    assert paths["masked_lm/embedding_table"] == paths["encoder/_embedding_layer/embeddings"]
    assert paths["masked_lm"] == paths["model/masked_lm"]
    assert "masked_lm/output_bias/bias" in paths
    # Model Garden has two poolers. If both were one variable, Model Garden would restore only one of them.
    head = "model/classification_heads/0"
    assert paths[f"{head}/dense"] == paths["next_sentence.pooler_dense"] != paths["encoder/_pooler_layer"]
    assert paths[f"{head}/dense/kernel"] != paths["encoder/_pooler_layer/kernel"]
    assert f"{head}/out_proj/kernel" in paths and "save_counter" in paths


def test_the_writer_lists_the_properties_that_the_layout_cannot_store(tmp_path):
    config = CONFIGS["one_layer"].replace(tie_word_embeddings=False, layer_norm_eps=1e-6)
    weights = make_weights(config)
    tensors = {path: tensor for path, tensor in weights.tensors.items() if not path.startswith("encoder/pooler/")}
    weights = dataclasses.replace(weights, tensors=tensors, vocabulary=None)
    report = "\n".join(model_garden_layout.write(weights, tmp_path / "written"))
    for text in (
        "WARNING: layer_norm_eps 1e-06",
        "masked_lm is left out",
        "next_sentence is left out",
        "there is no pooler",
        "no vocab.txt",
    ):
        assert text in report
    assert model_garden_layout.read(tmp_path / "written").parts() == ("encoder",)


def test_keys_of_older_versions_and_of_any_root_are_understood():
    find = path_finder(num_layers=2)
    output = "encoder/layer_1/attention/output/kernel", False
    for key in (
        "encoder/layer_with_weights-5/_attention_output_dense/kernel",
        "model/layer_with_weights-5/_attention_layer/_output_dense/kernel",
        "model/encoder_network/_transformer_layers/1/_attention_layer/_output_dense/kernel",
        "_transformer_layers/1/_attention_layer/_output_dense/kernel",
    ):
        assert find(f"{key}{SUFFIX}") == output
    assert find(f"encoder/layer_with_weights-6/bias{SUFFIX}") == ("encoder/pooler/bias", False)
    assert find(f"next_sentence..pooler_dense/bias{SUFFIX}") == ("encoder/pooler/bias", True)
    assert find(f"model/masked_lm/bias{SUFFIX}") == ("masked_lm/output_bias", False)
    for key in (
        "encoder/layer_with_weights-7/bias",
        "encoder/_transformer_layers/2/_output_dense/bias",
        "model/classification_heads/1/out_proj/bias",
        "masked_lm/mask_head/bias",
    ):
        assert find(f"{key}{SUFFIX}") is None


def test_a_masked_lm_table_that_differs_from_the_encoders_is_unexpected(tmp_path):
    model_garden_layout.write(make_weights(CONFIGS["one_layer"]), tmp_path / "written")
    checkpoint = tf_checkpoints.open_checkpoint(str(tmp_path / "written" / "bert_model.ckpt"))
    tensors = {name: checkpoint.tensor(name) for name in checkpoint.shapes}
    table = tensors[f"masked_lm/embedding_table{SUFFIX}"]
    for change in (0.0, 1.0):
        write_keys(tmp_path / "written", {**tensors, f"encoder/_embedding_layer/embeddings{SUFFIX}": table + change})
        assert len(model_garden_layout.read(tmp_path / "written").unexpected) == bool(change)


def test_a_head_that_is_not_for_the_next_sentence_is_unexpected(tmp_path):
    directory = copied(RUN, tmp_path)
    edit_yaml(directory, "name: next_sentence", "name: sentence_order")
    loaded = model_garden_layout.read(directory)
    assert "next_sentence/projection/kernel" not in loaded.tensors
    assert {name.split("/.")[0] for name in loaded.unexpected} == {
        "model/classification_heads/0/out_proj/kernel",
        "model/classification_heads/0/out_proj/bias",
        "next_sentence..pooler_dense/kernel",
        "next_sentence..pooler_dense/bias",
    }
    edit_yaml(directory, "mlm_activation: gelu", "mlm_activation: relu")
    assert "mlm_activation relu of the masked-LM head" in model_garden_layout.read(directory).unused


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("type: bert_v2", "type: albert", "of type 'albert'; only bert and bert_v2"),
        ("type: bert_v2", "type: [bert_v2]", "'type' is a list"),
        ("norm_first: false", "norm_first: true", "norm_first is not False"),
        ("embedding_size: null", "embedding_size: 5", "expected equal sizes"),
        ("num_layers: 2", "num_layers: 900", "900 layers"),
        ("num_layers: 2", "num_layers: two", "'num_hidden_layers' is 'two'"),
        ("num_attention_heads: 2", "num_attention_heads: 5", r"expected \[5, 2\], found \[2, 5\]"),
        ("output_range: null", "rope_base: 10000", "unknown setting 'rope_base'"),
        ("hidden_activation: gelu", "hidden_activation: !!python/object/apply:os.system ['true']", "is not YAML"),
        ("vocab_size: 31", "vocab_size: &a [x, x]\n        hidden_size: [*a, *a]", "is a list; expected one value"),
        ("task:", "tasks:", "has no task"),
        ("type: bert_v2", "type: bert", "has no bert"),
    ],
)
def test_parameters_of_another_encoder_or_of_none_are_refused_in_one_line(tmp_path, old, new, expected):
    directory = copied(RUN, tmp_path)
    edit_yaml(directory, old, new)
    with pytest.raises(UserError, match=expected) as error:
        model_garden_layout.read(directory)
    assert "\n" not in str(error.value) and len(str(error.value)) < 500


def test_files_that_are_missing_damaged_or_of_another_model_are_refused(tmp_path):
    directory = copied(RELEASED, tmp_path)
    edit_json(directory, embedding_size=128)
    with pytest.raises(UserError, match="expected equal sizes"):
        model_garden_layout.read(directory)
    edit_json(directory, embedding_size=None, backward_compatible=True)  # Model Garden's BertConfig writes these keys.
    assert model_garden_layout.read(directory).parts() == ("encoder", "pooler", "masked_lm")
    edit_json(directory, num_hidden_layers=1)
    with pytest.raises(UserError, match="_attention_layer/_key_dense/kernel.* unexpected"):
        checked(model_garden_layout.read(directory), ["next_sentence"])
    (directory / "bert_config.json").unlink()
    with pytest.raises(UserError, match="has no bert_config.json and no params.yaml"):
        model_garden_layout.read(directory)
    data = directory / "bert_model.ckpt.data-00000-of-00001"
    data.write_bytes(data.read_bytes()[:1000])
    with pytest.raises(UserError, match="not an intact checkpoint"):
        model_garden_layout.read(directory)
    with pytest.raises(UserError, match="there is no checkpoint"):
        model_garden_layout.read(GOLDEN.parent)
