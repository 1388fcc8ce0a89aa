"""Tests occurrences, clusters, neighbours and self-similarity of words against values worked out by hand."""

import json

import numpy as np
import pytest

from keras_bert_app.analysis import occurrences, sense_scores
from keras_bert_app.analysis.encoded_sentences import encode_rows
from keras_bert_app.analysis.findings import contents
from keras_bert_app.analysis.options import Options
from keras_bert_app.analysis.studies import word_senses
from keras_bert_app.errors import UserError
from tests.analysis.test_report import data_of
from tests.analysis.tiny_subject import tiny_subject

SUBJECT = tiny_subject()


def unit(vectors):
    return vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)


def test_mean_cosine_is_that_of_all_pairs():
    vectors = unit(np.random.default_rng(0).normal(size=(3, 7, 5)))
    pairs = [[layer[a] @ layer[b] for a in range(7) for b in range(7) if a != b] for layer in vectors]
    np.testing.assert_allclose(occurrences.mean_cosine(vectors.sum(axis=1), 7), np.mean(pairs, axis=1))


def test_clusters_are_numbered_from_the_largest_and_have_three_vectors_or_more():
    generator = np.random.default_rng(0)
    kinds = [1] * 4 + [0] * 9 + [2] * 6
    vectors = unit(np.eye(5)[kinds] + 0.05 * generator.normal(size=(19, 5)))
    labels, score = sense_scores.sense_clusters(vectors)
    assert labels.tolist() == [2] * 4 + [0] * 9 + [1] * 6 and score > 0.9
    two_apart = unit(np.eye(5)[[0] * 9 + [1] * 2] + 0.05 * generator.normal(size=(11, 5)))
    labels, score = sense_scores.sense_clusters(two_apart)
    assert np.bincount(labels).min() >= 3 or score is None
    assert sense_scores.sense_clusters(np.ones((11, 5)))[1] is None


def test_the_share_of_nearest_vectors_in_the_same_document_comes_with_its_chance():
    vectors = unit(np.array([[1, 0], [1, 0.1], [0, 1], [0.1, 1], [-1, 0.0]]))
    # Documents 7 and 8 have two occurrences each. In 7, occurrences 0 and 1 are nearest to each other. In 8, the
    # nearest of 4 is 2, but the nearest of 2 is 3.
    right, asked, chance = sense_scores.right_documents(vectors, np.array([7, 7, 8, 9, 8]), np.arange(5))
    assert right[asked].mean() == 0.75 and asked.sum() == 4 and np.isclose(chance, 1 / 4)
    _, asked, chance = sense_scores.right_documents(vectors, np.arange(5), np.arange(5))
    assert not asked.any() and chance is None
    low, high = sense_scores.scores(vectors[None], np.array([7, 7, 8, 9, 8]), np.arange(5)).intervals[0]
    assert low < 0.31 and 0.94 < high  # the interval is at least as wide as Wilson's interval of four occurrences


def test_two_occurrences_in_one_sentence_are_not_candidates_for_each_other():
    vectors = unit(np.array([[1, 0], [1, 0.01], [1, 0.1], [0, 1], [0.1, 1]]))
    # 0 and 1 are in one sentence, so document 7 does not count. 3 and 4 are in two sentences of document 8.
    contexts = np.array([0, 0, 1, 2, 3])
    right, asked, chance = sense_scores.right_documents(vectors, np.array([7, 7, 9, 8, 8]), contexts)
    assert right[asked].mean() == 1.0 and asked.sum() == 2 and np.isclose(chance, 1 / 4)
    # With a third occurrence of document 7 in another sentence, all three count. 0 and 1 are still no candidates for
    # each other.
    right, asked, chance = sense_scores.right_documents(vectors, np.array([7, 7, 7, 8, 9]), contexts)
    assert right[asked].mean() == 1.0 and asked.sum() == 3 and np.isclose(chance, np.mean([1 / 3, 1 / 3, 2 / 4]))


