"""Versions from unknown sources: a faulty version fails, and the other versions are still loaded."""

import json
import os
import shutil

import pytest
import tensorflow as tf

from keras_bert_app.errors import UserError
from keras_bert_app.export import saved_models
from keras_bert_app.serving import saved_model_files
from keras_bert_app.serving.model_configs import ModelConfig
from tests.runs.test_tf_checkpoints import FLOAT, write_index
from tests.serving.conftest import put_version, running, wait_for
from tests.serving.test_versions import which


def add_pipe(directory):
    os.mkfifo(directory / "pipe")


def pipe_for_manifest(directory):
    (directory / "manifest.json").unlink()
    os.mkfifo(directory / "manifest.json")


def add_dangling_link(directory):
    (directory / "link").symlink_to(directory / "nowhere")


def add_circle(directory):
    (directory / "circle").symlink_to("circle")


def add_link_to_its_own_directory(directory):
    (directory / "assets" / "again").symlink_to(directory)


def link_to_a_file_without_an_end(directory):
    path = directory / "saved_model.pb"
    path.write_bytes(b"")
    seal(directory)
    path.unlink()
    path.symlink_to("/proc/self/pagemap")


def seal(directory):
    (directory / "manifest.json").unlink()
    saved_model_files.write_manifest(str(directory))


def describe(text):
    """Makes a function that writes export.json with this JSON text as a value."""

    def change(directory):
        (directory / "export.json").write_text(f'{{"a": {text}}}')
        seal(directory)

    return change


def declare_a_negative_shape(directory):
    write_index(directory / "variables" / "variables", ("number", FLOAT, (-4, 4), 0, 64))
    seal(directory)


# Change of a valid version -> part of the reason in the status.
DEFECTS = {
    add_pipe: "2/pipe: is not a regular file",
    pipe_for_manifest: "3/manifest.json: is not a regular file",
    add_dangling_link: "4/link: is not a regular file",
    add_circle: "5/circle: is not a regular file",
    add_link_to_its_own_directory: "6/assets/again: is not a regular file",
    link_to_a_file_without_an_end: "7/saved_model.pb: gives more or less than its 0 bytes",
    declare_a_negative_shape: "variables: is not an intact checkpoint: number has the shape [-4, 4]",
    describe("[" * 975 + "]" * 975): "9/export.json: is nested deeper than 64 levels",
    describe("NaN"): "10/export.json: has the number nan",
    describe("1e999"): "11/export.json: has the number inf",
    describe("1" + "0" * 30): "12/export.json: has the number 1000000000",
}


def statuses(client):
    entries = client.get("/v1/models/tiny")[1]["model_version_status"]
    return {int(entry["version"]): (entry["state"], entry["status"]["error_message"]) for entry in entries}


def test_a_version_that_cannot_be_read_fails_alone_and_is_named_in_the_status(base_path, saved):
    with running(ModelConfig("tiny", str(base_path), latest=None)) as client:
        for number, change in enumerate(DEFECTS, start=2):
            writing = base_path / f"writing-{number}"
            shutil.copytree(saved[2], writing)
            change(writing)
            writing.rename(base_path / str(number))
        put_version(saved[2], base_path / "99")
        wait_for(lambda: statuses(client).get(99, ("", ""))[0] == "AVAILABLE")
        status_by_version = statuses(client)
        assert status_by_version[1][0] == "AVAILABLE" and which(client) == [2]
        assert client.get("/v1/models")[1]["models"][0]["version"] == 99
        for number, reason in enumerate(DEFECTS.values(), start=2):
            assert status_by_version[number][0] == "END" and reason in status_by_version[number][1], number
        (base_path / "2" / "pipe").unlink()
        wait_for(lambda: statuses(client)[2][0] == "AVAILABLE")


def test_a_pipe_is_refused_even_if_no_manifest_is_required(base_path):
    (base_path / "1" / "manifest.json").unlink()
    (base_path / "1" / "saved_model.pb").unlink()
    os.mkfifo(base_path / "1" / "saved_model.pb")
    with pytest.raises(UserError, match="saved_model.pb: is not a regular file"):
        with running(ModelConfig("tiny", str(base_path)), allow_unverified=True):
            pass
    with pytest.raises(UserError, match="saved_model.pb: is not a regular file"):
        saved_models.load(base_path / "1")


