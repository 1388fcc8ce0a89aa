"""Tests that models are written and read in directories whose names TensorFlow treats as patterns."""

import keras
import numpy as np
import pytest

from keras_bert_app.interop import load
from keras_bert_app.runs import checkpoints
from pipelines import storage
from tests.interop.conftest import CONFIGS, assert_same, make_weights

NAMES = ["run[1]", "back\\slash", "a*b?"]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("layout", ["workdir", "google_tf1", "model_garden"])
def test_every_layout_of_checkpoints_comes_back_bit_for_bit(tmp_path, name, layout):
    weights = make_weights(CONFIGS["one_layer"])
    directory = str(tmp_path / name / layout)
    assert "read back bit for bit" in load.write_weights(weights, layout, directory)[-1]
    loaded, _ = load.load_weights(directory)
    assert_same(loaded, load.format_module(layout).read(directory))
    assert all(np.array_equal(loaded.tensors[path], tensor) for path, tensor in weights.tensors.items())


def test_a_prefix_with_wildcards_in_its_own_name_is_read(tmp_path):
    load.write_weights(make_weights(CONFIGS["one_layer"]), "google_tf1", str(tmp_path / "model"))
    for path in (tmp_path / "model").glob("bert_model.ckpt.*"):
        path.rename(path.with_name(path.name.replace("bert_model", "bert[1]")))
    weights, _ = load.load_weights(str(tmp_path / "model" / "bert[1].ckpt"))
    assert weights.parts() == ("encoder", "pooler", "masked_lm", "next_sentence")


def dense():
    return keras.Sequential([keras.Input([3]), keras.layers.Dense(2, name="dense")], name="model")


@pytest.mark.parametrize("name", NAMES)
def test_a_checkpoint_is_saved_and_restored(tmp_path, name):
    model, other = (dense() for _ in range(2))
    workdir = str(tmp_path / name)
    directory = checkpoints.save_variables(workdir, checkpoints.model_variables(model), step=7)
    assert checkpoints.list_checkpoints(workdir) == [directory]
    assert checkpoints.restore(directory, other)["step"] == 7
    np.testing.assert_array_equal(other.weights[0], model.weights[0])


def test_wildcards_in_the_directory_for_temporary_files_are_an_error_that_names_tmpdir(tmp_path, monkeypatch):
    (tmp_path / "x[1]").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "x[1]"))
    with pytest.raises(OSError, match="set TMPDIR to another directory"):
        with storage.linked({}):
            pass
