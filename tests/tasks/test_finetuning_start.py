"""Starts of fine-tuning runs: several seeds, masked LM before the task, parts of an encoder."""

import io
import json
import os
import re
import shutil
import signal
import string

import numpy as np
import pytest

from keras_bert_app.config.finetuning_config import FinetuningConfig
from keras_bert_app.errors import Interrupted, NotFinite, UserError
from keras_bert_app.interop import load
from keras_bert_app.interop.huggingface import huggingface_layout
from keras_bert_app.interop.weights import Weights
from keras_bert_app.runs import checkpoints, seeds
from keras_bert_app.tasks import finetuning_start, keyword_start, registry, scoring, transfer
from pipelines.data_error import DataError
from pipelines.wordpiece.vocabulary import SPECIAL_PIECES
from tests.tasks.conftest import CONFIG, SETTINGS, VOCABULARY, at_start, launched, newest, stopped_at_start, weights_of


def test_seeds_run_in_turn_from_an_encoder_tuned_on_the_texts_and_a_second_launch_trains_nothing(
    finished, table_dir, tmp_path
):
    wanted = {"data_dir": table_dir, "init_checkpoint": finished[0], "num_train_steps": 2, "mlm_tuning_steps": 3}
    figures, output = launched(tmp_path, wanted, num_seeds=2)
    assert [run["seed"] for run in figures["runs"]] == [3, 4]
    with open(tmp_path / "results.json", encoding="utf-8") as file:
        assert json.load(file) == figures
    tuned, _ = checkpoints.read_tensors(checkpoints.list_checkpoints(str(tmp_path / "mlm_tuning" / "run"))[-1])
    assert checkpoints.list_checkpoints(str(tmp_path / "mlm_tuning" / "run"))[-1].endswith("step-00000003")
    assert output.count("weights from") == 3  # once in the masked LM and once in each seed
    assert "classification accuracy over 2 seeds" in output
    assert "masked_lm/output_bias" in tuned
    # The directory counts as the run of its best seed.
    best = max(figures["runs"], key=lambda run: run["best"]["score"])
    assert seeds.best_run(str(tmp_path)) == str(tmp_path / f"seed-{best['seed']}")
    # A second seed without a directory starts with the settings in config.json of the first seed.
    shutil.rmtree(tmp_path / "seed-4")
    once_more, _ = launched(tmp_path, {"task": "classification"}, num_seeds=2, start=(None, True, None, None))
    assert once_more["runs"][1]["reported"] == figures["runs"][1]["reported"]
    again, output = launched(tmp_path, wanted, num_seeds=2)
    figures["runs"][1]["train_seconds"] = again["runs"][1]["train_seconds"]
    assert again == figures and output.count("resumed at step 2") == 2 and "weights from" not in output


def test_masked_lm_tuning_keeps_the_weights_that_it_does_not_train_and_begins_after_all_checks(
    finished, table_dir, tmp_path
):
    wanted = {
        "data_dir": table_dir,
        "init_checkpoint": finished[0],
        "num_train_steps": 1,
        "learning_rate": 1e-3,
        "mlm_tuning_steps": 1,
    }
    shutil.copytree(table_dir, tmp_path / "data")
    os.rename(tmp_path / "data" / "dev.tsv", tmp_path / "data" / "other.tsv")
    with pytest.raises(UserError, match="task classification expects dev.tsv"):
        launched(tmp_path / "run", {**wanted, "data_dir": str(tmp_path / "data")})
    assert not os.path.exists(tmp_path / "run" / "mlm_tuning")
    ours, output = at_start(tmp_path / "run", wanted)
    assert "tuned by 1 steps of masked LM" in output and "from scratch, seed 3: masked_lm" in output
    tuned, theirs = weights_of(newest(str(tmp_path / "run" / "mlm_tuning" / "run"))), weights_of(newest(finished[0]))
    for path in ("encoder/pooler/kernel", "classifier/kernel"):
        np.testing.assert_array_equal(ours[path], theirs[path])
    np.testing.assert_array_equal(ours["encoder/layer_0/output/kernel"], tuned["encoder/layer_0/output/kernel"])
    assert not np.array_equal(ours["encoder/layer_0/output/kernel"], theirs["encoder/layer_0/output/kernel"])
    # The error names the learning rate, but not the seed, because all seeds start from one masked LM.
    shutil.copytree(tmp_path / "run" / "mlm_tuning", tmp_path / "seeds" / "mlm_tuning")
    with pytest.raises(UserError, match="was tuned with other learning_rate; give another --workdir"):
        launched(tmp_path / "seeds", {**wanted, "learning_rate": 2e-3, "seed": 9}, num_seeds=2)


