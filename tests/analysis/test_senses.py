"""Senses: occurrences, clusters, neighbours and self-similarity, by hand."""

import numpy as np
import pytest

from keras_bert_app.analysis import occurrences, senses
from keras_bert_app.analysis.options import Options
from keras_bert_app.analysis.sentences import encode_rows
from keras_bert_app.errors import UserError
from tests.analysis.tiny_subject import tiny_subject

SUBJECT = tiny_subject()


def unit(vectors):
    return vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)


def test_mean_cosine_is_that_of_all_pairs():
    vectors = unit(np.random.default_rng(0).normal(size=(3, 7, 5)))
    pairs = [[layer[a] @ layer[b] for a in range(7) for b in range(7) if a != b] for layer in vectors]
    np.testing.assert_allclose(occurrences.mean_cosine(vectors.sum(axis=1), 7), np.mean(pairs, axis=1))


def test_clusters_are_found_the_largest_first_and_none_of_two_vectors():
    generator = np.random.default_rng(0)
    kinds = [1] * 4 + [0] * 9 + [2] * 6
    vectors = unit(np.eye(5)[kinds] + 0.05 * generator.normal(size=(19, 5)))
    labels, score = senses.sense_clusters(vectors)
    assert labels.tolist() == [2] * 4 + [0] * 9 + [1] * 6 and score > 0.9
    two_apart = unit(np.eye(5)[[0] * 9 + [1] * 2] + 0.05 * generator.normal(size=(11, 5)))
    assert np.bincount(senses.sense_clusters(two_apart)[0]).min() >= 3 or senses.sense_clusters(two_apart)[1] is None
    assert senses.sense_clusters(np.ones((11, 5)))[1] is None


def test_the_nearest_of_the_same_document_is_counted_beside_chance():
    vectors = unit(np.array([[1, 0], [1, .1], [0, 1], [.1, 1], [-1, 0.]]))
    # Asked are documents with two occurrences: 7 (0 and 1 are nearest) and 8 (2 is nearest to 4, but 3 to 2).
    share, chance, asked = senses.same_document(vectors, np.array([7, 7, 8, 9, 8]))
    assert (share, asked) == (0.75, 4) and np.isclose(chance, 1 / 4)
    assert senses.same_document(vectors, np.arange(5)) == (None, None, 0)


def corpus_file(tmp_path):
    lines = [
        "The Bank was by the river, on the river.", "A bank sat on money, money.", "The unflapp bank was the bank.",
        "The cat sat."
    ]
    path = tmp_path / "t.txt"
    path.write_text("\n".join(lines * 4) + "\nbankbank and banks\n", encoding="utf-8")
    return str(path)


def test_occurrences_are_whole_words_in_the_tokenizers_casing(tmp_path):
    corpus = occurrences.find(SUBJECT, corpus_file(tmp_path), ("bank",), 0, 0)
    assert len(corpus.places["bank"]) == 16
    assert {corpus.texts[sentence].words()[at] for sentence, at in corpus.places["bank"]} == {"Bank", "bank"}
    assert corpus.documents.tolist() == sorted(corpus.documents) and len(corpus.texts) == 17
    with pytest.raises(UserError, match="'river' stands 8 times in .*; expected 10"):
        occurrences.find(SUBJECT, corpus_file(tmp_path), ("river",), 0, 0)


def test_vectors_are_the_encoders_and_self_similarity_takes_one_occurrence_a_sentence(tmp_path):
    corpus = occurrences.find(SUBJECT, corpus_file(tmp_path), ("bank",), 0, 0)
    found = occurrences.vectors(SUBJECT, corpus, 0, lambda line: None)
    states = {
        one.number: unit(one.word_states())
        for one in encode_rows(SUBJECT, [(text.pieces, None) for text in corpus.texts])
    }
    for number, (sentence, at) in enumerate(corpus.places["bank"]):
        np.testing.assert_allclose(found.words["bank"][:, number], states[sentence][:, at], atol=1e-5)
    # "unflapp" is in four sentences, too few; "cat" in four; these are in five or more:
    assert found.num_words == len({"the", "bank", "was", "on", "sat"})


def test_the_analysis_gives_each_score_beside_layer_0_and_the_untrained(tmp_path):
    found = senses.run(SUBJECT, Options(input_file=corpus_file(tmp_path), words=("bank", ), num_seeds=1),
                       lambda line: None)
    row = dict(zip(range(10), found.tables[0].rows[0]))
    scores, other = found.values["scores"]["bank"], found.values["untrained"]["bank"][0]
    assert row[0] == "bank" and row[1] == 16
    assert (row[2], row[3], row[4]) == (scores["silhouette"][-1], scores["silhouette"][0], other["silhouette"][-1])
    assert (row[5], row[6], row[7]) == (scores["same_document"][-1], scores["same_document"][0],
                                        other["same_document"][-1])
    assert len(found.tables[1].rows) == len(found.tables[2].rows) == 4
    assert '"word":"Bank"' in found.files["senses.html"]
    assert all(found.files[name].startswith(b"\x89PNG") for name in ("senses.png", "senses_layers.png"))
