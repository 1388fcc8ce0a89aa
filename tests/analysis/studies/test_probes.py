"""Tests that edge probing and the attention probe learn only the information that the vectors contain."""

import numpy as np
import pytest
import tensorflow as tf

from keras_bert_app.analysis import edge_answers, mix_probe, span_items, word_pairs
from keras_bert_app.analysis.options import Options
from keras_bert_app.analysis.studies import edge_probing
from keras_bert_app.errors import UserError
from tests.analysis import toy

TREES = [
    toy.tree(
        "the old cat sat .",
        [2, 2, 3, -1, 3],
        ["det", "amod", "nsubj", "root", "punct"],
        ["DET", "ADJ", "NOUN", "VERB", "PUNCT"],
    ),
    toy.tree("its dog sat", [1, 2, -1], ["nmod", "nsubj", "root"], ["PRON", "NOUN", "VERB"]),
] * 7


def test_a_mix_gives_the_largest_weight_to_the_layer_that_holds_the_answer():
    generator = np.random.default_rng(0)
    vectors, labels = generator.normal(size=(3, 500, 5)), generator.integers(0, 2, 500)
    vectors[2, :, 1] = 4 * labels - 2
    train, dev = (items(vectors[:, rows], labels[rows], rows) for rows in (range(400), range(400, 500)))
    answers = edge_answers.task_answers("toy", train, dev, np.zeros(100), [0], print)
    by_layer, shares = answers.by_layer.mean(axis=1), answers.shares
    assert (
        by_layer[2] > 0.95 > 0.7 > max(by_layer[0], by_layer[1]) and answers.mixed.mean() > 0.9 and answers.layer == 2
    )
    assert shares[0].argmax() == 2 and shares[0, 2] > 0.4 and abs(shares.sum() - 1) < 1e-5
    # Each type occurs once, so no probe can know its random label. The accuracy on the task is therefore not the effect
    # of memorized types.
    assert answers.num_items == 100 and len(answers.sentences) == 50 and answers.seen == 0
    assert (
        answers.control.mean(axis=1).max() < 0.75
        and answers.difference(answers.by_layer[2], answers.control[2])[0] > 0.1
    )


def test_a_probe_that_memorizes_words_has_no_selectivity():
    generator = np.random.default_rng(0)
    words = generator.integers(0, 12, 600)  # vectors identify the word, and the word determines the label
    vectors = np.eye(12)[words][None] * 4
    train, dev = (items(vectors[:, rows], words[rows] % 3, words[rows]) for rows in (slice(0, 500), slice(500, 600)))
    answers = edge_answers.task_answers("toy", train, dev, np.zeros(100), [0, 1], print)
    low, high = answers.difference(answers.by_layer[0], answers.control[0])
    assert (
        answers.seen == 1.0
        and answers.by_layer.mean() > 0.98
        and answers.control.mean() > 0.98
        and -0.03 < low <= high < 0.03
    )


def items(vectors, labels, types):
    """Makes items for span probes. Each item is in its own sentence."""
    numbers = np.arange(len(labels))
    return span_items.Items(
        vectors.astype(np.float16),
        [str(label) for label in labels],
        [str(name) for name in types],
        numbers,
        0 * numbers,
    )


def test_the_first_logits_come_from_the_mean_of_the_layers():
    generator = np.random.default_rng(1)
    weights = [generator.normal(size=shape) for shape in ((5, 3), (3,), (3, 2), (2,))]
    batch = generator.normal(size=(2, 4, 5))
    hidden = np.maximum(batch.mean(axis=0) @ weights[0] + weights[1], 0)
    logits = mix_probe.logits([tf.zeros(2, tf.float64), *map(tf.constant, weights)], tf.constant(batch))
    np.testing.assert_allclose(logits, hidden @ weights[2] + weights[3])


def test_items_are_words_pairs_and_names_with_their_vectors(tmp_path):
    subject, path, names = toy.subject(tmp_path), tmp_path / "a.conllu", tmp_path / "names.txt"
    path.write_text(toy.conllu(TREES[:2]))
    names.write_text("the O\nold B-X\ncat I-X\n\nits B-Y\n")
    tags, pairs = span_items.items_of_trees(subject, span_items.read_trees(subject, str(path), 0), print)
    assert tags.labels == ["DET", "ADJ", "NOUN", "VERB", "PUNCT", "PRON", "NOUN", "VERB"]
    assert pairs.labels == ["det", "amod", "nsubj", "punct", "nmod", "nsubj"] and pairs.vectors.shape == (3, 6, 28)
    np.testing.assert_array_equal(pairs.vectors[:, 1], np.concatenate([tags.vectors[:, 1], tags.vectors[:, 2]], axis=1))
    named = span_items.items_of_names(subject, span_items.read_names(subject, str(names), 0), print)
    assert named.labels == ["X", "Y"] and named.vectors.shape == (3, 2, 14) and named.types == ["old cat", "its"]
    assert pairs.types == ["the", "old", "cat", ".", "its", "dog"]  # the type of a pair is its dependent
    assert tags.sentences.tolist() == [0] * 5 + [1] * 3 and pairs.sentences.tolist() == [0] * 4 + [1] * 2
    first_named = span_items.items_of_names(subject, span_items.read_names(subject, str(names), 1), print)
    assert first_named.labels == ["X"]


