"""The server as a whole: limits, health, metrics, stopping. One test runs the server in its own process."""

import asyncio
import json
import os
import pathlib
import re
import signal
import socket
import subprocess
import sys
import threading
import urllib.request

import pytest

from keras_bert_app.errors import UserError
from keras_bert_app.serving import server
from keras_bert_app.serving.batching_options import BatchingOptions
from keras_bert_app.serving.model_configs import ModelConfig
from tests.serving.conftest import Client, put_version, running, wait_for
from tests.standard_error import own_lines

ROOT = pathlib.Path(__file__).parents[2]


def test_a_full_queue_gives_503_and_the_accepted_requests_are_answered(base_path):
    with running(ModelConfig("tiny", str(base_path)), max_queued_requests=3) as client:
        unfinished = [client.begin(signature_name="half", instances=[number]) for number in range(3)]
        status, headers, body = client.ask("POST", "/v1/models/tiny:predict", b'{"instances": ["x"]}')
        assert status == 503 and headers["Retry-After"] == "1" and "3 requests" in json.loads(body)["error"]
        assert client.get("/healthz")[0] == 200  # health checks are still answered
        assert [finish() for finish in unfinished] == [(200, {"predictions": [number / 2]}) for number in range(3)]
        assert client.predict(instances=["x"])[0] == 200


def test_a_server_that_stops_finishes_accepted_requests_and_accepts_no_more(base_path):
    log = []
    with running(ModelConfig("tiny", str(base_path)), log=log) as client:
        unfinished = [client.begin(signature_name="half", instances=[number]) for number in range(3)]
        client.stop()
        wait_for(lambda: is_refused(client))
        assert client.thread.is_alive()
        assert [finish() for finish in unfinished] == [(200, {"predictions": [number / 2]}) for number in range(3)]
        client.thread.join(30)
        assert not client.thread.is_alive() and "version 1 unloaded" in log[-1]


def is_refused(client):
    try:
        client.get("/healthz")
    except ConnectionError:
        return True
    return False


def test_metrics_count_requests_by_model_and_code_and_never_by_made_up_names(base_path):
    with running(ModelConfig("tiny", str(base_path))) as client:
        for value in ("x", "y", 1):
            client.predict(instances=[value])
        client.predict(model="made-up", instances=["x"])
        assert client.metric('serving_requests_total{code="200",method="predict",model="tiny"}') == 2
        assert client.metric('serving_requests_total{code="400",method="predict",model="tiny"}') == 1
        assert client.metric('serving_requests_total{code="404",method="",model=""}') == 1
        assert client.metric('serving_request_seconds_count{method="predict",model="tiny"}') == 3
        assert client.metric('serving_loaded_version{model="tiny",version="1"}') == 1
        assert client.metric("serving_batch_rows_sum") == 2 and client.metric("serving_waiting_rows") == 0
        assert b"made-up" not in client.ask("GET", "/metrics")[2]
        status, headers, _ = client.ask("GET", "/monitoring/prometheus/metrics")
        assert status == 200 and headers["Content-Type"].startswith("text/plain")


def test_health_tells_live_and_ready(client):
    assert client.get("/healthz") == (200, {"live": True, "ready": True, "loaded": {"tiny": [1, 2]}})
    assert client.get("/healthz/ready")[0] == client.get("/healthz/live")[0] == 200


def test_the_list_of_models_has_what_export_json_says(client):
    (described,) = client.get("/v1/models")[1]["models"]
    assert described["kind"] == "tiny" and described["labels"] == ["a"] and described["version"] == 2
    assert described["versions"] == [1, 2] and described["version_labels"] == {"stable": 1, "gone": 7}
    assert described["examples"] == {"serving_default": {"text": ["hello"]}}
    assert described["signatures"]["total"]["inputs"] == {"ids": {"type": "int32", "shape": [None, None]}}


