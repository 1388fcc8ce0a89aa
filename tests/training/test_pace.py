"""The clock of a run: the time budget and the steps of a call."""

import dataclasses
from types import SimpleNamespace

import numpy as np
import pytest
import tensorflow as tf

from keras_bert_app.training import pace
from tests.training.conftest import RUN

BUDGET = dataclasses.replace(RUN, train_minutes=2.0)  # 120 s


@pytest.fixture
def clock(monkeypatch):
    """A clock that the test sets."""
    clock = SimpleNamespace(now=1000.0)
    monkeypatch.setattr(pace, "time", SimpleNamespace(monotonic=lambda: clock.now))
    return clock


def stack(count, length=4):
    return {"ids": tf.reshape(tf.range(count * length), [count, length])}


def take_calls(run, clock, stacked, *seconds):
    """Takes the calls for a stack, each with its given seconds. Returns [(first step, number of steps)]."""
    calls = []
    for (first, part, _), duration in zip(run.calls(stacked), seconds, strict=True):
        assert part["ids"].shape[0] and int(part["ids"][0, 0]) == first * stacked["ids"].shape[1]
        calls.append((first, part["ids"].shape[0]))
        clock.now += duration
    return calls


def test_the_budget_counts_compiling_and_the_schedule_does_not(clock):
    run = pace.Pace(BUDGET, 0.0)
    assert run.progress() == (0.0, 0.0)
    assert take_calls(run, clock, stack(5), 40.0, 2.0, 6.0) == [(0, 1), (1, 1), (2, 3)]
    # Compiling left 80 seconds, of which 8 have passed. A step takes 2 seconds.
    assert run.progress() == pytest.approx((0.1, 0.025)) and run.seconds() == 48.0
    assert take_calls(run, clock, stack(5), 12.0) == [(0, 5)]
    assert run.progress() == pytest.approx((0.25, 0.03))
    clock.now += 60.0
    assert run.progress()[0] == pytest.approx(1.0) and run.seconds() == 120.0


def test_the_schedule_leaves_out_the_compiling_of_a_new_length_and_never_goes_back(clock):
    run = pace.Pace(BUDGET, 0.0)
    take_calls(run, clock, stack(2), 0.0, 30.0)
    before = run.progress()[0]
    assert take_calls(run, clock, stack(1, length=8), 30.0) == [(0, 1)]
    assert before == pytest.approx(0.25) and run.progress()[0] == pytest.approx(1 / 3)
    clock.now += 60.0
    assert run.progress()[0] == pytest.approx(1.0)


def test_a_resumed_run_continues_from_the_clock_of_its_schedule_and_not_from_its_seconds(clock):
    run = pace.Pace(BUDGET, 0.0)
    take_calls(run, clock, stack(2), 40.0, 16.0)
    assert run.progress()[0] == pytest.approx(0.2) and (run.seconds(), run.clock()) == pytest.approx((56.0, 24.0))
    for compiling in (24.0, 20.0):  # each resumed run compiles again
        run = pace.Pace(BUDGET, run.seconds(), run.clock())
        before = run.progress()[0]
        clock.now += 4.0
        run.leave_out(4.0)  # the start of the data pipeline
        take_calls(run, clock, stack(1), compiling - 4.0)
        assert run.progress()[0] == pytest.approx(before) == pytest.approx(0.2)
    clock.now += 10.0
    assert run.progress()[0] == pytest.approx(0.6)
    clock.now += 10.0
    assert run.progress()[0] == pytest.approx(1.0) and run.seconds() == 120.0 and run.clock() == pytest.approx(120.0)
    longer = pace.Pace(dataclasses.replace(BUDGET, train_minutes=8.0), run.seconds(), run.clock())
    assert longer.progress()[0] == pytest.approx(0.25)


def test_a_run_from_a_checkpoint_without_a_clock_begins_at_its_seconds_and_ends_with_the_budget(clock):
    run = pace.Pace(BUDGET, 60.0)
    take_calls(run, clock, stack(1), 20.0)
    assert run.progress()[0] == pytest.approx(0.5) and run.seconds() == 80.0
    clock.now += 20.0
    assert run.progress()[0] == pytest.approx(0.75)
    clock.now += 20.0
    assert run.progress()[0] == pytest.approx(1.0)
    run = pace.Pace(BUDGET, 110.0)
    take_calls(run, clock, stack(1), 20.0)
    assert run.progress()[0] >= 1.0 and run.progress()[1] == 0.0


def test_a_call_takes_the_steps_that_fit_into_the_given_time_once_a_step_was_timed(clock):
    run = pace.Pace(RUN, 0.0)
    assert run.progress() is None and run.steps_within(5.0) == 2
    take_calls(run, clock, stack(1), 60.0)
    assert run.steps_within(5.0) == 2  # a step that compiles is not timed
    take_calls(run, clock, stack(10), 3.0)
    assert run.steps_within(5.0) == 16
    take_calls(run, clock, stack(1), 7.0)
    assert run.steps_within(5.0) == 1


def test_the_time_left_is_known_from_the_first_timed_step_and_leaves_out_compiling(clock):
    run = pace.Pace(RUN, 0.0)  # 20 steps
    assert run.seconds_left(0) is None and run.mean_step_seconds() == 0.0
    take_calls(run, clock, stack(2), 60.0, 2.0)
    assert run.seconds_left(2) == pytest.approx(36.0)
    take_calls(run, clock, stack(1, length=8), 30.0)
    take_calls(run, clock, stack(1), 4.0)
    assert run.mean_step_seconds() == pytest.approx(3.0) and run.seconds_left(4) == pytest.approx(48.0)
    clock.now += 6.0  # an evaluation; more of them will follow
    assert run.seconds_left(4) == pytest.approx(96.0)
    by_the_clock = pace.Pace(BUDGET, 30.0)
    assert by_the_clock.seconds_left(0) == pytest.approx(90.0)


@pytest.mark.parametrize("replicas", [1, 8, 12, 19])
def test_a_budget_that_compiling_has_used_up_is_over_for_any_number_of_replicas(clock, replicas):
    run = pace.Pace(BUDGET, 0.0)
    take_calls(run, clock, stack(1), 130.0)
    share = np.float32(run.progress()[0]) / np.float32(replicas)
    assert sum([share] * replicas, np.float32(0.0)) >= 1.0
