"""What quality_per_minute stands on: the clock that gives the learning rate, passages that fill a row, processes that fail."""

import json
import sys

import pytest

from benchmarks import own_commands, time_budget
from benchmarks.quality_contenders import Contender, parsed
from benchmarks.quality_texts import passages_of
from benchmarks.resumable import spread
from keras_bert_app.errors import UserError


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
    assert lines == [{"step": 4, "seconds": 33.0, "loss": 13.3}, {"step": 5, "seconds": 60.0, "loss": 16.0},
                     {"step": 6, "seconds": 70.0, "loss": 17.0}]


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


def test_a_contender_stands_with_its_settings():
    assert parsed("ours") == Contender("ours")
    assert parsed("keras_hub@1e-3@float32") == Contender("keras_hub", 1e-3, "float32")
    assert parsed("transformers@3e-3@@0.08") == Contender("transformers", 3e-3, None, 0.08)


@pytest.mark.parametrize("entry", ["ours@1e-3", "keras_hub", "keras_hub@fast", "torch@1e-3", "keras_hub@1e-3@float16",
                                   "keras_hub@1e-3@float32@0.08", "transformers@1@float32@1@1"])
def test_a_contender_that_cannot_be_run_is_refused(entry):
    with pytest.raises(UserError, match=f"--contenders={entry}: "):
        parsed(entry)
