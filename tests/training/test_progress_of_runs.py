"""The clock, the ramps and the printed lines of runs whose steps take a time that the test sets."""

import dataclasses
import os
import signal
import time
from types import SimpleNamespace

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.core.util import event_pb2

from keras_bert_app.errors import Interrupted
from keras_bert_app.training import loop, outlook, pace, pretraining_start, reporting, steps, window
from keras_bert_app.training.losses import PretrainingObjective
from tests.training.conftest import CONFIG, RUN, train
from tests.training.runs import rows_of

BY_THE_CLOCK = dataclasses.replace(
    RUN, train_minutes=1.0, num_train_steps=10**6, num_warmup_steps=10**5, max_seq_length=32, log_steps=10**6
)


class Steps:
    """Replaces steps.make_train_call. A step trains nothing and takes `seconds`; a new shape takes `compiling` more.

    Attributes:
        progress: share of the run at the beginning of each call; None without a time budget.
        shapes: (rows, tokens a row) of each call.
        stops_after: number of calls before SIGTERM; 0 for no SIGTERM.
    """

    def __init__(self, sleep):
        self.sleep, self.seconds, self.compiling, self.stops_after = sleep, 1.0, 10.0, 0
        self.progress, self.shapes, self.known = [], [], set()

    def make_train_call(self, *arguments):
        columns = steps.columns(PretrainingObjective())
        self.known = set()  # each start of a run compiles again

        def call(batches, first_step, progress=None, stop=False):
            count, *shape = batches["input_mask"].shape
            self.sleep(count * self.seconds + (self.compiling if tuple(shape) not in self.known else 0.0))
            self.known.add(tuple(shape))
            self.progress.append(progress and progress[0])
            self.shapes.append(tuple(shape))
            if self.stops_after == len(self.shapes):
                os.kill(os.getpid(), signal.SIGTERM)
            rows = np.ones([count, len(columns)], np.float32)
            rows[:, columns["bad_variable"]] = -1
            rows[:, [columns["stop"], columns["overflow"]]] = 0
            rows[:, columns["progress"]] = progress[0] if progress else (first_step + np.arange(count)) / 20
            return rows

        return call


@pytest.fixture
def clock(monkeypatch):
    """A clock that only the steps advance."""
    clock = SimpleNamespace(now=1000.0)
    for module in (loop, pace, window):
        monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: clock.now))
    return clock


@pytest.fixture
def fake_steps(monkeypatch):
    """A function that replaces the real steps by Steps. Its argument is the function that lets time pass."""

    def install(sleep):
        fake = Steps(sleep)
        monkeypatch.setattr(steps, "make_train_call", fake.make_train_call)
        return fake

    return install


@pytest.fixture
def timed_steps(clock, fake_steps):
    """Steps on the clock of the test."""

    def sleep(seconds):
        clock.now += seconds

    return fake_steps(sleep)


def test_a_run_with_a_time_budget_continues_its_schedule_after_each_stop(timed_steps, make_workdir, training_shards):
    workdir = make_workdir("stopped", CONFIG, BY_THE_CLOCK)
    for num_calls in (6, 2):
        calls_before = len(timed_steps.progress)
        timed_steps.stops_after = calls_before + num_calls
        with pytest.raises(Interrupted):
            train(workdir, training_shards)
        # The first call compiles for 10 of the run's 60 seconds, which the schedule does not count.
        shares = timed_steps.progress[max(0, calls_before - 1) :]
        assert np.diff(shares).max() < 0.08, shares


def test_a_length_ramp_by_share_follows_the_clock_through_stops_and_reaches_the_full_length(
    timed_steps, make_workdir, training_shards
):
    timed_steps.compiling = 2.0
    run = dataclasses.replace(BY_THE_CLOCK, num_warmup_steps=-1, warmup_share=0.1, length_ramp_share=0.4)
    workdir = make_workdir("ramp", CONFIG, run)
    timed_steps.stops_after = 8
    with pytest.raises(Interrupted):
        train(workdir, training_shards)
    _, output = train(workdir, training_shards)
    calls = list(zip(timed_steps.progress, timed_steps.shapes, strict=True))
    # The batches of a call use the share at the beginning of the previous call.
    for (share, _), (_, shape) in zip(calls, calls[1:], strict=False):
        assert shape == ((32, 8) if share < 0.2 else (16, 16) if share < 0.4 else (8, 32)), (share, calls)
    assert [shape for _, shape in calls].count((8, 32)) >= 5 and "the run ended within" not in output