def test_a_start_of_another_task_gives_its_encoder_and_a_start_of_several_seeds_gives_the_best_run(
    finished, table_dir, tmp_path
):
    wanted = {"data_dir": table_dir, "num_train_steps": 1}
    workdir = tmp_path / "seeds"
    shutil.copytree(finished[0], workdir / "seed-3")
    values = {"metric": "accuracy", "runs": [{"seed": 3, "best": {"score": 0.9}}, {"seed": 4, "failed": "step 1"}]}
    (workdir / "results.json").write_text(json.dumps(values), encoding="utf-8")
    ours, output = at_start(tmp_path / "same", {**wanted, "init_checkpoint": str(workdir)})
    best = weights_of(checkpoints.best_checkpoints(finished[0])[-1])
    assert ours.keys() == best.keys() and all(np.array_equal(ours[path], tensor) for path, tensor in best.items())
    assert "left out: the output layer" not in output
    assert "kept: the output layer, of the same kind and labels (0, 1)" in output
    config = workdir / "seed-3" / "config.json"
    config.write_text(
        config.read_text(encoding="utf-8").replace('"task": "classification"', '"task": "sst-2"'), encoding="utf-8"
    )
    _, output = at_start(tmp_path / "other", {**wanted, "init_checkpoint": str(workdir)})
    assert "left out: the output layer, of task sst-2" in output and "from scratch, seed 3: classifier" in output


def test_a_head_that_no_other_library_knows_is_kept_if_the_task_and_the_head_are_the_same(table_dir, tmp_path):
    wanted = {"data_dir": table_dir, "num_train_steps": 2, "pooling": "mean", "layers": "scalar_mix", "bilstm_units": 5}
    launched(tmp_path / "first", wanted, start=(None, False, CONFIG, VOCABULARY))
    wanted |= {"init_checkpoint": str(tmp_path / "first"), "num_train_steps": 1}
    ours, output = at_start(tmp_path / "same", {**wanted, "classifier_dropout": 0.3, "encoder_dropout": 0.25})
    stored = json.loads((tmp_path / "same" / "config.json").read_text())
    assert stored["hidden_dropout_prob"] == stored["attention_probs_dropout_prob"] == 0.25 != CONFIG.hidden_dropout_prob
    assert "from scratch" not in output and "left out" not in output
    theirs = weights_of(checkpoints.best_checkpoints(str(tmp_path / "first"))[-1])
    assert ours.keys() == theirs.keys() and all(np.array_equal(tensor, theirs[path]) for path, tensor in ours.items())
    _, output = at_start(tmp_path / "other", {**wanted, "pooling": "max"})
    assert (
        "left out: the output layer, of another kind (0, 1)" in output
        and "from scratch, seed 3: bilstm, classifier, scalar_mix" in output
    )
    _, output = at_start(tmp_path / "lower", {**wanted, "encoder_layers": 0})
    assert "from scratch, seed 3: bilstm, classifier, scalar_mix" in output


def test_a_run_of_one_seed_and_runs_of_several_seeds_do_not_share_a_directory(finished, table_dir, tmp_path):
    wanted = {"data_dir": table_dir, "num_train_steps": 1}
    shutil.copytree(finished[0], tmp_path / "one")
    before = (tmp_path / "one" / "results.json").read_bytes()
    with pytest.raises(
        UserError, match="--num_seeds=2: --workdir=.*one holds a run of one seed; give another --workdir"
    ):
        launched(tmp_path / "one", wanted, num_seeds=2, start=(None, False, None, None))
    assert (tmp_path / "one" / "results.json").read_bytes() == before
    shutil.copytree(finished[0], tmp_path / "several" / "seed-3")
    with pytest.raises(UserError, match=r"several: holds runs of several seeds \(seed-3\); give --num_seeds=2 or more"):
        launched(tmp_path / "several", wanted, start=(None, False, CONFIG, VOCABULARY))
    assert sorted(os.listdir(tmp_path / "several")) == ["seed-3"]


