"""The losses of fine-tuning, against numbers that are computed by hand."""

import itertools

import numpy as np
import pytest
import tensorflow as tf

from keras_bert_app.tasks import objectives

GENERATOR = np.random.default_rng(7)


def log_softmax(logits):
    return (
        logits
        - logits.max(-1, keepdims=True)
        - np.log(np.exp(logits - logits.max(-1, keepdims=True)).sum(-1, keepdims=True))
    )


def means(objective, logits, batch, again=None):
    batch = {name: tf.constant(values) for name, values in batch.items()}
    outputs = {"logits": tf.constant(logits), **({} if again is None else {"logits_again": tf.constant(again)})}
    sums = objective.loss_sums(outputs, batch)
    loss = float(objective.mean_loss(sums, *objective.counts(batch)))
    return loss, objective.metrics({name: float(value) for name, value in sums.items()})


def test_cross_entropy_counts_each_example_by_its_weight():
    logits = GENERATOR.normal(size=(3, 4)).astype(np.float32)
    batch = {"labels": np.array([1, 0, 3], np.int32), "example_weights": np.array([1, 1, 0], np.float32)}
    loss, figures = means(objectives.Classification(), logits, batch)
    assert loss == pytest.approx(-(log_softmax(logits)[0, 1] + log_softmax(logits)[1, 0]) / 2, abs=1e-6)
    assert figures["loss"] == pytest.approx(loss) and figures["accuracy"] == np.mean(logits[:2].argmax(1) == [1, 0])


def test_the_loss_has_the_answers_of_a_teacher_at_their_weight_and_temperature():
    logits, teacher = GENERATOR.normal(size=(2, 3)).astype(np.float32), GENERATOR.normal(size=(2, 3)).astype(np.float32)
    batch = {"labels": np.array([1, 2], np.int32), "example_weights": np.ones(2, np.float32), "teacher_logits": teacher}
    loss, _ = means(objectives.Classification(teacher_weight=0.3, temperature=2.0), logits, batch)
    hard = -np.mean([log_softmax(logits)[0, 1], log_softmax(logits)[1, 2]])
    soft = -np.mean(np.sum(np.exp(log_softmax(teacher / 2)) * log_softmax(logits / 2), axis=1)) * 4
    assert loss == pytest.approx(0.7 * hard + 0.3 * soft, abs=1e-6)


def test_the_loss_of_a_sequence_of_tags_is_that_of_all_sequences_that_fit_its_labels():
    chain, labels = np.array([[0, 1, 1, 1, 0]], np.float32), np.array([[-1, 1, -1, 0, -1]], np.int32)
    outputs = {
        "emissions": GENERATOR.normal(size=(1, 5, 2)),
        "transitions": GENERATOR.normal(size=(2, 2)),
        "first_tags": GENERATOR.normal(size=2),
        "last_tags": GENERATOR.normal(size=2),
        "chain": chain,
        "logits": np.array([[[0, 9], [9, 0], [9, 0], [0, 9], [0, 9]]]),
    }

    def share(tags):
        score = outputs["first_tags"][tags[0]] + outputs["last_tags"][tags[2]]
        score += sum(outputs["emissions"][0, 1 + place, tag] for place, tag in enumerate(tags))
        return np.exp(score + sum(outputs["transitions"][pair] for pair in itertools.pairwise(tags)))

    expected = (share((1, 0, 0)) + share((1, 1, 0))) / sum(map(share, itertools.product(range(2), repeat=3)))
    objective, batch = objectives.TagSequences(), {"token_labels": tf.constant(labels)}
    sums = objective.loss_sums({name: tf.constant(values, tf.float32) for name, values in outputs.items()}, batch)
    assert float(objective.mean_loss(sums, *objective.counts(batch))) == pytest.approx(-np.log(expected) / 2, abs=1e-5)
    assert (float(sums["correct"]), float(sums["count"])) == (0.0, 2.0)


def test_a_number_is_learned_by_its_squared_error():
    logits = np.array([[1.0], [3.0], [9.0]], np.float32)
    batch = {"labels": np.array([2.0, 5.0, 0.0], np.float32), "example_weights": np.array([1, 1, 0], np.float32)}
    assert means(objectives.Regression(), logits, batch)[0] == pytest.approx((1 + 4) / 2)
    in_tens = objectives.Regression(scale=10.0)
    loss, figures = means(in_tens, logits, batch)
    assert loss == pytest.approx((1 + 4) / 200) and in_tens.progress(figures) == "rmse 1.581"


def test_label_sets_are_learned_by_a_yes_or_no_for_each_label():
    logits = np.array([[2.0, -1.0], [0.5, 0.0]], np.float32)
    labels = np.array([[1, 0], [0, 1]], np.float32)
    shares = 1 / (1 + np.exp(-logits))
    expected = -np.mean(labels * np.log(shares) + (1 - labels) * np.log(1 - shares))
    loss, figures = means(
        objectives.MultiLabel(), logits, {"labels": labels, "example_weights": np.ones(2, np.float32)}
    )
    assert loss == pytest.approx(expected, abs=1e-6) and figures["accuracy"] == 0.5


