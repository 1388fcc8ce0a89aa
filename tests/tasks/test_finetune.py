"""Fine-tuning runs: learning, files, exact resumption, frozen layers, and refusals."""

import dataclasses
import io
import json
import os
import pathlib
import shutil
import signal

import numpy as np
import pytest
import tensorflow as tf

from keras_bert_app.config.finetuning_config import FinetuningConfig
from keras_bert_app.errors import Interrupted, UserError
from keras_bert_app.interop import load
from keras_bert_app.modeling.task_head import Head
from keras_bert_app.modeling.task_model import BertTaskModel
from keras_bert_app.runs import checkpoints
from keras_bert_app.tasks import batches, finetuning_start, result_lines, results
from keras_bert_app.tasks.labelled_data import load_data
from keras_bert_app.tasks.scoring import FinetunedRun
from keras_bert_app.tasks.transfer import first_steps, trained_variables
from keras_bert_app.training import infeed, reporting, steps
from keras_bert_app.training.optimizers import choice
from pipelines.wordpiece.tokenizer import BertTokenizer
from tests.interop.conftest import make_weights
from tests.tasks.conftest import CONFIG, SETTINGS, VOCABULARY, at_start, newest, run_on, weights_of
from tests.training.conftest import two_replicas


def without_times(workdir):
    times = ("tokens_per_second", "input_wait_share", "seconds", "memory_mb")
    return [
        {name: value for name, value in row.items() if name not in times} for row in reporting.read_metrics(workdir)
    ]


def test_a_task_that_one_word_decides_is_learned(finished):
    _, figures, output = finished
    reported, baseline = figures["reported"], figures["baseline"]
    assert reported["score"] > 0.9 and reported["interval"][0] < reported["score"] <= reported["interval"][1]
    assert reported["examples"] + figures["dev_examples"] == 37
    assert baseline["what"] == "always 0" and baseline["score"] < 0.6 and not figures["no_better_than_baseline"]
    assert f"always 0: accuracy {baseline['score']:.4f}, " in output and "; difference +" in output
    assert f"accuracy {reported['score']:.4f} (95 % interval " in output


def test_the_run_leaves_results_pictures_and_its_mistakes(finished):
    workdir, figures, _ = finished
    with open(os.path.join(workdir, "results.json"), encoding="utf-8") as file:
        assert json.load(file) == figures
    for name in ("curves.png", "answers.png"):
        with open(os.path.join(workdir, name), "rb") as file:
            assert file.read(4) == b"\x89PNG"
    with open(os.path.join(workdir, "mistakes.jsonl"), encoding="utf-8") as file:
        wrong = [json.loads(line) for line in file]
    assert len(wrong) == round((1 - figures["best"]["score"]) * figures["dev_examples"])
    assert [one["sure"] for one in wrong] == sorted((one["sure"] for one in wrong), reverse=True)


def test_evaluate_gives_the_score_of_the_run_and_predict_needs_no_labels(finished, table_dir, tmp_path):
    workdir, figures, _ = finished
    run = FinetunedRun(workdir)
    path = os.path.join(table_dir, "dev.tsv")
    assert len(run.evaluate(path)[1]) == 37
    scores, examples, notes, _ = run.evaluate(path, has_chosen=True)
    # results.json has six digits of the score.
    assert scores["accuracy"] == pytest.approx(figures["reported"]["score"], abs=1e-6)
    assert len(examples) == figures["reported"]["examples"] and "examples chose the weights; --input_file=" in notes[0]
    unlabelled = tmp_path / "no labels.tsv"
    unlabelled.write_text("sentence\nthe day was grim.\nso kind.\n", encoding="utf-8")
    count, names, _ = run.predict(unlabelled, tmp_path / "answers")
    assert count == 2 and names == ["predictions.tsv", "probabilities.jsonl"]
    assert (tmp_path / "answers" / "predictions.tsv").read_text(encoding="utf-8") == (
        "index\tprediction\ttext\n0\t0\tthe day was grim.\n1\t1\tso kind.\n"
    )
    rows = [json.loads(line) for line in (tmp_path / "answers" / "probabilities.jsonl").read_text().splitlines()]
    assert all(sum(row["probabilities"].values()) == pytest.approx(1.0) for row in rows)
    assert all(row["probabilities"][row["label"]] > 0.5 for row in rows)


