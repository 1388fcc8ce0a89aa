"""Changes of versions while the server runs: policies, swaps, broken and changed versions, warm-up."""

import pathlib
import shutil
import time

import pytest
import tensorflow as tf
from tensorflow_serving.apis import predict_pb2, prediction_log_pb2

from keras_bert_app.errors import UserError
from keras_bert_app.serving import model_configs, saved_model_files
from keras_bert_app.serving.model_configs import ModelConfig
from tests.serving.conftest import put_version, running, wait_for


def states(client):
    statuses = client.get("/v1/models/tiny")[1]["model_version_status"]
    return {int(status["version"]): status["state"] for status in statuses}


def which(client):
    return client.predict(signature_name="which", instances=[0])[1]["predictions"]


def test_a_new_version_takes_over_and_requests_of_the_old_one_are_finished(base_path, saved):
    log = []
    with running(ModelConfig("tiny", str(base_path)), log=log) as client:
        assert which(client) == [1]
        finish = client.begin(signature_name="which", instances=[0])
        shutil.copytree(saved[2], base_path / "writing-2")  # the name is not a number, so the server ignores it
        time.sleep(0.2)
        assert states(client) == {1: "AVAILABLE"}
        (base_path / "writing-2").rename(base_path / "2")
        wait_for(lambda: states(client).get(2) == "AVAILABLE")
        assert which(client) == [2]
        assert states(client)[1] == "UNLOADING"  # the accepted request keeps version 1 loaded
        assert client.post("/v1/models/tiny/versions/1:predict", {"instances": ["x"]})[0] == 404
        assert finish() == (200, {"predictions": [1]})
        wait_for(lambda: states(client) == {1: "END", 2: "AVAILABLE"})
        assert "version 1 unloaded" in log[-1]
        # To go back to version 1, remove the newest version.
        shutil.rmtree(base_path / "2")
        wait_for(lambda: states(client) == {1: "AVAILABLE"})
        assert which(client) == [1]
        # The server keeps answering although the base path has no version for a moment.
        (base_path / "1").rename(base_path / "one")
        time.sleep(0.2)
        assert which(client) == [1]


def test_a_broken_version_is_reported_and_served_after_its_repair(base_path, saved):
    log = []
    with running(ModelConfig("tiny", str(base_path)), log=log) as client:
        broken = base_path / "writing-2"
        shutil.copytree(saved[2], broken)
        graph = (broken / "saved_model.pb").read_bytes()
        (broken / "saved_model.pb").write_bytes(graph[:-1] + bytes([graph[-1] ^ 1]))
        broken.rename(base_path / "2")
        wait_for(lambda: states(client) == {1: "AVAILABLE", 2: "END"})
        status = client.get("/v1/models/tiny/versions/2")[1]["model_version_status"][0]["status"]
        assert status["error_code"] == "FAILED_PRECONDITION"
        assert "2/saved_model.pb: is not as it was exported" in status["error_message"]
        time.sleep(0.2)
        assert [line for line in log if "cannot be served" in line] == [f"model 'tiny': {status['error_message']}"]
        assert which(client) == [1]
        assert client.metric('serving_failed_loads_total{model="tiny"}') == 1
        (base_path / "2" / "saved_model.pb").write_bytes(graph)
        wait_for(lambda: which(client) == [2])


def test_policies_choose_the_versions(saved, tmp_path):
    for number in (1, 2, 3, 10):
        put_version(saved[1], tmp_path / "tiny" / str(number))
    (tmp_path / "tiny" / "²").mkdir()
    for policy, expected in (
        ({}, [10]),
        ({"latest": 2}, [3, 10]),
        ({"latest": None}, [1, 2, 3, 10]),
        ({"specific": (1, 3, 4)}, [1, 3]),
    ):
        with running(ModelConfig("tiny", str(tmp_path / "tiny"), **policy)) as client:
            assert sorted(states(client)) == expected


