"""The training loop: equal results on one and two devices, with gradient accumulation and compiled; its errors."""

import dataclasses
import itertools
import math
import os
from types import SimpleNamespace

import numpy as np
import pytest
import tensorflow as tf

from keras_bert_app import load_pretrained
from keras_bert_app.drawing.curves import draw_curves
from keras_bert_app.errors import UserError
from keras_bert_app.modeling import backend
from keras_bert_app.modeling.layers import Dropout
from keras_bert_app.modeling.pretrainer import BertPretrainer
from keras_bert_app.runs import checkpoints
from keras_bert_app.training import initialization, loop, pace, pretraining_data, reporting, steps
from keras_bert_app.training.losses import PretrainingObjective
from keras_bert_app.training.optimizers.adam import AdamWeightDecay
from pipelines import BertTokenizer, pretraining_dataset
from tests.training.conftest import CONFIG, RUN, WITH_DROPOUT, train, two_replicas
from tests.training.runs import largest_difference, rows_of, weights_of


def test_one_and_two_replicas_give_the_same_figures_and_the_same_weights_within_1e_6(
    plain_run, untrained_run, make_workdir, shards
):
    two = make_workdir("two")
    figures, _ = train(two, shards, two_replicas())
    assert largest_difference(plain_run[0], two) < 1e-6
    assert figures == pytest.approx(plain_run[1], abs=1e-5)
    assert largest_difference(plain_run[0], untrained_run[0]) > 1e-4  # training has moved the weights


def test_every_weight_is_moved_by_its_gradient(plain_run, untrained_run):
    before, after = weights_of(untrained_run[0]), weights_of(plain_run[0])
    # Weight decay alone would move no weight by more than 1e-6.
    still = [path for path in before if np.abs(before[path] - after[path]).max() < 1e-5]
    assert not still


def test_the_weights_do_not_depend_on_the_number_of_steps_in_a_call(dropout_run, make_workdir, training_shards):
    # A profile may be longer than the run.
    many = make_workdir("many", WITH_DROPOUT, dataclasses.replace(RUN, iterations_per_loop=7, profile_steps=100))
    assert "most costly ops" in train(many, training_shards)[1]
    assert largest_difference(dropout_run[0], many) == 0.0


def test_every_replica_and_step_draws_its_own_dropout_masks(shards, make_workdir):
    config = WITH_DROPOUT.replace(num_hidden_layers=1)
    workdir, strategy, seeds = make_workdir("seeds", config), two_replicas(), []
    tokenizer = BertTokenizer(os.path.join(workdir, "vocab.txt"))
    with strategy.scope():
        model = BertPretrainer(config)
        optimizer = AdamWeightDecay({variable.path: variable.value for variable in model.trainable_variables})

    class Recorder:
        """A model that records the seeds of its calls."""

        has_dropout = True

        def __call__(self, batch, dropout_seed, **options):
            tf.numpy_function(lambda seed: seeds.append(tuple(seed.tolist())), [dropout_seed], [])
            return model(batch, dropout_seed=dropout_seed, **options)

    call = steps.make_train_call(strategy, Recorder(), optimizer, RUN, PretrainingObjective())
    batches = list(
        pretraining_dataset(
            shards[0], tokenizer, global_batch_size=8, max_seq_length=29, max_predictions_per_seq=5
        ).take(3)
    )
    call({name: tf.stack([batch[name] for batch in batches]) for name in batches[0]}, 0)
    assert len(seeds) == len(set(seeds)) == 2 * 3


def test_masks_of_different_seeds_and_places_are_unrelated():
    values = tf.ones([5000])
    masks = [
        Dropout(0.5, place)(values, backend.stem(tf.constant(seed, tf.int64))).numpy() > 0
        for seed in ((5, 2), (5, 3))
        for place in (0, 1)
    ]
    for i, mask in enumerate(masks):
        assert abs(mask.mean() - 0.5) < 0.04
        assert all(0.46 < (mask == other).mean() < 0.54 for other in masks[:i])


