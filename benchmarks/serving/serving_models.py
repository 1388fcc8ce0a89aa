"""A small model for the load and fuzz tests of the server, and the server as a process."""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
import urllib.request

import tensorflow as tf

from benchmarks.common.this_machine import resident_bytes
from keras_bert_app.errors import UserError
from keras_bert_app.serving import saved_model_files
from pipelines import BertTokenizer, storage

_VOCABULARY = [
    "[PAD]",
    "[UNK]",
    "[CLS]",
    "[SEP]",
    "[MASK]",
    *"abcdefghijklmnopqrstuvwxyz0123456789.,!?",
    *(f"##{letter}" for letter in "abcdefghijklmnopqrstuvwxyz0123456789"),
]
_HIDDEN = 16
_START_SECONDS = 300  # the longest time until the server prints its port


class SmallModel(tf.Module):
    """A model whose signatures take raw text, ids of rank 2 and 3, and other types.

    The signature "work" takes time, so that a load test can fill the queue.

    Args:
        number: int. The answer of "work", which identifies the version.
        rounds: int. Number of 64 x 64 matrix products that "work" computes for each row.
    """

    def __init__(self, number: int, rounds: int):
        super().__init__()
        tokenizer = BertTokenizer("\n".join(_VOCABULARY).encode())
        self.number = tf.Variable(number)
        self.table = tf.Variable(tf.random.stateless_normal([len(_VOCABULARY), _HIDDEN], (1, 2)))

        @tf.function(input_signature=[tf.TensorSpec([None], tf.string, name="text")])
        def embed(text):
            ids = tokenizer.tokenize(tf.ensure_shape(text, [None]))
            return {"embedding": tf.reduce_mean(tf.gather(self.table, ids).to_tensor(), axis=1), "same_bytes": text}

        @tf.function(input_signature=[tf.TensorSpec([None, None], tf.int32, name="input_word_ids")])
        def encode(input_word_ids):
            return {"sequence_output": tf.gather(self.table, input_word_ids)}

        @tf.function(
            input_signature=[
                tf.TensorSpec([None, None, None], tf.int64, name="ids"),
                tf.TensorSpec([None, 3], tf.float32, name="numbers"),
                tf.TensorSpec([None], tf.bool, name="flag"),
            ]
        )
        def kinds(ids, numbers, flag):
            return {"total": tf.reduce_sum(ids, axis=[1, 2]), "numbers": numbers, "flag": flag}

        @tf.function(input_signature=[tf.TensorSpec([None], tf.int32, name="ticket")])
        def work(ticket):
            start = tf.ones([tf.size(ticket), 64, 64]) / 64
            done = tf.while_loop(lambda i, _: i < rounds, lambda i, m: (i + 1, m @ m), (0, start))[1]
            return {
                "ticket": ticket + tf.cast(0 * done[:, 0, 0], tf.int32),
                "number": tf.fill(tf.shape(ticket), self.number),
            }

        self.exported = {"serving_default": embed, "ids": encode, "kinds": kinds, "work": work}


def write(directory: str, number: int, rounds: int = 1) -> None:
    """Writes a SmallModel as a version with its manifest.

    Args:
        directory: str. Directory of the version.
        number: int. As for SmallModel.
        rounds: int. As for SmallModel.
    """
    module = SmallModel(number, rounds)
    tf.saved_model.save(module, directory, signatures=module.exported)
    storage.write_whole(os.path.join(directory, "export.json"), json.dumps({"kind": "embeddings"}))
    saved_model_files.write_manifest(directory)


def put(directory: str, base_path: str, version: int) -> None:
    """Adds a version below a base path.

    A rename makes the whole version appear at once. The exporter adds its versions in the same way.

    Args:
        directory: str. Directory with the files of the version. The files are copied.
        base_path: str. Directory of the model's versions.
        version: int. Number of the version.
    """
    writing = os.path.join(base_path, f"writing-{version}")
    with storage.whole_directory(os.path.join(base_path, str(version)), writing) as place:
        shutil.copytree(directory, place, dirs_exist_ok=True)


class Server:
    """The serve command as a process.

    Args:
        process: subprocess.Popen.
        port: int. The port of its REST API.
    """

    def __init__(self, process: subprocess.Popen, port: int):
        self.process, self.port, self.url = process, port, f"http://127.0.0.1:{port}"

    def get(self, path: str) -> bytes:
        with urllib.request.urlopen(self.url + path, timeout=60) as response:
            return response.read()

    def metric(self, name: str) -> float:
        lines = self.get("/metrics").decode().splitlines()
        return next((float(line.split()[-1]) for line in lines if line.startswith(name + " ")), 0.0)

    def states(self, model: str) -> dict[int, str]:
        """The states of a model's versions."""
        statuses = json.loads(self.get(f"/v1/models/{model}"))["model_version_status"]
        return {int(status["version"]): status["state"] for status in statuses}

    def resident_mb(self) -> float:
        """Resident memory, in units of 10^6 bytes."""
        return resident_bytes("VmRSS", self.process.pid) / 1e6


@contextlib.contextmanager
def running(base_path: str, log_path: str, **flags):
    """Runs a Server of the model "small" within the block, and ends the server with SIGTERM.

    Args:
        base_path: str. Directory of the model's versions.
        log_path: str. File for the server's output.
        **flags: further flags of serve.

    Raises:
        UserError: the server does not start.
        RuntimeError: its exit code after SIGTERM is not 0.
    """
    with open(log_path, "w", encoding="utf-8") as log:
        process = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "keras_bert_app.cli.serve",
                f"--model_base_path={base_path}",
                "--model_name=small",
                "--rest_api_port=0",
                *(f"--{name}={value}" for name, value in flags.items()),
            ],
            stdout=log,
            stderr=subprocess.STDOUT,
        )
    try:
        yield Server(process, _port(process, log_path))
        process.send_signal(signal.SIGTERM)
        if process.wait(60):
            raise RuntimeError(f"the server ended with code {process.returncode}; see {log_path}")
    finally:
        process.kill()
        process.wait()


def _port(process, log_path):
    """Waits for the line in which the server prints its port. Returns the port."""
    end = time.monotonic() + _START_SECONDS
    while time.monotonic() < end:
        with open(log_path, encoding="utf-8") as log:
            for line in log:
                if line.startswith("listening on ") and line.endswith("\n"):
                    return int(line.split("/")[2].split(":")[1])
        if process.poll() is not None:
            raise UserError(f"the server ended with exit code {process.returncode} before it listened; see {log_path}")
        time.sleep(0.1)
    raise UserError(f"the server printed no port in {_START_SECONDS} s; see {log_path}, then start it again")
