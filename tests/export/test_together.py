"""The exports of one model appear together, and weights that are not finite are not exported."""

import dataclasses
import json
import os
import platform
import shutil
import subprocess

import numpy as np
import pytest
import tensorflow as tf

from keras_bert_app.errors import UserError
from keras_bert_app.export import finetuned_export, saved_models, sentence_vectors
from keras_bert_app.export.pretrained_export import export_pretrained
from keras_bert_app.export.specs import About
from keras_bert_app.interop import own_layout
from keras_bert_app.serving import saved_model_files
from tests.export.small_model import ONE_LAYER
from tests.export.untrained import untrained

NAMES = ["bert", "bert_ids", "bert_preprocess"]


def listing(directory):
    return {name: sorted(os.listdir(directory / name)) for name in sorted(os.listdir(directory))}


def doubled(place):
    """An Export of a module that doubles numbers."""
    module = tf.Module()
    signature = [tf.TensorSpec([None], tf.float32, name="x")]
    module.exported = {"serving_default": tf.function(lambda x: {"y": 2 * x}, input_signature=signature)}
    module.about = About("numbers", {"serving_default": {"x": [1.0]}})
    return saved_models.Export(module, str(place), {}, {})


class Killed(BaseException):
    """An exception that represents a signal in the middle of an export."""


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    """(directory of the small model's exports, its content before each rename to a final name)."""
    export_dir, rename, contents = tmp_path_factory.mktemp("exports"), tf.io.gfile.rename, []
    model = tmp_path_factory.mktemp("models") / "small"
    own_layout.write(ONE_LAYER, str(model))

    def observed(source, target, **options):
        contents.append(listing(export_dir))
        return rename(source, target, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tf.io.gfile, "rename", observed)
        export_pretrained(str(model), str(export_dir / "bert"))
    return export_dir, contents


def test_no_directory_gets_its_final_name_before_all_are_complete(exported):
    export_dir, contents = exported
    contents = [before for before in contents if before.keys() == set(NAMES)]
    assert contents[-3] == dict.fromkeys(NAMES, [f"writing-1-{os.getpid()}-{platform.node()}"])
    assert listing(export_dir) == dict.fromkeys(NAMES, ["1"])


def test_an_export_that_fails_between_two_renames_leaves_no_directory(tmp_path, monkeypatch):
    rename, places = tf.io.gfile.rename, [tmp_path / "bert_ids", tmp_path / "bert"]

    def failing(source, target, **options):
        if target == str(tmp_path / "bert" / "1"):
            assert listing(tmp_path)["bert_ids"] == ["1"]
            raise Killed
        return rename(source, target, **options)

    monkeypatch.setattr(tf.io.gfile, "rename", failing)
    with pytest.raises(Killed):
        saved_models.write_together(map(str, places), 1, map(doubled, places))
    assert listing(tmp_path) == {"bert": [], "bert_ids": []}


def test_the_next_export_completes_one_that_was_killed_between_two_renames(exported, tmp_path):
    for name in NAMES:
        shutil.copytree(exported[0] / name, tmp_path / name)
    dead = subprocess.Popen(["true"])
    dead.wait()
    writing = f"writing-1-{dead.pid}-{platform.node()}"
    # This is the state after a kill. The ids export has its final name. The raw-text export is complete, with its
    # temporary name. The preprocessor is incomplete.
    for name in ("bert", "bert_preprocess"):
        (tmp_path / name / "1").rename(tmp_path / name / writing)
    (tmp_path / "bert_preprocess" / writing / "manifest.json").unlink()
    places = [tmp_path / name for name in NAMES]
    saved_models.write_together(map(str, places), 2, map(doubled, places))
    assert listing(tmp_path) == {"bert": ["1", "2"], "bert_ids": ["1", "2"], "bert_preprocess": ["2"]}
    saved_model_files.check_manifest(str(tmp_path / "bert" / "1"))


def test_a_new_version_of_another_kind_or_task_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(finetuned_export, "FinetunedRun", lambda *_: untrained("cola", ("0", "1")))
    own_layout.write(ONE_LAYER, str(tmp_path / "model"))
    for version, about in (("1", {"kind": "fill_mask"}), ("2", {"kind": "classification", "task": "sst-2"})):
        (tmp_path / "moods" / version).mkdir(parents=True)
        (tmp_path / "moods" / version / "export.json").write_text(json.dumps(about))
    message = (
        f"--export_dir: {tmp_path}/moods/2 is of kind 'classification' for task 'sst-2', and the new version would"
    )
    exports = (
        (lambda path: export_pretrained(str(tmp_path / "model"), path), "'fill_mask'"),
        (lambda path: sentence_vectors.export_embeddings(str(tmp_path / "model"), path), "'embeddings'"),
        (lambda path: finetuned_export.export_finetuned("x", path), "'classification' for task 'cola'"),
    )
    for export, kind in exports:
        with pytest.raises(UserError) as error:
            export(str(tmp_path / "moods"))
        assert str(error.value) == f"{message} be of kind {kind}; give another --export_dir"
    assert sorted(os.listdir(tmp_path)) == ["model", "moods"] and listing(tmp_path)["moods"] == ["1", "2"]
    saved_models.refuse_another_kind(str(tmp_path / "moods"), "classification", "sst-2")
    for content in ("", "[]", "{}", '{"kind": 5}', '{"kind": "fill_mask", "task": null}'):
        (tmp_path / "moods" / "2" / "export.json").write_text(content)
        saved_models.refuse_another_kind(str(tmp_path / "moods"), "classification", "cola")
    (tmp_path / "moods" / "2" / "export.json").unlink()
    saved_models.refuse_another_kind(str(tmp_path / "moods"), "classification", "cola")


@pytest.mark.parametrize("value", [np.nan, -np.inf])
def test_weights_that_are_not_finite_are_not_exported(tmp_path, value):
    path = "encoder/layer_0/output/kernel"
    tensors = {**ONE_LAYER.tensors, path: ONE_LAYER.tensors[path].copy()}
    tensors[path][3, 5] = value
    own_layout.write(dataclasses.replace(ONE_LAYER, tensors=tensors), str(tmp_path / "model"))
    lines = []
    with pytest.raises(UserError, match=f"{path} holds numbers that are not finite"):
        export_pretrained(str(tmp_path / "model"), str(tmp_path / "bert"), log=lines.append)
    assert lines[-1] == f"  WARNING: {path} holds numbers that are not finite (NaN or infinite)"
    with pytest.raises(UserError, match="not finite"):
        sentence_vectors.export_embeddings(str(tmp_path / "model"), str(tmp_path / "vectors"))
    assert os.listdir(tmp_path) == ["model"]
