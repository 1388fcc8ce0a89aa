"""Pre-training of a GPT: the loss, the baselines, exact resume, and replicas."""

import dataclasses
import math
import shutil

import numpy as np
import pytest
import tensorflow as tf

from keras_bert_app.config.pretraining_config import PretrainingConfig
from keras_bert_app.errors import UserError
from keras_bert_app.interop import load
from keras_bert_app.modeling.architectures import make_pretrainer
from keras_bert_app.training import evaluation
from keras_bert_app.training.baselines import NgramBaselines, NgramCounts
from keras_bert_app.training.language_model_objective import LanguageModelObjective, perplexity
from tests.training.conftest import CONFIG, RUN, WITH_DROPOUT, train, two_replicas
from tests.training.test_reliability import EVERY_STEP, STEPS, assert_same, checkpoint_of, rows_of

GPT = CONFIG.replace(architecture="gpt")
CAUSAL = dataclasses.replace(RUN, language_model="causal", max_predictions_per_seq=0).resolved()
EVERY_CAUSAL_STEP = dataclasses.replace(EVERY_STEP, language_model="causal", sentence_objective="none")
ROWS = np.array([[2, 7, 9, 7, 9, 3], [2, 9, 7, 0, 0, 0]], np.int32)
BATCH = {"input_word_ids": tf.constant(ROWS), "input_mask": tf.constant((ROWS > 0).astype(np.int32))}


def test_the_loss_is_the_mean_of_the_next_pieces_alone():
    model, objective = make_pretrainer(GPT, seed=3), LanguageModelObjective()
    sums = objective.loss_sums(objective.outputs(model, BATCH), BATCH)
    log_p = tf.nn.log_softmax(model(BATCH)["lm_logits"]).numpy()
    expected = -sum(log_p[row, place, ROWS[row, place + 1]] for row in range(2) for place in range([5, 2][row]))
    figures = objective.metrics({name: float(value) for name, value in sums.items()})
    assert float(sums["language_model_count"]) == 7 == float(objective.counts(BATCH)[0])
    np.testing.assert_allclose(figures["loss"], expected / 7, rtol=1e-5)
    np.testing.assert_allclose(figures["perplexity"], math.exp(expected / 7), rtol=1e-5)
    assert perplexity(1e4) == math.inf


def test_unigrams_and_bigrams_are_those_counted_by_hand():
    counts = NgramCounts.of_rows([(ROWS, ROWS > 0)], vocab_size=10)
    assert counts.unigrams.tolist() == [0, 0, 0, 1, 0, 0, 0, 3, 0, 3]
    assert dict(zip(counts.pairs.tolist(), counts.pair_counts.tolist(), strict=True)) == {
        27: 1,
        29: 1,
        79: 2,
        97: 2,
        93: 1,
    }
    unigram, bigram = (
        np.exp(each) for each in counts.log_probabilities(np.array([7, 9, 9, 5]), np.array([9, 7, 8, 7]))
    )
    np.testing.assert_allclose(unigram, [4 / 17, 4 / 17, 1 / 17, 4 / 17])
    # 7 has one kind of follower, seen twice; 9 has two kinds, seen three times; 5 was never seen.
    np.testing.assert_allclose(
        bigram,
        [1.25 / 2 + 0.75 / 2 * 4 / 17, 1.25 / 3 + 1.5 / 3 * 4 / 17, 1.5 / 3 * 1 / 17, 4 / 17],
    )


def test_the_probabilities_of_all_pieces_after_a_piece_sum_to_one():
    counts = NgramCounts.of_rows([(ROWS, ROWS > 0)], vocab_size=10)
    for first in (2, 5, 7, 9):
        for log_p in counts.log_probabilities(np.full(10, first), np.arange(10)):
            np.testing.assert_allclose(np.exp(log_p).sum(), 1.0)


def test_the_baselines_of_a_batch_are_perplexities_and_are_missing_without_counts():
    baselines = NgramBaselines(NgramCounts.of_rows([(ROWS, ROWS > 0)], vocab_size=10))
    baselines.add(BATCH)
    baselines.add(BATCH)
    figures = baselines.figures({"language_model_count": 14.0})
    assert 1.0 < figures["eval_bigram_perplexity"] < figures["eval_unigram_perplexity"] < 10.0
    assert NgramBaselines(None).figures({"language_model_count": 14.0}) == {"eval_language_model_count": 14.0}


