"""Fine-tuning by two processes gives the weights of one process. test_launch_workers tests pre-training."""

import json
import os
import socket
import subprocess

import numpy as np
import pytest

from keras_bert_app.runs import checkpoints
from tests.cli.test_commands import ROOT, assert_refused, command, pretrain_flags
from tests.tasks.conftest import write_table

CONFIG = {
    "vocab_size": 90,
    "hidden_size": 22,
    "num_attention_heads": 2,
    "num_hidden_layers": 1,
    "intermediate_size": 37,
    "max_position_embeddings": 41,
    "hidden_dropout_prob": 0.0,
    "attention_probs_dropout_prob": 0.0,
}


def free_ports(count):
    sockets = [socket.socket() for _ in range(count)]
    for listener in sockets:
        listener.bind(("localhost", 0))
    ports = [listener.getsockname()[1] for listener in sockets]
    for listener in sockets:
        listener.close()
    return ports


def best_weights(workdir):
    (best,) = checkpoints.best_checkpoints(str(workdir))
    return checkpoints.read_tensors(best)[0]


@pytest.mark.slow
def test_two_workers_fine_tune_to_the_weights_and_scores_of_one_process(run, texts, tmp_path):
    write_table(tmp_path, "train", 40, 1)
    write_table(tmp_path, "dev", 13, 2)
    (tmp_path / "bert_config.json").write_text(json.dumps(CONFIG))

    def flags_of(name, *more):
        return (
            "finetune",
            "--task=classification",
            f"--data_dir={tmp_path}",
            f"--config={tmp_path}/bert_config.json",
            f"--vocab_file={texts}/vocab.txt",
            f"--workdir={tmp_path}/{name}",
            "--max_seq_length=32",
            "--global_batch_size=4",
            "--nolength_buckets",  # one length of rows, and so one trace of each step in three processes
            "--num_train_steps=4",
            "--eval_steps=2",
            "--learning_rate=1e-3",
            "--classifier_dropout=0",
            *more,
        )

    cluster = {"worker": [f"localhost:{port}" for port in free_ports(2)]}
    workers = []
    for index in range(2):
        config = json.dumps({"cluster": cluster, "task": {"type": "worker", "index": index}})
        workers.append(
            subprocess.Popen(
                command(*flags_of("two", "--strategy=multi_worker")),
                text=True,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env={**os.environ, "PYTHONPATH": str(ROOT), "TF_CONFIG": config},
            )
        )
    for index, worker in enumerate(workers):
        output, errors = worker.communicate(timeout=300)
        assert worker.returncode == 0, errors
        assert ("step 4/4" in output) == (index == 0)  # only the chief prints
    alone = run(*flags_of("one", "--strategy=one_device"))
    assert alone.returncode == 0, alone.stderr
    one, two = (best_weights(tmp_path / name) for name in ("one", "two"))
    assert one.keys() == two.keys() and max(np.abs(one[path] - two[path]).max() for path in one) < 1e-6
    scores = [json.loads((tmp_path / name / "results.json").read_text())["reported"] for name in ("one", "two")]
    assert scores[0] == scores[1] and set(scores[0]["metrics"]) >= {"accuracy"}


@pytest.mark.parametrize(
    "value, part", [('{"cluster": {"worker": ["a:1", "b:1"]}}', "multi_worker"), ("garbage", "not a JSON object")]
)
def test_tf_config_is_refused_unless_the_strategy_is_multi_worker(run, texts, tmp_path, monkeypatch, value, part):
    monkeypatch.setenv("TF_CONFIG", value)
    assert_refused(run(*pretrain_flags(texts, tmp_path / "run", "--strategy=one_device")), part)