def test_mean_cosine_apart_is_that_of_the_pairs_of_different_contexts():
    vectors, contexts = unit(np.random.default_rng(1).normal(size=(3, 6, 5))), np.array([4, 1, 4, 2, 1, 4])
    pairs = [
        [layer[a] @ layer[b] for a in range(6) for b in range(6) if contexts[a] != contexts[b]] for layer in vectors
    ]
    np.testing.assert_allclose(occurrences.mean_cosine_apart(vectors, contexts), np.mean(pairs, axis=1))
    np.testing.assert_allclose(
        occurrences.mean_cosine_apart(vectors, np.arange(6)), occurrences.mean_cosine(vectors.sum(axis=1), 6)
    )


def corpus_file(tmp_path):
    lines = [
        "The Bank was by the river, on the river.",
        "A bank sat on money, money.",
        "The unflapp bank was the bank.",
        "The cat sat.",
    ]
    path = tmp_path / "t.txt"
    text = [f"{line[:-1]}{' a' * times}." for times in range(4) for line in lines]
    path.write_text("\n".join([*text, *text[:1]]) + "\nbankbank and banks\n", encoding="utf-8")
    return str(path)


def test_occurrences_are_whole_words_in_the_tokenizers_casing(tmp_path):
    corpus = occurrences.find(SUBJECT, corpus_file(tmp_path), ("bank",), 0, 0)
    assert len(corpus.places["bank"]) == 17
    assert {corpus.texts[sentence].words()[at] for sentence, at in corpus.places["bank"]} == {"Bank", "bank"}
    assert corpus.documents.tolist() == sorted(corpus.documents) and len(corpus.texts) == 18
    assert corpus.contexts.tolist() == [*range(16), 0, 17]  # the corpus repeats the first sentence
    with pytest.raises(UserError, match="'money' occurs 8 times in .*; expected at least 10 times"):
        occurrences.find(SUBJECT, corpus_file(tmp_path), ("money",), 0, 0)


def test_a_word_next_to_split_characters_counts_and_a_part_of_a_longer_word_does_not(tmp_path, monkeypatch):
    monkeypatch.setattr(occurrences, "_MOST_OTHERS", 0)
    path = tmp_path / "t.txt"
    path.write_text(
        "".join(f"{'the ' * times}_bank_ 在bank行 sat.\n" for times in range(1, 9)) + "banks bankbank\n" * 3,
        encoding="utf-8",
    )
    corpus = occurrences.find(SUBJECT, str(path), ("bank",), 0, 0)
    assert len(corpus.places["bank"]) == 16 and len(corpus.texts) == 8
    assert corpus.remarks[0].startswith(f"11 sentences of {path} were read. 8 of them have one of the words; 0 of the")


@pytest.mark.parametrize(
    "words, message",
    [
        (("Bank", "bank"), "'Bank' and 'bank' are the same word to this uncased model; give one of them"),
        (("银行",), "BERT splits '银行' into 2 words .银, 行., at .* each CJK character; give a word"),
        (("cat-sat",), "BERT splits 'cat-sat' into 3 words .cat, -, sat."),
        ((" ",), "BERT splits ' ' into 0 words .none."),
    ],
)
def test_unusable_words_are_refused_with_the_reason(words, message, tmp_path):
    with pytest.raises(UserError, match=message):
        occurrences.find(SUBJECT, corpus_file(tmp_path), words, 0, 0)


def test_a_chinese_character_is_found_among_others_and_remarks_count_the_rest(tmp_path, monkeypatch):
    (tmp_path / "t.txt").write_text(
        "".join(f"在{'河' * times}行之{'a' * times}\n" for times in range(1, 13)), encoding="utf-8"
    )
    monkeypatch.setattr(occurrences, "_MOST", 7)
    corpus = occurrences.find(SUBJECT, str(tmp_path / "t.txt"), ("行",), 0, 0)
    assert len(corpus.places["行"]) == 7
    assert "were read. 12 of them have one of the words; 0 of the others" in corpus.remarks[0]
    assert corpus.remarks[1] == "行 occurs 12 times; 7 of the occurrences were taken, at equal steps."


