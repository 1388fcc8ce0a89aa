"""Tests mentions, their antecedents and the answers of heads against values worked out by hand."""

import numpy as np
import pytest

from keras_bert_app.analysis import coreference_windows, encoded_sentences, mentions
from keras_bert_app.analysis.studies import coreference
from keras_bert_app.errors import UserError
from tests.analysis import toy

FIRST = toy.tree(
    "the old cat sat .",
    [2, 2, 3, -1, 3],
    tags=["DET", "ADJ", "NOUN", "VERB", "PUNCT"],
    misc=["Entity=(1-animal-new-cf1", "_", "SpaceAfter=No|Entity=1)", "_", "_"],
)
SECOND = toy.tree(
    "its dog sat the cat it",
    [1, 2, -1, 4, 2, 2],
    tags=["PRON", "NOUN", "VERB", "DET", "NOUN", "PRON"],
    misc=[
        "Entity=(2-animal(1-animal)",
        "Entity=2)",
        "_",
        "Entity=(3[1/2]-x",
        "Entity=3[1/2])",
        "Entity=(3[2/2]-x)(1-animal)",
    ],
)


def test_brackets_become_mentions_with_the_head_word_of_each():
    found_mentions = mentions.read_mentions([FIRST, SECOND])
    assert [
        (mention.entity, mention.sentence, mention.first, mention.end, mention.head) for mention in found_mentions
    ] == [
        ("1", 0, 0, 3, 2),
        ("1", 1, 0, 1, 0),
        ("2", 1, 0, 2, 1),
        ("3", 1, 3, 5, 4),
        ("1", 1, 5, 6, 5),
    ]


@pytest.mark.parametrize(
    "misc, why",
    [
        ("Entity=1)", "closes 1, which is not open"),
        ("Entity=(1-x", "not closed"),
        ("Entity=1", "cannot be read from '1' on"),
        ("_", "no word has Entity="),
    ],
)
def test_brackets_that_do_not_pair_up_are_refused(misc, why):
    with pytest.raises(UserError, match=why):
        mentions.read_mentions([toy.tree("cat", [-1], misc=[misc])])


def test_questions_candidates_and_baselines_are_those_worked_out_by_hand(tmp_path):
    (window,), left_out = coreference_windows.windows_of(toy.subject(tmp_path), [FIRST, SECOND])
    assert window.words == FIRST.words + SECOND.words and left_out == 0
    asked = [(head, kinds, candidates.tolist(), right.tolist()) for head, kinds, candidates, right in window.questions]
    assert asked == [(5, [0, 1, 4], [2], [True]), (10, [0, 1], [2, 5, 6, 9], [True, True, False, False])]
    assert coreference_windows.baseline_answers([window]).tolist() == [[True, False], [True, False]]
    places = coreference_windows.places_of([window])
    assert places.kinds.tolist() == [[True, True, False, False, True], [True, True, False, False, False]]
    assert places.windows.tolist() == places.documents.tolist() == [0, 0]


def test_a_document_that_is_too_long_is_cut_between_sentences_and_documents_are_not_joined(tmp_path):
    other = toy.tree("the cat sat", [1, 2, -1], misc=["Entity=(1-x", "Entity=1)", "_"], document=1)
    windows, _ = coreference_windows.windows_of(toy.subject(tmp_path), [FIRST, *[SECOND] * 3, other])  # 19 positions
    assert [len(window.words) for window in windows] == [17, 6, 3] and windows[2].questions == []


def test_a_heads_answer_is_the_candidate_that_it_attends_to_most(tmp_path):
    subject = toy.subject(tmp_path)
    windows, _ = coreference_windows.windows_of(subject, [FIRST, SECOND])
    is_right, examples = coreference.head_answers(subject, windows, print)
    (encoded,) = encoded_sentences.encode(subject, [windows[0].words], with_attention=True)
    attention = encoded.word_attention()[:, :, 1 + 10]
    expected = np.isin(np.array([3, 6, 7, 10])[attention[:, :, [3, 6, 7, 10]].argmax(axis=2)], [3, 6])
    np.testing.assert_array_equal(is_right[1], expected)
    assert is_right[0].all() and len(examples) == 1 and examples[0][3] == "cat"  # the first question has one candidate
