"""What quality_per_minute stands on: the clock that gives the learning rate, passages that fill a row, processes that fail, machines."""

import json
import pathlib
import signal
import subprocess
import sys

import pytest

from benchmarks.common.resumable import spread
from benchmarks.quality import time_budget
from benchmarks.quality.quality_contenders import Contender, parsed
from benchmarks.quality.quality_texts import passages_of
from benchmarks.reliability import own_commands
from keras_bert_app.errors import UserError

# The benchmark's flags are a table of the process, so that it has one of its own.
_SETTINGS_AND_TABLE = """
import json, sys
from absl import flags
from benchmarks import quality_per_minute

given, found = json.loads(sys.argv[1])
flags.FLAGS(["quality_per_minute", *given])
quality_per_minute._keep_settings()
print(json.dumps([*quality_per_minute.machines(found), *quality_per_minute.table(found, {})]))
"""


def test_the_rate_rises_and_falls_by_the_clock_and_lines_hold_the_loss_since_the_last(tmp_path, monkeypatch):
    now = [100.0]
    monkeypatch.setattr(time_budget.time, "monotonic", lambda: now[0])
    budget = time_budget.TimeBudget(1.0, 0.5, 0.1, str(tmp_path / "log.jsonl"))
    rates = []
    for now[0] in (100.0, 103.0, 106.0, 133.0, 160.0, 170.0):
        rates.append(budget.rate())
        budget.took_step(lambda: now[0] / 10)
    assert rates == pytest.approx([0.0, 0.25, 0.45, 0.225, 0.0, 0.0])
    assert budget.is_over()
    lines = [json.loads(line) for line in (tmp_path / "log.jsonl").read_text().splitlines()]
    assert lines == [
        {"step": 4, "seconds": 33.0, "loss": 13.3},
        {"step": 5, "seconds": 60.0, "loss": 16.0},
        {"step": 6, "seconds": 70.0, "loss": 17.0},
    ]


def test_passages_are_whole_sentences_that_fill_a_row_but_for_the_last():
    sentences, lengths = list("abcdefg"), [3, 4, 9, 1, 1, 1, 1]
    assert list(passages_of(sentences, lengths, 5)) == [["a", "b"], ["c"], ["d", "e", "f", "g"]]
    assert list(passages_of(sentences, [5] * 7, 5)) == [[sentence] for sentence in sentences]


def test_the_spread_is_told_of_several_alone():
    assert spread([0.5]) == "0.5000" and spread([0.5, 0.25]) == "0.3750 (0.2500 to 0.5000)"


def test_a_process_that_fails_is_named_in_one_line():
    own_commands.process("well", [sys.executable, "-c", ""])
    with pytest.raises(UserError, match="badly ended with exit code 3"):
        own_commands.process("badly", [sys.executable, "-c", "raise SystemExit(3)"])


def test_sigterm_is_handed_on_to_the_process_which_is_waited_for(tmp_path):
    code = """
import os, pathlib, signal, sys, time

def stop(*_):
    pathlib.Path(sys.argv[1]).write_text("saved")
    raise SystemExit(5)

signal.signal(signal.SIGTERM, stop)
os.kill(os.getppid(), signal.SIGTERM)
time.sleep(60)
"""
    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(UserError, match="training ended with exit code 5"):
        own_commands.process("training", [sys.executable, "-c", code, str(tmp_path / "state")])
    assert (tmp_path / "state").read_text() == "saved" and signal.getsignal(signal.SIGTERM) == before


def test_a_contender_stands_with_its_settings():
    assert parsed("ours") == Contender("ours")
    assert parsed("keras_hub@1e-3@float32") == Contender("keras_hub", 1e-3, "float32")
    assert parsed("transformers@3e-3@@0.08") == Contender("transformers", 3e-3, None, 0.08)


@pytest.mark.parametrize(
    "entry",
    [
        "ours@1e-3",
        "keras_hub",
        "keras_hub@fast",
        "torch@1e-3",
        "keras_hub@1e-3@float16",
        "keras_hub@1e-3@float32@0.08",
        "transformers@1@float32@1@1",
    ],
)
def test_a_contender_that_cannot_be_run_is_refused(entry):
    with pytest.raises(UserError, match=f"--contenders={entry}: "):
        parsed(entry)


def test_each_run_is_told_with_its_machine_and_so_are_those_of_before_machines_were_kept(tmp_path):
    for name in ("manifest.json", "vocab.txt"):
        (tmp_path / name).write_text(name)
    given = [f"--corpus_dir={tmp_path}", f"--vocab_file={tmp_path / 'vocab.txt'}", f"--directory={tmp_path}"]
    result = {"steps": 7, "eval_masked_lm_accuracy": 0.5, "eval_masked_lm_loss": 3.0, "eval_unigram_accuracy": 0.1}
    fast, slow = (
        {**result, "machine": {"cores": 8, "cpu": "x86_64"}},
        {**result, "machine": {"cores": 1, "cpu": "x86_64"}},
    )

    def lines_of(**found):
        command = [sys.executable, "-c", _SETTINGS_AND_TABLE, json.dumps([given, found])]
        told = subprocess.run(command, cwd=pathlib.Path(__file__).parents[1], capture_output=True, text=True)
        assert told.returncode == 0, told.stderr
        return json.loads(told.stdout)

    assert lines_of(a=fast, b=fast)[:2] == ["cores 8, cpu x86_64", ""]
    assert lines_of(a=fast, b=slow)[:4] == ["cores 8, cpu x86_64: a", "", "cores 1, cpu x86_64: b", ""]
    lines = lines_of(a=result)
    assert lines[:2] == ["a machine that was not kept", ""] and lines[2].startswith("| pre-trained by | seeds |")
