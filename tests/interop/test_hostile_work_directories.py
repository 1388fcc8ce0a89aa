"""Tests that a hostile work directory is refused in one line, also inside an archive."""

import json
import os
import pathlib
import shutil
import signal

import pytest
import tensorflow as tf

from keras_bert_app.config.finetuning_config import FinetuningConfig
from keras_bert_app.errors import UserError
from keras_bert_app.interop import load
from keras_bert_app.runs import checkpoint_manifests, checkpoints, seeds, work_directory
from keras_bert_app.tasks.scoring import FinetunedRun
from pipelines.data_error import DataError
from tests.interop.conftest import CONFIGS, make_weights
from tests.runs.test_tf_checkpoints import FLOAT, write_index

STEP = "checkpoints/step-00000000"
WORDS = "model/encoder.Sembeddings.Sword_embeddings/.ATTRIBUTES/VARIABLE_VALUE"
HEAD = {"stands_on": "text", "num_outputs": 2}


@pytest.fixture
def workdir(tmp_path):
    """A valid work directory, as `convert --to=workdir` writes it."""
    directory = tmp_path / "run"
    load.write_weights(make_weights(CONFIGS["one_layer"]), "workdir", str(directory))
    return directory


@pytest.fixture(autouse=True)
def time_limit():
    """Ends a test whose reader waits for a pipe."""

    def stop(*_):
        raise TimeoutError("the reader did not end within 20 seconds")

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(20)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


def change_config(directory, **values):
    path = directory / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **values}))


def seal(directory, **values):
    """Writes the manifest of the checkpoint again, with `values` and a correct sha256 of the manifest and the files."""
    step = directory / STEP
    path = step / "manifest.json"
    manifest = {name: value for name, value in json.loads(path.read_text()).items() if name != "sha256"}
    manifest["files"] = {
        name: checkpoint_manifests.fingerprint(str(step / name)) for name in os.listdir(step) if name != path.name
    }
    path.write_text(checkpoint_manifests.manifest_text({**manifest, **values}))


def refusal(directory, kind):
    """Reads a directory, or an archive of it. Returns the line of the error."""
    path = str(directory)
    if kind == "zip":
        path = shutil.make_archive(str(directory.parent / "packed"), "zip", directory.parent, directory.name)
    with pytest.raises((UserError, DataError)) as refused:
        load.load_weights(path)
    line = str(refused.value)
    assert "\n" not in line and len(line) < 600 and "/tmp/tmp" not in line
    return line


@pytest.mark.parametrize("kind", ["directory", "zip"])
@pytest.mark.parametrize(
    "dtype, shape, named",
    [
        (FLOAT, (-4, 4), "has the shape"),
        (FLOAT, (1 << 62, 1 << 62), "has the shape"),
        (101, (4, 4), "no type that a weight can have"),
        (FLOAT, (1 << 33, 3), "is not of the 64 bytes"),
    ],
)
def test_an_index_that_would_crash_the_process_is_refused(workdir, kind, dtype, shape, named):
    write_index(workdir / STEP / "checkpoint", (WORDS, dtype, shape, 0, 64))
    seal(workdir)
    assert named in refusal(workdir, kind)


@pytest.mark.parametrize("kind", ["directory", "zip"])
@pytest.mark.parametrize(
    "values, named",
    [
        ({"files": None}, "files is not what a run writes"),
        ({"files": {"checkpoint.index": 5}}, "files is not what a run writes"),
        ({"files": {"../../config.json": {"bytes": 1, "sha256": "0"}}}, "files is not what a run writes"),
        ({"step": "7"}, "step is not what a run writes"),
        ({"position": 5}, "position is not what a run writes"),
        ({"unlogged": [5]}, "unlogged is not what a run writes"),
        ({"figures": [5]}, "figures is not what a run writes"),
    ],
)
def test_a_manifest_that_no_run_writes_is_refused(workdir, kind, values, named):
    seal(workdir, **values)
    assert named in refusal(workdir, kind)