def test_a_resumed_run_keeps_its_seed(finished, table_dir, tmp_path):
    def resume(name, num_seeds, **wanted):
        return finetuning_start.launch(
            str(tmp_path / name), wanted, num_seeds, (None, False, None, None), io.StringIO()
        )

    shutil.copytree(finished[0], tmp_path / "one")  # seed 3 is not the default
    assert resume("one", 1)["seed"] == 3
    shutil.copytree(finished[0], tmp_path / "two" / "seed-3")
    assert [run["seed"] for run in resume("two", 2, data_dir=table_dir)["runs"]] == [3, 4]
    with pytest.raises(UserError, match="holds a run with seed=3, but --seed=5 was given"):
        resume("one", 1, seed=5)


def test_a_finished_run_continues_with_more_epochs(finished, table_dir, tmp_path):
    shutil.copytree(finished[0], tmp_path / "run")
    _, output = launched(
        tmp_path / "run", {"data_dir": table_dir, "num_train_epochs": 6.0}, start=(None, False, None, None)
    )
    assert "resumed at step 60" in output and checkpoints.list_checkpoints(str(tmp_path / "run"))[-1].endswith(
        "step-00000072"
    )


def test_a_setting_that_changes_on_resume_is_kept_for_later_resumes(finished, table_dir, tmp_path):
    shutil.copytree(finished[0], tmp_path / "run")
    with stopped_at_start():
        launched(tmp_path / "run", {"num_train_epochs": 6.0, "data_dir": table_dir}, start=(None, False, None, None))
    notes = json.loads((tmp_path / "run" / "config.json").read_text())
    assert notes["finetuning"]["num_train_steps"] == 72 and notes["labels"] == ["0", "1"]
    # The next call gives only the work directory.
    finetuning_start.launch(str(tmp_path / "run"), {}, 1, (None, False, None, None), io.StringIO())
    assert checkpoints.list_checkpoints(str(tmp_path / "run"))[-1].endswith("step-00000072")


@pytest.mark.slow
def test_the_command_fails_with_the_last_reason_if_all_seeds_break_off(table_dir, tmp_path):
    with pytest.raises(NotFinite, match="all 2 seeds broke off; the last one: step .* is not finite"):
        launched(
            tmp_path,
            {"data_dir": table_dir, "learning_rate": 1e38, "num_train_steps": 9, "num_warmup_steps": 0},
            num_seeds=2,
            start=(None, False, CONFIG, VOCABULARY),
        )
    assert os.path.exists(tmp_path / "seed-4" / "config.json")


def test_a_random_start_has_the_shape_of_an_encoder_and_none_of_its_weights(finished, table_dir, tmp_path):
    wanted = {
        "data_dir": table_dir,
        "init_checkpoint": finished[0],
        "num_train_steps": 1,
        "seed": 8,
        "mlm_tuning_steps": 1,
    }
    ours, output = at_start(tmp_path / "run", wanted, start=(finished[0], False, None, None))
    # The masked LM starts with random weights, and the task starts with the weights of the masked LM.
    assert "parameters; from scratch, seed 8" in output and "weights from workdir" in output
    theirs = weights_of(newest(finished[0]))
    assert ours.keys() == theirs.keys()
    assert not np.array_equal(ours["encoder/layer_0/output/kernel"], theirs["encoder/layer_0/output/kernel"])


