"""Copies golden models of transformers, so that tests can change them."""

import json
import shutil

import pytest

from keras_bert_app.errors import UserError
from keras_bert_app.interop.huggingface import huggingface_layout, safetensors_files
from tests.conftest import GOLDEN

FILES = GOLDEN / "huggingface_files"


def copy(model, tmp_path):
    """Copies a golden model. Returns the directory of the copy."""
    return shutil.copytree(FILES / model, tmp_path / model, copy_function=shutil.copyfile)


def change_config(directory, **changes):
    """Sets keys of config.json. The value None removes a key."""
    path = directory / "config.json"
    values = json.loads(path.read_text()) | changes
    path.write_text(json.dumps({key: value for key, value in values.items() if value is not None}))


def change_tensors(directory, change):
    """Replaces the tensors in model.safetensors by the result of `change`, a function of dict name -> array."""
    path = directory / "model.safetensors"
    tensors = {
        name: safetensors_files.read_tensor(entry) for name, entry in safetensors_files.read_header(path).items()
    }
    safetensors_files.write(path, change(tensors))


def assert_refused(directory, *messages):
    with pytest.raises(UserError) as refusal:
        huggingface_layout.read(directory)
    assert len(str(refusal.value).splitlines()) == 1
    for message in messages:
        assert message in str(refusal.value)