def test_vectors_are_the_encoders_and_self_similarity_takes_one_occurrence_a_sentence(tmp_path):
    corpus = occurrences.find(SUBJECT, corpus_file(tmp_path), ("bank",), 0, 0)
    vectors = occurrences.vectors(SUBJECT, corpus, 0, lambda line: None)
    states = {
        encoded.number: unit(encoded.word_states())
        for encoded in encode_rows(SUBJECT, [(text.pieces, None) for text in corpus.texts])
    }
    for number, (sentence, at) in enumerate(corpus.places["bank"]):
        np.testing.assert_allclose(vectors.words["bank"][:, number], states[sentence][:, at], atol=1e-5)
    # "unflapp", "cat" and "river" occur in four different sentences, which is too few. The words below occur in five or
    # more.
    assert vectors.num_words == len({"the", "bank", "was", "on", "sat", "a"})


@pytest.fixture(scope="session")
def senses(tmp_path_factory):
    """The findings of word_senses on corpus_file. No test may change them."""
    path = corpus_file(tmp_path_factory.mktemp("senses"))
    return word_senses.run(SUBJECT, Options(input_file=path, words=("bank",), num_seeds=1), lambda line: None)


def test_the_table_has_each_score_next_to_layer_0_and_the_untrained_encoder(senses, tmp_path):
    findings = senses
    row = findings.tables[0].rows[0]
    assert len(row) == 12 and row[10:] == (None, None)  # no document has the word twice
    scores, other = findings.values["scores"]["bank"], findings.values["untrained"]["bank"][0]
    assert row[0] == "bank" and row[1] == 17
    assert (row[2], row[3], row[4]) == (scores["silhouette"][-1], scores["silhouette"][0], other["silhouette"][-1])
    assert (row[5], row[6], row[7]) == (
        scores["same_document"][-1],
        scores["same_document"][0],
        other["same_document"][-1],
    )
    assert len(findings.tables[1].rows) == len(findings.tables[2].rows) == 4
    assert '"word":"Bank"' in findings.files["senses.html"]
    data = data_of(findings.files["senses.html"])["words"]["bank"]
    assert list(data["views"]) == [
        "layer 3, the last",
        "layer 2",
        "layer 1",
        "layer 0, the embeddings",
        "untrained, last layer",
    ]
    corpus = occurrences.find(SUBJECT, corpus_file(tmp_path), ("bank",), 0, 0)
    contexts = corpus.contexts[corpus.places["bank"][:, 0]]
    for view in data["views"].values():
        assert len(view["points"]) == len(view["clusters"]) == len(view["nearest"]) == 17
        assert all(
            contexts[number] != contexts[other] for number, near in enumerate(view["nearest"]) for other, _ in near
        )
    assert data["views"]["layer 3, the last"]["clusters"] == findings.values["clusters"]["bank"]
    assert all(findings.files[name].startswith(b"\x89PNG") for name in ("senses.png", "senses_layers.png"))


def test_a_short_text_gives_none_for_missing_figures_and_valid_json(tmp_path):
    path = tmp_path / "t.txt"
    path.write_text(
        "The bank was by the river.\nA bank sat on money.\n" * 6, encoding="utf-8"
    )  # no word occurs in five different sentences
    findings = word_senses.run(SUBJECT, Options(input_file=str(path), words=("bank",), num_seeds=1), lambda line: None)
    assert findings.values["all_words"] == [None] * 4 and not any(
        "rank correlation" in remark for remark in findings.remarks
    )
    for name, content in contents(findings, Options()).items():
        if name.endswith(".json"):
            json.loads(content, parse_constant=pytest.fail)
