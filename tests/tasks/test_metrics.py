"""Scores against numbers that are computed by hand."""

import numpy as np
import pytest

from keras_bert_app.tasks.metrics import CLASS_METRICS, LABEL_SET_METRICS, NUMBER_METRICS, top_k_accuracy


def test_scores_of_two_classes():
    gold, answers = np.array([1, 1, 1, 0, 0, 0, 0, 0]), np.array([1, 1, 0, 1, 0, 0, 0, 0])
    # 2 true positives, 1 false positive, 1 false negative, 4 true negatives.
    assert CLASS_METRICS["accuracy"](gold, answers) == 6 / 8
    assert CLASS_METRICS["f1"](gold, answers) == pytest.approx(2 * 2 / (2 * 2 + 1 + 1))
    assert CLASS_METRICS["macro_f1"](gold, answers) == pytest.approx((4 / 6 + 8 / 10) / 2)
    assert CLASS_METRICS["matthews_correlation"](gold, answers) == pytest.approx(
        (2 * 4 - 1 * 1) / np.sqrt(3 * 3 * 5 * 5)
    )


def test_scores_of_three_classes():
    gold, answers = np.array([0, 0, 1, 1, 2, 2]), np.array([0, 1, 1, 1, 2, 0])
    # The F1 of each class: 2/4, 4/5, 2/3.
    assert CLASS_METRICS["macro_f1"](gold, answers) == pytest.approx((1 / 2 + 4 / 5 + 2 / 3) / 3)
    # R_K (Gorodkin 2004): (c s - sum p t) / sqrt((s^2 - sum p^2)(s^2 - sum t^2)), with c = 4 right of s = 6.
    assert CLASS_METRICS["matthews_correlation"](gold, answers) == pytest.approx(
        (4 * 6 - 12) / np.sqrt((36 - 14) * (36 - 12))
    )


@pytest.mark.parametrize("name", ["f1", "macro_f1", "matthews_correlation"])
def test_the_same_answer_for_all_examples_has_a_score(name):
    nothing = np.zeros(5, int)
    expected = 0.2857 if name == "macro_f1" else 0.0
    assert CLASS_METRICS[name](np.array([0, 1, 0, 1, 1]), nothing) == pytest.approx(expected, abs=1e-4)
    assert CLASS_METRICS[name](nothing, nothing) == (1.0 if name == "macro_f1" else 0.0)


def test_scores_of_numbers():
    gold, answers = np.array([1.0, 2.0, 3.0, 4.0]), np.array([1.0, 3.0, 2.0, 9.0])
    assert NUMBER_METRICS["spearman"](gold, answers) == pytest.approx(1 - 6 * 2 / (4 * 15))
    # Covariance (-1.5)(-2.75) + (-0.5)(-0.75) + 0.5(-1.75) + 1.5 x 5.25 = 11.5; squares 5 and 38.75.
    assert NUMBER_METRICS["pearson"](gold, answers) == pytest.approx(11.5 / np.sqrt(5 * 38.75))
    assert NUMBER_METRICS["negative_rmse"](gold, answers) == pytest.approx(-np.sqrt((0 + 1 + 1 + 25) / 4))


@pytest.mark.parametrize("name", ["spearman", "pearson"])
def test_a_constant_has_a_correlation_of_zero(name):
    assert NUMBER_METRICS[name](np.array([1.0, 2.0, 3.0]), np.full(3, 2.0)) == 0.0
    assert NUMBER_METRICS[name](np.array([1.0]), np.array([1.0])) == 0.0


def test_scores_of_label_sets():
    gold = np.array([[1, 1, 0], [0, 1, 0], [0, 0, 1], [0, 0, 0]], float)
    answers = np.array([[1, 0, 0], [0, 1, 1], [0, 0, 1], [0, 0, 0]], float)
    # (right, too many, missing) in each label: (1, 0, 0), (1, 0, 1), (1, 1, 0).
    assert LABEL_SET_METRICS["micro_f1"](gold, answers) == pytest.approx(2 * 3 / (2 * 3 + 1 + 1))
    assert LABEL_SET_METRICS["macro_f1"](gold, answers) == pytest.approx((1 + 2 / 3 + 2 / 3) / 3)
    assert LABEL_SET_METRICS["exact_match"](gold, answers) == 2 / 4


def test_labels_that_do_not_occur_have_no_part_in_the_mean():
    gold = np.array([[1, 0, 0], [1, 0, 1]])
    assert LABEL_SET_METRICS["macro_f1"](gold, gold) == 1.0
    # The second label has only a wrong answer. The third label is right once, but never predicted.
    assert LABEL_SET_METRICS["macro_f1"](gold, np.array([[1, 1, 0], [1, 0, 0]])) == pytest.approx((1 + 0 + 0) / 3)
    assert LABEL_SET_METRICS["macro_f1"](np.zeros((2, 3), int), np.zeros((2, 3), int)) == 0.0


@pytest.mark.parametrize("name", ["micro_f1", "macro_f1"])
def test_the_absence_of_the_only_label_is_not_scored_as_a_class(name):
    gold, answers = np.array([[1], [1], [0], [0]]), np.array([[1], [0], [0], [0]])
    assert LABEL_SET_METRICS[name](gold, answers) == pytest.approx(2 / 3)
    # The same holds if only one of several labels occurs.
    pad = ((0, 0), (0, 1))
    assert LABEL_SET_METRICS[name](np.pad(gold, pad), np.pad(answers, pad)) == pytest.approx(2 / 3)


def test_an_answer_counts_if_the_class_is_among_the_k_most_probable_and_ties_follow_the_order_of_the_classes():
    gold = np.array([2, 0, 3, 1])
    shares = np.array([[0.4, 0.3, 0.2, 0.1], [0.1, 0.2, 0.3, 0.4], [0.25] * 4, [0.1, 0.6, 0.2, 0.1]])
    assert [top_k_accuracy(gold, shares, k) for k in (1, 2, 3, 4)] == [1 / 4, 1 / 4, 2 / 4, 4 / 4]
