"""Tests valid and refused CoNLL-U files, and distances against values worked out by hand."""

import numpy as np
import pytest

from keras_bert_app.analysis import treebank
from keras_bert_app.errors import UserError


def rows(*words):
    return "".join("{}\t{}\t_\t{}\t_\t_\t{}\t{}\t_\t{}\n".format(*fields) for fields in words)


TEXT = (
    "# newdoc id = a\n# text = Don't go.\n"
    + rows(
        ("1-2", "Don't", "_", "_", "_", "_"),
        ("1", "Do", "AUX", "3", "aux", "_"),
        ("2", "n't", "PART", "3", "advmod", "X=1"),
        ("3", "go", "VERB", "0", "root", "_"),
        ("3.1", "away", "ADV", "_", "_", "_"),
        ("4", ".", "PUNCT", "3", "punct", "_"),
    )
    + "\n# newdoc id = b\n"
    + rows(("1", "So", "ADV", "0", "root", "_"))
)


def test_words_heads_relations_and_misc_are_read_without_ranges_and_empty_nodes(tmp_path):
    path = tmp_path / "a.conllu"
    path.write_text(TEXT, encoding="utf-8")
    first, second = treebank.read_trees(str(path))
    assert first.words == ("Do", "n't", "go", ".") and first.heads.tolist() == [2, 2, -1, 2]
    assert first.relations == ("aux", "advmod", "root", "punct") and first.misc == ("_", "X=1", "_", "_")
    assert first.is_punctuation().tolist() == [False, False, False, True]
    assert (first.lines, first.document, second.document, second.words) == ((4, 5, 6, 8), 1, 2, ("So",))
    assert len(treebank.read_trees(str(path), max_sentences=1)) == 1


@pytest.mark.parametrize(
    "words, why",
    [
        ([("1", "a", "X", "2", "dep", "_")], r":1: HEAD is 2; expected the number of another word of the sentence"),
        ([("1", "a", "X", "1", "dep", "_")], r":1: HEAD is 1"),
        ([("1", "a", "X", "_", "dep", "_")], r":1: HEAD is '_'; expected a word's number"),
        ([("1", "a", "X", "0", "root", "_"), ("3", "b", "X", "1", "dep", "_")], r":2: ID is '3'; expected 2"),
        (
            [("1", "a", "X", "0", "root", "_"), ("2", "b", "X", "0", "root", "_")],
            r":1: the sentence is not a tree: 2 words",
        ),
        (
            [("1", "a", "X", "0", "root", "_"), ("2", "b", "X", "3", "x", "_"), ("3", "c", "X", "2", "x", "_")],
            "heads form a cycle",
        ),
        ([("1", "", "X", "0", "root", "_")], r":1: the column FORM is empty"),
        ([], "holds no sentence"),
    ],
)
def test_a_sentence_that_is_not_a_tree_is_refused_with_its_line(tmp_path, words, why):
    path = tmp_path / "a.conllu"
    path.write_text(rows(*words))
    with pytest.raises(UserError, match=why):
        treebank.read_trees(str(path))


def test_a_file_that_is_not_conllu_is_refused(tmp_path):
    (tmp_path / "a.txt").write_text("EU NNP B-NP B-ORG\n")
    with pytest.raises(UserError, match=r"a.txt:1: has 1 column; expected CoNLL-U, with 10 columns between tabs"):
        treebank.read_trees(str(tmp_path / "a.txt"))


def test_distances_and_depths_have_the_values_worked_out_by_hand():
    heads = np.array([1, -1, 1, 2, 2])  # 1 is the root; 0 and 2 depend on 1; 3 and 4 depend on 2
    assert treebank.depths(heads).tolist() == [1, 0, 1, 2, 2]
    assert treebank.distances(heads).tolist() == [
        [0, 1, 2, 3, 3],
        [1, 0, 1, 2, 2],
        [2, 1, 0, 1, 1],
        [3, 2, 1, 0, 2],
        [3, 2, 1, 2, 0],
    ]
