"""Faulty requests get a 4xx with the reason, and the server keeps running."""

import base64
import json
import socket

import pytest

from keras_bert_app.serving import decoding
from keras_bert_app.serving.batching_options import BatchingOptions
from keras_bert_app.serving.model_configs import ModelConfig
from keras_bert_app.serving.request_errors import RequestError
from tests.serving.conftest import running, wait_for

POST = b"POST /v1/models/tiny:predict HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
PAIR = {"pair": [[1, 2]], "count": [1], "large": [1], "flag": [True]}


@pytest.mark.parametrize(
    "body, expected",
    (
        (b'{"instances": [%b{}]}' % (b"{}," * 200_000), "200,003 lists and objects; expected 200,000 at most"),
        (b'{"instances": [[%b1]]}' % (b"1," * 4_000_001), "4,000,001 values; expected 4,000,000 at most"),
    ),
    ids=("objects", "values"),
)
def test_a_body_of_too_many_parts_is_refused_before_it_is_parsed(body, expected, monkeypatch):
    monkeypatch.setattr(decoding.json, "loads", lambda text: pytest.fail("the body was parsed"))
    with pytest.raises(RequestError, match=expected):
        decoding.parse(body)


@pytest.mark.parametrize(
    "request_, expected",
    [
        ({"inputs": "scalar"}, "a string ('scalar') is where a list should be at depth 1"),
        ({"inputs": {"text": "scalar"}}, "depth 1"),
        ({"inputs": {"b64": "QQ=="}}, "depth 1"),
        ({"inputs": [["x"]]}, "there is a list in it"),
        ({"instances": [["x"]]}, "there is a list in it"),
        ({"instances": []}, "empty"),
        ({"instances": "x"}, '"instances" is a string'),
        ({"instances": {"text": ["x"]}}, '"instances" is an object'),
        ({"instances": [1]}, "there is an integer in it"),
        ({"instances": [None]}, "there is null in it"),
        ({"instances": [{"b64": "?"}]}, "not base64"),
        ({"instances": [{"b64": "QQ==", "more": 1}]}, "lacks text and has unknown 'b64', 'more'"),
        ({"instances": ["x"], "inputs": ["x"]}, "both"),
        ({}, "neither"),
        ({"instances": ["x"], "signature_name": 3}, "expected a string"),
        ({"instances": [{"texts": "x"}]}, "lacks text and has unknown 'texts'; expected text"),
        ({"inputs": {"text": ["x"], "b": 1}}, "has unknown 'b'; expected text"),
        ({"signature_name": "half", "instances": ["1"]}, "there is a string ('1') in it"),
        ({"signature_name": "half", "instances": [True]}, "there is a boolean in it"),
        ({"signature_name": "half", "instances": [[1]]}, "there is a list in it"),
        ({"signature_name": "half", "instances": [10**400]}, "out of that type's range"),
        ({"signature_name": "total", "instances": [[1, 2], [3]]}, "ragged: lengths 1 and 2"),
        ({"signature_name": "total", "instances": [[1, 2], 3]}, "an integer (3) is where a list should be at depth 2"),
        ({"signature_name": "total", "instances": [[True]]}, "there is a boolean in it"),
        ({"signature_name": "total", "instances": [[1.5]]}, "there is a float (1.5) in it"),
        ({"signature_name": "total", "instances": [[2**31]]}, "out of that type's range"),
        ({"signature_name": "kinds", "inputs": [1]}, "expected an object with count, flag, large, pair"),
        ({"signature_name": "kinds", "instances": [1]}, "row 0"),
        (
            {"signature_name": "kinds", "inputs": {**PAIR, "pair": [[1, 2, 3]]}},
            "shape [any, 2], but its shape is [1, 3]",
        ),
        ({"signature_name": "kinds", "inputs": {**PAIR, "flag": [1]}}, "there is an integer (1) in it"),
        ({"signature_name": "kinds", "inputs": {**PAIR, "count": [1, 2]}}, "different batch sizes (count 2, flag 1"),
        ({"signature_name": "kinds", "inputs": {**PAIR, "large": [2**63]}}, "out of that type's range"),
        ({"signature_name": "half", "instances": [1] * 1025}, "1,025 rows; expected at most 1,024"),
    ],
    ids=lambda value: json.dumps(value)[:60] if isinstance(value, dict) else "",
)
def test_a_request_that_does_not_fit_the_signature_is_400_with_the_reason(client, request_, expected):
    status, answer = client.predict(**request_)
    assert status == 400 and expected in answer["error"] and "\n" not in answer["error"]


