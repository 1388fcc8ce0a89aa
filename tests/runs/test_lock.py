"""Only one run at a time uses a work directory."""

import os
import signal
import subprocess
import sys

import pytest

from keras_bert_app.errors import UserError
from keras_bert_app.runs.lock import locked
from keras_bert_app.runs.work_directory import ExistingRun
from keras_bert_app.training import pretraining_corpora, pretraining_start, strategies
from tests.training.conftest import CONFIG, RUN, VOCABULARY

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(__file__)))
HOLDER = """
import sys, time
from keras_bert_app.runs.lock import locked
from keras_bert_app.runs.work_directory import ExistingRun
with locked(sys.argv[1]):
    print("locked", flush=True)
    time.sleep(60)
"""


def test_a_second_run_is_refused_with_the_process_of_the_first_and_a_killed_run_frees_its_lock(tmp_path):
    workdir = str(tmp_path / "run")
    holder = subprocess.Popen([sys.executable, "-c", HOLDER, workdir], stdout=subprocess.PIPE, text=True, cwd=ROOT)
    try:
        assert holder.stdout.readline() == "locked\n"
        for _ in range(2):  # a refusal changes nothing
            with pytest.raises(
                UserError, match=rf"--workdir={workdir}: another run.*process {holder.pid}\)"
            ) as refusal:
                with locked(workdir):
                    pass
            assert "\n" not in str(refusal.value)
    finally:
        os.kill(holder.pid, signal.SIGKILL)
        holder.wait()
    with locked(workdir):
        pass
    with locked(workdir):  # an orderly end frees the lock too
        pass


def test_a_locked_directory_is_refused_before_a_write_and_a_machine_that_is_not_the_chief_takes_no_lock(
    tmp_path, monkeypatch
):
    workdir, vocabulary = str(tmp_path / "run"), "".join(f"{piece}\n" for piece in VOCABULARY).encode()
    with locked(workdir):
        with pytest.raises(UserError, match="another run is at work there"):
            pretraining_start.launch(workdir, CONFIG, RUN, vocabulary)
        assert os.listdir(workdir) == [".lock"]

        class Waiting(Exception):
            pass

        def wait(*arguments):
            raise Waiting

        monkeypatch.setattr(strategies, "is_chief", lambda strategy: False)
        monkeypatch.setattr(pretraining_start, "_wait_for_chief", wait)
        with pytest.raises(Waiting):
            pretraining_start.launch(workdir, CONFIG, RUN, vocabulary)


def test_a_run_holds_the_lock_from_preparation_to_the_end(tmp_path, monkeypatch):
    workdir, called = str(tmp_path / "run"), []

    def watched(module, name, result):
        def call(*arguments, **options):
            with pytest.raises(UserError, match="another run"):
                with locked(workdir):
                    pass
            called.append(name)
            return result

        monkeypatch.setattr(module, name, call)

    watched(pretraining_corpora, "prepared_corpora", {})
    watched(pretraining_start, "pretrain", {"eval_loss": 1.0})
    assert pretraining_start.launch(workdir, CONFIG, RUN, "".join(f"{piece}\n" for piece in VOCABULARY).encode()) == {
        "eval_loss": 1.0
    }
    assert called == ["prepared_corpora", "pretrain"]
    with locked(workdir):
        pass


def test_a_run_is_refused_under_the_lock_if_another_run_saved_after_its_state_was_read(tmp_path):
    workdir, vocabulary = str(tmp_path / "run"), "".join(f"{piece}\n" for piece in VOCABULARY).encode()
    existing = ExistingRun.read(workdir)  # the command reads the state,
    os.makedirs(os.path.join(workdir, "checkpoints", "step-00000007"))  # then another run saves and ends
    with pytest.raises(UserError, match="was none when this command looked and is step-00000007 now"):
        pretraining_start.launch(workdir, CONFIG, RUN, vocabulary, existing=existing)
