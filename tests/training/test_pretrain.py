"""The training loop: the same result on one device and two, through stops and restarts, in both precisions."""

import dataclasses
import itertools
import json
import os
import shutil
import signal
from types import SimpleNamespace

import numpy as np
import pytest
import tensorflow as tf

from keras_bert_app import load_pretrained
from keras_bert_app.errors import Interrupted, UserError
from keras_bert_app.modeling.pretrainer import BertPretrainer
from keras_bert_app.runs import checkpoints
from keras_bert_app.runs import workdir as workdirs
from keras_bert_app.training import data, launch, loop, pretrain as pretraining, reporting, steps
from keras_bert_app.training.adam import AdamWeightDecay
from keras_bert_app.training.losses import PretrainingObjective
from pipelines import BertTokenizer, pretraining_dataset
from tests.training.conftest import CONFIG, RUN, VOCABULARY, WITH_DROPOUT, WORDS, train, two_replicas


def weights_of(workdir):
    return {variable.path: variable.numpy() for variable in load_pretrained(workdir).weights}


def largest_difference(workdir, other):
    ours, theirs = weights_of(workdir), weights_of(other)
    return max(np.abs(ours[path] - theirs[path]).max() for path in ours)


def rows_of(workdir):
    with open(os.path.join(workdir, "metrics.jsonl"), encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def test_one_and_two_replicas_give_the_same_weights_within_1e_6(plain_run, untrained_run, make_workdir, shards):
    two = make_workdir("two")
    train(two, shards, two_replicas())
    assert largest_difference(plain_run[0], two) < 1e-6
    assert largest_difference(plain_run[0], untrained_run[0]) > 1e-4  # they did move


def test_every_weight_is_moved_by_its_gradient(plain_run, untrained_run):
    before, after = weights_of(untrained_run[0]), weights_of(plain_run[0])
    # Weight decay alone would move no weight by more than 1e-6.
    still = [path for path in before if np.abs(before[path] - after[path]).max() < 1e-5]
    assert not still


@pytest.mark.parametrize("stop_at", [3, 16])
def test_a_resumed_run_ends_with_the_same_bits(dropout_run, make_workdir, shards, stop_at):
    # The schedule must not change with the stop: interrupt by signal, as a user does.
    parts = make_workdir("parts", WITH_DROPOUT)
    interrupt_after(parts, shards, stop_at)
    train(parts, shards)
    assert largest_difference(dropout_run[0], parts) == 0.0
    assert rows_of(dropout_run[0])[-2]["loss"] == rows_of(parts)[-2]["loss"]
    assert [row["step"] for row in rows_of(parts)] == sorted(row["step"] for row in rows_of(parts))


def interrupt_after(workdir, shards, step):
    """Runs until the first call that ends at or after a step, then sends SIGTERM twice to ourselves."""
    real = pretraining.reporting.Reporter.live

    def live(self, at, figures):
        if at >= step:
            os.kill(os.getpid(), signal.SIGTERM)
            os.kill(os.getpid(), signal.SIGTERM)
        return real(self, at, figures)
    pretraining.reporting.Reporter.live = live
    try:
        with pytest.raises(Interrupted) as stopped:
            train(workdir, shards)
    finally:
        pretraining.reporting.Reporter.live = real
    assert stopped.value.number == signal.SIGTERM and stopped.value.step >= step and stopped.value.has_saved
    assert checkpoints.read_manifest(checkpoints.list_checkpoints(workdir)[-1])["step"] == stopped.value.step


def test_the_result_does_not_depend_on_the_steps_a_call(dropout_run, make_workdir, shards):
    many = make_workdir("many", WITH_DROPOUT, dataclasses.replace(RUN, iterations_per_loop=7))
    train(many, shards)
    assert largest_difference(dropout_run[0], many) == 0.0


def test_every_replica_and_step_draws_its_own_dropout_masks(shards, make_workdir):
    workdir, strategy, seeds = make_workdir("seeds", WITH_DROPOUT), two_replicas(), []
    tokenizer = BertTokenizer(os.path.join(workdir, "vocab.txt"))
    with strategy.scope():
        model = BertPretrainer(WITH_DROPOUT)
        optimizer = AdamWeightDecay({variable.path: variable.value for variable in model.trainable_variables})

    class Recorder:
        """The model, noting the seeds that it is called with."""
        has_dropout = True

        def __call__(self, batch, dropout_seed):
            tf.numpy_function(lambda seed: seeds.append(tuple(seed.tolist())), [dropout_seed], [])
            return model(batch, dropout_seed=dropout_seed)
    call = steps.make_train_call(strategy, Recorder(), optimizer, RUN, PretrainingObjective())
    batches = list(pretraining_dataset(shards[0], tokenizer, global_batch_size=8, max_seq_length=29,
                                       max_predictions_per_seq=5).take(3))
    call({name: tf.stack([batch[name] for batch in batches]) for name in batches[0]}, 0)
    assert len(seeds) == len(set(seeds)) == 2 * 3


def test_masks_of_different_seeds_and_places_are_unrelated():
    from keras_bert_app.modeling.layers import Dropout
    values = tf.ones([5000])
    masks = [Dropout(0.5, place)(values, tf.constant(seed, tf.int64)).numpy() > 0
             for seed in ((5, 2), (5, 3)) for place in (0, 1)]
    for i, mask in enumerate(masks):
        assert abs(mask.mean() - 0.5) < 0.04
        assert all(0.46 < (mask == other).mean() < 0.54 for other in masks[:i])


def test_bfloat16_trains_close_to_float32_with_float32_weights(plain_run, make_workdir, shards):
    low = make_workdir("low", run=dataclasses.replace(RUN, precision="bfloat16"))
    figures, _ = train(low, shards)
    assert abs(figures["eval_loss"] - plain_run[1]["eval_loss"]) < 0.02
    assert all(value.dtype == np.float32 for value in weights_of(low).values())
    assert largest_difference(low, plain_run[0]) > 1e-6  # the flag does something


def test_a_compiled_step_computes_the_same(plain_run, make_workdir, shards):
    compiled = make_workdir("compiled", run=dataclasses.replace(RUN, jit_compile=True))
    train(compiled, shards)
    assert 0.0 < largest_difference(plain_run[0], compiled) < 1e-5  # not the same kernels, the same result


def test_figures_have_their_names_and_evaluation_counts_every_example_once(plain_run, untrained_run):
    workdir, figures, output = plain_run
    assert {"step", "loss", "masked_lm_loss", "masked_lm_accuracy", "next_sentence_loss", "next_sentence_accuracy",
            "learning_rate", "tokens_per_second"} <= rows_of(workdir)[0].keys()
    # The untrained run has another batch size, so that its last batch is filled up otherwise.
    for count in ("eval_next_sentence_count", "eval_masked_lm_count"):
        assert untrained_run[1][count] == figures[count] > 0
    assert "unigram" in output and "majority share" in output
    assert tf.io.gfile.listdir(os.path.join(workdir, "events"))


def test_a_finished_run_evaluates_again_and_its_metrics_stay_as_they_are(plain_run, tmp_path, shards):
    workdir = str(tmp_path / "finished")
    shutil.copytree(plain_run[0], workdir)
    assert train(workdir, shards)[0] == plain_run[1]
    assert rows_of(workdir) == rows_of(plain_run[0])


def test_weights_start_from_another_run_and_the_steps_from_zero(plain_run, make_workdir, shards):
    second = make_workdir("second", run=dataclasses.replace(RUN, init_checkpoint=plain_run[0], learning_rate=0.0,
                                                            num_train_steps=1))
    _, output = train(second, shards)
    assert largest_difference(plain_run[0], second) == 0.0
    assert f"weights from {plain_run[0]}, optimizer and steps new" in output
    assert f"{checkpoints.list_checkpoints(plain_run[0])[-1]}: " in output


def test_a_damaged_or_missing_checkpoint_file_is_named_and_never_a_silent_restart(plain_run, tmp_path, shards):
    workdir = str(tmp_path / "damaged")
    shutil.copytree(plain_run[0], workdir)
    checkpoint = checkpoints.list_checkpoints(workdir)[-1]
    data_file = next(name for name in sorted(os.listdir(checkpoint)) if ".data-" in name)
    path = os.path.join(checkpoint, data_file)
    with open(path, "rb") as file:
        content = file.read()
    for damaged in (content[:-1], content[:100] + bytes([content[100] ^ 1]) + content[101:]):
        with open(path, "wb") as file:
            file.write(damaged)
        with pytest.raises(UserError, match=data_file):
            load_pretrained(workdir)
    with pytest.raises(UserError, match=data_file):
        train(workdir, shards)
    os.remove(path)
    with pytest.raises(UserError, match=data_file):
        load_pretrained(workdir)
    os.remove(os.path.join(checkpoint, "manifest.json"))
    with pytest.raises(UserError, match="manifest.json"):
        load_pretrained(workdir)


def test_a_run_that_diverges_stops_at_the_step_and_says_what_to_do(make_workdir, shards):
    workdir = make_workdir("diverges", run=dataclasses.replace(RUN, learning_rate=1e30, clip_norm=1e30))
    with pytest.raises(UserError, match=r"step \d+: the (gradient of \w+/.*|loss or the gradient's norm) is not finite"):
        train(workdir, shards)
    assert not checkpoints.list_checkpoints(workdir)


def test_a_checkpoint_of_the_version_before_resumes_at_the_next_shard_and_says_so(make_workdir, shards):
    workdir = make_workdir("older", run=dataclasses.replace(RUN, save_checkpoints_steps=7))
    train(workdir, shards)
    for path in checkpoints.list_checkpoints(workdir)[1:]:
        shutil.rmtree(path)
    path = os.path.join(checkpoints.list_checkpoints(workdir)[0], "manifest.json")
    with open(path, encoding="utf-8") as file:
        manifest = json.load(file)
    for name in ("stream", "seconds", "sha256"):
        del manifest[name]
    manifest["unlogged"] = [row[:8] for row in manifest["unlogged"]]
    assert manifest["step"] == 7 and manifest["unlogged"]
    with open(path, "w", encoding="utf-8") as file:
        json.dump(manifest, file)
    _, output = train(workdir, shards)
    assert "the data goes on at the next shard" in output and "step 20/20" in output


def test_a_profile_of_a_run_that_ends_first_is_reported_all_the_same(make_workdir, shards):
    workdir = make_workdir("short profile", run=dataclasses.replace(RUN, profile_steps=100, num_train_steps=6))
    assert "most costly ops" in train(workdir, shards)[1]


def test_steps_that_are_not_finite_are_skipped_when_asked_and_counted(make_workdir, shards):
    workdir = make_workdir("skips", run=dataclasses.replace(
        RUN, learning_rate=1e30, clip_norm=1e30, on_nonfinite="skip", log_steps=20))
    _, output = train(workdir, shards)
    row = next(row for row in rows_of(workdir) if "loss" in row)
    assert row["skipped_steps"] > 0 and np.isfinite(row["loss"])
    assert all(np.isfinite(weights).all() for weights in weights_of(workdir).values())


def test_only_the_newest_checkpoints_are_kept(make_workdir, shards):
    workdir = make_workdir("kept", run=dataclasses.replace(RUN, save_checkpoints_steps=3, keep_checkpoints=2))
    train(workdir, shards)
    assert [os.path.basename(path) for path in checkpoints.list_checkpoints(workdir)] == [
        "step-00000018", "step-00000020"]


def test_a_batch_that_replicas_cannot_share_is_refused(make_workdir, shards):
    workdir = make_workdir("uneven", run=dataclasses.replace(RUN, global_batch_size=7))
    with pytest.raises(UserError, match="multiple of 2"):
        train(workdir, shards, two_replicas())


def test_another_corpus_is_refused_on_resume(make_workdir, tmp_path):
    from pipelines import corpus
    for name, words in (("a", "one two three."), ("b", "four five six.")):
        corpus.prepare_corpus(str(tmp_path / name), documents=iter([[words, words]] * 3), holdout_fraction=0.0)
    run = dataclasses.replace(RUN, corpus_dir=(str(tmp_path / "a"),))
    workdir = make_workdir("corpus", run=run)
    launch.prepared_corpora(workdir, run)
    os.makedirs(os.path.join(workdir, "checkpoints", "step-00000001"))  # the run has begun
    with pytest.raises(UserError, match="another corpus"):
        launch.prepared_corpora(workdir, dataclasses.replace(run, corpus_dir=(str(tmp_path / "b"),)))


def test_rows_taken_in_parts_give_the_weights_of_the_whole_batch(plain_run, make_workdir, shards):
    parts = make_workdir("accumulated", run=dataclasses.replace(RUN, gradient_accumulation_steps=4))
    _, output = train(parts, shards)
    assert "4 parts" in output
    assert largest_difference(plain_run[0], parts) < 1e-6


def test_rows_taken_in_parts_by_two_replicas_give_the_weights_of_the_whole_batch(plain_run, make_workdir, shards):
    parts = make_workdir("accumulated2", run=dataclasses.replace(RUN, gradient_accumulation_steps=2))
    train(parts, shards, two_replicas())
    assert largest_difference(plain_run[0], parts) < 1e-6


def test_a_ramp_doubles_the_batch_three_times_and_resumes_bit_for_bit(make_workdir, shards):
    # A call takes three steps, but only two are of one size.
    run = dataclasses.replace(RUN, global_batch_size=16, batch_ramp_steps=6, num_train_steps=10, log_steps=1,
                              save_checkpoints_steps=4, iterations_per_loop=3)
    assert [data.batch_size_at(run, step) for step in range(8)] == [2] * 2 + [4] * 2 + [8] * 2 + [16] * 2
    workdir = make_workdir("ramp", run=run)
    train(workdir, shards)
    weights = weights_of(workdir)
    for checkpoint in checkpoints.list_checkpoints(workdir)[-2:]:
        shutil.rmtree(checkpoint)
    train(workdir, shards)
    assert all(np.array_equal(weights[path], again) for path, again in weights_of(workdir).items())


def test_a_time_budget_ends_the_run_and_its_learning_rate(make_workdir, shards, monkeypatch):
    # A clock that goes on by a tenth of a second whenever it is asked: a busy machine changes nothing.
    clock = SimpleNamespace(monotonic=lambda ticks=itertools.count(): next(ticks) / 10)
    monkeypatch.setattr(loop, "time", clock)
    monkeypatch.setattr(reporting, "time", clock)
    run = dataclasses.replace(RUN, train_minutes=0.15, num_train_steps=10 ** 6, num_warmup_steps=10 ** 5)
    workdir = make_workdir("budget", run=run)
    _, output = train(workdir, shards)
    rows = [row for row in rows_of(workdir) if "loss" in row]
    assert rows[-1]["learning_rate"] < 0.2 * max(row["learning_rate"] for row in rows)
    assert "ETA 0:00" in output and os.path.exists(os.path.join(workdir, "curves.png"))
    checkpoint = checkpoints.list_checkpoints(workdir)[-1]
    assert checkpoints.read_manifest(checkpoint)["seconds"] >= 9.0


def test_lamb_trains_and_resumes(make_workdir, shards):
    run = dataclasses.replace(RUN, optimizer="lamb", bias_correction=True, learning_rate_schedule="cosine", layer_decay=0.9,
                              learning_rate=1e-3, save_checkpoints_steps=9)
    workdir = make_workdir("lamb", run=run)
    train(workdir, shards)
    weights = weights_of(workdir)
    shutil.rmtree(checkpoints.list_checkpoints(workdir)[-1])
    train(workdir, shards)
    assert all(np.array_equal(weights[path], again) for path, again in weights_of(workdir).items())
    rows = [row for row in rows_of(workdir) if "loss" in row]
    assert rows[-1]["loss"] < rows[0]["loss"] and rows[-1]["update_norm"] > 0


def test_adafactor_trains(make_workdir, shards):
    workdir = make_workdir("adafactor", run=dataclasses.replace(RUN, optimizer="adafactor", learning_rate=0.1))
    train(workdir, shards)
    rows = [row for row in rows_of(workdir) if "loss" in row]
    # From ln 34 + ln 2; words drawn at random leave little to learn.
    assert rows[-1]["loss"] < rows[0]["loss"] - 0.1 and rows[-1]["update_norm"] > 0


def test_checkpoints_of_certain_steps_are_kept_for_good(make_workdir, shards):
    workdir = make_workdir("kept", run=dataclasses.replace(
        RUN, save_checkpoints_steps=3, keep_checkpoints=1, keep_every_steps=6))
    train(workdir, shards)
    kept = [int(path[-8:]) for path in checkpoints.list_checkpoints(workdir)]
    assert kept == [6, 12, 18, 20]


def test_a_profile_names_the_most_costly_ops(make_workdir, shards):
    workdir = make_workdir("profile", run=dataclasses.replace(RUN, profile_steps=3))
    _, output = train(workdir, shards)
    table = output.split("most costly ops")[1]
    # The optimizer updates each of the 38 weights once a step; of a model so small the products are not among the costly.
    assert "ResourceApplyAdam" in table and "38.0 times" in table and "ms a step" in table
    assert os.path.isdir(os.path.join(workdir, "profile", "plugins", "profile"))


@pytest.mark.parametrize("changes, shown, hidden", [
    ({"sentence_objective": "sop", "masking": "span"}, "held-out sentence order: accuracy", "next sentence"),
    ({"sentence_objective": "none", "masking": "whole_word"}, "held-out masked LM", "acc 0.000"),
])
def test_other_objectives_train_and_are_reported_by_their_name(make_workdir, shards, changes, shown, hidden):
    workdir = make_workdir("objective", run=dataclasses.replace(RUN, **changes))
    figures, output = train(workdir, shards)
    assert shown in output and hidden not in output and "NSP acc" not in output
    assert ("eval_next_sentence_accuracy" in figures) == (changes["sentence_objective"] == "sop")
    assert np.isfinite(list(figures.values())).all()


def test_without_pairs_neither_pooler_nor_next_sentence_head_is_kept_and_all_else_is_trained(make_workdir, shards):
    workdir = make_workdir("none", run=dataclasses.replace(RUN, sentence_objective="none", weight_decay_rate=0.0))
    train(workdir, shards)
    with pytest.raises(UserError, match="allow_missing=next_sentence"):
        load_pretrained(workdir)
    model = load_pretrained(workdir, allow_missing=("pooler", "next_sentence"))
    after = {variable.path: variable.numpy() for variable in model.weights}
    before = {variable.path: variable.numpy() for variable in BertPretrainer(CONFIG, seed=RUN.seed).weights}
    assert set(after) == {path for path in before if "pooler" not in path and "next_sentence" not in path}
    assert not [path for path in after if np.array_equal(before[path], after[path])]
    assert {"pooled_output", "nsp_logits"}.isdisjoint(model({name: np.ones((1, 5), np.int32) for name in (
        "input_word_ids", "input_mask", "input_type_ids")}))


def test_a_mixture_of_corpora_prints_its_shares_and_resumes_bit_for_bit(tmp_path, capsys):
    from pipelines import corpus
    generator = np.random.RandomState(4)
    for name, count in (("large", 60), ("small", 10)):
        documents = [[" ".join(generator.choice(WORDS, 6)) + "." for _ in range(5)] for _ in range(count)]
        corpus.prepare_corpus(str(tmp_path / name), documents=iter(documents), holdout_fraction=0.1)
    vocabulary = "".join(f"{piece}\n" for piece in VOCABULARY).encode()
    run = dataclasses.replace(RUN, corpus_dir=(str(tmp_path / "large"), str(tmp_path / "small")), sampling_exponent=0.5,
                              num_train_steps=12, save_checkpoints_steps=6)
    workdir = str(tmp_path / "run")
    launch.launch(workdir, CONFIG, run, vocabulary)
    printed = capsys.readouterr().out
    assert "mixture:" in printed and printed.count("of the examples") == 2
    whole = weights_of(workdir)
    half, last = checkpoints.list_checkpoints(workdir)
    with open(os.path.join(half, "manifest.json"), encoding="utf-8") as file:
        position = json.load(file)["position"]
    assert len(position) == 7 and position[0] == 6 * RUN.global_batch_size
    shutil.rmtree(last)
    launch.launch(workdir, CONFIG, run)
    again = weights_of(workdir)
    assert all(np.array_equal(whole[path], again[path]) for path in whole)


def test_a_lexicon_is_kept_with_the_run(tmp_path, make_workdir, shards):
    (tmp_path / "phrases.txt").write_text("the cat\nhills while rain\n\n")
    run = dataclasses.replace(RUN, masking="lexicon", lexicon_file=str(tmp_path / "phrases.txt"), num_train_steps=2)
    workdir = make_workdir("lexicon", run=run)
    launch._keep_lexicon(workdir, run)
    (tmp_path / "phrases.txt").unlink()
    train(workdir, shards)
    with open(os.path.join(workdir, "lexicon.txt"), encoding="utf-8") as file:
        assert file.read() == "the cat\nhills while rain\n"


def test_a_contradicting_value_is_named_with_both_sides_and_a_changeable_one_is_taken(make_workdir):
    workdir = make_workdir("contradiction")
    with pytest.raises(UserError, match="learning_rate=0.0001, but --learning_rate=0.5"):
        workdirs.check_resumable(workdir, None, {"learning_rate": 0.5})
    with pytest.raises(UserError, match="hidden_size 22, but 24"):
        workdirs.check_resumable(workdir, CONFIG.replace(hidden_size=24), {})
    with pytest.raises(UserError, match="another vocabulary"):
        workdirs.check_resumable(workdir, None, {}, b"[PAD]\n")
    assert workdirs.check_resumable(workdir, CONFIG, {"num_train_steps": 77})[1].num_train_steps == 77
