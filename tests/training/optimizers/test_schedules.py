"""Learning-rate schedules at the steps that define them."""

import numpy as np
import pytest

from keras_bert_app.config.pretraining_config import PretrainingConfig
from keras_bert_app.config.training_config import SCHEDULES
from keras_bert_app.training.optimizers import schedules


def rates(schedule, steps, **changes):
    run = PretrainingConfig(
        **{
            "learning_rate": 2.0,
            "num_warmup_steps": 20,
            "num_train_steps": 100,
            "learning_rate_schedule": schedule,
            **changes,
        }
    )
    return [float(schedules.learning_rate(run, step, step / 100)) for step in steps]


@pytest.mark.parametrize(
    "schedule, expected",
    [
        ("linear", [0.0, 1.0, 1.6, 0.8, 0.0]),
        ("constant", [0.0, 1.0, 2.0, 2.0, 2.0]),
        ("cosine", [0.0, 1.0, 2.0, 1.0, 0.0]),
        ("slanted_triangular", [2 / 32, 2 * (1 + 31 / 2) / 32, 2.0, 2 * (1 + 31 / 2) / 32, 2 / 32]),
        ("warmup_stable_decay", [0.0, 1.0, 2.0, 2.0, 0.0]),
    ],
)
def test_each_schedule_gives_the_expected_rate_during_and_after_the_warm_up_and_at_the_end(schedule, expected):
    np.testing.assert_allclose(rates(schedule, [0, 10, 20, 60, 100]), expected, atol=1e-6)


def test_decay_power_and_decay_share_shape_the_decay():
    np.testing.assert_allclose(rates("polynomial", [60], decay_power=2.0), [2.0 * 0.4**2], rtol=1e-6)
    np.testing.assert_allclose(rates("warmup_stable_decay", [50, 75], decay_share=0.5), [2.0, 1.0], rtol=1e-6)


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_a_run_with_a_time_budget_follows_the_clock_and_not_the_steps(schedule):
    run = PretrainingConfig(
        learning_rate=2.0, num_warmup_steps=20, num_train_steps=100, train_minutes=5, learning_rate_schedule=schedule
    )
    by_clock = [float(schedules.learning_rate(run, 7, progress)) for progress in (0.1, 0.2, 0.6, 1.0, 1.3)]
    np.testing.assert_allclose(by_clock, rates(schedule, [10, 20, 60, 100, 100]), atol=1e-6)


@pytest.mark.parametrize("train_minutes", [0, 5])
def test_a_share_of_the_run_warms_up_like_as_many_steps(train_minutes):
    share = {"warmup_share": 0.2, "num_warmup_steps": -1, "train_minutes": train_minutes}
    np.testing.assert_allclose(rates("linear", [0, 7, 20, 60], **share), rates("linear", [0, 7, 20, 60]), rtol=1e-6)


def test_without_warm_up_the_first_step_has_the_peak():
    np.testing.assert_allclose(rates("linear", [0, 50], num_warmup_steps=0), [2.0, 1.0])
