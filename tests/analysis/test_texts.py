"""Tests how texts are split into words with their places, and which rows an encoder sees."""

import numpy as np
import pytest

from keras_bert_app.analysis import encoded_sentences, input_texts
from keras_bert_app.errors import UserError
from tests.analysis.tiny_subject import tiny_subject

SUBJECT = tiny_subject()


def test_words_have_their_places_in_the_text():
    first, second = input_texts.cut(SUBJECT.tokenizer, ["The  unflapp, \u00e7at.", " "])
    assert first.words() == ["The", "unflapp", ",", "\u00e7at", "."]
    assert first.word_spans() == [(0, 3), (5, 12), (12, 13), (14, 17), (17, 18)]
    assert [len(pieces) for pieces in first.pieces] == [1, 3, 1, 1, 1]
    assert second.words() == [] and second.pieces == []


def test_a_beginning_ends_with_a_whole_word():
    (text,) = input_texts.cut(SUBJECT.tokenizer, ["the unflapp cat"])
    assert [text.beginning(size).words() for size in (0, 1, 3, 4, 5)] == [
        [],
        ["the"],
        ["the"],
        ["the", "unflapp"],
        ["the", "unflapp", "cat"],
    ]


def test_the_words_of_a_pair_are_on_both_sides_of_the_separator():
    a, b = input_texts.cut(SUBJECT.tokenizer, ["the unflapp", "cat unflapp"])
    (encoded,) = encoded_sentences.encode_rows(SUBJECT, [(a.pieces, b.pieces)], with_attention=True)
    #  [CLS] the un ##fl ##app [SEP] cat un ##fl ##app [SEP]
    assert encoded.spans.tolist() == [[1, 2], [2, 5], [6, 7], [7, 10]]
    assert encoded.unit_starts().tolist() == [0, 1, 2, 5, 6, 7, 10]
    attention, by_word = encoded.attention, encoded.word_attention()
    np.testing.assert_allclose(by_word[1, 1, 2, 5], attention[1, 1, 2:5, 7:10].sum() / 3, rtol=1e-5)
    np.testing.assert_allclose(by_word[2, 0, 6, 2], attention[2, 0, 10, 2:5].sum(), rtol=1e-5)
    np.testing.assert_allclose(by_word.sum(axis=-1), 1, rtol=1e-5)


def test_segment_b_changes_the_states_and_a_row_without_it_equals_a_sentence():
    (a,) = input_texts.cut(SUBJECT.tokenizer, ["the cat sat"])
    (alone,) = encoded_sentences.encode_rows(SUBJECT, [(a.pieces, None)])
    (sentence,) = encoded_sentences.encode(SUBJECT, [("the", "cat", "sat")])
    np.testing.assert_allclose(alone.states, sentence.states, atol=1e-6)
    (pair,) = encoded_sentences.encode_rows(SUBJECT, [([], a.pieces)])
    assert pair.token_ids.tolist()[2:] == alone.token_ids.tolist()[1:] and pair.spans.tolist() == [
        [2, 3],
        [3, 4],
        [4, 5],
    ]
    assert abs(pair.states[0, 2:] - alone.states[0, 1:]).max() > 0.1


def test_sentences_keep_their_document_and_a_remark_counts_those_that_do_not_fit(tmp_path):
    path = tmp_path / "t.txt"
    path.write_text("The cat sat. The river was by.\n" + "The cat " * 30 + "\n", encoding="utf-8")
    given, documents = input_texts.corpus_sentences(str(path))
    assert given[:2] == ["The cat sat.", "The river was by."] and documents[0] == documents[1] != documents[2]
    texts, kept, remark = input_texts.encodable(SUBJECT, given)
    assert kept == [0, 1] and len(texts) == 2 and "1 of more than 21 pieces" in remark
    with pytest.raises(UserError, match="all 1 sentences are empty or longer than 1 pieces"):
        input_texts.encodable(SUBJECT, ["the cat"], 1)
    (tmp_path / "empty.txt").write_text("\n")
    with pytest.raises(UserError, match="holds no text"):
        input_texts.corpus_sentences(str(tmp_path / "empty.txt"))
