"""Text that does not fit the vocabulary gives a warning or is refused before the training begins."""

import dataclasses
import os

import numpy as np
import pytest

from keras_bert_app.errors import UserError
from keras_bert_app.training import pretraining_start, vocabulary_fit
from pipelines.corpus import preparation
from pipelines.wordpiece.tokenizer import BertTokenizer
from tests.training.conftest import CONFIG, RUN, VOCABULARY, WORDS

CONTENT = "".join(f"{piece}\n" for piece in VOCABULARY).encode()


@pytest.fixture
def tokenizer(tmp_path):
    (tmp_path / "vocab.txt").write_bytes(CONTENT)
    return BertTokenizer(str(tmp_path / "vocab.txt"))


def prepare(directory, unknown_of_20):
    """Prepares a corpus in which `unknown_of_20` of every 20 pieces are [UNK]. Returns its manifest by directory."""
    words = [*WORDS[: 19 - unknown_of_20], *["国"] * unknown_of_20]
    documents = [[" ".join(np.random.RandomState(i).permutation(words)) + "."] * 3 for i in range(40)]
    return {str(directory): preparation.prepare_corpus(str(directory), documents=documents, holdout_fraction=0.0)}


@pytest.mark.parametrize("unknown_of_20, outcome", [(0, "fits"), (1, "fits"), (2, "warns"), (4, "warns"), (5, "stops")])
def test_a_corpus_with_over_5_percent_of_unk_gets_a_warning_and_with_over_20_is_refused(
    tmp_path, tokenizer, unknown_of_20, outcome
):
    manifests = prepare(tmp_path / "corpus", unknown_of_20)
    if outcome == "stops":
        with pytest.raises(
            UserError, match=r"corpus: 25.0% of 2,400 word pieces are \[UNK\].*20% at most.*learn_vocab"
        ):
            vocabulary_fit.check_corpora(manifests, tokenizer)
        return
    lines = vocabulary_fit.check_corpora(manifests, tokenizer)
    expected = [f"corpus: {unknown_of_20 / 20:.1%} of 2,400 word pieces are [UNK]"] if outcome == "warns" else []
    assert len(lines) == len(expected) and all(part in line for part, line in zip(expected, lines, strict=True))


def test_each_of_several_corpora_is_checked_by_a_sample_of_its_beginning(tmp_path, tokenizer, monkeypatch):
    monkeypatch.setattr(vocabulary_fit, "_SAMPLE_BYTES", 500)
    manifests = {**prepare(tmp_path / "one", 0), **prepare(tmp_path / "two", 3)}
    (line,) = vocabulary_fit.check_corpora(manifests, tokenizer)
    assert line.startswith(f"{tmp_path / 'two'}: 1") and " word pieces are [UNK]" in line and "2,400" not in line


def test_a_text_without_a_piece_gets_no_warning(tokenizer):
    assert vocabulary_fit.check(np.zeros(0, np.int32), tokenizer, "text") == []
    assert vocabulary_fit.check(np.array([tokenizer.cls_id, tokenizer.sep_id]), tokenizer, "text") == []


def test_text_of_another_language_is_refused_before_the_training_begins(tmp_path):
    text = tmp_path / "text.txt"
    text.write_text("\n".join("我们今天去学校。我们学习汉语。他们明天来。" for _ in range(20)), encoding="utf-8")
    run = dataclasses.replace(RUN, input_files=(str(text),), corpus_dir=(), holdout_fraction=0.0)
    with pytest.raises(UserError, match=r"corpus: 100.0% of .* word pieces are \[UNK\]"):
        pretraining_start.launch(str(tmp_path / "run"), CONFIG, run, CONTENT)
    assert not os.path.exists(tmp_path / "run/config.json")