@pytest.mark.parametrize("kind", ["directory", "zip"])
@pytest.mark.parametrize(
    "values, named",
    [
        ({"id2label": 5}, "id2label is 5; expected an object"),
        ({"id2label": {"0": "a", "2": "b"}}, "expected an object whose keys are the numbers from 0"),
        ({"head": 5}, "head is 5; expected an object"),
        ({"head": {**HEAD, "num_outputs": 1 << 40}}, "num_outputs of the head is 1099511627776"),
        ({"head": {**HEAD, "context_units": -1}}, "context_units of the head is -1; expected a whole number from 0 to"),
        ({"head": {**HEAD, "scale": "x"}}, "scale of the head is 'x'; expected a finite number"),
        ({"head": {**HEAD, "colour": "red"}}, "the head has the unknown key 'colour'"),
        ({"labels": 5}, "labels is 5; expected a list of texts"),
        ({"pretraining": 5}, "pretraining is 5; expected an object"),
        ({"finetuning": []}, "finetuning is []; expected an object"),
        ({"task": ["x"]}, "task is ['x']; expected a text"),
        ({"vocab_sha256": 5}, "vocab_sha256 is 5; expected a text"),
        ({"layer_norm_eps": 10**400}, "'layer_norm_eps' is 1000"),
        ({"hidden_size": 10**400}, "'hidden_size' is 1000"),
    ],
)
def test_a_config_json_that_no_run_writes_is_refused(workdir, kind, values, named):
    change_config(workdir, **values)
    assert named in refusal(workdir, kind)


def test_weights_of_a_head_that_config_json_does_not_describe_are_refused(tmp_path):
    weights = make_weights(CONFIGS["one_layer"])
    weights.tensors["lstm/kernel"] = weights.tensors["encoder/pooler/kernel"]
    load.format_module("workdir").write(weights, str(tmp_path / "run"))
    assert "has no head and labels, which belong to lstm/kernel" in refusal(tmp_path / "run", "directory")


@pytest.mark.parametrize("name", ["config.json", "vocab.txt", f"{STEP}/manifest.json", f"{STEP}/checkpoint.index"])
def test_a_pipe_with_the_name_of_a_file_is_refused_and_does_not_block(workdir, name):
    (workdir / name).unlink()
    os.mkfifo(workdir / name)
    assert "is not a regular file" in refusal(workdir, "directory")


@pytest.mark.parametrize("name", ["config.json", "vocab.txt", f"{STEP}/manifest.json", f"{STEP}/checkpoint.index"])
def test_a_link_that_leads_out_of_the_directory_is_refused(workdir, name):
    outside = workdir.parent / "outside"
    (workdir / name).rename(outside)
    (workdir / name).symlink_to(outside)
    assert "a link that leads out of the directory" in refusal(workdir, "directory")
    (workdir / name).unlink()
    (workdir / name).symlink_to(pathlib.Path(name).name)  # This link leads to itself.
    refusal(workdir, "directory")


@pytest.mark.parametrize(
    "content, named",
    [
        ('{"vocab_sha256": "", "vocab_size": ' + "9" * 5000 + "}", "is not JSON that can be read (ValueError"),
        ("[" * 100_000, "is not JSON that can be read (RecursionError"),
    ],
)
def test_a_config_json_that_breaks_the_parser_is_refused(workdir, content, named):
    (workdir / "config.json").write_text(content)
    assert named in refusal(workdir, "directory")


def test_a_config_json_of_gigabytes_is_refused_before_it_is_read(workdir):
    os.truncate(workdir / "config.json", 3 << 30)  # A sparse file takes no space on the disk.
    assert "has 3,221,225,472 bytes; a file of this kind has at most" in refusal(workdir, "directory")