def test_several_seeds_answer_together(three_seeds, table_dir, tmp_path):
    workdir = str(tmp_path / "run")
    shutil.copytree(three_seeds, workdir)
    figures = json.loads((tmp_path / "run" / "results.json").read_text(encoding="utf-8"))
    for run in figures["runs"]:
        del run["best"]["difference_interval"]  # results of an earlier version
    (tmp_path / "run" / "results.json").write_text(json.dumps({**figures, "degenerate_seeds": []}), encoding="utf-8")
    examples = registry.find("classification").read_split(table_dir, "dev", FinetuningConfig())
    runs = [scoring.FinetunedRun(os.path.join(workdir, f"seed-{run['seed']}")) for run in figures["runs"]]
    together = scoring.opened(workdir, together=True)
    for _ in range(2):  # the second time, the model must load the first run's weights again
        np.testing.assert_allclose(
            together.logits(examples), np.mean([run.logits(examples) for run in runs], axis=0), atol=1e-6
        )
    _, notes = together.predictions(examples)
    assert sorted(notes[-1].removeprefix("answered by ").split(", ")) == [
        f"seed-{run['seed']}" for run in figures["runs"]
    ]
    best = max(figures["runs"], key=lambda run: run["best"]["score"])
    scores, *_ = scoring.opened(workdir).evaluate(os.path.join(table_dir, "dev.tsv"), has_chosen=True)
    assert scores["accuracy"] == pytest.approx(best["reported"]["score"], abs=1e-6)
    with pytest.raises(UserError, match="holds no runs of several seeds that ended"):
        scoring.opened(os.path.join(workdir, f"seed-{figures['runs'][0]['seed']}"), together=True)


