"""The launcher of several workers: a killed worker, a stopped worker, and wrong commands."""

import os
import pathlib
import signal
import subprocess
import time

import numpy as np
import pytest
import tensorflow as tf

from keras_bert_app.runs import checkpoints
from keras_bert_app.training import local_cluster
from tests.cli.test_commands import ROOT, assert_refused, command, pretrain_flags, run_process
from tests.standard_error import own_lines

FLAGS = (
    "--num_train_steps=60",
    "--log_steps=2",
    "--iterations_per_loop=1",
    "--save_checkpoints_steps=10",
    "--holdout_fraction=0",
    "--num_hidden_layers=1",
    "--hidden_size=16",
    "--num_attention_heads=1",
    "--intermediate_size=16",
    "--hidden_dropout_prob=0",
    "--attention_probs_dropout_prob=0",
)
needs_proc = pytest.mark.skipif(
    not pathlib.Path("/proc/self/task").exists(), reason="needs /proc to list the children of a process"
)


def launch(texts, workdir, *more):
    """Starts a launcher of two workers."""
    return subprocess.Popen(
        command(
            "launch_workers",
            "--num_workers=2",
            "--grace_seconds=0.5",
            "--",
            *pretrain_flags(texts, workdir, *FLAGS, *more),
        ),
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )


def wait_for_step(process, step):
    """Reads output up to a progress line of this step or a later one. Returns the process numbers of the workers."""
    for line in process.stdout:
        if line.startswith("step ") and int(line[5:].split("/")[0]) >= step:
            break
    path = pathlib.Path(f"/proc/{process.pid}/task/{process.pid}/children")
    return [int(child) for child in path.read_text().split()]


def weights_of(workdir, step):
    reader = tf.train.load_checkpoint(str(workdir / "checkpoints" / f"step-{step:08d}" / "checkpoint"))
    return {name: reader.get_tensor(name) for name in reader.get_variable_to_shape_map() if name.startswith("model/")}


@pytest.mark.long
@needs_proc
def test_a_killed_worker_starts_again_and_a_signal_to_one_stops_both_at_the_same_step(run, texts, tmp_path):
    """The final weights equal the weights of a run in one process."""
    workdir = tmp_path / "two"
    process = launch(texts, workdir)
    os.kill(wait_for_step(process, 22)[1], signal.SIGKILL)
    # The second start resumes from the checkpoint of step 20 or a later one. A signal to one worker stops both.
    output = ""
    for line in process.stdout:
        output += line
        if "resumed at step" in line:
            break
    assert "worker 1 was killed by SIGKILL; starting all 2 again from the last checkpoint (restart 1 of 3)" in output
    os.kill(wait_for_step(process, 1)[1], signal.SIGTERM)
    _, errors = process.communicate(timeout=120)
    assert process.returncode == 128 + signal.SIGTERM, errors
    step = int(errors.split("stopped by SIGTERM after step ")[1].split(",")[0])
    assert "saved" in errors and len(own_lines(errors)) == 1
    newest = checkpoints.list_checkpoints(str(workdir))[-1]
    assert checkpoints.read_manifest(newest)["step"] == step

    # One process runs with the same schedule and saves a checkpoint at the same step.
    alone = run(
        *pretrain_flags(texts, tmp_path / "one", *FLAGS, "--strategy=one_device", f"--save_checkpoints_steps={step}")
    )
    assert alone.returncode == 0, alone.stderr
    one, two = weights_of(tmp_path / "one", step), weights_of(workdir, step)
    assert max(np.abs(one[name] - two[name]).max() for name in one) < 1e-6


@pytest.mark.parametrize(
    "arguments, parts",
    [
        ((), ["no command"]),
        (("--", "no_such_verb"), ["'no_such_verb'", "-- pretrain"]),
        (("--", "../pretrain"), ["'../pretrain'"]),
        (("--", "launch_workers"), ["'launch_workers'"]),
        (("--", "tokenize"), ["'tokenize'", "expected pretrain, finetune, evaluate, predict"]),
        (("--", "--workdir=somewhere"), ["'--workdir=somewhere'"]),
        (("--", "pretrain", "--strategy", "mirrored"), ["--strategy=mirrored", "multi_worker"]),
        (("--num_workers=0", "--", "pretrain"), ["num_workers"]),
    ],
)
def test_a_wrong_command_gives_one_line_and_exit_code_2(run, arguments, parts):
    assert_refused(run("launch_workers", *arguments), *parts)