def finetuned_run(directory, config=CONFIGS["one_layer"], **notes):
    """Turns a work directory into a fine-tuned run. Its config.json describes a head that its weights lack."""
    run = FinetuningConfig(task="cola", data_dir="x", max_seq_length=17)
    notes = {"head": HEAD, "labels": ["a", "b"], "inputs": ["text"], **notes}
    vocabulary = (directory / "vocab.txt").read_bytes()
    work_directory.write_config(str(directory), config, run, vocabulary, notes)
    (directory / STEP).rename(directory / "checkpoints" / "best-00000000")


def test_a_hostile_fine_tuned_run_is_refused_before_a_model_is_made(workdir):
    finetuned_run(workdir, CONFIGS["one_layer"].replace(vocab_size=90_000_000))
    with pytest.raises(UserError, match="has 5,662 numbers, config.json asks for at least 1,980,002,046"):
        FinetunedRun(str(workdir))


def test_a_hostile_index_of_a_fine_tuned_run_is_refused(workdir):
    write_index(workdir / STEP / "checkpoint", (WORDS, FLOAT, (-4, 4), 0, 64))
    seal(workdir)
    finetuned_run(workdir)
    with pytest.raises(UserError, match="has the shape"):
        FinetunedRun(str(workdir))


@pytest.mark.parametrize("absent", ["head", "labels"])
def test_a_fine_tuned_run_without_head_or_labels_is_refused(workdir, absent):
    finetuned_run(workdir)
    path = workdir / "config.json"
    path.write_text(json.dumps({name: value for name, value in json.loads(path.read_text()).items() if name != absent}))
    with pytest.raises(UserError, match=f"has no key '{absent}'"):
        FinetunedRun(str(workdir))


def test_a_run_cannot_continue_from_weights_alone(workdir):
    with pytest.raises(UserError, match="holds only weights, from which no run can continue"):
        checkpoints.restore(str(workdir / STEP), load.load_pretrained(str(workdir)), optimizer=object())


def test_a_checkpoint_of_integers_is_refused(workdir):
    tf.raw_ops.SaveV2(
        prefix=str(workdir / STEP / "checkpoint"),
        tensor_names=[WORDS],
        shape_and_slices=[""],
        tensors=[tf.ones([13, 22], tf.int32)],
    )
    seal(workdir)
    assert "is of type int32; expected floating-point numbers" in refusal(workdir, "directory")


@pytest.mark.parametrize(
    "values",
    [
        {"runs": [{"seed": "../x", "best": {"score": 1.0}}], "metric": "f1"},
        {"runs": [{"seed": 1, "best": 5}], "metric": "f1"},
        {"runs": [{"seed": 1, "best": {"score": "high"}}], "metric": "f1"},
        {"runs": [5], "metric": "f1"},
        {"runs": 5, "metric": "f1"},
        {"runs": [{"seed": 1, "best": {"score": True}}], "metric": "f1"},
        {"runs": [{"seed": 1, "best": {"score": 1.0}}], "metric": "f1", "degenerate_seeds": 5},
    ],
)
def test_a_results_json_that_no_run_of_several_seeds_writes_is_ignored(tmp_path, values):
    (tmp_path / "results.json").write_text(json.dumps(values))
    assert seeds.best(str(tmp_path)) == str(tmp_path) and not seeds.has_several(str(tmp_path))
    assert seeds.sound(str(tmp_path)) == [str(tmp_path)]


def test_a_damaged_file_of_another_size_is_not_read(workdir, monkeypatch):
    for name in json.loads((workdir / STEP / "manifest.json").read_text())["files"]:
        os.truncate(workdir / STEP / name, 1 << 40)
    monkeypatch.setattr(checkpoint_manifests, "fingerprint", lambda path: pytest.fail(f"{path} was read"))
    with pytest.raises(UserError, match="found 1099511627776 bytes"):
        checkpoints.read_manifest(str(workdir / STEP))