def test_a_version_without_a_manifest_is_served_only_with_allow_unverified(base_path):
    (base_path / "1" / "manifest.json").unlink()
    config = ModelConfig("tiny", str(base_path))
    with pytest.raises(UserError, match="manifest.json: missing or damaged"):
        with running(config):
            pass
    log = []
    with running(config, allow_unverified=True, log=log) as client:
        assert which(client) == [1] and "served unverified" in log[0]


def warm_up_with(directory, **inputs):
    """Adds a warm-up request to a version and writes its manifest again."""
    request = predict_pb2.PredictRequest()
    request.model_spec.name, request.model_spec.signature_name = "tiny", "refuses_bad"
    for name, values in inputs.items():
        request.inputs[name].CopyFrom(tf.make_tensor_proto(values))
    log = prediction_log_pb2.PredictionLog(predict_log=prediction_log_pb2.PredictLog(request=request))
    (directory / "assets.extra").mkdir()
    with tf.io.TFRecordWriter(str(directory / "assets.extra" / "tf_serving_warmup_requests")) as writer:
        writer.write(log.SerializeToString())
    saved_model_files.write_manifest(str(directory))


@pytest.mark.parametrize(
    "inputs, expected",
    [
        ({"text": ["good"]}, None),
        ({"text": ["bad"]}, "a bad text"),
        ({"texts": ["good"]}, "record 0"),
        ({"text": "scalar"}, "Cannot feed"),
    ],
)
def test_warm_up_requests_are_run_before_a_version_takes_traffic(base_path, inputs, expected):
    warm_up_with(base_path / "1", **inputs)
    config = ModelConfig("tiny", str(base_path))
    if expected is None:
        with running(config) as client:
            assert which(client) == [1]
    else:
        with pytest.raises(UserError, match=expected):
            with running(config):
                pass


def test_the_server_does_not_start_with_a_missing_or_unreadable_model(tmp_path):
    with pytest.raises(UserError, match="no version of model 'tiny' there"):
        with running(ModelConfig("tiny", str(tmp_path))):
            pass
    (tmp_path / "3").mkdir()
    with pytest.raises(UserError, match="version 3 cannot be served"):
        with running(ModelConfig("tiny", str(tmp_path)), allow_unverified=True):
            pass


def test_models_config_is_read_and_its_faults_are_named(tmp_path):
    path = tmp_path / "models.config"
    path.write_text("""model_config_list {
      config { name: "a" base_path: "/models/a" model_platform: "tensorflow"
               model_version_policy { specific { versions: 2 versions: 5 } } version_labels { key: "stable" value: 2 } }
      config { name: "b" base_path: "sub/b" model_version_policy { latest { num_versions: 3 } } }
      config { name: "c" base_path: "/c" model_version_policy { all {} } } }""")
    assert not pathlib.Path("/models").is_dir()  # so /models/a means the directory `a` beside models.config
    assert model_configs.read(str(path)) == [
        ModelConfig("a", str(tmp_path / "a"), specific=(2, 5), version_labels={"stable": 2}),
        ModelConfig("b", str(tmp_path / "sub/b"), latest=3),
        ModelConfig("c", "/c", latest=None),
    ]
    other, specific = "model_platform: 'other'", "model_version_policy { specific {} }"
    entry = 'config { name: "a" base_path: "/a" %s }'
    for text, expected in (
        ("", "names no model"),
        ("model_config_list { config { nam: 1 } }", "1:30.*nam"),
        ('model_config_list { config { name: "a" } }', "has no base_path"),
        (f"model_config_list {{ {entry % ''} {entry % ''} }}", "two models have the name"),
        (f"model_config_list {{ {entry % other} }}", "model_platform 'other'"),
        (f"model_config_list {{ {entry % specific} }}", "without versions"),
        ('model_config_list { config { name: "a/b" base_path: "/a" } }', "part of the URL"),
    ):
        path.write_text(text)
        with pytest.raises(UserError, match=expected):
            model_configs.read(str(path))
    with pytest.raises(UserError, match="no such file"):
        model_configs.read(str(tmp_path / "nothing"))
