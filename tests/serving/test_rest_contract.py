"""TensorFlow Serving's documented REST interface, case by case (tensorflow.org/tfx/serving/api_rest)."""

import base64
import json
import re

import numpy as np
import pytest

from keras_bert_app.serving import encoding


def test_rows_of_one_input_are_bare_values_and_one_output_gives_bare_predictions(client):
    assert client.predict(signature_name="half", instances=[1.0, 2, -5]) == (200, {"predictions": [0.5, 1.0, -2.5]})


def test_rows_may_be_objects_and_several_outputs_give_objects(client):
    rows = [
        {"pair": [1, 2.5], "count": 3, "large": 2**40, "flag": True},
        {"pair": [0, -1], "count": -3, "large": -1, "flag": False},
    ]
    status, answer = client.predict(signature_name="kinds", instances=rows)
    assert status == 200
    assert answer == {"predictions": [{**row, "none": []} for row in rows]}
    assert client.predict(signature_name="half", instances=[{"x": 3}]) == (200, {"predictions": [1.5]})


def test_input_columns_give_output_columns(client):
    assert client.predict(signature_name="half", inputs=[1, 2]) == (200, {"outputs": [0.5, 1.0]})
    assert client.predict(signature_name="half", inputs={"x": [1, 2]}) == (200, {"outputs": [0.5, 1.0]})
    columns = {"pair": [[1, 2], [3, 4]], "count": [1, 2], "large": [5, 6], "flag": [True, False]}
    status, answer = client.predict(signature_name="kinds", inputs=columns)
    assert status == 200 and answer["outputs"] == {**columns, "none": [[], []]}


def test_inputs_without_a_batch_axis_work_as_columns_only(client):
    assert client.predict(signature_name="scaled", inputs={"scale": 2, "x": [1, 2, 3]}) == (200, {"outputs": 12.0})
    status, answer = client.predict(signature_name="scaled", instances=[{"scale": 2, "x": 1}])
    assert status == 400 and "scale is float32 of shape []" in answer["error"]


def test_the_default_signature_is_serving_default_and_text_is_utf8(client):
    status, answer = client.predict(instances=["añ", {"text": "x"}])
    assert status == 400 and "row 0" in answer["error"]
    status, answer = client.predict(instances=["añ"])
    encoded = {"b64": base64.b64encode("añ".encode()).decode()}
    assert (status, answer) == (200, {"predictions": [{"length": 3, "same": "añ", "same_bytes": encoded}]})


def test_base64_carries_any_bytes_both_ways(client):
    value = {"b64": base64.b64encode(b"\xff\x00\xfe").decode()}
    for request in ({"instances": [value]}, {"instances": [{"text": value}]}):
        status, answer = client.predict(**request)
        expected = {"length": 3, "same": "\ufffd\0\ufffd", "same_bytes": value}
        assert (status, answer) == (200, {"predictions": [expected]})
    assert client.predict(inputs=[value])[1]["outputs"]["same_bytes"] == [value]


def test_nan_and_infinity_are_numbers_in_requests_and_answers(client):
    status, _, body = client.ask(
        "POST", "/v1/models/tiny:predict", b'{"signature_name": "half", "instances": [NaN, Infinity, -Infinity, 1e60]}'
    )
    assert status == 200 and body == b'{"predictions":[NaN,Infinity,-Infinity,Infinity]}'


def test_versions_and_labels_choose_the_version_and_the_largest_is_the_default(client):
    for where, expected in (("", 2), ("/versions/1", 1), ("/versions/2", 2), ("/labels/stable", 1)):
        path = f"/v1/models/tiny{where}:predict"
        assert client.post(path, {"signature_name": "which", "instances": [0]}) == (200, {"predictions": [expected]})


def test_an_unknown_model_or_version_is_404_and_an_unknown_label_is_400(client):
    for path, status, expected in (
        ("/v1/models/other:predict", 404, "served: tiny"),
        ("/v1/models/tiny/versions/9:predict", 404, "available versions: 1, 2"),
        ("/v1/models/tiny/versions/99999999999999999999999:predict", 404, "available"),
        ("/v1/models/tiny/versions/" + "0" * 19 + "10:predict", 404, "version 10 loaded"),
        ("/v1/models/tiny/labels/gone:predict", 404, "version 7"),
        ("/v1/models/tiny/labels/other:predict", 400, "labels: gone, stable"),
        ("/v1/models/tiny:explain", 400, "malformed"),
        ("/v1/models/tiny", 400, "malformed"),
        ("/v1/models/tiny:classify", 501, ":predict"),
        ("/v1/models/tiny:regress", 501, ":predict"),
    ):
        actual, answer = client.post(path, {"instances": ["x"]})
        assert (actual, list(answer)) == (status, ["error"]) and expected in answer["error"], path
    status, answer = client.predict(signature_name="other", instances=[1])
    assert status == 400 and "half" in answer["error"]


