"""Entities in tags: spans, counts and schemes equal those of conlleval and seqeval."""

import json

import pytest

from keras_bert_app.tasks.families import entities
from tests.conftest import GOLDEN


@pytest.fixture(scope="module")
def references():
    return json.loads((GOLDEN / "conlleval.json").read_text(encoding="utf-8"))


def tags_of(sentences):
    return [sentence.split() for sentence in sentences]


def test_the_spans_of_any_tags_are_those_that_seqeval_reads(references):
    for case in references["counts"]:
        for tags, expected in zip(tags_of(case["right"]), case["entities"], strict=True):
            assert [[kind, start, end - 1] for kind, start, end in entities.spans(tags)] == expected, tags


def test_the_counts_of_any_tags_are_those_of_conlleval(references):
    for case in references["counts"]:
        counts = entities.count(tags_of(case["right"]), tags_of(case["predicted"]))
        assert {kind: list(values) for kind, values in counts.items()} == case["counts"], case
    assert sum(values[2] for case in references["counts"] for values in case["counts"].values()) > 600


def test_each_scheme_is_recognized_read_and_written_as_in_seqeval(references):
    assert {case["scheme"] for case in references["schemes"]} == set(entities.SCHEMES) - {"BMES"}
    for case in references["schemes"]:
        sentences = tags_of(case["sentences"])
        assert entities.scheme_of(sentences) == case["scheme"]
        for tags, expected in zip(sentences, case["entities"], strict=True):
            entity_spans = [(kind, start, last + 1) for kind, start, last in expected]
            assert entities.spans(tags) == entity_spans
            assert entities.write_tags(entity_spans, len(tags), case["scheme"]) == tags


def test_bmes_tags_of_chinese_words_are_recognized_with_and_without_types():
    for tags in ("B-PER M-PER M-PER E-PER S-LOC O B-LOC E-LOC".split(), "B M E S S O B E".split()):
        assert entities.scheme_of([tags]) == "BMES"
        assert entities.write_tags(entities.spans(tags), len(tags), "BMES") == tags
        lengths = [end - start for _, start, end in entities.spans(tags)]
        assert lengths == ([4, 1, 2] if "-" in tags[0] else [3, 1, 1, 2])


@pytest.mark.parametrize(
    "sentences, scheme",
    [
        (["O O", "O"], "IOB2"),
        (["B-PER I-PER O I-PER"], "IOB2"),  # one stray I- does not make a file IOB1
        (["I-PER B-PER", "I-LOC O"], "IOB1"),
        (["I-PER O I-LOC"], "IOB1"),
        (["S-PER O"], "BIOES"),
        (["O U-PER B-PER L-PER"], "BILOU"),
    ],
)
def test_the_letters_and_the_uses_of_b_decide_the_scheme(sentences, scheme):
    assert entities.scheme_of(tags_of(sentences)) == scheme


def test_an_entity_that_reaches_into_the_next_sentence_counts_as_two():
    assert entities.count([["O", "B-PER"], ["I-PER"]], [["O", "B-PER"], ["I-PER"]]) == {"PER": (2, 2, 2)}


def test_without_entities_all_figures_are_zero_and_an_entity_with_a_wrong_end_counts_as_wrong():
    assert entities.precision_recall_f1(entities.count([["O"]], [["O"]])) == (0, 0, 0)
    counts = entities.count([["B-PER", "I-PER", "O", "B-LOC"]], [["B-PER", "O", "B-ORG", "B-LOC"]])
    precision, recall, f1 = entities.precision_recall_f1(counts)
    assert (precision, recall, f1) == (pytest.approx(1 / 3), pytest.approx(1 / 2), pytest.approx(2 / 5))


@pytest.mark.parametrize("tag", ["O", "B", "B-x-y", "U-PER", "M-PER"])
def test_tags_of_entities_are_recognized(tag):
    assert entities.is_entity_tag(tag)


@pytest.mark.parametrize("tag", ["NN", "-LRB-", "B-", "O-PER", "b-PER", "_"])
def test_tags_that_mark_no_entity_are_recognized(tag):
    assert not entities.is_entity_tag(tag)
