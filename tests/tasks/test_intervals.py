"""Confidence intervals: widths that are known, pairs with a baseline, and examples of one source."""

import numpy as np
import pytest

from keras_bert_app.tasks import intervals, registry
from keras_bert_app.tasks.families.sequences import Example
from keras_bert_app.training.evaluation import wilson_interval


def test_right_and_wrong_answers_have_the_interval_of_wilson():
    measure = np.array([1.0] * 30 + [0.0] * 10)
    comparison = intervals.compared(measure, np.zeros(40), range(40))
    assert comparison.interval == wilson_interval(0.75, 40)


def test_the_interval_of_a_mean_is_as_wide_as_theory_says():
    values = np.random.default_rng(1).normal(0.3, 0.1, 900)
    low, high = intervals.compared(values, np.zeros(900), range(900)).interval
    assert (high - low) / 2 == pytest.approx(1.96 * 0.1 / 30, rel=0.15)
    assert low < 0.3 < high


def test_a_difference_on_the_same_examples_excludes_zero_although_the_interval_of_the_score_reaches_the_baseline():
    generator = np.random.default_rng(2)
    baseline = (generator.random(400) < 0.6).astype(float)
    better = np.where(generator.random(400) < 0.1, 1.0, baseline)
    comparison = intervals.compared(better, baseline, range(400))
    assert comparison.interval[0] < baseline.mean() and comparison.difference_interval[0] > 0


def test_five_texts_are_too_few_to_call_a_run_better():
    for count, is_better in ((5, False), (6, True)):
        low, _ = intervals.compared(np.ones(count), np.zeros(count), range(count)).difference_interval
        assert (low > 0) == is_better


def test_examples_of_one_source_are_drawn_together_which_widens_the_interval():
    text_values = (np.random.default_rng(3).random(40) < 0.5).astype(float)
    values = np.repeat(text_values, 10)
    by_text = intervals.compared(values, np.zeros(400), np.repeat(np.arange(40), 10).tolist()).interval
    by_example = intervals.compared(values, np.zeros(400), range(400)).interval
    assert by_text[1] - by_text[0] > 2.5 * (by_example[1] - by_example[0])


def test_a_second_computation_gives_the_same_interval():
    values = np.random.default_rng(4).random(50)
    assert intervals.compared(values, values / 2, range(50)) == intervals.compared(values, values / 2, range(50))


@pytest.mark.parametrize(
    "task, labels, right, given",
    [
        ("cola", ("0", "1"), ["0", "1", "1", "0", "1"], ["0", "1", "0", "0", "1"]),
        ("sts-b", (), [1.0, 2.0, 4.0, 3.0, 5.0], [1.5, 1.0, 4.5, 3.0, 4.0]),
        ("reuters", ("acq", "earn", "corn"), [("acq",), ("earn", "corn"), ("corn",)], [("acq",), ("earn",), ("acq",)]),
        ("sst-2", ("0", "1"), ["0", "1", "1"], ["0", "0", "1"]),
    ],
)
def test_the_measure_of_all_examples_is_the_score(task, labels, right, given):
    task = registry.find(task)
    examples = [Example(str(number), f"t{number}", None, label, "f:1") for number, label in enumerate(right)]
    key = {"regression": "value", "classification": "label", "multi_label": "labels"}[task.kind]
    predictions = [{key: list(answer) if isinstance(answer, tuple) else answer} for answer in given]
    measure = task.family.measure(task, examples, predictions, labels)
    score = task.family.score(task, examples, predictions, labels)[task.metrics[0]]
    measured = measure(np.arange(len(right))) if callable(measure) else measure.mean()
    assert measured == pytest.approx(score, abs=1e-12)