def test_a_run_that_was_cut_off_after_a_checkpoint_ends_bit_for_bit_the_same(finished, table_dir, tmp_path):
    whole = finished[0]
    workdir = str(tmp_path / "cut")
    shutil.copytree(whole, workdir)
    for later in checkpoints.list_checkpoints(workdir)[1:]:
        shutil.rmtree(later)
    _, output = run_on(workdir, table_dir, save_checkpoints_steps=20, eval_steps=20, keep_checkpoints=9)
    assert "resumed at step 20" in output
    assert without_times(workdir) == without_times(whole)
    ours, theirs = weights_of(newest(workdir)), weights_of(newest(whole))
    assert all(np.array_equal(tensor, theirs[path]) for path, tensor in ours.items())


def test_running_means_are_scored_and_kept_while_training_continues_with_the_weights(table_dir, tmp_path):
    settings = dict(num_train_steps=4, eval_steps=2, save_checkpoints_steps=1, keep_checkpoints=9, average_decay=0.5)
    whole, cut = str(tmp_path / "whole"), str(tmp_path / "cut")
    run_on(whole, table_dir, **settings)
    states = [weights_of(path) for path in checkpoints.list_checkpoints(whole)]
    (best,) = checkpoints.best_checkpoints(whole)
    num_steps = int(best[-8:])
    shares = np.array([0.5**age for age in reversed(range(num_steps))])
    for path, tensor in weights_of(best).items():
        mean = np.tensordot(shares / shares.sum(), np.array([state[path] for state in states[:num_steps]]), 1)
        np.testing.assert_allclose(tensor, mean, rtol=1e-5, atol=1e-7, err_msg=path)
    # The cut run resumes from the checkpoint of step 2, which was written before the means replaced the weights.
    shutil.copytree(whole, cut)
    for later in checkpoints.list_checkpoints(cut)[2:]:
        shutil.rmtree(later)
    run_on(cut, table_dir, **settings)
    assert without_times(cut) == without_times(whole)
    ours, theirs = (tf.train.load_checkpoint(os.path.join(newest(workdir), "checkpoint")) for workdir in (cut, whole))
    names = [name for name in theirs.get_variable_to_shape_map() if "VARIABLE_VALUE" in name]
    assert (
        sum(name.startswith("average_") for name in names) == 2 * sum(name.startswith("adam_m") for name in names) > 0
    )
    assert all(np.array_equal(ours.get_tensor(name), theirs.get_tensor(name)) for name in names)


@pytest.mark.parametrize(
    "old, new, names, message",
    [
        ("the", "a", ["train"], "has other training examples than"),
        ("the", "a", ["dev"], "has other development examples and examples to report than"),
        ("\t1\n", "\tyes\n", ["train", "dev"], "has other labels than"),
    ],
)
def test_a_run_that_has_begun_does_not_continue_with_other_examples(
    finished, table_dir, tmp_path, old, new, names, message
):
    for name in ("train", "dev"):
        table = pathlib.Path(table_dir, f"{name}.tsv").read_text()
        (tmp_path / f"{name}.tsv").write_text(table.replace(old, new) if name in names else table)
    with pytest.raises(UserError, match=message):
        run_on(finished[0], str(tmp_path), save_checkpoints_steps=20, eval_steps=20, keep_checkpoints=9)


def test_padding_to_the_longest_or_to_the_maximum_gives_the_same_answers_on_two_replicas_or_one(finished, table_dir):
    path = os.path.join(table_dir, "dev.tsv")
    _, _, _, answers = FinetunedRun(finished[0]).evaluate(path)
    padded = FinetunedRun(finished[0], {"length_buckets": False}, strategy=two_replicas()).evaluate(path)[3]
    for one, other in zip(answers, padded, strict=True):
        assert one["probabilities"]["1"] == pytest.approx(other["probabilities"]["1"], abs=1e-6)