def test_a_wrong_flag_of_the_workers_gives_one_line_and_is_not_tried_again():
    assert_refused(run_process("launch_workers", "--", "pretrain", "--learning_rate=-1"), "--workdir is missing")


class FakeWorkers:
    """Runs two shell scripts as workers. A worker chooses its script by the index in $TF_CONFIG."""

    def __init__(self, tmp_path):
        self.tmp_path, self.said = tmp_path, []

    def run(self, first, second, max_restarts=2, grace_seconds=0.3):
        script = f'cd {self.tmp_path}; case "$TF_CONFIG" in *\'"index": 0\'*) {first} ;; *) {second} ;; esac'
        return local_cluster.run_workers(["sh", "-c", script], 2, max_restarts, grace_seconds, self.said.append)


def test_the_launcher_gives_up_workers_that_keep_dying_and_shows_their_last_line(tmp_path, capfd):
    fake = FakeWorkers(tmp_path)
    assert fake.run("exec sleep 60", "echo what happened >&2; exit 7") == 7
    assert len(fake.said) == 2 and "worker 1 exited with 7 (what happened)" in fake.said[0]
    assert "restart 2 of 2" in fake.said[1]
    assert "worker 1 of 2 exited with 7 (what happened); the same command" in capfd.readouterr().err


def test_a_worker_that_fails_after_another_was_killed_is_not_blamed(tmp_path):
    fake = FakeWorkers(tmp_path)
    code = fake.run(
        "test -e again && exit 0; sleep 0.3; echo error: no connection >&2; exit 2",
        "test -e again && exit 0; touch again; kill -9 $$",
    )
    assert code == 0 and len(fake.said) == 1 and "worker 1 was killed by SIGKILL" in fake.said[0]


def test_an_error_of_the_user_is_shown_once_and_not_tried_again(tmp_path, capfd, monkeypatch):
    monkeypatch.setattr(local_cluster, "_SECONDS_TO_AGREE", 1.0)
    fake = FakeWorkers(tmp_path)
    assert fake.run("sleep 0.3; echo error: bad flag >&2; exit 2", "echo error: bad flag >&2; exit 2") == 2
    assert capfd.readouterr().err == "error: bad flag\n" and not fake.said
    assert fake.run("exec sleep 60", "echo error: only mine >&2; exit 2") == 2
    assert capfd.readouterr().err == "error: only mine\n" and not fake.said


def test_workers_have_a_cluster_of_their_own_and_share_the_cores(tmp_path):
    fake = FakeWorkers(tmp_path)
    show = 'echo "$TF_CONFIG $TF_NUM_INTRAOP_THREADS"'
    assert fake.run(f"{show} > 0", f"{show} > 1") == 0
    first, second = ((tmp_path / name).read_text() for name in "01")
    assert first.replace('"index": 0', '"index": 1') == second and first.count("localhost:") == 2
    assert int(first.split()[-1]) == max(1, os.cpu_count() // 2)


def wait_for_files(directory, pattern, count, seconds=60):
    deadline = time.monotonic() + seconds
    while len(list(directory.glob(pattern))) < count:
        assert time.monotonic() < deadline, sorted(path.name for path in directory.iterdir())
        time.sleep(0.02)


@needs_proc
def test_workers_of_a_killed_launcher_get_sigterm(tmp_path):
    script = (
        f'trap "echo > {tmp_path}/stopped-$$; exit 0" TERM; echo > {tmp_path}/started-$$; while :; do sleep 0.1; done'
    )
    code = (
        "from keras_bert_app.training import local_cluster; "
        f"local_cluster.run_workers(['sh', '-c', {script!r}], 2, 0, 1.0, print)"
    )
    process = subprocess.Popen([*command("launch_workers")[:1], "-c", code], stdout=subprocess.PIPE, cwd=ROOT)
    wait_for_files(tmp_path, "started-*", 2)
    process.kill()
    process.wait()
    process.stdout.read()  # returns when the chief has ended
    wait_for_files(tmp_path, "stopped-*", 2)
