"""Tests that no reader of a layout follows a link out of the model's folder, or waits for a pipe."""

import os
import shutil

import pytest

from keras_bert_app.errors import UserError
from keras_bert_app.interop import load
from tests.interop.conftest import CONFIGS, make_weights
from tests.interop.test_hostile_work_directories import time_limit  # noqa: F401  a fixture

_CHECKPOINT = ("vocab.txt", "bert_config.json", "bert_model.ckpt.index", "bert_model.ckpt.data-00000-of-00001")
FILES = {
    "huggingface": ("config.json", "model.safetensors", "vocab.txt", "tokenizer.json", "tokenizer_config.json"),
    "google_tf1": _CHECKPOINT,
    "model_garden": _CHECKPOINT,
    "keras_hub": ("config.json", "model.weights.h5", "tokenizer.json", "assets/tokenizer/vocabulary.txt"),
}
ABSENT = ("next_sentence",)  # A preset of KerasHub has no such head.
CASES = [(layout, name) for layout, names in FILES.items() for name in names]


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """Writes one model in every layout. Returns dict layout -> directory."""
    parent = tmp_path_factory.mktemp("layouts")
    weights = make_weights(CONFIGS["one_layer"])
    for layout in FILES:
        load.write_weights(weights, layout, str(parent / layout))
    return {layout: parent / layout for layout in FILES}


@pytest.mark.parametrize("layout, name", CASES)
def test_a_link_that_leads_out_of_the_folder_is_not_followed(written, tmp_path, layout, name):
    directory = shutil.copytree(written[layout], tmp_path / "model")
    (directory / name).rename(tmp_path / "outside")
    (directory / name).symlink_to(tmp_path / "outside")
    with pytest.raises(UserError, match=f"{name}: is a link that leads out of the directory"):
        load.load_weights(str(directory), allow_missing=ABSENT)
    # A link to a file in the same folder is allowed.
    (directory / name).unlink()
    (tmp_path / "outside").rename(directory / "within")
    (directory / name).symlink_to(directory / "within")
    load.load_weights(str(directory), allow_missing=ABSENT)


@pytest.mark.parametrize("layout, name", CASES)
def test_a_pipe_with_the_name_of_a_file_blocks_no_reader(written, tmp_path, layout, name):
    directory = shutil.copytree(written[layout], tmp_path / "model")
    (directory / name).unlink()
    os.mkfifo(directory / name)
    try:
        load.load_weights(str(directory), allow_missing=ABSENT)
    except UserError as error:
        assert "\n" not in str(error)
    else:
        assert name in ("vocab.txt", "tokenizer.json", "tokenizer_config.json", "assets/tokenizer/vocabulary.txt")
