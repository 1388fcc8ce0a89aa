"""The overlap of held-out text with training text equals a count in plain Python."""

import json
import random
import re

import numpy as np
import pytest

from pipelines.corpus import fingerprints
from pipelines.corpus.manifest import overlap_text
from pipelines.corpus.overlap import Overlap
from pipelines.corpus.preparation import prepare_corpus

NOTHING = np.zeros(0, np.uint64)
TEN = "one two three four five six seven eight nine ten"


def overlap(heldout, training, dropped=NOTHING):
    measure = Overlap([record.encode() for record in heldout])
    measure.add([record.encode() for record in training])
    return measure.result(dropped)


@pytest.mark.parametrize(
    "training, overlaps",
    [
        (f"He said: {TEN.upper()}!", True),  # case and punctuation do not count
        ("one two three four five six seven eight nine and more", True),  # 9 of 10 words
        ("three four five six seven eight nine ten", True),  # 8 of 10 words
        ("one two three four five six seven", False),  # no run of 8
        ("one two three four five six seven eight. Nine ten.", True),
        ("one two three four five\nsix seven eight nine ten", False),  # no run crosses the end of a sentence
        ("two one four three six five eight seven ten nine", False),
    ],
)
def test_a_sentence_overlaps_if_most_of_its_words_are_in_runs_of_eight_words_of_a_training_sentence(training, overlaps):
    heldout = f"{TEN}.\nSeven words are too few for this."
    assert overlap([heldout], ["Another one.\n" + training]) == {"sentences": 1, "overlapping": int(overlaps)}


def test_dropped_sentences_and_documents_do_not_count():
    heldout = [f"{TEN}\n{TEN} eleven\nShort.", f"{TEN} twelve\nShort too."]
    dropped = fingerprints.entries_and_lines([TEN.encode(), b"Short too."])[1]["hash"]
    assert overlap(heldout, [TEN]) == {"sentences": 3, "overlapping": 3}
    assert overlap(heldout, [TEN], dropped) == {"sentences": 1, "overlapping": 1}


@pytest.mark.parametrize("heldout, training", [([], ["a b"]), (["a b\nc"], []), ([""], [""]), (["...\n!"], ["a b c"])])
def test_text_without_a_run_of_eight_words_overlaps_with_nothing(heldout, training):
    assert overlap(heldout, training) == {"sentences": 0, "overlapping": 0}


@pytest.mark.parametrize(
    "value", [None, 5, {}, {"sentences": "9", "overlapping": 1}, {"sentences": 0, "overlapping": 0}]
)
def test_a_manifest_without_a_measured_overlap_gives_an_empty_text(value):
    assert overlap_text({"heldout_overlap": value}) == overlap_text({}) == ""


def plain_overlap(heldout, training):
    """Computes the overlap by its definition, for ASCII text."""

    def words_of(line):
        return re.findall("[a-z0-9]+", line.lower())

    known = {
        tuple(words[i : i + 8])
        for record in training
        for words in map(words_of, record.split("\n"))
        for i in range(len(words) - 7)
    }
    sentences = overlapping = 0
    for words in (words_of(line) for record in heldout for line in record.split("\n")):
        covered = {i + k for i in range(len(words) - 7) if tuple(words[i : i + 8]) in known for k in range(8)}
        sentences += len(words) >= 8
        overlapping += len(words) >= 8 and len(covered) >= 0.8 * len(words)
    return {"sentences": sentences, "overlapping": overlapping}


def test_the_count_on_random_text_equals_the_definition_for_blocks_of_any_size(monkeypatch):
    generator = random.Random(7)

    def record():
        # The records have few words and fixed sequences, so that runs of eight words occur in both texts.
        lines = (generator.choice([TEN, " ".join(generator.choices("ab", k=9))]) for _ in range(5))
        return "\n".join(" ".join(generator.sample([line, "x", "Y-z"], 3)) + "." for line in lines)

    heldout, training = ([record() for _ in range(number)] for number in (40, 60))
    expected = plain_overlap(heldout, training)
    assert 20 < expected["overlapping"] < expected["sentences"] - 20
    for block_bytes in (1 << 18, 100, 7):
        monkeypatch.setattr(fingerprints, "_BLOCK_BYTES", block_bytes)
        assert overlap(heldout, training) == expected


def test_chinese_text_is_compared_by_characters():
    assert overlap(["我们今天去学校学习汉语。\n好。"], ["他说我们今天去学校学习汉语了。"]) == {
        "sentences": 1,
        "overlapping": 1,
    }


def test_manifest_and_reports_say_how_much_of_the_held_out_text_overlaps(tmp_path):
    words = [f"w{i}" for i in range(4000)]
    generator = random.Random(2)
    documents = []
    for number in range(200):
        copied = " ".join(generator.choices(words, k=12))
        # For odd numbers, the second document repeats a sentence of the first and adds one word.
        documents.append([f"Own {number}.", copied])
        documents.append([f"Other {number}.", f"{copied} {number}" if number % 2 else " ".join(words[number:][:9])])
    manifest = prepare_corpus(str(tmp_path), documents=documents, holdout_fraction=0.2)
    counts = manifest["heldout_overlap"]
    assert 20 < counts["overlapping"] < counts["sentences"] == manifest["heldout"]["documents"]
    assert json.loads((tmp_path / "report.json").read_text())["heldout_overlap"] == counts
    assert overlap_text(manifest).startswith(f"{counts['overlapping'] / counts['sentences']:.1%} of")
    assert overlap_text(manifest) in (tmp_path / "report.txt").read_text()
