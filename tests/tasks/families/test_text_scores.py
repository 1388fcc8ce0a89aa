"""BLEU of any set of texts follows from the counts of its texts, and equals sacrebleu's."""

import numpy as np
import pytest
import sacrebleu

from keras_bert_app.tasks.families import text_scores

REFERENCES = [
    "A man reads a book.",
    "Two dogs run on the wide beach, quickly.",
    "a child",
    "Rain falls on the old house.",
]
OUTPUTS = ["a man reads the book.", "Two dogs run along the wide beach.", "", "Rain falls on the old house."]


@pytest.mark.parametrize("lowercase", [False, True])
def test_bleu_of_the_counts_is_that_of_sacrebleu_for_every_subset(lowercase):
    counts = text_scores.bleu_counts(OUTPUTS, REFERENCES, lowercase)
    for chosen in ([0, 1, 2, 3], [0, 1], [1, 1, 3], [2]):
        right = sacrebleu.corpus_bleu(
            [OUTPUTS[index] for index in chosen], [[REFERENCES[index] for index in chosen]], lowercase=lowercase
        )
        assert text_scores.bleu_of_counts(counts[chosen]) == pytest.approx(right.score, abs=1e-9)


def test_chrf_is_that_of_sacrebleu():
    assert text_scores.chrf(OUTPUTS, REFERENCES) == pytest.approx(sacrebleu.corpus_chrf(OUTPUTS, [REFERENCES]).score)
    counts = text_scores.chrf_counts(OUTPUTS, REFERENCES)
    for chosen in ([0, 1, 2, 3], [0, 1], [1, 1, 3]):
        right = sacrebleu.corpus_chrf([OUTPUTS[index] for index in chosen], [[REFERENCES[index] for index in chosen]])
        assert text_scores.chrf_of_counts(counts[chosen]) == pytest.approx(right.score, abs=1e-9)
    alone = text_scores.chrf_of_texts(OUTPUTS, REFERENCES)
    np.testing.assert_allclose(alone[[2, 3]], [0.0, 100.0])


def test_chinese_references_are_split_into_characters():
    assert text_scores.tokenization(["他在读书。", "两只狗"]) == "zh" and text_scores.tokenization(REFERENCES) == "13a"
    assert text_scores.tokenization(["犬が走る。", "猫がいる"]) == "char"
    counts = text_scores.bleu_counts(["他在读书。"], ["他在看书。"])
    assert counts[0, 0] == 4  # four of the five characters are right
    assert "tok:zh" in text_scores.signatures(["他在看书。"])["bleu"]


def test_the_signatures_say_what_was_computed():
    signatures = text_scores.signatures(REFERENCES)
    assert signatures["bleu"].startswith("nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:")
    assert "case:lc" in signatures["bleu_lowercase"] and "nc:6" in signatures["chrf"]
