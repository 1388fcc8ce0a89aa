"""Tests control tasks and intervals against values worked out by hand."""

import numpy as np
import pytest

from keras_bert_app.analysis import control_tasks, sentence_bootstrap, tree_scores, treebank
from keras_bert_app.training.evaluation import wilson_interval
from tests.analysis import toy


def test_a_word_has_one_random_label_in_training_and_dev():
    train_types, dev_types = ["cat", "sat", "cat", "dog"] * 25, ["dog", "cat", "new", "cat"]
    labels = ["NOUN", "VERB", "NOUN", "NOUN"] * 25
    train, dev = control_tasks.random_labels(train_types, labels, dev_types, seed=3)
    label_of = dict(zip(train_types, train, strict=True))
    assert [label_of[name] for name in train_types] == train and dev[0] == label_of["dog"]
    assert dev[1] == dev[3] == label_of["cat"] and dev[2] in ("NOUN", "VERB")
    assert control_tasks.random_labels(train_types, labels, dev_types, seed=3) == (train, dev)
    assert control_tasks.share_seen(train_types, dev_types) == 0.75


def test_control_labels_are_as_frequent_as_the_labels_of_the_task():
    types = [str(number) for number in range(2000)]
    train, _ = control_tasks.random_labels(types, ["a"] * 1500 + ["b"] * 400 + ["c"] * 100, [], seed=0)
    shares = [train.count(label) / 2000 for label in "abc"]
    np.testing.assert_allclose(shares, [0.75, 0.2, 0.05], atol=0.03)


def test_a_word_attaches_to_the_first_or_the_last_word_in_both_files():
    sentences = ["the cat sat its dog .", "old The dog cat", "its", ". ."]
    given = [
        toy.tree(
            words,
            [-1, *[0] * (len(words.split()) - 1)],
            tags=["PUNCT" if word == "." else "X" for word in words.split()],
        )
        for words in sentences
    ]
    seen = set()
    for seed in range(8):
        (first, second, single, marks), (dev,) = control_tasks.control_trees(given, [given[0]], True, seed)
        assert dev.heads.tolist() == first.heads.tolist() and first.heads[[0, 4]].tolist() == [-1, 0]
        assert second.heads[[0, 3]].tolist() == [-1, 0] and single.heads.tolist() == [-1]
        # The period is punctuation, so the last word is "dog".
        assert set(first.heads[[1, 2, 3, 5]]) <= {0, 4} and marks.heads.tolist() == [-1, 0]
        seen.add((int(first.heads[1]), int(first.heads[3])))
        depths = treebank.depths(first.heads)
        assert depths is not None and depths.max() <= 2
    assert len(seen) > 2
    (tree, upper), _ = control_tasks.control_trees(
        [toy.tree("a the b", [-1, 0, 0]), toy.tree("a The b", [-1, 0, 0])], [], True, 0
    )
    assert tree.heads.tolist() == upper.heads.tolist()
    assert control_tasks.joined_to_first(given[0]).heads.tolist() == [-1, 0, 0, 0, 0, 0]


def test_the_number_of_edges_in_a_control_tree_does_not_depend_on_the_draw():
    trees = [toy.tree("the cat sat its dog .", [-1, *[0] * 5], tags=["X"] * 5 + ["PUNCT"])]
    for seed in range(3):
        control, _ = control_tasks.control_trees(trees, [], True, seed)
        assert tree_scores.sentences_of(tree_scores.groups_of(control, np.array([0]))).edges.tolist() == [4]


def test_an_interval_comes_from_draws_of_whole_sentences():
    # In 60 of 100 sentences all 10 answers are right. The standard error is that of 100 sentences, not of 1000 answers.
    groups, right = np.repeat(np.arange(100), 10), np.repeat(np.arange(100) < 60, 10)
    low, high = sentence_bootstrap.share_interval(right, groups)
    half_width = 1.96 * np.sqrt(0.6 * 0.4 / 100)
    assert low == pytest.approx(0.6 - half_width, abs=0.015) and high == pytest.approx(0.6 + half_width, abs=0.015)
    single = sentence_bootstrap.share_interval(right, np.arange(1000))
    assert single[1] - single[0] == pytest.approx(2 * 1.96 * np.sqrt(0.6 * 0.4 / 1000), abs=0.005)
    assert sentence_bootstrap.share_interval(np.ones(20), np.arange(20)) == (
        pytest.approx(wilson_interval(1, 20)[0]),
        1,
    )
    assert sentence_bootstrap.share_interval(np.ones(0), np.ones(0, int)) == (None, None)


def test_a_difference_shows_if_its_interval_excludes_zero():
    numbers = np.arange(400)
    better, same = (numbers % 4 < 3) * 1.0 - (numbers % 2), (numbers % 2 < 1) * 1.0 - (numbers % 4 < 2)
    assert sentence_bootstrap.compared(sentence_bootstrap.difference_interval(better, numbers)) == "above"
    assert sentence_bootstrap.compared(sentence_bootstrap.difference_interval(-better, numbers)) == "below"
    unknown = sentence_bootstrap.difference_interval(same, numbers)
    assert unknown[0] < 0 < unknown[1] and sentence_bootstrap.compared(unknown) == "not distinguishable from"
    # Five groups are too few to decide.
    assert sentence_bootstrap.difference_interval(np.ones(5), np.arange(5)) == (-1.0, 1.0)


def test_a_draw_without_anything_to_count_is_left_out():
    right, asked = np.array([1.0, 0, 0, 0, 0, 0, 0]), np.array([1.0, 0, 0, 0, 0, 0, 0])
    with np.errstate(invalid="ignore"):
        bounds = sentence_bootstrap.interval(lambda counts: counts @ right / (counts @ asked), 7)
        assert bounds.tolist() == [1.0, 1.0]
        assert np.isnan(sentence_bootstrap.interval(lambda counts: counts @ right * np.nan, 7)).all()


def test_the_interval_of_a_mean_over_seeds_is_students():
    low, high = sentence_bootstrap.seed_interval(np.array([1.0, 2.0, 3.0]))
    assert (low, high) == (
        pytest.approx(2 - 4.3027 / np.sqrt(3), abs=1e-3),
        pytest.approx(2 + 4.3027 / np.sqrt(3), abs=1e-3),
    )
    assert sentence_bootstrap.seed_interval(np.array([1.0])) == (-np.inf, np.inf)