def test_numbers_and_label_sets_are_also_learned_from_a_teacher():
    numbers = np.array([[1.0], [3.0]], np.float32)
    batch = {
        "labels": np.array([2.0, 5.0], np.float32),
        "example_weights": np.ones(2, np.float32),
        "teacher_logits": np.array([[4.0], [3.0]], np.float32),
    }
    assert means(objectives.Regression(0.25), numbers, batch)[0] == pytest.approx(
        0.75 * (1 + 4) / 2 + 0.25 * (9 + 0) / 2
    )
    logits, teacher = GENERATOR.normal(size=(2, 3, 2)).astype(np.float32).transpose(2, 0, 1)
    labels = np.array([[1, 0, 0], [0, 1, 1]], np.float32)

    def cross_entropy(answers, logits):
        shares = 1 / (1 + np.exp(-logits))
        return -np.mean(answers * np.log(shares) + (1 - answers) * np.log(1 - shares))

    batch = {"labels": labels, "example_weights": np.ones(2, np.float32), "teacher_logits": teacher}
    expected = 0.6 * cross_entropy(labels, logits) + 0.4 * 4 * cross_entropy(1 / (1 + np.exp(-teacher / 2)), logits / 2)
    assert means(objectives.MultiLabel(0.4, 2.0), logits, batch)[0] == pytest.approx(expected, abs=1e-6)


def test_only_labelled_tokens_count_in_tagging():
    logits = GENERATOR.normal(size=(2, 3, 4)).astype(np.float32)
    labels = np.array([[-1, 2, -1], [0, -1, 3]], np.int32)
    expected = -np.mean([log_softmax(logits)[0, 1, 2], log_softmax(logits)[1, 0, 0], log_softmax(logits)[1, 2, 3]])
    assert means(objectives.Tagging(), logits, {"token_labels": labels})[0] == pytest.approx(expected, abs=1e-6)


def test_padding_has_no_part_in_the_loss_of_the_ends_of_an_answer():
    logits = GENERATOR.normal(size=(2, 4, 2)).astype(np.float32)
    logits[1, 3] = 50.0  # padding
    batch = {
        "labels": np.array([[1, 3], [0, 2]], np.int32),
        "example_weights": np.ones(2, np.float32),
        "input_mask": np.array([[1, 1, 1, 1], [1, 1, 1, 0]], np.int32),
    }
    whole, cut = log_softmax(logits[0].T), log_softmax(logits[1, :3].T)
    expected = -np.mean([whole[0, 1] + whole[1, 3], cut[0, 0] + cut[1, 2]]) / 2
    assert means(objectives.QuestionAnswering(), logits, batch)[0] == pytest.approx(expected, abs=1e-5)


def divergence(logits, again):
    """KL(p | q), where p and q are the softmax of two rows of logits."""
    return np.sum(np.exp(log_softmax(logits)) * (log_softmax(logits) - log_softmax(again)), axis=-1)


def both_ways(logits, again):
    return 0.5 * (divergence(logits, again) + divergence(again, logits))


@pytest.mark.parametrize(
    "objective, shape, batch, divergence_by_hand",
    [
        (
            objectives.Classification,
            (3, 4),
            {"labels": np.array([1, 0, 3], np.int32), "example_weights": np.array([1, 1, 0], np.float32)},
            lambda logits, again: np.mean(both_ways(logits, again)[:2]),
        ),
        (
            objectives.Regression,
            (3, 1),
            {"labels": np.array([2, 5, 0], np.float32), "example_weights": np.array([1, 1, 0], np.float32)},
            lambda logits, again: np.mean((logits - again)[:2] ** 2),
        ),
        # Each label is a choice between yes, with its logit, and no, with the logit 0.
        (
            objectives.MultiLabel,
            (3, 2),
            {"labels": np.eye(3, 2, dtype=np.float32), "example_weights": np.array([1, 1, 0], np.float32)},
            lambda logits, again: np.mean(
                both_ways(*(np.stack([each[:2], 0 * each[:2]], axis=-1) for each in (logits, again)))
            ),
        ),
        (
            objectives.Tagging,
            (2, 3, 4),
            {"token_labels": np.array([[-1, 2, -1], [0, -1, 3]], np.int32)},
            lambda logits, again: np.mean(both_ways(logits, again)[[0, 1, 1], [1, 0, 2]]),
        ),
        (
            objectives.QuestionAnswering,
            (2, 4, 2),
            {
                "labels": np.array([[1, 3], [0, 2]], np.int32),
                "example_weights": np.ones(2, np.float32),
                "input_mask": np.array([[1, 1, 1, 1], [1, 1, 1, 0]], np.int32),
            },
            lambda logits, again: np.mean(
                [
                    both_ways(logits[row, :size, end], again[row, :size, end])
                    for row, size in ((0, 4), (1, 3))
                    for end in (0, 1)
                ]
            ),
        ),
    ],
)
def test_the_loss_of_two_passes_is_the_mean_of_their_losses_plus_the_weighted_divergence(
    objective, shape, batch, divergence_by_hand
):
    logits, again = GENERATOR.normal(size=(2, *shape)).astype(np.float32)
    (first, first_figures), (second, second_figures) = (means(objective(), each, batch) for each in (logits, again))
    loss, combined = means(objective(consistency_weight=0.7), logits, batch, again)
    assert loss == pytest.approx((first + second) / 2 + 0.7 * divergence_by_hand(logits, again), rel=1e-5)
    assert divergence_by_hand(logits, again) > 0.01
    if "accuracy" in first_figures:
        assert combined["accuracy"] == pytest.approx((first_figures["accuracy"] + second_figures["accuracy"]) / 2)
