"""Large requests: refusals before the run, runs in parts, and answers in parts."""

import json
import types

import numpy as np
import pytest

from keras_bert_app.serving import encoding, parts, work
from keras_bert_app.serving.batching_options import BatchingOptions
from keras_bert_app.serving.model_configs import ModelConfig
from keras_bert_app.serving.request_errors import RequestError
from keras_bert_app.serving.served_signatures import TensorSpec
from tests.serving.conftest import VOCABULARY, running

TEXT = np.dtype(object)


def masked(rows, length, positions):
    row = {"input_word_ids": [1] * length, "masked_lm_positions": [0] * positions}
    return {"signature_name": "masked_lm", "instances": [row] * rows}


def signature(name, inputs, outputs=()):
    return types.SimpleNamespace(name=name, inputs=inputs, outputs=outputs, can_be_merged=True)


def texts(*values):
    array = np.empty(np.shape(values), object)
    array[...] = values
    return array


def test_an_answer_with_too_many_values_is_refused_before_it_is_computed(base_path):
    with running(ModelConfig("tiny", str(base_path)), max_answer_values=10 * VOCABULARY) as client:
        assert client.predict(**masked(2, 30, 5))[0] == 200
        runs = client.metric("serving_batch_rows_count")
        for request in (masked(2, 30, 6), masked(64, 3, 150), masked(1, 1, 5000)):
            status, answer = client.predict(**request)
            assert status == 400 and "(--max_answer_values)" in answer["error"]
        assert client.metric("serving_batch_rows_count") == runs


def test_the_values_of_an_answer_to_texts_are_counted_after_the_run(base_path):
    with running(ModelConfig("tiny", str(base_path)), max_answer_values=50) as client:
        assert client.predict(signature_name="words", instances=["a b"] * 12)[0] == 200
        status, answer = client.predict(signature_name="words", instances=["a b c d e"] * 12)
        assert status == 400 and "120 values; expected at most 50" in answer["error"]


def test_requests_larger_than_a_batch_run_in_parts_and_short_rows_are_padded_as_in_a_batch(client):
    rows = ["a"] * 100 + ["a b c"] + ["b c"] * 49
    status, answer = client.predict(signature_name="words", instances=rows)
    assert status == 200 and len(answer["predictions"]) == 150
    assert answer["predictions"][0] == {"words": ["a", "", ""], "word_starts": [0, -1, -1]}
    assert answer["predictions"][100] == {"words": ["a", "b", "c"], "word_starts": [0, 1, 2]}
    assert answer["predictions"][-1] == {"words": ["b", "c", ""], "word_starts": [0, 1, -1]}
    columns = client.predict(signature_name="words", inputs=rows)[1]["outputs"]
    assert columns["words"] == [row["words"] for row in answer["predictions"]]
    assert client.predict(signature_name="half", instances=list(range(1024)))[1]["predictions"][-1] == 511.5


def test_the_tokens_of_a_request_are_estimated_from_its_inputs():
    ids = signature("ids", [TensorSpec("a", np.dtype(np.int32), (None, None))])
    assert work.measure(ids, [np.zeros((3, 70), np.int32)], {}, 9).tokens.tolist() == [70] * 3
    text = signature("serving_default", [TensorSpec("text", TEXT, (None,))])
    assert work.measure(text, [texts(b"x" * 300, b"")], {}, 9).tokens.tolist() == [102, 2]
    scores = signature("pseudo_log_likelihood", [TensorSpec("text", TEXT, (None,))])
    description = {"max_seq_length": 64}
    assert work.measure(scores, [texts(b"x" * 900, b"x" * 30)], description, 9).tokens.tolist() == [64**2, 12**2]
    assert work.measure(scores, [texts(b"x" * 900)], {"max_seq_length": "?"}, 9).tokens.tolist() == [302**2]
    choices = signature("serving_default", [TensorSpec("a", TEXT, (None,)), TensorSpec("b", TEXT, (None, None))])
    arrays = [texts(b"x" * 297), texts(b"a", b"b", b"c").reshape(1, 3)]
    assert work.measure(choices, arrays, {}, 9).tokens.tolist() == [1 + 3 * 100 + 3]
    assert work.measure(text, [texts().astype(object)], {}, 9).tokens.tolist() == []


def test_work_above_the_limit_is_refused_with_its_size(base_path):
    batching = BatchingOptions(num_batch_threads=2, max_request_tokens=100)
    with running(ModelConfig("tiny", str(base_path)), batching=batching) as client:
        assert client.predict(instances=["x" * 200])[0] == 200
        status, answer = client.predict(instances=["x" * 400])
        assert status == 400 and "about 135 tokens; expected at most 100 (--max_request_tokens)" in answer["error"]


def test_rows_are_split_by_number_and_by_tokens():
    def sizes(tokens, most_rows, most_tokens):
        slices = parts.split(np.array(tokens, np.int64), most_rows, most_tokens)
        return [part.stop - part.start for part in slices]

    assert sizes([1] * 7, 3, 100) == [3, 3, 1]
    assert sizes([5, 5, 5, 50, 5], 64, 10) == [2, 1, 1, 1]
    assert sizes([], 3, 10) == [0] and sizes([99], 3, 10) == [1]


def test_outputs_without_a_batch_axis_cannot_be_joined():
    with pytest.raises(RequestError, match="cannot be joined"):
        parts.joined(signature("s", [], [TensorSpec("y", TEXT, None)]), [[np.float32(1)], [np.float32(2)]], 4)


@pytest.mark.parametrize("is_rows", [True, False])
@pytest.mark.parametrize(
    "shapes", [[(3, 70_000)], [(2, 300, 400), (2,)], [(200_000,)], [(1, 1, 150_000), (1, 0)], [(70_000, 2), (70_000,)]]
)
def test_a_large_answer_is_encoded_in_pieces_of_bounded_size(shapes, is_rows):
    arrays = [np.random.default_rng(3).standard_normal(shape).astype(np.float32) for shape in shapes]
    names = ["a", "b"][: len(arrays)]
    kind = signature("s", [], [TensorSpec(name, array.dtype, None) for name, array in zip(names, arrays, strict=True)])
    pieces = list(encoding.pieces(kind, arrays, is_rows))
    assert len(pieces) > 1 and max(map(len, pieces)) < 3 << 20
    answer = json.loads(b"".join(pieces))
    if is_rows:
        rows = answer["predictions"]
        columns = {name: [row[name] for row in rows] for name in names} if len(names) > 1 else {"a": rows}
    else:
        columns = answer["outputs"] if len(names) > 1 else {"a": answer["outputs"]}
    for name, array in zip(names, arrays, strict=True):
        np.testing.assert_array_equal(np.array(columns[name], np.float32).reshape(array.shape), array)


def test_a_large_answer_is_chunked_for_http_1_1_but_not_for_http_1_0(client):
    expected = client.predict(**masked(1, 3, 2))[1]["predictions"][0]
    request = masked(3, 30, 30)
    status, headers, body = client.ask("POST", "/v1/models/tiny:predict", json.dumps(request))
    assert status == 200 and headers["Transfer-Encoding"] == "chunked"
    assert json.loads(body)["predictions"] == [[expected[0]] * 30] * 3
    text = json.dumps(request).encode()
    head = "POST /v1/models/tiny:predict HTTP/1.0\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    with client.send(f"{head}Content-Length: {len(text)}\r\n\r\n".encode() + text) as connection:
        received = b"".join(iter(lambda: connection.recv(1 << 16), b""))
    assert received.partition(b"\r\n\r\n")[2] == body
