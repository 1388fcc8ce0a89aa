"""Tests coreference with a head that finds every antecedent, and the halves of documents, windows or items."""

import numpy as np
import pytest

from keras_bert_app.analysis import split_halves
from keras_bert_app.analysis.options import Options
from keras_bert_app.analysis.studies import coreference
from keras_bert_app.errors import UserError
from tests.analysis import planted, toy

LETTERS = "abcdefghijklmnopqrstuvwxyz"


def sentence(number):
    """Makes a sentence with entities 1 and 2. Each sentence has different words for these entities."""
    words = f"one{LETTERS[number]} saw two{LETTERS[number]}"
    return toy.tree(words, [1, -1, 1], tags=["PRON", "VERB", "PROPN"], misc=["Entity=(1-x)", "_", "Entity=(2-x)"])


def write(path, *documents):
    """Writes documents, which are lists of trees, as CoNLL-U. Returns Options that read the file."""
    path.write_text("\n".join("# newdoc\n" + toy.conllu(trees) for trees in documents))
    return Options(dev_file=str(path), num_seeds=1)


def answer(words):
    """Returns (states, attention) for planted.plant.

    Head 1 of layer 2 attends to the last mention of the same entity. All other heads attend to the last mention of the
    other entity.
    """
    size = len(words) + 2
    attention = np.full((2, 2, size, size), 1e-3)
    for at, word in enumerate(words):
        for other in range(at):
            if word != "saw" and words[other] != "saw":
                same = word[:3] == words[other][:3]
                attention[:, :, 1 + at, 1 + other] = 0 if same else 1 + other
                attention[1, 0, 1 + at, 1 + other] = 1 + other if same else 0
    return np.zeros((3, size, 14)), attention


@pytest.mark.parametrize(
    "documents, count",
    [
        ([range(12)], 2 * (4 + 4 + 1)),  # 17 words fit, so windows have 5, 5 and 2 sentences of 3 words
        ([range(2)], 2),  # one window
        ([range(5), range(5, 10), range(10, 15)], 2 * 3 * 4),
    ],
    ids=["one document", "one window", "three documents"],
)
def test_a_head_that_is_always_right_has_an_accuracy_of_one(documents, count, tmp_path, monkeypatch):
    planted.plant(monkeypatch, answer)
    options = write(tmp_path / "gum.conllu", *([sentence(number) for number in document] for document in documents))
    result = coreference.run(toy.subject(tmp_path), options, print)
    rows = {row[0]: row for row in result.tables[0].rows}
    assert rows["all"][:4] == ["all", count, "2-1", 1.0] and rows["all"][6:8] == [0.0, 0.0]
    assert rows["all"][4] < 1.0 == rows["all"][5]  # Wilson's interval, because all answers are right
    assert count == 2 or rows["all"][10] < 0.7  # with two mentions, noise can find both by chance
    for kind in ("pronoun", "proper name"):
        assert rows[kind][1:3] == [count // 2, "2-1"]
        assert rows[kind][3] == (1.0 if count > 2 else None)  # with one mention, no half is left to choose the head
    assert rows["other"] == ["other", 0, *[None] * 10]
    assert result.values["accuracy"][0][1][0] == 1.0 and result.files["coreference.png"][:4] == b"\x89PNG"


def test_sentences_that_do_not_fit_are_in_no_window_and_a_remark_counts_them(tmp_path, monkeypatch):
    planted.plant(monkeypatch, answer)
    long = toy.tree(" ".join(["saw"] * 18), [-1, *[0] * 17], misc=["Entity=(1-x)", *["_"] * 17])
    options = write(tmp_path / "gum.conllu", [sentence(0), long, sentence(1)])
    result = coreference.run(toy.subject(tmp_path), options, print)
    assert result.tables[0].rows[0][1:3] == [2, "2-1"] and result.remarks[-1].startswith(
        "1 of the sentences were longer"
    )


def test_text_without_an_antecedent_is_refused(tmp_path):
    with pytest.raises(UserError, match="no mention of the 1 sentences that were read has an antecedent"):
        coreference.run(toy.subject(tmp_path), write(tmp_path / "gum.conllu", [sentence(0)]), print)


def test_items_are_halved_by_the_coarsest_level_that_has_two_groups():
    assert split_halves.assign_halves([4, 4, 7, 9], [0, 1, 2, 3]).tolist() == [False, False, True, False]
    assert split_halves.assign_halves([4, 4, 4], [0, 2, 2]).tolist() == [False, True, True]
    assert split_halves.assign_halves([4, 4, 4], [1, 1, 1], [0, 1, 2]).tolist() == [False, True, False]
    assert split_halves.assign_halves([4], [1], [0]) is None


def test_both_halves_have_counted_items_and_groups_without_them_are_in_the_reported_half():
    is_counted, documents = np.array([True, False, True, True, True]), np.array([4, 5, 6, 6, 7])
    half = split_halves.reported_half(is_counted, documents, np.arange(5))
    assert half.tolist() == [False, True, True, True, False]  # documents 4 and 7 serve for the choice
    assert split_halves.reported_half(is_counted, np.zeros(5), np.arange(5)).tolist() == [
        False,
        True,
        True,
        False,
        True,
    ]
    assert split_halves.reported_half(np.arange(5) == 2, documents, np.arange(5)) is None


def test_the_best_choice_of_one_half_is_counted_in_the_opposite_half():
    half = np.arange(20) >= 10
    answers = np.zeros((20, 1, 2), bool)
    for start, choice, right in ((0, 0, 9), (0, 1, 2), (10, 0, 3), (10, 1, 8)):
        answers[start : start + right, 0, choice] = True
    assert np.flatnonzero(split_halves.cross_half_answers(answers, half)).tolist() == [0, 1, 10, 11, 12]
    assert split_halves.mean_and_spread([0.25, None, 0.75]) == [0.5, 0.25] and split_halves.mean_and_spread([None]) == [
        None,
        None,
    ]
