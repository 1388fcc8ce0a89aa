"""Two machines, as two processes on this one: the same weights as one."""

import json
import os
import socket
import subprocess
import sys

import numpy as np

from keras_bert_app import load_pretrained
from tests.cli.test_commands import ROOT, command, pretrain_flags, run_process, texts  # noqa: F401  a fixture

FLAGS = ("--num_train_steps=6", "--log_steps=2", "--hidden_dropout_prob=0", "--attention_probs_dropout_prob=0")


def free_ports(count):
    sockets = [socket.socket() for _ in range(count)]
    for one in sockets:
        one.bind(("localhost", 0))
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


def weights_of(workdir):
    return {variable.path: variable.numpy() for variable in load_pretrained(str(workdir)).weights}


def test_two_workers_end_with_the_weights_of_one_process(texts, tmp_path):  # noqa: F811
    cluster = {"worker": [f"localhost:{port}" for port in free_ports(2)]}
    workers = []
    for index in range(2):
        config = json.dumps({"cluster": cluster, "task": {"type": "worker", "index": index}})
        workers.append(subprocess.Popen(
            command(*pretrain_flags(texts, tmp_path / "two", "--strategy=multi_worker", "--jit_compile=parts", *FLAGS)),
            text=True,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": str(ROOT), "TF_CONFIG": config}))
    for index, worker in enumerate(workers):
        output, errors = worker.communicate(timeout=300)
        assert worker.returncode == 0, errors
        assert ("step 6/6" in output) == (index == 0)  # only the chief talks
    assert run_process(*pretrain_flags(texts, tmp_path / "one", "--strategy=one_device", "--jit_compile=parts", *FLAGS)).returncode == 0
    one, two = weights_of(tmp_path / "one"), weights_of(tmp_path / "two")
    assert max(np.abs(one[path] - two[path]).max() for path in one) < 1e-6


def test_a_cluster_that_no_strategy_was_asked_to_use_is_refused(texts, tmp_path):  # noqa: F811
    for value, part in (('{"cluster": {"worker": ["a:1", "b:1"]}}', "multi_worker"), ("garbage", "no JSON object")):
        result = subprocess.run(
            [sys.executable, "-m", "keras_bert_app.cli.pretrain", *pretrain_flags(
                texts, tmp_path / "run", "--strategy=one_device")[1:]], capture_output=True, text=True, check=False,
            env={**os.environ, "PYTHONPATH": str(ROOT), "TF_CONFIG": value})
        assert result.returncode == 2 and part in result.stderr and result.stderr.count("\n") == 1, result.stderr