def test_a_signal_saves_a_checkpoint_and_reports_its_step(table_dir, tmp_path, monkeypatch):
    workdir, original_take = str(tmp_path / "stopped"), infeed.Batches.take

    def take(self, count):
        self.taken = getattr(self, "taken", 0) + 1
        if self.taken == 3:
            signal.raise_signal(signal.SIGTERM)
        return original_take(self, count)

    monkeypatch.setattr(infeed.Batches, "take", take)
    with pytest.raises(Interrupted) as stop:
        run_on(workdir, table_dir)
    assert stop.value.step == 3
    assert newest(workdir).endswith("step-00000003")


def test_a_fine_tuned_run_as_a_start_gives_its_output_layer_if_task_and_labels_are_the_same(
    finished, table_dir, tmp_path
):
    weights, _ = load.load_weights(finished[0], allow_missing=("masked_lm", "next_sentence"))
    assert weights.task == "sequence_classification" and weights.labels == ("0", "1")
    ours, output = at_start(
        tmp_path / "same", {"data_dir": table_dir, "init_checkpoint": finished[0], "num_train_steps": 1}
    )
    best = weights_of(checkpoints.best_checkpoints(finished[0])[-1])
    assert ours.keys() == best.keys() and all(np.array_equal(ours[path], tensor) for path, tensor in best.items())
    assert "from scratch" not in output and "reinitialized" not in output
    other = dataclasses.replace(weights, labels=("no", "yes"))
    load.write_weights(other, "workdir", str(tmp_path / "start"))
    _, output = at_start(
        tmp_path / "other", {"data_dir": table_dir, "init_checkpoint": str(tmp_path / "start"), "num_train_steps": 1}
    )
    assert "from scratch, seed 3: classifier" in output and "left out: the output layer" in output