@pytest.mark.slow
def test_two_passes_of_a_batch_give_finite_losses_that_differ_from_one_pass(finished, table_dir, tmp_path):
    wanted = {
        "data_dir": table_dir,
        "init_checkpoint": finished[0],
        "num_train_steps": 2,
        "gradient_accumulation_steps": 2,
    }
    losses = {}
    for weight in (0.0, 1.0):
        launched(tmp_path / str(weight), {**wanted, "consistency_weight": weight, "log_steps": 1})
        lines = (tmp_path / str(weight) / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
        losses[weight] = [json.loads(line)["loss"] for line in lines if "loss" in json.loads(line)]
    assert len(losses[0.0]) == 2 and all(np.isfinite(losses[1.0])) and losses[1.0][1] != losses[0.0][1]


@pytest.mark.parametrize(
    "wanted, message",
    [
        ({"encoder_layers": 2}, "has 1; give at most that many"),
        ({"layers": "last_four"}, "--layers=last_four: the encoder has 1"),
        ({"max_seq_length": 99}, "above the model's max_position_embeddings 41"),
        ({"long_documents": "windows", "doc_stride": 5, "teacher": "x"}, "texts have several rows"),
        ({"encoder_layers": 0}, "does not depend on the text"),
        ({"freeze_layers": 2}, "--freeze_layers=2: the encoder has 1"),
        ({"reinit_layers": 2}, "--reinit_layers=2: the encoder has 1"),
        (
            {"reinit_layers": 1, "freeze_layers": 1},
            "--freeze_layers=1: with --reinit_layers=1 the new layers must be trained; give 0 to 0",
        ),
        ({"reinit_layers": 1, "freeze_layers": -1}, "--freeze_layers=-1: with --reinit_layers=1"),
        ({"document_context": True}, "--document_context=True: task classification does not read it"),
        (
            {"encoder_dropout": -0.5},
            "--encoder_dropout=-0.5: expected 0 to below 1, or -1 for the model's own",
        ),
        (
            {"consistency_weight": 1.0, "classifier_dropout": 0.0, "freeze_layers": -1},
            "without dropout both answers are the same",
        ),
    ],
)
def test_options_that_do_not_fit_the_encoder_are_refused_before_a_config_is_written(
    finished, table_dir, tmp_path, wanted, message
):
    with pytest.raises(UserError, match=message):
        launched(tmp_path / "run", {"data_dir": table_dir, "init_checkpoint": finished[0], **wanted})
    assert not os.path.exists(tmp_path / "run" / "config.json")


@pytest.mark.parametrize(
    "wanted, config, vocabulary, message",
    [
        ({"pooling": "max"}, CONFIG, VOCABULARY, "holds a run with pooling=cls, but --pooling=max was given"),
        (
            {},
            CONFIG.replace(num_hidden_layers=2),
            VOCABULARY,
            "holds a run with num_hidden_layers 1, but 2 was given",
        ),
        ({}, CONFIG, VOCABULARY + b"more\n", "holds a run with another vocabulary than --vocab_file"),
    ],
)
def test_a_resumed_run_refuses_other_values_by_name(finished, table_dir, wanted, config, vocabulary, message):
    with pytest.raises(UserError, match=message):
        launched(finished[0], {"data_dir": table_dir, **wanted}, start=(None, False, config, vocabulary))


@pytest.mark.parametrize(
    "words, do_lower_case, reason",
    [("Ein Mann Frau Haus der", False, "is cased"), (" ".join(string.ascii_lowercase), True, "is uncased")],
)
def test_a_size_takes_its_casing_from_the_vocabulary_and_a_file_of_the_other_casing_is_refused(
    tmp_path, words, do_lower_case, reason
):
    (tmp_path / "vocab.txt").write_text("\n".join([*SPECIAL_PIECES, *words.split()]) + "\n", encoding="utf-8")
    source = keyword_start.source_of("", True, "tiny", f"{tmp_path}/vocab.txt")
    assert source.model_config.do_lower_case is do_lower_case
    config = {**source.model_config.to_dict(), "do_lower_case": not do_lower_case}
    (tmp_path / "bert_config.json").write_text(json.dumps(config), encoding="utf-8")
    with pytest.raises(DataError, match=f"vocab.txt {reason} .* set do_lower_case to {str(do_lower_case).lower()}"):
        keyword_start.source_of("", True, f"{tmp_path}/bert_config.json", f"{tmp_path}/vocab.txt")


def test_a_run_does_not_begin_in_a_directory_of_another_kind(finished, table_dir, tmp_path):
    (tmp_path / "config.json").write_text(json.dumps(CONFIG.to_dict()), encoding="utf-8")
    with pytest.raises(UserError, match="has no key 'finetuning', so it is not a run"):
        launched(tmp_path, {"data_dir": table_dir, "init_checkpoint": finished[0]})
    assert os.listdir(tmp_path) == ["config.json"]


def test_more_layers_than_a_configuration_has_are_refused(table_dir, tmp_path):
    with pytest.raises(UserError, match="--encoder_layers=2: the encoder has 1; give at most that many, or -1"):
        launched(tmp_path, {"data_dir": table_dir, "encoder_layers": 2}, start=(None, False, CONFIG, VOCABULARY))


def test_a_run_without_a_checkpoint_starts_again_and_a_head_of_unknown_origin_is_left_out(
    finished, table_dir, tmp_path
):
    shutil.copytree(finished[0], tmp_path / "run")
    shutil.rmtree(tmp_path / "run" / "checkpoints")
    with pytest.raises(UserError, match="holds a run with global_batch_size=8, but --global_batch_size=4 was given"):
        finetuning_start.launch(
            str(tmp_path / "run"), {"global_batch_size": 4}, 1, (None, False, None, None), io.StringIO()
        )
    weights, _ = load.load_weights(finished[0], allow_missing=("masked_lm", "next_sentence"))
    huggingface_layout.write(weights, str(tmp_path / "others"))
    wanted = {
        "data_dir": table_dir,
        "init_checkpoint": str(tmp_path / "others"),
        "global_batch_size": 4,
        "num_train_steps": 1,
    }
    _, output = launched(tmp_path / "run", wanted)
    assert "batch 4" in output and "left out: the output layer, which does not say what it answers (0, 1)" in output
    assert "from scratch, seed 3: classifier" in output


def test_a_run_that_starts_again_removes_the_best_weights_of_the_earlier_start(
    finished, table_dir, tmp_path, monkeypatch
):
    shutil.copytree(finished[0], tmp_path / "run")
    # Only the best weights remain.
    shutil.rmtree(tmp_path / "run" / "checkpoints" / os.path.basename(newest(finished[0])))
    for path in checkpoints.list_checkpoints(str(tmp_path / "run")):
        shutil.rmtree(path)
    assert checkpoints.best_checkpoints(str(tmp_path / "run"))

    def stopped(training):
        raise Interrupted(signal.SIGTERM, 0, False)

    monkeypatch.setattr("keras_bert_app.training.loop.train", stopped)
    with pytest.raises(Interrupted):
        launched(tmp_path / "run", {"data_dir": table_dir, "init_checkpoint": finished[0], "learning_rate": 1e-4})
    assert not checkpoints.best_checkpoints(str(tmp_path / "run"))


@pytest.mark.parametrize(
    "name, task, labels, problem_type, expected",
    [
        ("rte", "sequence_classification", ("entailment", "not_entailment"), "", True),
        ("rte", "sequence_classification", ("entailment", "not_entailment"), "multi_label_classification", False),
        ("sst-2", "sequence_classification", ("0", "1"), "single_label_classification", False),
        ("sts-b", "sequence_classification", (), "", False),
        ("squad1", "question_answering", (), "", True),
    ],
)
def test_names_of_labels_identify_an_output_layer_of_unknown_origin(name, task, labels, problem_type, expected):
    weights = Weights(CONFIG, {}, task=task, labels=labels, problem_type=problem_type)
    assert transfer.says_what_it_answers(weights, registry.find(name)) == expected


def test_a_directory_of_several_seeds_stands_for_its_best_run(finished, tmp_path):
    shutil.copytree(finished[0], tmp_path / "seeds" / "seed-3")
    values = {"metric": "accuracy", "runs": [{"seed": 4, "failed": "step 1"}, {"seed": 3, "best": {"score": 0.9}}]}
    (tmp_path / "seeds" / "results.json").write_text(json.dumps(values))
    weights, _ = load.load_weights(str(tmp_path / "seeds"), allow_missing=("masked_lm", "next_sentence"))
    best, _ = load.load_weights(finished[0], allow_missing=("masked_lm", "next_sentence"))
    assert "seed-3/checkpoints" in weights.origin
    assert all(np.array_equal(tensor, best.tensors[path]) for path, tensor in weights.tensors.items())
    with pytest.raises(UserError, match="holds no fine-tuning run"):
        seeds.best_run(str(tmp_path))
    (tmp_path / "others").mkdir()
    for content in (
        "[1, 2]",
        "{",
        '{"accuracy": 0.5}',
        '{"metric": "a", "runs": 3}',
        '{"metric": "a", "runs": []}',
        '{"metric": "a", "runs": [{"dev": 1}]}',
    ):
        (tmp_path / "others" / "results.json").write_text(content)
        assert seeds.best(str(tmp_path / "others")) == str(tmp_path / "others")


@pytest.mark.parametrize("share, outcome", [(0.04, "fits"), (0.1, "warns"), (0.3, "stops")])
def test_texts_with_many_unknown_pieces_give_a_warning_or_an_error_before_a_run_begins(tmp_path, share, outcome):
    unknown = round(100 * share)
    text = " ".join(["the"] * (100 - unknown) + ["国"] * unknown)
    for name in ("train", "dev"):
        (tmp_path / f"{name}.tsv").write_text("sentence\tlabel\n" + f"{text}\t1\n{text}\t0\n" * 4, encoding="utf-8")
    run = FinetuningConfig(**{**SETTINGS, "data_dir": str(tmp_path), "max_seq_length": 102})
    config = CONFIG.replace(max_position_embeddings=102)
    message = f"--data_dir={tmp_path}: {share:.1%} of 800 word pieces are [UNK]"
    if outcome == "stops":
        with pytest.raises(UserError, match=re.escape(message)):
            finetuning_start.make_start(str(tmp_path / "run"), config, run, VOCABULARY)
        assert not os.path.exists(tmp_path / "run")
    else:
        start = finetuning_start.make_start(str(tmp_path / "run"), config, run, VOCABULARY)
        assert [line for line in start.data.data.warnings if message in line] == [
            line for line in start.data.data.warnings if outcome == "warns"
        ]