def test_files_and_broken_links_with_numbers_as_names_are_no_versions(base_path, tmp_path):
    (base_path / "1").rename(tmp_path / "elsewhere")
    (base_path / "1").symlink_to(tmp_path / "elsewhere")
    (base_path / "01").mkdir()
    (base_path / "2").write_text("a file")
    (base_path / "3").symlink_to("3")
    (base_path / "4").symlink_to("nowhere")
    assert saved_model_files.version_directories(str(base_path)) == {1: str(base_path / "1")}
    with running(ModelConfig("tiny", str(base_path))) as client:
        assert which(client) == [1] and list(statuses(client)) == [1]
    (base_path / "1").unlink()
    assert saved_model_files.version_directories(str(base_path)) == {1: str(base_path / "01")}


def test_only_a_directory_with_a_saved_model_in_it_or_in_a_version_holds_an_export(base_path, tmp_path):
    assert saved_model_files.holds_export(str(base_path)) and saved_model_files.holds_export(str(base_path / "1"))
    (tmp_path / "run" / "1").mkdir(parents=True)  # runs of several seeds
    assert not saved_model_files.holds_export(str(tmp_path / "run"))
    assert not saved_model_files.holds_export(str(tmp_path / "none"))


def test_a_file_of_another_size_is_refused_unread_and_a_manifest_without_sizes_is_valid(base_path, monkeypatch):
    directory, manifest = base_path / "1", base_path / "1" / "manifest.json"
    content = json.loads(manifest.read_text())
    manifest.write_text(json.dumps({"sha256": content["sha256"]}))  # as earlier exports wrote it
    saved_model_files.check_manifest(str(directory))
    manifest.write_text(json.dumps(content))
    os.truncate(directory / "export.json", 1 << 40)
    open_file = saved_model_files._open_without_waiting
    monkeypatch.setattr(
        saved_model_files,
        "_open_without_waiting",
        lambda path: pytest.fail(f"{path} was read") if path.endswith("export.json") else open_file(path),
    )
    with pytest.raises(UserError, match=r"export.json: is not as it was exported \(.* 1,099,511,627,776 found\)"):
        saved_model_files.check_manifest(str(directory))


def test_a_file_that_the_manifest_does_not_name_is_refused_before_any_file_is_read(base_path, monkeypatch):
    with open(base_path / "1" / "sparse", "wb") as file:
        file.truncate(1 << 40)
    monkeypatch.setattr(saved_model_files, "_open_without_waiting", lambda path: pytest.fail(f"{path} was read"))
    with pytest.raises(UserError, match="sparse: is not as it was exported"):
        saved_model_files.check_manifest(str(base_path / "1"))


class Scaled(tf.Module):
    """Multiplies by a number that may be NaN."""

    def __init__(self, factor):
        super().__init__()
        self.factor = tf.Variable(factor)
        signature = [tf.TensorSpec([None], tf.float32, name="x")]
        self.exported = {"serving_default": tf.function(lambda x: {"y": x * self.factor}, input_signature=signature)}


@pytest.mark.parametrize("factor", [float("nan"), float("inf")])
def test_weights_that_are_not_finite_are_not_served(tmp_path, factor):
    module = Scaled(factor)
    tf.saved_model.save(module, str(tmp_path / "1"), signatures=module.exported)
    saved_model_files.write_manifest(str(tmp_path / "1"))
    with pytest.raises(UserError, match=r"the variable factor holds numbers that are not finite"):
        with running(ModelConfig("tiny", str(tmp_path))):
            pass


@pytest.mark.parametrize("name", ["run[1]", "back\\slash", "a*b?"])
def test_a_path_that_tensorflow_would_take_for_a_pattern_is_read(tmp_path, saved, name):
    put_version(saved[1], tmp_path / name / "1")
    with running(ModelConfig("tiny", str(tmp_path / name))) as client:
        assert which(client) == [1]
    loaded = saved_models.load(tmp_path / name)
    assert loaded.signatures["which"](x=tf.constant([0]))["number"].numpy().tolist() == [1]


def test_links_to_files_of_the_right_content_are_served(base_path, tmp_path):
    for name in ("saved_model.pb", "variables/variables.index", "variables/variables.data-00000-of-00001"):
        outside = tmp_path / name.replace("/", "_")
        (base_path / "1" / name).rename(outside)
        (base_path / "1" / name).symlink_to(outside)
    with running(ModelConfig("tiny", str(base_path))) as client:
        assert which(client) == [1]
