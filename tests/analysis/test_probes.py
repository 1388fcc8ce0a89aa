"""Edge probing and the probe of attention: they learn what is there, where it is, and nothing else."""

import numpy as np
import tensorflow as tf

from keras_bert_app.analysis import attention_probe, edge_probing, span_items
from keras_bert_app.analysis.options import Options
from tests.analysis import toy

TREES = [toy.tree("the old cat sat .", [2, 2, 3, -1, 3], ["det", "amod", "nsubj", "root", "punct"],
                  ["DET", "ADJ", "NOUN", "VERB", "PUNCT"]),
         toy.tree("its dog sat", [1, 2, -1], ["nmod", "nsubj", "root"], ["PRON", "NOUN", "VERB"])] * 7


def test_a_mix_leans_to_the_layer_that_holds_the_answer():
    generator = np.random.default_rng(0)
    vectors, labels = generator.normal(size=(3, 500, 5)), generator.integers(0, 2, 500)
    vectors[2, :, 1] = 4 * labels - 2
    train, dev = (span_items.Items(vectors[:, rows].astype(np.float16), [str(label) for label in labels[rows]])
                  for rows in (slice(0, 400), slice(400, 500)))
    by_layer, mixed, shares = edge_probing._probe_task("toy", train, dev, [0], print)
    assert by_layer[2, 0] > 0.95 > 0.7 > max(by_layer[0, 0], by_layer[1, 0]) and mixed[0] > 0.9
    assert shares[0].argmax() == 2 and shares[0, 2] > 0.4 and abs(shares.sum() - 1) < 1e-5


def test_logits_are_those_of_a_mean_of_the_layers_at_the_start():
    generator = np.random.default_rng(1)
    weights = [generator.normal(size=shape) for shape in ((5, 3), (3,), (3, 2), (2,))]
    batch = generator.normal(size=(2, 4, 5))
    hidden = np.maximum(batch.mean(axis=0) @ weights[0] + weights[1], 0)
    found = edge_probing._logits([tf.zeros(2, tf.float64), *map(tf.constant, weights)], tf.constant(batch))
    np.testing.assert_allclose(found, hidden @ weights[2] + weights[3])


def test_items_are_words_pairs_and_names_with_their_vectors(tmp_path):
    subject, path, names = toy.subject(tmp_path), tmp_path / "a.conllu", tmp_path / "names.txt"
    path.write_text(toy.conllu(TREES[:2]))
    names.write_text("the O\nold B-X\ncat I-X\n\nits B-Y\n")
    tags, pairs = span_items.of_trees(subject, str(path), 0, print)
    assert tags.labels == ["DET", "ADJ", "NOUN", "VERB", "PUNCT", "PRON", "NOUN", "VERB"]
    assert pairs.labels == ["det", "amod", "nsubj", "punct", "nmod", "nsubj"] and pairs.vectors.shape == (3, 6, 28)
    np.testing.assert_array_equal(pairs.vectors[:, 1], np.concatenate([tags.vectors[:, 1], tags.vectors[:, 2]], axis=1))
    found = span_items.of_names(subject, str(names), 0, print)
    assert found.labels == ["X", "Y"] and found.vectors.shape == (3, 2, 14)


def test_pairs_that_are_not_related_are_as_far_apart_when_distance_shall_tell_nothing():
    trees = [toy.tree("the old cat sat its dog it .", [2, 2, 3, -1, 5, 3, 3, 3])] * 3
    pairs = attention_probe.pairs_of(trees, attention_probe.TASKS[1], {"dep"}, np.random.default_rng(0))
    assert (pairs.distances()[::2] == pairs.distances()[1::2]).all() and set(pairs.labels) == {"related", "(none)"}
    for tree, first, second, label in zip(pairs.trees, *pairs.words, pairs.labels):
        heads = trees[tree].heads
        assert first < second and (heads[first] == second or heads[second] == first) == (label == "related")


def test_all_analyses_of_trees_run_on_a_small_encoder_and_name_their_baselines(tmp_path):
    from keras_bert_app.analysis import grammar_heads, structural_probe

    path, names = tmp_path / "a.conllu", tmp_path / "names.txt"
    path.write_text(toy.conllu(TREES * 3))
    names.write_text("the O\nold B-X\ncat I-X\n\nits B-Y\n\n" * 9)
    options = Options(train_file=str(path), dev_file=str(path), ner_train_file=str(names), ner_dev_file=str(names),
                      num_seeds=1, probe_rank=5)
    subject = toy.subject(tmp_path)
    baselines = {grammar_heads: "offset", structural_probe: "neighbours", edge_probing: "majority",
                 attention_probe: "distance alone"}
    for module, baseline in baselines.items():
        found = module.run(subject, options, lambda line: None)
        cells = [*found.tables[0].columns, *(row[0] for row in found.tables[0].rows)]
        assert baseline in cells and any("untrained" in cell for cell in cells) and found.remarks
        assert all(image[:4] == b"\x89PNG" for image in found.files.values())
