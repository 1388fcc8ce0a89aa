"""Tiny SavedModels, and a server in a thread of its own."""

import asyncio
import contextlib
import http.client
import json
import pathlib
import re
import shutil
import socket
import threading
import time

import pytest
import tensorflow as tf

from keras_bert_app.serving import saved_model_files, server
from keras_bert_app.serving.batching_options import BatchingOptions
from keras_bert_app.serving.model_configs import ModelConfig

VOCABULARY = 1000


def _signatures_of_varying_sizes():
    """Makes the signatures whose output sizes depend on the rows of a request."""

    @tf.function(
        input_signature=[
            tf.TensorSpec([None, None], tf.int32, name="input_word_ids"),
            tf.TensorSpec([None, None], tf.int32, name="masked_lm_positions"),
        ]
    )
    def masked_lm(input_word_ids, masked_lm_positions):
        return {"mlm_logits": tf.cast(masked_lm_positions, tf.float32)[:, :, None] + tf.zeros([VOCABULARY])}

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, name="text")])
    def words(text):
        words = tf.strings.split(text)
        starts = tf.ragged.range(tf.cast(words.row_lengths(), tf.int32))
        return {"words": words.to_tensor(), "word_starts": starts.to_tensor(-1)}

    return {"masked_lm": masked_lm, "words": words}


class Tiny(tf.Module):
    """A module with every kind of signature. The signature "which" returns `number`."""

    def __init__(self, number):
        super().__init__()
        self.number = tf.Variable(number)

        @tf.function(input_signature=[tf.TensorSpec([None], tf.string, name="text")])
        def texts(text):
            text = tf.ensure_shape(text, [None])
            return {"length": tf.strings.length(text), "same": text, "same_bytes": text}

        @tf.function(input_signature=[tf.TensorSpec([None], tf.float32, name="x")])
        def half(x):
            return {"y": x / 2}

        @tf.function(
            input_signature=[
                tf.TensorSpec([None, 2], tf.float32, name="pair"),
                tf.TensorSpec([None], tf.int32, name="count"),
                tf.TensorSpec([None], tf.int64, name="large"),
                tf.TensorSpec([None], tf.bool, name="flag"),
            ]
        )
        def kinds(pair, count, large, flag):
            return {"pair": pair, "count": count, "large": large, "flag": flag, "none": pair[:, :0]}

        @tf.function(input_signature=[tf.TensorSpec([None, None], tf.int32, name="ids")])
        def total(ids):
            return {"total": tf.reduce_sum(ids, axis=1)}

        @tf.function(input_signature=[tf.TensorSpec([None], tf.string, name="text")])
        def refuses_bad(text):
            with tf.control_dependencies([tf.debugging.assert_none_equal(text, "bad", message="a bad text")]):
                return {"length": tf.strings.length(text)}

        @tf.function(input_signature=[tf.TensorSpec([None], tf.int32, name="rounds")])
        def slow(rounds):
            matrix = tf.while_loop(
                lambda i, _: i < tf.reduce_max(rounds), lambda i, m: (i + 1, tf.tanh(m @ m)), (0, tf.ones([64, 64]))
            )[1]
            return {"done": tf.cast(rounds, tf.float32) * matrix[0, 0]}

        @tf.function(
            input_signature=[tf.TensorSpec([], tf.float32, name="scale"), tf.TensorSpec([None], tf.float32, name="x")]
        )
        def scaled(scale, x):
            return {"total": tf.reduce_sum(scale * x)}

        @tf.function(input_signature=[tf.TensorSpec([None], tf.int32, name="x")])
        def which(x):
            return {"number": tf.fill(tf.shape(x), self.number)}

        self.exported = _signatures_of_varying_sizes() | {
            "serving_default": texts,
            "half": half,
            "kinds": kinds,
            "total": total,
            "refuses_bad": refuses_bad,
            "slow": slow,
            "scaled": scaled,
            "which": which,
        }


@pytest.fixture(scope="session")
def saved(tmp_path_factory):
    """Directories of the tiny model with number 1 and with number 2, each with its manifest."""
    directories = {}
    for number in (1, 2):
        directory = str(tmp_path_factory.mktemp("saved") / "model")
        module = Tiny(number)
        tf.saved_model.save(module, directory, signatures=module.exported)
        pathlib.Path(directory, "export.json").write_text(
            json.dumps({"kind": "tiny", "labels": ["a"], "examples": {"serving_default": {"text": ["hello"]}}})
        )
        saved_model_files.write_manifest(directory)
        directories[number] = directory
    return directories