@pytest.mark.parametrize("number", (0, 1, 37, 2**31 - 1))
def test_with_number_of_a_stem_equals_fold_in_of_its_seed(number):
    for seed in ((5, 2), (-1, 2**40)):
        seed = tf.constant(seed, tf.int64)
        assert (
            backend.with_number(backend.stem(seed), number).numpy().tolist()
            == backend.fold_in(seed, number).numpy().tolist()
        )


def test_bfloat16_trains_close_to_float32_with_float32_weights(plain_run, make_workdir, shards):
    low = make_workdir("low", run=dataclasses.replace(RUN, precision="bfloat16"))
    figures, _ = train(low, shards)
    assert abs(figures["eval_loss"] - plain_run[1]["eval_loss"]) < 0.02
    assert all(value.dtype == np.float32 for value in weights_of(low).values())
    assert largest_difference(low, plain_run[0]) > 1e-6  # the precision has an effect


@pytest.mark.parametrize("jit_compile", ("step", "parts"))
def test_a_compiled_step_computes_the_same(jit_compile, plain_run, make_workdir, training_shards):
    compiled = make_workdir(f"compiled {jit_compile}", run=dataclasses.replace(RUN, jit_compile=jit_compile))
    train(compiled, training_shards)
    assert 0.0 < largest_difference(plain_run[0], compiled) < 1e-5  # other kernels, the same result


@pytest.mark.slow
def test_two_replicas_with_compiled_kernels_that_take_their_rows_in_parts_give_the_weights_of_one(
    plain_run, make_workdir, training_shards
):
    two = make_workdir("two", run=dataclasses.replace(RUN, jit_compile="parts", gradient_accumulation_steps=2))
    _, output = train(two, training_shards, two_replicas())
    assert "2 parts" in output
    assert largest_difference(plain_run[0], two) < 1e-5


@pytest.mark.parametrize(
    "changes, expected",
    (
        ({}, "parts"),
        ({"num_train_steps": 100}, "none"),
        ({"train_minutes": 10, "num_train_steps": 100}, "parts"),
    ),
)
def test_auto_compiles_parts_on_a_cpu_in_runs_that_are_long_enough(changes, expected):
    run = dataclasses.replace(RUN, **{"num_train_steps": 1000, "jit_compile": "auto", **changes})
    assert run.with_compilation("CPU").jit_compile == expected
    assert run.with_compilation("TPU").jit_compile == "none"


def test_figures_have_their_names_and_evaluation_counts_every_example_once(plain_run, untrained_run):
    workdir, figures, output = plain_run
    assert {
        "step",
        "loss",
        "masked_lm_loss",
        "masked_lm_accuracy",
        "next_sentence_loss",
        "next_sentence_accuracy",
        "learning_rate",
        "tokens_per_second",
    } <= rows_of(workdir)[0].keys()
    # The untrained run has another batch size, and so another number of empty rows in its last batch.
    for count in ("eval_next_sentence_count", "eval_masked_lm_count"):
        assert untrained_run[1][count] == figures[count] > 0
    assert "unigram" in output and "majority share" in output
    assert tf.io.gfile.listdir(os.path.join(workdir, "events"))


def test_a_run_that_diverges_stops_at_the_step_and_says_what_to_do(make_workdir, training_shards):
    workdir = make_workdir("diverges", CONFIG, dataclasses.replace(RUN, learning_rate=1e30, clip_norm=1e30))
    with pytest.raises(
        UserError, match=r"step \d+: the (gradient of \w+/.*|loss or the gradient's norm) is not finite"
    ):
        train(workdir, training_shards)
    assert not checkpoints.list_checkpoints(workdir)


def test_steps_that_are_not_finite_are_skipped_when_asked_and_counted(make_workdir, training_shards):
    workdir = make_workdir(
        "skips",
        CONFIG,
        dataclasses.replace(RUN, learning_rate=1e30, clip_norm=1e30, on_nonfinite="skip", log_steps=20),
    )
    _, output = train(workdir, training_shards)
    row = next(row for row in rows_of(workdir) if "loss" in row)
    assert row["skipped_steps"] > 0 and np.isfinite(row["loss"])
    assert all(np.isfinite(weights).all() for weights in weights_of(workdir).values())


