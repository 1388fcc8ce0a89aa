"""Coreference with a head that finds every antecedent: counted in halves, whatever the documents."""

import numpy as np
import pytest

from keras_bert_app.analysis import halves
from keras_bert_app.analysis.options import Options
from keras_bert_app.analysis.studies import coreference
from keras_bert_app.errors import UserError
from tests.analysis import planted, toy

LETTERS = "abcdefghijklmnopqrstuvwxyz"


def sentence(number):
    """Entities 1 and 2, by another word each time."""
    words = f"one{LETTERS[number]} saw two{LETTERS[number]}"
    return toy.tree(words, [1, -1, 1], tags=["PRON", "VERB", "PROPN"], misc=["Entity=(1-x)", "_", "Entity=(2-x)"])


def write(path, *documents):
    """CoNLL-U of documents, each a list of trees."""
    path.write_text("\n".join("# newdoc\n" + toy.conllu(trees) for trees in documents))
    return Options(dev_file=str(path), num_seeds=1)


def answer(words):
    """Head 1 of layer 2 attends to the last mention of the same entity, all others to the last mention of the other one."""
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
        ([range(12)], 2 * (4 + 4 + 1)),  # 17 words fit, five sentences: one document of windows of 5, 5 and 2
        ([range(2)], 2),  # one window
        ([range(5), range(5, 10), range(10, 15)], 2 * 3 * 4),
    ],
    ids=["one document", "one window", "three documents"],
)
def test_the_head_that_is_always_right_is_counted_so(documents, count, tmp_path, monkeypatch):
    planted.plant(monkeypatch, answer)
    options = write(tmp_path / "gum.conllu", *([sentence(number) for number in document] for document in documents))
    found = coreference.run(toy.subject(tmp_path), options, print)
    rows = {row[0]: row for row in found.tables[0].rows}
    assert rows["all"][:6] == ["all", count, "2-1", 1.0, 0.0, 0.0]
    assert count == 2 or rows["all"][6] < 0.7  # of two mentions noise finds both by luck
    for kind in ("pronoun", "proper name"):
        assert rows[kind][1:3] == [count // 2, "2-1"]
        assert rows[kind][3] == (1.0 if count > 2 else None)  # of one mention no half is left to choose by
    assert rows["other"] == ["other", 0, *[None] * 6]
    assert found.values["accuracy"][0][1][0] == 1.0 and found.files["coreference.png"][:4] == b"\x89PNG"


def test_sentences_that_do_not_fit_are_in_no_window_and_told(tmp_path, monkeypatch):
    planted.plant(monkeypatch, answer)
    long = toy.tree(" ".join(["saw"] * 18), [-1, *[0] * 17], misc=["Entity=(1-x)", *["_"] * 17])
    options = write(tmp_path / "gum.conllu", [sentence(0), long, sentence(1)])
    found = coreference.run(toy.subject(tmp_path), options, print)
    assert found.tables[0].rows[0][1:3] == [2, "2-1"] and found.remarks[-1].startswith("1 of the sentences were longer")


def test_text_without_an_antecedent_is_refused(tmp_path):
    with pytest.raises(UserError, match="no mention of the 1 sentences that were read has an antecedent"):
        coreference.run(toy.subject(tmp_path), write(tmp_path / "gum.conllu", [sentence(0)]), print)


def test_items_are_halved_by_the_coarsest_group_of_which_there_are_two():
    assert halves.split([4, 4, 7, 9], [0, 1, 2, 3]).tolist() == [False, False, True, False]
    assert halves.split([4, 4, 4], [0, 2, 2]).tolist() == [False, True, True]
    assert halves.split([4, 4, 4], [1, 1, 1], [0, 1, 2]).tolist() == [False, True, False]
    assert halves.split([4], [1], [0]) is None


def test_the_best_of_a_half_is_counted_in_the_other():
    assert halves.share(np.array([[[9, 2]], [[3, 8]]]), [10, 10]) == (3 + 2) / 20
    assert halves.share(np.array([[[0, 0]], [[3, 8]]]), [0, 10]) is None
    assert halves.mean_and_spread([0.25, None, 0.75]) == [0.5, 0.25] and halves.mean_and_spread([None]) == [None, None]