def test_tokens_a_second_leave_out_the_steps_that_compile(timed_steps, make_workdir, training_shards):
    timed_steps.compiling = 100.0
    workdir = make_workdir("speed", CONFIG, dataclasses.replace(RUN, num_train_steps=10))
    train(workdir, training_shards)
    first, second = [row["tokens_per_second"] for row in rows_of(workdir) if "loss" in row]
    # A batch has 232 positions at most, of which some are padding, and a step takes a second.
    assert 100 < first < 232 and 100 < second < 232


def test_a_checkpoint_never_has_the_figures_of_many_unlogged_steps(
    timed_steps, make_workdir, training_shards, monkeypatch
):
    monkeypatch.setattr(loop, "_MOST_UNLOGGED_STEPS", 4)
    workdir = make_workdir("rare", CONFIG, dataclasses.replace(RUN, num_train_steps=10, log_steps=10**6))
    train(workdir, training_shards)
    assert [row["step"] for row in rows_of(workdir) if "loss" in row] == [6, 9, 10]  # calls of 3 steps


def test_a_window_whose_steps_all_compiled_has_no_speed():
    sums = window.Window(PretrainingObjective())
    row = np.ones([1, len(steps.columns(PretrainingObjective()))])
    sums.add(row, tf.ones([1, 4, 8], tf.int32), 0.0, 1, 30.0)
    assert "tokens_per_second" not in sums.close()


def test_the_first_lines_show_the_time_of_compiling_and_later_lines_the_time_left(
    fake_steps, make_workdir, training_shards, monkeypatch
):
    monkeypatch.setattr(reporting, "_SECONDS_BETWEEN_FIRST_LINES", 0.3, raising=False)
    monkeypatch.setattr(reporting, "_LONG_COMPILATION_SECONDS", 1.0, raising=False)
    slow = fake_steps(time.sleep)
    slow.compiling, slow.seconds = 1.4, 0.12
    run = dataclasses.replace(RUN, num_train_steps=9, log_steps=1000, jit_compile="parts")
    _, output = train(make_workdir("lines", CONFIG, run), training_shards)
    lines = [line for line in output.splitlines() if line.startswith("step ")]
    compiling = [line for line in lines if "compiling" in line]
    assert compiling and all(line.startswith("step 0/9  compiling 0:0") for line in compiling)
    assert any(line.startswith("step 0/9  compiled for batches of 8 x 29 tokens in 0:0") for line in lines)
    with_figures = [line for line in lines if "loss" in line]
    assert len(with_figures) > 1 and "ETA 0:0" in with_figures[0] and "tokens/s" in with_figures[0]


def test_a_slow_first_batch_of_a_run_without_xla_is_not_called_compiling(
    fake_steps, make_workdir, training_shards, monkeypatch
):
    monkeypatch.setattr(reporting, "_SECONDS_BETWEEN_FIRST_LINES", 0.3, raising=False)
    monkeypatch.setattr(reporting, "_LONG_COMPILATION_SECONDS", 1.0, raising=False)
    slow = fake_steps(time.sleep)
    slow.compiling, slow.seconds = 1.4, 0.01
    run = dataclasses.replace(RUN, num_train_steps=2, jit_compile="none")
    _, output = train(make_workdir("first", CONFIG, run), training_shards)
    assert "step 0/2  first batch of 8 x 29 tokens 0:01" in output and "compil" not in output


def test_the_outlook_is_printed_once_after_ten_steps(timed_steps, make_workdir, training_shards, monkeypatch):
    timed_steps.seconds = 0.1
    asked = []
    monkeypatch.setattr(outlook, "lines", lambda start, *now: asked.append(now) or ["the outlook"])
    _, output = train(make_workdir("outlook"), training_shards)
    ((step, step_seconds, seconds_left),) = asked
    assert 10 <= step < 15 and step_seconds == pytest.approx(0.1) and seconds_left == pytest.approx(2.0 - step * 0.1)
    assert output.count("the outlook") == 1


def test_the_outlook_of_slow_steps_comes_before_the_tenth_step(timed_steps, make_workdir, training_shards, monkeypatch):
    timed_steps.seconds, asked = 15.0, []
    monkeypatch.setattr(outlook, "lines", lambda start, *now: asked.append(now) or [])
    train(make_workdir("slow"), training_shards)
    assert asked[0][0] < 5


def test_a_run_that_cannot_finish_its_ramp_warns_after_ten_steps_and_may_continue_with_a_share(
    timed_steps, make_workdir, training_shards
):
    run = dataclasses.replace(BY_THE_CLOCK, length_ramp_steps=750, log_steps=1)
    workdir = make_workdir("short", CONFIG, run)
    _, output = train(workdir, training_shards)
    (number,) = [index for index, line in enumerate(output.splitlines()) if "--length_ramp_steps=750: " in line][:1]
    assert output.splitlines()[number - 1].startswith("step 12  ")  # the first call that ends after step 10
    assert "rows never reach 32 tokens; stop it (Ctrl-C) and continue with --length_ramp_share=0.2" in output
    assert "the run ended within --length_ramp_steps=750" in output
    wanted = {"length_ramp_share": 0.2, "train_minutes": 2.0}
    make_workdir("short", *pretraining_start.ExistingRun.read(workdir).resumed(None, wanted))
    _, output = train(workdir, training_shards)
    assert timed_steps.shapes[-1] == (8, 32) and "--length_ramp_" not in output


