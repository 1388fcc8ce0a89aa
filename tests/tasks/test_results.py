"""The messages at the end of a run: options to try, and the faults of its worst answers."""

import pytest

from keras_bert_app.config.finetuning_config import FinetuningConfig
from keras_bert_app.tasks import result_lines


def advice(score, **settings):
    """The advice lines for a run with this score and a baseline of 0.5."""
    figures = {"no_better_than_baseline": score <= 0.5}
    return list(result_lines.what_to_try(figures, FinetuningConfig(init_checkpoint="runs/a", **settings)))


def test_a_short_run_that_is_no_better_than_its_baseline_says_to_try_more_steps_a_higher_rate_and_bias_correction():
    assert advice(0.5, num_train_steps=57) == [
        "  no better than the baseline; with another --workdir, try one after the other: more steps than 57 "
        "(--num_train_epochs=20), --learning_rate=0.0001, --bias_correction"
    ]


def test_a_long_run_says_to_try_a_lower_rate_and_one_above_its_baseline_says_nothing():
    (line,) = advice(0.4, num_train_steps=7000, bias_correction=True)
    assert line.endswith(": --learning_rate=2e-05, another --seed")
    assert advice(0.51, num_train_steps=57) == []


@pytest.mark.parametrize(
    "settings, part",
    [
        ({"num_train_steps": 900}, "(--num_train_epochs=6)"),
        ({"num_train_steps": 57, "train_minutes": 3.0}, "(--train_minutes=6)"),
        ({"num_train_steps": 57, "num_train_epochs": 30.0}, "(--num_train_epochs=60)"),
        ({"num_train_steps": 7, "num_train_epochs": 0.0, "train_minutes": 0.0}, "(--num_train_epochs=20)"),
    ],
)
def test_the_advice_for_more_steps_names_the_option_that_limits_the_run(settings, part):
    (line,) = advice(0.2, **settings)
    assert part in line


def test_the_advice_for_a_run_from_scratch_is_pre_trained_weights_and_adafactor_gets_no_bias_correction():
    figures = {"no_better_than_baseline": True}
    (line,) = result_lines.what_to_try(figures, FinetuningConfig(optimizer="adafactor", num_train_steps=7))
    assert "--init_checkpoint with pre-trained weights" in line and "bias" not in line


@pytest.mark.parametrize(
    "figures, expected",
    [
        ({"error": 2.3125}, "off by 2.312: 4.3 for 2: a  text (dev.tsv:3)"),
        ({"sure": 0.98, "f1": 0.25}, "wrong answer (F1 0.25, probability 0.98): 4.3 for 2: a  text (dev.tsv:3)"),
        ({"sure": 0.98}, "wrong and sure (0.98): 4.3 for 2: a  text (dev.tsv:3)"),
    ],
)
def test_each_kind_of_wrong_answer_has_its_own_message(figures, expected):
    mistake = {"place": "dev.tsv:3", "predicted": "4.3", "right": "2", "text": "a \n text", **figures}
    assert list(result_lines.shown([mistake])) == [f"  {' '.join(expected.split())}"]