@pytest.mark.parametrize(
    "name, text, message",
    [
        (
            "names.txt",
            "the O\ncat O\n\nits B-Y\n",
            "none of its 1 sentences that were read has a name; raise --max_sentences",
        ),
        ("names.txt", "the DT\ncat NN\n", r"names.txt:1: tag 'DT' marks no entity; .*CoNLL-2003"),
        ("names.conllu", toy.conllu(TREES[:1]), r"names.conllu:1: tag 'DET' marks no entity"),
        ("names.txt", "\n", "holds no sentence"),
    ],
)
def test_files_without_names_are_refused_before_anything_is_encoded(name, text, message, tmp_path):
    (tmp_path / name).write_text(text)
    with pytest.raises(UserError, match=message):
        span_items.read_names(toy.subject(tmp_path), str(tmp_path / name), 1)


def test_one_file_with_names_is_refused_without_the_other(tmp_path):
    for name, other in (("ner_train_file", "ner_dev_file"), ("ner_dev_file", "ner_train_file")):
        with pytest.raises(UserError, match=f"--{name}=x: --{other} is missing"):
            edge_probing.run(toy.subject(tmp_path), Options(train_file="t", dev_file="d", **{name: "x"}), print)


def test_unrelated_pairs_are_as_far_apart_as_related_pairs_in_the_second_task():
    trees = [toy.tree("the old cat sat its dog it .", [2, 2, 3, -1, 5, 3, 3, 3])] * 3
    pairs = word_pairs.pairs_of(trees, word_pairs.TASKS[1], {"dep"}, np.random.default_rng(0))
    assert (pairs.distances()[::2] == pairs.distances()[1::2]).all() and set(pairs.labels) == {"related", "(none)"}
    for tree, first, second, label in zip(pairs.trees, *pairs.words, pairs.labels, strict=True):
        heads = trees[tree].heads
        assert first < second and (heads[first] == second or heads[second] == first) == (label == "related")


def test_punctuation_is_in_no_pair():
    tree = toy.tree(
        "the old . cat sat !",
        [3, 3, 1, 4, 5, -1],
        ["det", "amod", "punct", "nsubj", "dep", "root"],
        ["DET", "ADJ", "PUNCT", "NOUN", "VERB", "PUNCT"],
    )
    assert word_pairs.spoken_words(tree).tolist() == [True, True, False, True, True, False]
    for task in word_pairs.TASKS:
        pairs = word_pairs.pairs_of([tree] * 20, task, {"det", "amod", "nsubj"}, np.random.default_rng(0))
        assert set(pairs.words.ravel().tolist()) == {0, 1, 3, 4}
    assert sorted(set(zip(*pairs.words.tolist(), pairs.labels.tolist(), strict=True))) == [
        (0, 3, "det"),
        (1, 3, "amod"),
        (3, 4, "nsubj"),
    ]


def test_names_are_probed_in_addition_to_words_and_pairs(tmp_path):
    for name in ("train", "dev"):
        (tmp_path / f"{name}.conllu").write_text(toy.conllu(TREES))
        (tmp_path / f"{name}.txt").write_text("the O\nold B-X\ncat I-X\n\nits B-Y\n\n" * 9)
    options = Options(
        num_seeds=1,
        **{
            f"{prefix}{name}_file": str(tmp_path / f"{name}.{ending}")
            for prefix, ending in (("", "conllu"), ("ner_", "txt"))
            for name in ("train", "dev")
        },
    )
    findings = edge_probing.run(toy.subject(tmp_path), options, lambda line: None)
    rows = {row[0]: row for row in findings.tables[0].rows}
    assert list(rows) == ["part of speech", "dependency", "named entity"]
    # The study reports every second sentence. The names in these sentences are the Ys. Training has as many Xs as Ys.
    assert rows["named entity"][1:4] == [18, 9, 0.0] and rows["part of speech"][1:4] == [56, 21, 1 / 3]
    assert findings.files["edge_probing.png"][:4] == b"\x89PNG"