def start_of(**changes):
    """A start on a CPU. Its outlook advises flags_for_time."""
    flags_for_time = changes.pop("flags_for_time", "--recipe=small_budget --train_minutes=60")
    run = dataclasses.replace(RUN, **{"num_train_steps": 100_000, "max_seq_length": 32, **changes})
    strategy = tf.distribute.OneDeviceStrategy("CPU:0")
    return SimpleNamespace(run=run, strategy=strategy, flags_for_time=flags_for_time, model_config=CONFIG)


@pytest.mark.parametrize(
    "changes, parts",
    [
        (
            {"length_ramp_steps": 750, "train_minutes": 3.0},
            ("--length_ramp_steps=750: --train_minutes=3", "about 352 steps", "rows never reach 32 tokens", "0.2"),
        ),
        ({"batch_ramp_steps": 750, "train_minutes": 3.0}, ("--batch_ramp_steps=750", "batches never reach 8 rows")),
    ],
)
def test_the_outlook_names_each_ramp_that_the_run_does_not_finish(changes, parts):
    (line,) = outlook.lines(start_of(**changes), 12, 0.5, 170.0)
    assert all(part in line for part in parts), line


def test_a_warmup_that_is_longer_than_the_run_is_named_before_the_first_step():
    run = dataclasses.replace(RUN, num_warmup_steps=9000, num_train_steps=5000, train_minutes=0.0)
    (line,) = outlook.unfinished_warmup(run)
    assert line.startswith("--num_warmup_steps=9000 is not below --num_train_steps=5000, so the learning rate never")
    assert outlook.unfinished_warmup(dataclasses.replace(run, num_warmup_steps=500)) == []


def test_the_outlook_of_a_run_that_finishes_its_ramps_is_empty():
    assert outlook.lines(start_of(length_ramp_steps=300, train_minutes=3.0), 12, 0.5, 170.0) == []
    assert outlook.lines(start_of(length_ramp_share=0.2, train_minutes=3.0), 12, 0.5, 170.0) == []


def test_the_outlook_of_a_long_run_without_a_recipe_on_a_cpu_gives_its_duration_and_names_the_recipe(monkeypatch):
    (line,) = outlook.lines(start_of(), 12, 1.476, 147_582.0)
    assert line.startswith("100,000 steps take about 41.0 hours on this CPU; ") and "--recipe=small_budget" in line
    wide = start_of()
    wide.model_config = CONFIG.replace(hidden_size=768, num_attention_heads=12)
    assert "--learning_rate=1e-4 --initializer_range=0.02" in outlook.lines(wide, 12, 1.476, 147_582.0)[0]
    (line,) = outlook.lines(start_of(flags_for_time="--train_minutes=60"), 12, 1.476, 147_582.0)
    assert line.endswith("start with --train_minutes=60 in another --workdir")
    assert outlook.lines(start_of(flags_for_time=""), 12, 1.476, 147_582.0) == []
    assert outlook.lines(start_of(), 12, 0.005, 500.0) == []
    assert outlook.lines(start_of(train_minutes=60.0), 12, 1.476, 3000.0) == []
    monkeypatch.setattr(outlook.strategies, "device_kind", lambda strategy: "GPU")
    assert outlook.lines(start_of(), 12, 1.476, 147_582.0) == []


def test_tensorboard_loses_the_steps_that_a_resumed_run_takes_again(tmp_path):
    workdir = str(tmp_path / "run")

    def write(first_step, steps, loss):
        reporter = reporting.Reporter(workdir, first_step, RUN, None, None)
        for step in steps:
            reporter.write(step, {"loss": loss})
        reporter.events.close()

    os.makedirs(workdir)
    write(0, (1, 2, 3), 5.0)
    write(2, (3, 4), 7.0)
    found = [
        (event.step, float(tf.make_ndarray(value.tensor)))
        for path in sorted(tf.io.gfile.glob(f"{workdir}/events/*"))
        for record in tf.data.TFRecordDataset(path).as_numpy_iterator()
        for event in [event_pb2.Event.FromString(record)]
        for value in event.summary.value
    ]
    assert sorted(found) == [(1, 5.0), (2, 5.0), (3, 7.0), (4, 7.0)]