def test_status_tells_the_state_of_all_versions_or_of_one(client):
    available = {"state": "AVAILABLE", "status": {"error_code": "OK", "error_message": ""}}
    assert client.get("/v1/models/tiny") == (
        200,
        {"model_version_status": [{"version": "2", **available}, {"version": "1", **available}]},
    )
    for where in ("versions/1", "labels/stable"):
        expected = {"model_version_status": [{"version": "1", **available}]}
        assert client.get(f"/v1/models/tiny/{where}") == (200, expected)
    assert client.get("/v1/models/tiny/versions/" + "0" * 40 + "1")[1]["model_version_status"][0]["version"] == "1"
    for path in ("/v1/models/other", "/v1/models/tiny/versions/9", "/v1/models/tiny/versions/" + "0" * 19 + "10"):
        assert client.get(path)[0] == 404


def test_metadata_gives_the_signature_definitions(client):
    status, answer = client.get("/v1/models/tiny/labels/stable/metadata")
    assert status == 200 and answer["model_spec"] == {"name": "tiny", "signature_name": "", "version": "1"}
    signatures = answer["metadata"]["signature_def"]["signature_def"]
    assert signatures["total"]["inputs"]["ids"]["dtype"] == "DT_INT32"
    assert [size["size"] for size in signatures["total"]["inputs"]["ids"]["tensor_shape"]["dim"]] == ["-1", "-1"]
    assert signatures["half"]["method_name"] == "tensorflow/serving/predict"


def test_other_methods_and_paths_get_an_error_object(client):
    assert client.ask("PUT", "/v1/models/tiny")[0] == 405
    status, answer = client.get("/nothing")
    assert status == 404 and "/v1/models" in answer["error"]


@pytest.mark.parametrize(
    "request_, expected",
    [
        (b"\x16\x03\x01 hello\r\n\r\n", "HTTPS traffic"),
        (b"GET / HTTP/1.1\r\nBad Header\r\n\r\n", "Bad Header"),
        (b"GET /\x1b[31m HTTP/1.1\r\nHost: localhost\r\n\r\n", "Invalid char"),
        (b"GET /" + b"x" * 9000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n", "8190 bytes"),
        (b"GET / HTTP/1.1\r\n\r\n", "Missing 'Host'"),
        (b"GET / HTTP/1.1\r\nHost: localhost\r\nExpect: gold\r\n\r\n", "Expectation Failed"),
    ],
)
def test_bytes_that_are_not_http_get_an_error_object_too(client, request_, expected):
    with client.send(request_) as connection:
        received = b"".join(iter(lambda: connection.recv(1 << 16), b""))
    head, _, body = received.partition(b"\r\n\r\n")
    assert re.match(rb"HTTP/1.[01] 4(00|17) ", head) and b"application/json" in head
    assert expected in json.loads(body)["error"] and "\n" not in json.loads(body)["error"]


@pytest.mark.parametrize("size", [3, 5000], ids=["short form", "nine digits"])
def test_numbers_in_answers_give_back_the_same_float32(size):
    values = np.random.default_rng(7).standard_normal((size, 2, 3)).astype(np.float32)
    values[0] = [[1, -0.0, 1e30], [2**24, 1e-42, 123456789]]
    values[1] = [[np.nan, np.inf, -np.inf], [0.1, 1e9, 3]]

    class Signature:
        outputs = [type("Spec", (), {"name": "y"})]

    for is_rows, key in ((True, "predictions"), (False, "outputs")):
        decoded = json.loads(b"".join(encoding.pieces(Signature, [values], is_rows)))[key]
        np.testing.assert_array_equal(np.array(decoded, np.float32), values)
        assert all(type(value) is float for row in decoded for pair in row for value in pair)
    empty = {(0, 3): "[]", (2, 0): "[[],[]]", (1, 2, 0): "[[[],[]]]", (2, 0, 3): "[[],[]]"}
    for shape, text in empty.items():
        encoded = b"".join(encoding.pieces(Signature, [np.zeros(shape, np.float32)], False))
        assert encoded == f'{{"outputs":{text}}}'.encode()
