"""Two machines, as two processes on this one: what each says, and the weights that they leave. test_launch_workers.py compares those with one
process's."""

import json
import os
import socket
import subprocess

import pytest

from keras_bert_app import load_pretrained
from tests.cli.test_commands import ROOT, assert_refused, command, pretrain_flags, texts  # noqa: F401  a fixture


def free_ports(count):
    sockets = [socket.socket() for _ in range(count)]
    for one in sockets:
        one.bind(("localhost", 0))
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


def test_of_two_workers_the_chief_alone_talks_and_leaves_a_run(texts, tmp_path):  # noqa: F811
    cluster, workers = {"worker": [f"localhost:{port}" for port in free_ports(2)]}, []
    for index in range(2):
        config = json.dumps({"cluster": cluster, "task": {"type": "worker", "index": index}})
        workers.append(subprocess.Popen(
            command(*pretrain_flags(texts, tmp_path / "two", "--strategy=multi_worker", "--num_train_steps=2", "--log_steps=2",
                                    "--num_hidden_layers=1")),
            text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": str(ROOT), "TF_CONFIG": config}))
    for index, worker in enumerate(workers):
        output, errors = worker.communicate(timeout=300)
        assert worker.returncode == 0, errors
        assert ("step 2/2" in output) == (index == 0)
    assert load_pretrained(str(tmp_path / "two")).config.num_hidden_layers == 1


@pytest.mark.parametrize("value, part", [
    ('{"cluster": {"worker": ["a:1", "b:1"]}}', "multi_worker"), ("garbage", "no JSON object")])
def test_a_cluster_that_no_strategy_was_asked_to_use_is_refused(run, texts, tmp_path, monkeypatch, value, part):  # noqa: F811
    monkeypatch.setenv("TF_CONFIG", value)
    assert_refused(run(*pretrain_flags(texts, tmp_path / "run", "--strategy=one_device")), part)