def test_a_batch_that_replicas_cannot_share_is_refused(make_workdir, shards):
    workdir = make_workdir("uneven", run=dataclasses.replace(RUN, global_batch_size=7))
    with pytest.raises(UserError, match="multiple of 2"):
        train(workdir, shards, two_replicas())


@pytest.mark.parametrize("compiled, limit", (("none", 1e-6), ("step", 1e-5)))
def test_rows_taken_in_parts_give_the_weights_of_the_whole_batch(
    compiled, limit, plain_run, make_workdir, training_shards
):
    parts = make_workdir(
        f"accumulated {compiled}", run=dataclasses.replace(RUN, gradient_accumulation_steps=4, jit_compile=compiled)
    )
    _, output = train(parts, training_shards)
    assert "4 parts" in output
    assert largest_difference(plain_run[0], parts) < limit


def test_a_time_budget_ends_the_run_and_its_learning_rate_and_a_length_ramp_that_it_cut_off_is_named(
    make_workdir, training_shards, monkeypatch
):
    # Each reading of this clock adds a tenth of a second, so that the speed of the machine has no effect.
    ticks = itertools.count()
    clock = SimpleNamespace(monotonic=lambda: next(ticks) / 10)
    for module in (loop, pace, reporting):
        monkeypatch.setattr(module, "time", clock)
    run = dataclasses.replace(
        RUN,
        train_minutes=0.15,
        num_train_steps=10**6,
        num_warmup_steps=10**5,
        max_seq_length=32,
        length_ramp_steps=10**5,
    )
    workdir = make_workdir("budget", CONFIG, run)
    _, output = train(workdir, training_shards, draw=draw_curves)
    rows = [row for row in rows_of(workdir) if "loss" in row]
    assert rows[-1]["learning_rate"] < 0.2 * max(row["learning_rate"] for row in rows)
    with open(os.path.join(workdir, "curves.png"), "rb") as file:
        assert "ETA 0:00" in output and file.read(4) == b"\x89PNG"
    checkpoint = checkpoints.list_checkpoints(workdir)[-1]
    assert checkpoints.read_manifest(checkpoint)["seconds"] >= 9.0
    assert "the run ended within --length_ramp_steps=100000: positions from 8 on were not trained" in output


def test_positions_begin_as_sines_of_the_size_of_the_other_weights():
    model = BertPretrainer(CONFIG, seed=1)
    before = {variable.path: variable.numpy() for variable in model.weights}
    initialization.begin_with_sines(model)
    changed = {
        variable.path: variable.numpy()
        for variable in model.weights
        if not np.array_equal(variable.numpy(), before[variable.path])
    }
    ((path, table),) = changed.items()
    assert path.endswith("position_embeddings") and table.shape == (41, 22)
    np.testing.assert_allclose(np.sqrt((table**2).mean(axis=1)), CONFIG.initializer_range, rtol=1e-5)
    for position, pair in ((0, 0), (1, 0), (7, 3), (40, 10)):
        angle = position / 10_000 ** (2 * pair / 22)
        expected = np.array([math.sin(angle), math.cos(angle)]) * math.sqrt(2) * CONFIG.initializer_range
        np.testing.assert_allclose(table[position, 2 * pair : 2 * pair + 2], expected, atol=1e-7)