@pytest.fixture
def base_path(saved, tmp_path):
    """A base path that holds version 1."""
    put_version(saved[1], tmp_path / "tiny" / "1")
    return tmp_path / "tiny"


def put_version(directory, target):
    """Adds a version as the exporter does: copies it under another name, then renames it."""
    target = pathlib.Path(target)
    writing = target.parent / f"writing-{target.name}"
    shutil.copytree(directory, writing)
    writing.rename(target)


JSON = "application/json"


class Client:
    """Asks a server. Every request has its own connection."""

    def __init__(self, port):
        self.port = port

    def ask(self, method, path, body=None, headers=None):
        """Returns (status, headers, body as bytes). A body is JSON unless the headers say otherwise."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            connection.request(
                method, path, body, {**({"Content-Type": JSON} if body is not None else {}), **(headers or {})}
            )
            response = connection.getresponse()
            return response.status, response.headers, response.read()
        finally:
            connection.close()

    def get(self, path):
        status, _, body = self.ask("GET", path)
        return status, json.loads(body)

    def post(self, path, value):
        body = value if isinstance(value, bytes) else json.dumps(value).encode()
        status, _, answer = self.ask("POST", path, body)
        return status, json.loads(answer)

    def predict(self, model="tiny", **request):
        return self.post(f"/v1/models/{model}:predict", request)

    def begin(self, **request):
        """Sends the headers of a request and a part of its body, and waits until the server counts the request.

        Returns:
            function that sends the rest of the body and returns (status, answer). Its attribute `leave` is a function
            that closes the connection without the rest.
        """
        body, before = json.dumps(request).encode(), self.metric("serving_requests_under_way")
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        connection.putrequest("POST", "/v1/models/tiny:predict")
        connection.putheader("Content-Type", JSON)
        connection.putheader("Content-Length", str(len(body)))
        connection.endheaders(body[:5])
        wait_for(lambda: self.metric("serving_requests_under_way") > before)

        def finish():
            connection.send(body[5:])
            with contextlib.closing(connection):
                response = connection.getresponse()
                return response.status, json.loads(response.read())

        finish.leave = connection.close
        return finish

    def send(self, data, receive_buffer=None):
        """Sends bytes over a new socket and returns the socket. A small receive buffer makes the server wait."""
        connection = socket.socket()
        connection.settimeout(20)
        if receive_buffer is not None:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        connection.connect(("127.0.0.1", self.port))
        connection.sendall(data)
        return connection

    def metric(self, name):
        text = self.ask("GET", "/metrics")[2].decode()
        return float(re.search(rf"^{re.escape(name)} (\S+)$", text, re.MULTILINE)[1])


def wait_for(condition, seconds=20):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, f"the condition was not true within {seconds} seconds"
        time.sleep(0.01)


@contextlib.contextmanager
def running(*configs, batching=None, log=None, **options):
    """Runs a server in a thread and yields its Client. At the end it stops the server and raises its error."""
    log = [] if log is None else log
    batching = batching or BatchingOptions(num_batch_threads=2)
    state = {"ready": threading.Event()}

    async def main():
        state["loop"], state["stop"] = asyncio.get_running_loop(), asyncio.Event()

        def started(port):
            state["port"] = port
            state["ready"].set()

        await server.serve(
            list(configs),
            batching,
            server.ServerOptions(port=0, **{"poll_seconds": 0.05, **options}),
            state["stop"],
            log.append,
            started,
        )

    def target():
        try:
            asyncio.run(main())
        except BaseException as error:
            state["error"] = error
        finally:
            state["ready"].set()

    thread = threading.Thread(target=target)
    thread.start()
    state["ready"].wait(60)
    try:
        if "error" not in state:
            client = Client(state["port"])
            client.stop = lambda: state["loop"].call_soon_threadsafe(state["stop"].set)
            client.thread = thread
            yield client
    finally:
        if thread.is_alive():
            state["loop"].call_soon_threadsafe(state["stop"].set)
        thread.join(60)
    assert not thread.is_alive()
    if "error" in state:
        raise state["error"]


@pytest.fixture(scope="session")
def client(saved, tmp_path_factory):
    """The Client of a server that tests share. The server has versions 1 and 2 of the tiny model, and labels."""
    base_path = tmp_path_factory.mktemp("shared") / "tiny"
    for number in (1, 2):
        put_version(saved[number], base_path / str(number))
    config = ModelConfig("tiny", str(base_path), latest=None, version_labels={"stable": 1, "gone": 7})
    with running(config, max_request_bytes=3 << 20) as client:
        yield client
