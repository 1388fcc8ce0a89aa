"""Tests the scores of trees (UUAS, root accuracy, correlations) against scipy and values worked out by hand."""

import numpy as np
import pytest
from scipy.sparse.csgraph import minimum_spanning_tree
from scipy.stats import spearmanr

from keras_bert_app.analysis import tree_probe, tree_scores, treebank


def random_trees(generator, count):
    for _ in range(count):
        length = int(generator.integers(1, 12))
        order, heads = generator.permutation(length), np.full(length, -1, np.int32)
        for place in range(1, length):
            heads[order[place]] = order[generator.integers(place)]
        tags = tuple(generator.choice(["PUNCT", "NOUN"], length, p=[0.2, 0.8]))
        yield treebank.Tree("t", (1,), 0, ("w",) * length, tags, heads, ("dep",) * length, ("_",) * length)


def test_uuas_is_that_of_scipys_minimum_spanning_trees():
    generator = np.random.default_rng(1)
    trees = list(random_trees(generator, 60))
    groups = tree_scores.groups_of(trees, np.zeros(len(trees), int))
    predicted, right, edges = {}, 0, 0
    for number, tree in enumerate(trees):
        values = generator.uniform(0.1, 1, (len(tree), len(tree)))
        predicted[number] = values + values.T
        kept = [word for word, tag in enumerate(tree.tags) if tag != "PUNCT"]
        spanning = minimum_spanning_tree(predicted[number][np.ix_(kept, kept)]).tocoo()
        predicted_edges = {frozenset((kept[a], kept[b])) for a, b in zip(spanning.row, spanning.col, strict=True)}
        gold_edges = {frozenset((word, tree.heads[word])) for word in kept if tree.heads[word] in kept}
        right, edges = right + len(predicted_edges & gold_edges), edges + len(gold_edges)
    scores = tree_scores.score(
        groups,
        [np.stack([predicted[number] for number in group.numbers]) for group in groups],
        [np.zeros(group.heads.shape) for group in groups],
    )
    assert (
        0 < right < edges and scores["uuas"] == right / edges and tree_scores.sentences_of(groups).edges.sum() == edges
    )


def test_gold_distances_and_depths_have_a_score_of_one_in_every_measure():
    trees = [tree for tree in random_trees(np.random.default_rng(2), 40) if "PUNCT" not in tree.tags]
    groups = tree_scores.groups_of(trees, np.zeros(len(trees), int))
    scores = tree_scores.score(groups, [group.distances for group in groups], [group.depths for group in groups])
    assert {name: round(value, 12) for name, value in scores.items()} == {
        "uuas": 1.0,
        "root_accuracy": 1.0,
        "distance_spearman": 1.0,
        "depth_spearman": 1.0,
    }


def test_the_correlation_of_each_length_is_the_mean_of_its_sentences():
    trees = [tree for tree in random_trees(np.random.default_rng(2), 40)]
    groups, generator = tree_scores.groups_of(trees, np.zeros(len(trees), int)), np.random.default_rng(4)
    distances = [generator.normal(size=group.distances.shape) for group in groups]
    depths = [generator.normal(size=group.depths.shape) for group in groups]
    values = tree_scores.sentence_values(groups, distances, depths)
    by_length = tree_scores.by_length(values, tree_scores.sentences_of(groups))
    assert list(by_length["depth_spearman"]) == [length for length in range(5, 12) if length in map(len, trees)]
    for group, group_depths in zip(groups, depths, strict=True):
        if (length := group.heads.shape[1]) >= 5:
            expected = np.mean([spearmanr(*pair)[0] for pair in zip(group_depths, group.depths, strict=True)])
            assert by_length["depth_spearman"][length] == pytest.approx(expected)
    assert tree_scores.score(groups, distances, depths)["distance_spearman"] == pytest.approx(
        np.mean(list(by_length["distance_spearman"].values()))
    )


def test_a_sentence_that_is_drawn_twice_counts_twice():
    trees = list(random_trees(np.random.default_rng(7), 30))
    groups, generator = tree_scores.groups_of(trees, np.zeros(len(trees), int)), np.random.default_rng(8)
    values = tree_scores.sentence_values(
        groups,
        [generator.normal(size=group.distances.shape) for group in groups],
        [generator.normal(size=group.depths.shape) for group in groups],
    )
    sentences, counts = tree_scores.sentences_of(groups), generator.integers(0, 3, 30)
    drawn = np.repeat(np.arange(30), counts)
    np.testing.assert_allclose(
        tree_scores.measured(values, sentences, counts[None].astype(float))[0],
        tree_scores.measured(values[:, drawn], sentences.part(drawn)),
    )
    assert sentences.lengths.tolist() == list(map(len, trees))


def test_the_shallowest_word_that_is_no_punctuation_is_the_predicted_root():
    tree = treebank.Tree("t", (1,), 0, ("a", "b", "."), ("X", "X", "PUNCT"), np.array([1, -1, 1]), ("",) * 3, ("",) * 3)
    groups = tree_scores.groups_of([tree], np.array([0]))
    for depths, expected in (([0.5, 0.2, 0.1], 1.0), ([0.2, 0.5, 0.1], 0.0)):
        assert tree_scores.score(groups, [groups[0].distances], [np.array([depths])])["root_accuracy"] == expected


def test_spearman_with_ties_is_scipys():
    generator = np.random.default_rng(3)
    predicted, gold = generator.normal(size=(5, 7)), generator.integers(0, 4, (5, 7))
    np.testing.assert_allclose(
        tree_scores.spearman(predicted, gold), [spearmanr(*pair)[0] for pair in zip(predicted, gold, strict=True)]
    )
    assert tree_scores.spearman(np.ones(4), np.arange(4)) == 0


def test_a_probe_finds_trees_that_are_in_the_vectors_and_none_in_noise():
    generator = np.random.default_rng(4)
    trees = [tree for tree in random_trees(generator, 120) if len(tree) > 1]
    starts = np.cumsum([0, *map(len, trees)])
    # A word's vector has a 1 for the word itself and for each word between it and the root. Squared distances are
    # therefore the distances in the tree.
    vectors = np.zeros((starts[-1], 11), np.float32)
    for start, tree in zip(starts, trees, strict=False):
        for word in range(len(tree)):
            ancestor = word
            while tree.heads[ancestor] >= 0:
                vectors[start + word, ancestor] = 1
                ancestor = tree.heads[ancestor]
    groups = tree_scores.groups_of(trees, starts[:-1])
    batches = tree_probe.Batches(trees)
    scores = []
    for word_vectors in (vectors, generator.normal(size=vectors.shape).astype(np.float32)):
        maps = tree_probe.train_probe(
            word_vectors * 8, batches, 7, seed=0
        )  # large vectors, because the test trains for few steps
        scores.append(tree_scores.score(groups, *tree_probe.predict(word_vectors * 8, groups, *maps)))
    assert scores[0]["uuas"] > scores[1]["uuas"] + 0.2
    assert scores[0]["depth_spearman"] > 0.7 > scores[1]["depth_spearman"]


def test_squared_distances_are_those_of_each_pair():
    mapped = np.random.default_rng(5).normal(size=(2, 5, 3)).astype(np.float32)
    expected = ((mapped[:, :, None] - mapped[:, None]) ** 2).sum(-1)
    np.testing.assert_allclose(tree_probe._squared_distances(mapped), expected, atol=1e-5)
