"""Text without next-sentence pairs: a start is refused, and no meaningless figure is reported."""

import dataclasses

import pytest
import tensorflow as tf

from keras_bert_app.errors import UserError
from keras_bert_app.training import pretraining_corpora
from keras_bert_app.training.losses import PretrainingObjective
from keras_bert_app.training.pretraining_corpora import PretrainingCorpora
from pipelines.corpus import preparation
from tests.training.conftest import CONFIG, RUN, train
from tests.training.runs import rows_of


def prepared(directory, num_documents, num_sentences, **more):
    """Prepares a corpus whose document i has num_sentences(i) sentences. Returns its manifest by directory."""
    documents = [[f"the cat sat {i} {j}." for j in range(num_sentences(i))] for i in range(num_documents)]
    return {str(directory): preparation.prepare_corpus(str(directory), documents=documents, **more)}


def test_a_start_is_refused_if_few_documents_have_two_sentences(tmp_path):
    """A run on such a text once had a next-sentence accuracy of 1.000 at step 20."""
    manifests = prepared(tmp_path, 100, lambda i: 2 if i % 20 == 0 else 1, holdout_fraction=0)
    with pytest.raises(UserError, match="100 documents have 105 sentences, so at most 5.0% .* --input_format") as error:
        pretraining_corpora.check_pairs(manifests, RUN)
    assert "\n" not in str(error.value)
    for objective in ("sop", "none"):
        pretraining_corpora.check_pairs(manifests, dataclasses.replace(RUN, sentence_objective=objective))
    pretraining_corpora.check_pairs(prepared(tmp_path / "more", 100, lambda i: 1 + i % 2), RUN)


def test_held_out_documents_that_were_dropped_are_named_as_the_reason_for_no_evaluation(tmp_path):
    manifests = prepared(tmp_path, 100, lambda i: 1 if i else 2, holdout_fraction=0.2)
    dropped = next(iter(manifests.values()))["counts"]["heldout_documents_dropped"]
    lines = pretraining_corpora.remarks(PretrainingCorpora.from_manifests(manifests), RUN)
    assert dropped > 5 and f"{dropped} held-out documents were dropped" in lines[0]
    lines = pretraining_corpora.remarks(PretrainingCorpora((("a",),), (), 9, 0), RUN)
    assert "prepare the text with --holdout_fraction" in lines[0]


def test_next_sentence_pairs_of_a_single_document_have_no_weight():
    batch = {
        "masked_lm_ids": tf.constant([[1, 2]]),
        "masked_lm_weights": tf.ones([1, 2]),
        "next_sentence_labels": tf.constant([0]),
        "input_mask": tf.ones([1, 5], tf.int32),
    }
    outputs = {"mlm_logits": tf.zeros([1, 2, 7]), "nsp_logits": tf.constant([[3.0, -1.0]])}
    for num_documents, has_figure in ((1, False), (2, True), (None, True)):
        objective = PretrainingObjective("nsp", num_documents)
        sums = {name: float(value) for name, value in objective.loss_sums(outputs, batch).items()}
        assert sums["next_sentence_count"] == float(objective.counts(batch)[1]) == has_figure
        assert ("next_sentence_accuracy" in objective.metrics(sums)) == has_figure
    assert float(PretrainingObjective("sop", 1).counts(batch)[1]) == 1


def test_a_split_of_one_document_reports_no_next_sentence_figure_and_says_why(make_workdir, shards):
    workdir = make_workdir("one", CONFIG, dataclasses.replace(RUN, num_train_steps=2, log_steps=1))
    figures, output = train(workdir, shards, num_documents=(1, 1))
    assert "eval_masked_lm_accuracy" in figures and not [name for name in figures if "next_sentence" in name]
    assert not [name for row in rows_of(workdir) for name in row if name.startswith("next_sentence")]
    assert "the training text is one document" in output
    assert "one document alone is held out" in output and "NSP acc" not in output