@pytest.mark.parametrize(
    "body, expected",
    [
        (b"", "not JSON"),
        (b"[1]", "the body is a list"),
        (b"{", "not JSON"),
        (b"\xff\xfe", "not UTF-8"),
        (b'{"instances": ["\xff"]}', "not UTF-8 (byte 16)"),
        (b'{"instances": ["\\ud800"]}', "surrogate"),
        (b'{"inputs": ' + b"[" * 100_000, "nested too deeply"),
        (b'{"inputs": ' + b"1" * 5000 + b"}", "not JSON"),
    ],
    ids=["empty", "list", "cut", "utf-16", "bytes", "surrogate", "deep", "digits"],
)
def test_a_body_that_is_not_a_json_object_is_400_with_the_reason(client, body, expected):
    status, answer = client.post("/v1/models/tiny:predict", body)
    assert status == 400 and expected in answer["error"]


def test_unusual_but_valid_batches_get_an_answer(client):
    outputs = {"length": [], "same": [], "same_bytes": []}
    assert client.predict(inputs=[]) == (200, {"outputs": outputs})
    assert client.predict(inputs={"text": []}) == (200, {"outputs": outputs})
    assert client.predict(signature_name="total", inputs=[]) == (200, {"outputs": []})
    assert client.predict(signature_name="total", instances=[[], []]) == (200, {"predictions": [0, 0]})
    assert client.predict(instances=[""])[1]["predictions"][0]["length"] == 0
    assert client.predict(instances=["x" * 1_000_000])[1]["predictions"][0]["length"] == 1_000_000
    bad_utf8 = base64.b64encode(b"\xf0\x28" * 500_000).decode()
    assert client.predict(instances=[{"b64": bad_utf8}])[1]["predictions"][0]["length"] == 1_000_000


def test_a_body_over_the_limit_is_413_with_or_without_its_length(client):
    status, answer = client.predict(instances=["x" * (4 << 20)])
    assert status == 413 and "3,145,728" in answer["error"]
    with socket.create_connection(("127.0.0.1", client.port)) as connection:
        connection.sendall(POST + b"Transfer-Encoding: chunked\r\n\r\n")
        try:
            for _ in range(80):
                connection.sendall(b"10000\r\n" + b" " * 0x10000 + b"\r\n")
        except OSError:
            pass  # the server has closed the connection already
        assert connection.recv(20).startswith(b"HTTP/1.1 413")


def test_a_body_that_is_not_compressed_as_its_header_says_is_400(client):
    with socket.create_connection(("127.0.0.1", client.port)) as connection:
        connection.sendall(POST + b"Content-Encoding: gzip\r\nContent-Length: 9\r\n\r\n" + b'{"inst":1')
        assert connection.recv(20).startswith(b"HTTP/1.1 400")


def test_texts_that_the_model_refuses_are_400_and_bytes_that_are_no_http_do_not_stop_the_server(client):
    status, answer = client.predict(signature_name="refuses_bad", instances=["good", "bad"])
    assert status == 400 and "a bad text" in answer["error"]
    with socket.create_connection(("127.0.0.1", client.port)) as connection:
        connection.sendall(b"\x16\x03\x01 hello\r\n\r\n")
        assert connection.recv(20).startswith(b"HTTP/1.")
    assert client.predict(instances=["x"])[0] == 200


def test_a_request_over_the_time_limit_is_504_and_its_run_is_ended(base_path):
    batching = BatchingOptions(num_batch_threads=1)
    with running(ModelConfig("tiny", str(base_path)), batching=batching, timeout_ms=200) as client:
        assert client.predict(signature_name="slow", instances=[10**8])[0] == 504
        # If the run continued, it would keep the only thread busy for minutes.
        wait_for(lambda: client.predict(instances=["x"])[0] == 200)


def test_a_body_that_does_not_come_in_time_is_504_and_frees_its_place(base_path):
    with running(ModelConfig("tiny", str(base_path)), timeout_ms=200) as client:
        finish = client.begin(instances=["x"])
        wait_for(lambda: client.metric("serving_requests_under_way") == 0)
        assert finish()[0] == 504