def test_a_length_ramp_that_does_not_fit_the_run_is_refused(make_workdir, shards):
    with pytest.raises(
        UserError, match="--max_seq_length=30: with --length_ramp_steps expected a multiple of 4, 32 or more"
    ):
        dataclasses.replace(RUN, max_seq_length=30, length_ramp_steps=9)
    with pytest.raises(UserError, match="--max_seq_length=30: with --length_ramp_share expected a multiple of 4"):
        dataclasses.replace(RUN, max_seq_length=30, length_ramp_share=0.2)
    run = dataclasses.replace(RUN, max_seq_length=32, length_ramp_steps=20)
    with pytest.raises(UserError, match="--length_ramp_steps=20: expected less than --num_train_steps=20"):
        train(make_workdir("never", run=run), shards)
    # The first batches have 12 rows, which divide over 2 replicas, but the last batches have 3.
    run = dataclasses.replace(run, length_ramp_steps=10, global_batch_size=3)
    with pytest.raises(UserError, match="a global batch of 3 .* does not divide over 2 replicas"):
        train(make_workdir("uneven", run=run), shards, strategy=two_replicas())
    for train_minutes in (0.0, 5.0):
        run = dataclasses.replace(run, length_ramp_steps=0, length_ramp_share=0.5, train_minutes=train_minutes)
        with pytest.raises(UserError, match="a global batch of 3 .* does not divide over 2 replicas"):
            pretraining_data.check_ramps(run, two_replicas())


def assert_the_loss_fell(workdir):
    """The loss of masked words starts near ln 34, that of sentences near ln 2. Random words leave little to learn."""
    rows = [row for row in rows_of(workdir) if "loss" in row]
    assert rows[-1]["loss"] < rows[0]["loss"] - 0.1 and rows[-1]["update_norm"] > 0


def test_metrics_have_a_row_every_log_steps_and_at_the_end_and_a_profile_names_the_most_costly_ops(
    make_workdir, training_shards
):
    run = dataclasses.replace(RUN, iterations_per_loop=0, log_steps=7, num_train_steps=16, profile_steps=3)
    workdir = make_workdir("profile", CONFIG, run)
    _, output = train(workdir, training_shards)
    assert [row["step"] for row in rows_of(workdir) if "loss" in row] == [7, 14, 16]
    table = output.split("most costly ops")[1]
    # The optimizer updates each of the 26 weights once a step. The matrix products of this small model are not costly.
    assert "ResourceApplyAdam" in table and "26.0 times" in table and "ms a step" in table
    assert os.path.isdir(os.path.join(workdir, "profile", "plugins", "profile"))


@pytest.mark.slow
def test_adafactor_learns_the_order_of_sentences_which_is_reported_by_its_name(make_workdir, shards):
    changes = {"optimizer": "adafactor", "learning_rate": 0.1, "sentence_objective": "sop", "masking": "span"}
    workdir = make_workdir("order", CONFIG, dataclasses.replace(RUN, **changes))
    figures, output = train(workdir, shards)
    assert_the_loss_fell(workdir)
    assert "held-out sentence order: accuracy" in output and "next sentence" not in output and "NSP acc" not in output
    assert "eval_next_sentence_accuracy" in figures and np.isfinite(list(figures.values())).all()


@pytest.mark.slow
def test_a_run_of_muon_without_pairs_keeps_neither_pooler_nor_next_sentence_head_and_trains_all_else(
    make_workdir, shards
):
    changes = {"optimizer": "muon", "position_initializer": "sinusoidal", "learning_rate": 3e-3}
    changes |= {"sentence_objective": "none", "masking": "whole_word", "weight_decay_rate": 0.0}
    workdir = make_workdir("none", CONFIG, dataclasses.replace(RUN, **changes))
    figures, output = train(workdir, shards)
    assert_the_loss_fell(workdir)
    assert "held-out masked LM" in output and "acc 0.000" not in output and "NSP acc" not in output
    assert "eval_next_sentence_accuracy" not in figures and np.isfinite(list(figures.values())).all()
    with pytest.raises(UserError, match="allow_missing=next_sentence"):
        load_pretrained(workdir)
    model = load_pretrained(workdir, allow_missing=("pooler", "next_sentence"))
    after = {variable.path: variable.numpy() for variable in model.weights}
    before = {variable.path: variable.numpy() for variable in BertPretrainer(CONFIG, seed=RUN.seed).weights}
    assert set(after) == {path for path in before if "pooler" not in path and "next_sentence" not in path}
    assert not [path for path in after if np.array_equal(before[path], after[path])]
    assert {"pooled_output", "nsp_logits"}.isdisjoint(
        model({name: np.ones((1, 5), np.int32) for name in ("input_word_ids", "input_mask", "input_type_ids")})
    )
