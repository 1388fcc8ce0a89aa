"""Two machines, as two processes on this one: the same weights as one."""

import json
import os
import socket
import subprocess

import numpy as np
import pytest

from keras_bert_app import load_pretrained
from tests.cli.test_commands import ROOT, assert_refused, command, pretrain_flags, texts  # noqa: F401  a fixture

FLAGS = ("--num_train_steps=4", "--log_steps=2", "--num_hidden_layers=1", "--hidden_dropout_prob=0", "--attention_probs_dropout_prob=0")


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


def test_two_workers_end_with_the_weights_of_one_process(run, texts, tmp_path):  # noqa: F811
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
        assert ("step 4/4" in output) == (index == 0)  # only the chief talks
    alone = run(*pretrain_flags(texts, tmp_path / "one", "--strategy=one_device", "--jit_compile=parts", *FLAGS))
    assert alone.returncode == 0, alone.stderr
    one, two = weights_of(tmp_path / "one"), weights_of(tmp_path / "two")
    assert max(np.abs(one[path] - two[path]).max() for path in one) < 1e-6


@pytest.mark.parametrize("value, part", [
    ('{"cluster": {"worker": ["a:1", "b:1"]}}', "multi_worker"), ("garbage", "no JSON object")])
def test_a_cluster_that_no_strategy_was_asked_to_use_is_refused(run, texts, tmp_path, monkeypatch, value, part):  # noqa: F811
    monkeypatch.setenv("TF_CONFIG", value)
    assert_refused(run(*pretrain_flags(texts, tmp_path / "run", "--strategy=one_device")), part)
