"""A models.config that changes while the server runs."""

import os
import shutil
import time

from keras_bert_app.serving import model_configs
from tests.serving.conftest import put_version, running, wait_for


def entry(name, base_path, more=""):
    return f'config {{ name: "{name}" base_path: "{base_path}" {more} }}'


def write(path, *entries):
    path.with_suffix(".new").write_text(f"model_config_list {{ {' '.join(entries)} }}")
    path.with_suffix(".new").rename(path)


def loaded(client):
    return client.get("/healthz")[1]["loaded"]


def test_models_are_added_changed_and_removed_without_a_restart_and_a_fault_changes_nothing(base_path, saved, tmp_path):
    path, log = tmp_path / "models.config", []
    put_version(saved[2], tmp_path / "other" / "5")
    write(path, entry("tiny", base_path))
    options = {"config_file": str(path), "config_poll_seconds": 0.05, "log": log}
    with running(*model_configs.read(str(path)), **options) as client:
        write(path, entry("tiny", base_path), entry("new", "other"), entry("later", "not_there"))
        wait_for(lambda: loaded(client) == {"tiny": [1], "new": [5], "later": []})
        assert client.predict("new", signature_name="which", instances=[0]) == (200, {"predictions": [2]})
        (line,) = [line for line in log if "'later'" in line]
        assert line.startswith("model 'later': no version in ") and line.endswith(" can be served yet")
        path.write_text("model_config_list { config { nam")
        wait_for(lambda: [line for line in log if line.endswith("; the models stay as they are")])
        assert loaded(client) == {"tiny": [1], "new": [5], "later": []}
        # The labels and the base path of a model change, and two models are removed.
        write(path, entry("tiny", "other", 'version_labels { key: "stable" value: 5 }'))
        wait_for(lambda: loaded(client) == {"tiny": [5]})
        answer = client.post("/v1/models/tiny/labels/stable:predict", {"signature_name": "which", "instances": [0]})
        assert answer == (200, {"predictions": [2]})
        assert client.predict("new", instances=["x"])[0] == 404
        wait_for(lambda: any("model 'new': version 5 unloaded" in line for line in log))
        shutil.rmtree(tmp_path / "other")
        assert client.predict(instances=["x"])[0] == 200
    assert len([line for line in log if line.endswith("; the models stay as they are")]) == 1


def test_the_server_names_a_models_config_that_is_a_pipe_or_endless_and_still_reloads_and_stops(base_path, tmp_path):
    path, log = tmp_path / "models.config", []
    write(path, entry("tiny", base_path))
    options = {"config_file": str(path), "config_poll_seconds": 0.05, "log": log}
    with running(*model_configs.read(str(path)), **options) as client:
        path.unlink()
        os.mkfifo(path)
        wait_for(
            lambda: f"{path}: is not a regular file; put a models.config there; the models stay as they are" in log
        )
        path.unlink()
        path.symlink_to("/proc/self/pagemap")
        wait_for(lambda: [line for line in log if f"{path}: has more than 4,194,304 bytes" in line])
        write(path, entry("tiny", base_path), entry("later", "not_there"))
        wait_for(lambda: loaded(client) == {"tiny": [1], "later": []})
        path.unlink()
        os.mkfifo(path)
        wait_for(lambda: len([line for line in log if "is not a regular file" in line]) == 2)
        begin = time.monotonic()
    assert time.monotonic() - begin < 5


def test_a_request_under_way_is_answered_by_the_model_that_is_removed(base_path, saved, tmp_path):
    path = tmp_path / "models.config"
    put_version(saved[2], tmp_path / "other" / "5")
    write(path, entry("tiny", base_path), entry("other", "other"))
    options = {"config_file": str(path), "config_poll_seconds": 0.05}
    with running(*model_configs.read(str(path)), **options) as client:
        finish = client.begin(signature_name="which", instances=[0])
        write(path, entry("other", "other"))
        wait_for(lambda: loaded(client) == {"other": [5]})
        assert finish() == (200, {"predictions": [1]})