def test_a_taken_port_and_an_unknown_host_are_named(base_path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(UserError, match=f"127.0.0.1:{port}: Address already in use; give another --rest_api_port"):
            server._bind("127.0.0.1", port)
    with pytest.raises(UserError, match="--rest_api_host"):
        server._bind("no.such.host.invalid", 0)


def test_a_server_is_refused_if_another_one_listens_first_on_the_port_that_both_bound(base_path):
    async def case():
        probe = socket.create_server(("127.0.0.1", 0), reuse_port=False)
        port = probe.getsockname()[1]
        probe.close()
        first = server._bind("127.0.0.1", port)  # represents a server that still loads its models
        second = asyncio.ensure_future(
            server.serve(
                [ModelConfig("tiny", str(base_path))],
                BatchingOptions(),
                server.ServerOptions(port=port),
                asyncio.Event(),
            )
        )
        await asyncio.sleep(0)
        first.listen()
        try:
            await second
        finally:
            first.close()

    with pytest.raises(UserError, match="Address already in use; give another --rest_api_port"):
        asyncio.run(case())
    with pytest.raises(UserError, match="cannot listen on 127.0..1:0: .*--rest_api_host"):
        server._bind("127.0..1", 0)


def test_a_log_that_cannot_be_written_stops_neither_answers_nor_new_versions(base_path, saved):
    def fail_to_write(line):
        raise BrokenPipeError(32, "Broken pipe")

    log = type("Log", (), {"append": staticmethod(fail_to_write)})
    with running(ModelConfig("tiny", str(base_path)), log=log, log_requests=True, poll_seconds=0.05) as client:
        assert client.predict(instances=["x"])[0] == 200
        put_version(saved[2], base_path / "2")
        wait_for(lambda: client.get("/healthz")[1]["loaded"] == {"tiny": [2]})


def test_a_log_line_is_one_line_whatever_a_client_sends(base_path):
    log = []
    with running(ModelConfig("tiny", str(base_path)), log=log, log_requests=True) as client:
        client.ask("GET", "/x%0a127.0.0.1%20GET%20/forged%20200%1b[31m%e2%80%ae")
    (line,) = [line for line in log if "/x" in line]
    assert "/x\\n127.0.0.1 GET /forged 200\\x1b[31m\\u202e 404" in line and line.isprintable()


def ask_with_client(*arguments, port=9):
    text = (ROOT / "saved_models" / "client.py").read_text(encoding="utf-8").replace(":8501", f":{port}")
    return subprocess.run(
        [sys.executable, "-c", text, *arguments], capture_output=True, text=True, errors="surrogateescape", timeout=60
    )


def test_the_client_of_the_readme_ends_with_one_line_when_something_is_wrong(client):
    answered = ask_with_client("tiny", "añ", port=client.port)
    assert answered.returncode == 0 and json.loads(answered.stdout)["length"] == 3
    with socket.create_server(("127.0.0.1", 0)) as other:
        other_port = other.getsockname()[1]
        for arguments, port, expected in (
            (("tiny", "x"), 9, "cannot be asked"),
            (("other", "x"), client.port, "404: no model 'other'"),
            (("a/b", "x"), client.port, "404: no model 'a/b'"),
            (("tiny", "\udcff"), client.port, "400: "),
            (("\udcff", "x"), client.port, "404: "),
        ):
            refused = ask_with_client(*arguments, port=port)
            assert refused.returncode == 2 and expected in refused.stderr, refused.stderr
            assert refused.stdout == "" and len(refused.stderr.splitlines()) == 1
        answering = threading.Thread(target=_answer_without_json, args=(other,))
        answering.start()
        refused = ask_with_client("tiny", "x", port=other_port)
        answering.join()
        assert refused.returncode == 2 and "gave no JSON" in refused.stderr and len(refused.stderr.splitlines()) == 1


def _answer_without_json(server):
    connection, _ = server.accept()
    with connection:
        connection.recv(1 << 16)
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\nConnection: close\r\n\r\n<html>")


def test_the_client_of_the_readme_names_the_output_of_a_signature_that_has_one(client):
    path = ROOT / "saved_models" / "client.py"
    scope = {"__name__": "client"}
    exec(compile(path.read_text(encoding="utf-8"), str(path), "exec"), scope)
    url = f"http://127.0.0.1:{client.port}"
    assert scope["predict"]("tiny", {"x": [1.0, 3.0]}, "half", url) == {"y": [0.5, 1.5]}
    assert scope["predict"]("tiny", {"text": ["x"]}, url=url)["length"] == [1]


def test_serve_as_a_process_answers_and_stops_with_code_0(saved, tmp_path):
    put_version(saved[1], tmp_path / "docs_bert" / "1")
    (tmp_path / "models.config").write_text((ROOT / "saved_models" / "models.config").read_text())
    process = subprocess.Popen(
        [
            sys.executable,
            "-m",
            "keras_bert_app.cli.serve",
            f"--model_config_file={tmp_path}/models.config",
            f"--batching_parameters_file={ROOT}/saved_models/batching.config",
            "--rest_api_port=0",
            "--log_requests",
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    try:
        lines = []
        while not (lines and lines[-1].startswith("listening")):
            lines.append(process.stdout.readline())
            assert lines[-1], process.stderr.read()
        assert "serving docs_bert version 1 from" in lines[-2]
        port = int(re.search(r"http://127\.0\.0\.1:(\d+)/", lines[-1])[1])
        assert Client(port).predict(model="docs_bert", instances=["x"])[0] == 200
        logged = process.stdout.readline()
        assert re.fullmatch(r"127\.0\.0\.1 POST /v1/models/docs_bert:predict 200 [\d.]+ ms\n", logged)
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/") as page:
            assert page.headers["Content-Type"].startswith("text/html")
        process.send_signal(signal.SIGTERM)
        rest, errors = process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode == 0 and rest.endswith("stopped\n") and own_lines(errors) == []


def test_a_client_that_leaves_frees_its_place(base_path):
    with running(ModelConfig("tiny", str(base_path))) as client:
        client.begin(signature_name="half", instances=[1]).leave()
        wait_for(lambda: client.metric("serving_requests_under_way") == 0)


def test_stopping_while_models_load_ends_at_once(base_path):
    async def case():
        stop = asyncio.Event()
        stop.set()
        await server.serve(
            [ModelConfig("tiny", str(base_path))],
            BatchingOptions(),
            server.ServerOptions(port=0),
            stop,
            started=lambda port: pytest.fail("the server accepted requests"),
        )

    asyncio.run(case())
