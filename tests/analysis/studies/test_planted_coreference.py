"""Coreference with a head that finds every antecedent, counted in halves of any kind of document."""

import numpy as np
import pytest

from keras_bert_app.analysis import split_halves
from keras_bert_app.analysis.options import Options
from keras_bert_app.analysis.studies import coreference
from keras_bert_app.errors import UserError
from tests.analysis import planted, toy

LETTERS = "abcdefghijklmnopqrstuvwxyz"


def sentence(number):
    """A sentence with entities 1 and 2, which have other words in each sentence."""
    words = f"one{LETTERS[number]} saw two{LETTERS[number]}"
    return toy.tree(words, [1, -1, 1], tags=["PRON", "VERB", "PROPN"], misc=["Entity=(1-x)", "_", "Entity=(2-x)"])


def write(path, *documents):
    """Writes CoNLL-U of documents, each a list of trees."""
    path.write_text("\n".join("# newdoc\n" + toy.conllu(trees) for trees in documents))
    return Options(dev_file=str(path), num_seeds=1)


def answer(words):
    """Answers for planted.plant: head 1 of layer 2 attends to the last mention of the same entity.

    All other heads attend to the last mention of the other entity.
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
        ([range(12)], 2 * (4 + 4 + 1)),  # 17 words or five sentences fit: windows of 5, 5 and 2 sentences
        ([range(2)], 2),  # one window
        ([range(5), range(5, 10), range(10, 15)], 2 * 3 * 4),
    ],
    ids=["one document", "one window", "three documents"],
)
def test_the_head_that_is_always_right_is_counted_so(documents, count, tmp_path, monkeypatch):
    planted.plant(monkeypatch, answer)
    options = write(tmp_path / "gum.conllu", *([sentence(number) for number in document] for document in documents))
    result = coreference.run(toy.subject(tmp_path), options, print)
    rows = {row[0]: row for row in result.tables[0].rows}
    assert rows["all"][:6] == ["all", count, "2-1", 1.0, 0.0, 0.0]
    assert count == 2 or rows["all"][6] < 0.7  # noise can find both of two mentions by chance
    for kind in ("pronoun", "proper name"):
        assert rows[kind][1:3] == [count // 2, "2-1"]
        assert rows[kind][3] == (1.0 if count > 2 else None)  # one mention leaves no half to choose by
    assert rows["other"] == ["other", 0, *[None] * 6]
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


def test_items_are_halved_by_the_coarsest_group_of_which_there_are_two():
    assert split_halves.assign_halves([4, 4, 7, 9], [0, 1, 2, 3]).tolist() == [False, False, True, False]
    assert split_halves.assign_halves([4, 4, 4], [0, 2, 2]).tolist() == [False, True, True]
    assert split_halves.assign_halves([4, 4, 4], [1, 1, 1], [0, 1, 2]).tolist() == [False, True, False]
    assert split_halves.assign_halves([4], [1], [0]) is None


def test_the_best_of_a_half_is_counted_in_the_other():
    assert split_halves.cross_half_share(np.array([[[9, 2]], [[3, 8]]]), [10, 10]) == (3 + 2) / 20
    assert split_halves.cross_half_share(np.array([[[0, 0]], [[3, 8]]]), [0, 10]) is None
    assert split_halves.mean_and_spread([0.25, None, 0.75]) == [0.5, 0.25] and split_halves.mean_and_spread([None]) == [
        None,
        None,
    ]