def test_two_replicas_end_with_the_weights_of_one(table_dir, tmp_path):
    config = CONFIG.replace(hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
    settings = dict(num_train_steps=4, learning_rate=1e-4, classifier_dropout=0.0, average_decay=0.5)
    run_on(tmp_path / "one", table_dir, config, **settings)
    run_on(tmp_path / "two", table_dir, config, strategy=two_replicas(), **settings)
    # The last checkpoint has the weights, and the best weights are running means.
    for list_kept in (checkpoints.list_checkpoints, checkpoints.best_checkpoints):
        one, two = (weights_of(list_kept(str(tmp_path / name))[-1]) for name in ("one", "two"))
        assert all(np.abs(tensor - two[path]).max() < 1e-6 for path, tensor in one.items())


@pytest.mark.slow
def test_a_batch_of_windows_in_two_parts_gives_the_updates_of_the_whole_batch(table_dir):
    settings = {
        **SETTINGS,
        "data_dir": table_dir,
        "num_train_steps": 3,
        "learning_rate": 1e-4,
        "max_seq_length": 11,
        "long_documents": "windows",
        "doc_stride": 4,
    }
    config, final_weights = CONFIG.replace(hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0), []
    for parts in (1, 2):
        run = FinetuningConfig(**settings, classifier_dropout=0.0, gradient_accumulation_steps=parts).resolved(12)
        data, strategy = load_data(run, BertTokenizer(VOCABULARY, True)), tf.distribute.get_strategy()
        model = BertTaskModel(config, data.task.family.make_head(data.task, run, data.labels))
        optimizer = choice.make_optimizer(run, trained_variables(model, run), config.num_hidden_layers)
        call = steps.make_train_call(
            strategy, model, optimizer, run, data.task.family.make_objective(data.task, run, model.head), True
        )
        # The shortest and the longest units have different lengths and different numbers of windows.
        order = np.argsort(data.train.longest_rows() * data.train.group_sizes(), kind="stable")
        three_batches = [
            {name: tf.constant(values) for name, values in batches.make_batch(data.train, units, 8, length).items()}
            for units, length in ((order[:8], 8), (order[-8:], 11), (order[8:16], 8))
        ]
        assert [batch["input_mask"].shape[2] for batch in three_batches] == [8, 11, 8]
        assert three_batches[0]["input_mask"].shape[1] < three_batches[1]["input_mask"].shape[1]
        for step, batch in enumerate(three_batches):
            call({name: values[tf.newaxis] for name, values in batch.items()}, step)
        final_weights.append([variable.numpy() for variable in model.trainable_variables])
    assert all(np.abs(one - two).max() < 1e-6 for one, two in zip(*final_weights, strict=True))


def test_layers_are_unfrozen_from_the_top_and_frozen_layers_do_not_change(table_dir, tmp_path):
    workdir = str(tmp_path / "run")
    run_on(
        workdir,
        table_dir,
        CONFIG.replace(num_hidden_layers=2),
        num_train_steps=6,
        gradual_unfreezing=2,
        save_checkpoints_steps=1,
        keep_checkpoints=9,
    )
    states = {int(path[-8:]): weights_of(path) for path in checkpoints.list_checkpoints(workdir)}

    def changed(path, step):
        return not np.array_equal(states[step][path], states[step - 1][path])

    for path, first in (
        ("classifier/kernel", 1),
        ("encoder/layer_1/output/kernel", 3),
        ("encoder/layer_0/output/kernel", 5),
        ("encoder/embeddings/layer_norm/gamma", 7),
    ):
        assert [changed(path, step) for step in range(2, 7)] == [step >= first for step in range(2, 7)], path
    reader = tf.train.load_checkpoint(os.path.join(newest(workdir), "checkpoint"))
    slot = "adam_m/encoder.Sembeddings.Sword_embeddings/.ATTRIBUTES/VARIABLE_VALUE"
    assert not reader.get_tensor(slot).any()


def test_freezing_leaves_out_embeddings_and_the_lowest_layers():
    model = BertTaskModel(CONFIG.replace(num_hidden_layers=2), Head("text", 2))

    def roots(**settings):
        run = FinetuningConfig(**SETTINGS, **settings)
        return {"/".join(path.split("/")[:2]) for path in trained_variables(model, run)}

    assert roots(freeze_layers=1) == {"encoder/layer_1", "encoder/pooler", "classifier/kernel", "classifier/bias"}
    # The pooler is always trained, because it may be new.
    assert (
        roots(freeze_layers=-1) == roots(freeze_layers=2) == {"encoder/pooler", "classifier/kernel", "classifier/bias"}
    )


def test_reinit_layers_replaces_the_highest_layers_and_the_pooler_and_nothing_else(table_dir, tmp_path):
    config = CONFIG.replace(num_hidden_layers=3)
    initial = make_weights(config.replace(vocab_size=13))
    words = np.random.default_rng(1).normal(0.0, 0.1, (config.vocab_size, config.hidden_size)).astype(np.float32)
    tensors = {path: tensor for path, tensor in initial.tensors.items() if path.startswith("encoder/")}
    tensors["encoder/embeddings/word_embeddings"] = words
    initial = dataclasses.replace(initial, config=config, tensors=tensors, vocabulary=VOCABULARY)
    load.write_weights(initial, "workdir", str(tmp_path / "start"))
    wanted = {"data_dir": table_dir, "init_checkpoint": str(tmp_path / "start"), "reinit_layers": 2}
    final_weights, output = at_start(tmp_path / "run", wanted)
    assert "reinitialized: encoder/layer_1, encoder/layer_2, encoder/pooler" in output
    kept, new = set(), set()
    for path, tensor in final_weights.items():
        is_same = np.array_equal(tensor, initial.tensors.get(path))
        (kept if is_same else new).add("/".join(path.split("/")[:2]))
    assert kept == {"encoder/embeddings", "encoder/layer_0"}
    assert new == {"encoder/layer_1", "encoder/layer_2", "encoder/pooler", "classifier/kernel", "classifier/bias"}
    gammas = [final_weights[path] for path in final_weights if "/layer_2/" in path and path.endswith("gamma")]
    assert gammas and all((gamma == 1.0).all() for gamma in gammas)


def test_without_gradual_unfreezing_all_layers_are_trained_from_the_beginning():
    assert first_steps(["classifier/kernel"], FinetuningConfig(**SETTINGS), 2) == {}


def test_pairs_are_swapped_for_training_alone(tmp_path):
    for split in ("train", "dev"):
        (tmp_path / f"{split}.tsv").write_text("a\tb\tlabel\nthe day\tfine and warm\t1\ncold\tdull\t0\n")
    run = FinetuningConfig(**{**SETTINGS, "data_dir": str(tmp_path), "text_columns": ("a", "b"), "swap_pairs": True})
    tokenizer = BertTokenizer(VOCABULARY, True)
    data = load_data(run, tokenizer)
    pieces = np.array(VOCABULARY.decode().split())
    rows = [" ".join(pieces[row]) for row in np.split(data.train.token_ids, np.cumsum(data.train.row_lengths())[:-1])]
    assert rows == [
        "[CLS] the day [SEP] fine and warm [SEP]",
        "[CLS] cold [SEP] dull [SEP]",
        "[CLS] fine and warm [SEP] the day [SEP]",
        "[CLS] dull [SEP] cold [SEP]",
    ]
    assert data.train.labels["labels"].tolist() == [1, 0, 1, 0] and len(data.dev_examples) == 1


def test_several_seeds_are_reported_with_mean_deviation_and_degenerate_seeds():
    runs = [
        {
            "task": "x",
            "metric": "accuracy",
            "seed": seed,
            "num_evaluations": 4,
            "reported": {"on": "test.tsv", "score": score, "interval": [score - 0.1, score + 0.05]},
            "baseline": {"what": "always 0", "score": 0.5},
            "no_better_than_baseline": score <= 0.5,
        }
        for seed, score in ((1, 0.9), (2, 0.5), (3, 0.7))
    ]
    figures = results.over_seeds(runs)
    assert figures["mean"] == pytest.approx(0.7) and figures["standard_deviation"] == pytest.approx(0.2)
    assert figures["degenerate_seeds"] == [2]
    first, second = result_lines.seeds_summary(figures)
    assert figures["interval"] == pytest.approx([0.6, 0.75])
    assert "0.7000 +- 0.2000 (0.9000, 0.5000, 0.7000), 95 % interval by examples 0.6000 to 0.7500, on test.tsv" in first
    assert first.endswith("always 0: 0.5000") and second.startswith("  seed 2 is degenerate")


def test_a_failed_seed_is_reported_and_is_not_in_the_mean():
    run = {
        "task": "x",
        "metric": "accuracy",
        "seed": 1,
        "num_evaluations": 4,
        "reported": {"on": "test.tsv", "score": 0.8, "interval": [0.7, 0.9]},
        "baseline": {"what": "always 0", "score": 0.5},
        "no_better_than_baseline": False,
    }
    figures = results.over_seeds([{"seed": 2, "failed": "step 7: the loss is not finite"}, run])
    assert figures["mean"] == 0.8 and figures["degenerate_seeds"] == [2] and len(figures["runs"]) == 2
    first, second = result_lines.seeds_summary(figures)
    assert "over 1 seeds: 0.8000" in first and second == (
        "  seed 2 broke off and is not in the mean: step 7: the loss is not finite"
    )


@pytest.mark.parametrize(
    "settings, message",
    [
        ({"task": "sst"}, "did you mean 'sst-2'"),
        ({"task": ""}, "--task is missing"),
        ({"data_dir": ""}, "--data_dir is missing"),
        ({"data_dir": "/nowhere"}, "task classification expects train.tsv"),
        (
            {"reinit_layers": 1},
            "--reinit_layers=1: without weights of --init_checkpoint all layers are new; leave it out",
        ),
        (
            {"swap_pairs": True},
            r"--swap_pairs: task classification has a single text \(.*train.tsv:2\); leave it out",
        ),
    ],
)
def test_an_impossible_start_is_refused_and_writes_no_config(tmp_path, table_dir, settings, message):
    wanted = {**SETTINGS, "data_dir": table_dir, **settings}
    with pytest.raises(UserError, match=message):
        finetuning_start.launch(
            str(tmp_path / "run"), wanted, source=(None, False, CONFIG, VOCABULARY), stream=io.StringIO()
        )
    assert not os.path.exists(tmp_path / "run" / "config.json")


def test_pairs_are_refused_if_the_model_has_one_segment(tmp_path):
    for name in ("train", "dev"):
        (tmp_path / f"{name}.tsv").write_text(
            "text_a\ttext_b\tlabel\nso kind\ta day\t1\nso grim\ta day\t0\n", encoding="utf-8"
        )
    with pytest.raises(UserError, match="has pairs, but the model has one segment .type_vocab_size 1."):
        run_on(tmp_path / "run", str(tmp_path), CONFIG.replace(type_vocab_size=1))
    assert not (tmp_path / "run").exists()
