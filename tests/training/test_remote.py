"""Runs and exports in an object store. The tests use TensorFlow's ram:// instead of gs://."""

import dataclasses
import os

import numpy as np
import tensorflow as tf

from keras_bert_app.export import saved_models
from keras_bert_app.export.specs import About
from keras_bert_app.runs import checkpoints, work_directory
from keras_bert_app.serving import saved_model_files
from tests.training.conftest import CONFIG, RUN, train, write_workdir
from tests.training.runs import weights_of


def test_a_run_in_an_object_store_resumes_and_ignores_a_checkpoint_without_a_manifest(training_shards):
    workdir = write_workdir("ram://bucket/run", CONFIG, dataclasses.replace(RUN, save_checkpoints_steps=10))
    train(workdir, training_shards)
    weights = weights_of(workdir)
    first, last = checkpoints.list_checkpoints(workdir)
    # The manifest is written last, so a checkpoint without a manifest is incomplete.
    tf.io.gfile.remove(os.path.join(last, "manifest.json"))
    assert checkpoints.list_checkpoints(workdir) == [first] and work_directory.unfinished(workdir) == [last]
    _, output = train(workdir, training_shards)
    assert f"resumed at step 10 from {first}" in output
    resumed_weights = weights_of(workdir)
    assert all(np.array_equal(weights[path], resumed_weights[path]) for path in weights)
    assert work_directory.unfinished(workdir) == []


def test_an_export_to_an_object_store_copies_its_graph_last(tmp_path, monkeypatch):
    class Module(tf.Module):
        about = About("numbers", {})

        @property
        def exported(self):
            return {
                "serving_default": tf.function(
                    lambda x: {"y": x + 1.0}, input_signature=[tf.TensorSpec([None], name="x")]
                )
            }

    copied, real = [], tf.io.gfile.copy

    def copy(source, target, overwrite):
        copied.append(target)
        real(source, target, overwrite)

    monkeypatch.setattr(tf.io.gfile, "copy", copy)
    directory = saved_models.write_saved_model(Module(), "ram://bucket/saved/numbers", 1, {"vocab.txt": b"a\n"})
    assert directory == "ram://bucket/saved/numbers/1" and copied[-1] == f"{directory}/saved_model.pb"
    assert saved_models.read_file("ram://bucket/saved/numbers", 1, "vocab.txt") == b"a\n"
    local = write_local_copy(directory, copied, tmp_path)
    saved_model_files.check_manifest(local)
    assert tf.saved_model.load(local).signatures["serving_default"](x=tf.constant([1.0]))["y"].numpy() == [2.0]


def write_local_copy(directory, paths, tmp_path):
    for path in paths:
        target = tmp_path / path.removeprefix(f"{directory}/")
        target.parent.mkdir(parents=True, exist_ok=True)
        with tf.io.gfile.GFile(path, "rb") as file:
            target.write_bytes(file.read())
    return str(tmp_path)