def test_a_run_learns_and_reports_its_perplexity_beside_both_baselines(shards, make_workdir):
    run = dataclasses.replace(CAUSAL, learning_rate=1e-2, num_train_steps=60, eval_steps=30)
    workdir = make_workdir("run", GPT, run)
    figures, output = train(workdir, shards)
    assert figures["eval_perplexity"] < 0.9 * math.exp(rows_of(workdir)[0]["loss"])
    # The words are random, so that pairs of words tell nothing.
    assert 15 < figures["eval_unigram_perplexity"] < figures["eval_bigram_perplexity"] < 2 * GPT.vocab_size
    assert output.count("held-out text: perplexity") == 2 and "bigrams of the training text" in output
    assert "  perplexity " in output and "LM acc" in output
    weights, lines = load.load_weights(workdir)
    assert weights.config.architecture == "gpt" and "encoder 16" in lines[0]


@pytest.mark.slow
def test_a_run_with_a_ramp_resumes_bit_for_bit(training_shards, make_workdir):
    model = WITH_DROPOUT.replace(architecture="gpt", num_hidden_layers=1)
    changes = {"max_seq_length": 32, "length_ramp_steps": 4, "deterministic": True, "jit_compile": "none"}
    whole = make_workdir("whole", model, dataclasses.replace(EVERY_CAUSAL_STEP, **changes))
    train(whole, training_shards)
    part = f"{whole}-1"
    shutil.copytree(whole, part)
    for later in range(2, STEPS + 1):
        shutil.rmtree(checkpoint_of(part, later))
    train(part, training_shards)
    assert_same(part, whole)


@pytest.mark.slow
def test_two_replicas_and_parts_of_a_batch_give_the_weights_of_one(training_shards, make_workdir):
    run, weights = dataclasses.replace(EVERY_CAUSAL_STEP, save_checkpoints_steps=STEPS), []
    cases = (
        ("one", run, None),
        ("two", run, two_replicas()),
        ("parts", dataclasses.replace(run, gradient_accumulation_steps=4), None),
    )
    for name, case, strategy in cases:
        workdir = make_workdir(name, GPT, case)
        train(workdir, training_shards, strategy)
        weights.append(load.load_weights(workdir)[0].tensors)
    for other in weights[1:]:
        for path, tensor in weights[0].items():
            np.testing.assert_allclose(other[path], tensor, atol=1e-6, err_msg=path)


@pytest.mark.parametrize(
    "architecture, language_model, message",
    [
        (
            "gpt",
            "masked",
            "--language_model=masked: does not fit a model of architecture gpt; give --language_model=causal",
        ),
        ("bert", "causal", "--language_model=causal: does not fit a model of architecture bert; .* --architecture=gpt"),
    ],
)
def test_an_architecture_with_the_other_s_language_model_is_refused(architecture, language_model, message):
    run = dataclasses.replace(RUN, language_model=language_model)
    with pytest.raises(UserError, match=message):
        run.checked_against(CONFIG.replace(architecture=architecture, is_causal=False))


@pytest.mark.parametrize("name, value", [("masked_lm_prob", 0.2), ("masking", "whole_word"), ("short_seq_prob", 0.3)])
def test_options_of_masks_have_no_effect_on_a_causal_model_and_are_refused(name, value):
    run = PretrainingConfig(language_model="causal", **{name: value})
    with pytest.raises(UserError, match=f"--{name}={value}: has an effect only with --language_model=masked"):
        run.check_read([name])


def test_the_summary_of_an_evaluation_names_the_baselines():
    figures = {"eval_perplexity": 31.5, "eval_language_model_count": 1234.0, "eval_language_model_accuracy": 0.25}
    assert evaluation.summary(figures) == ["held-out text: perplexity 31.50 on 1,234 pieces; accuracy 0.2500"]
    figures |= {"eval_unigram_perplexity": 900.0, "eval_bigram_perplexity": 120.26}
    assert (
        "; bigrams of the training text 120.3; unigrams of the training text 900.0; " in evaluation.summary(figures)[0]
    )
