"""Evaluations during a run: the choice of the best weights, early stopping, and stops during an evaluation."""

import dataclasses
import json
import os
import pathlib
import shutil
import signal

import numpy as np
import pytest

from keras_bert_app.config.finetuning_config import FinetuningConfig
from keras_bert_app.errors import Interrupted
from keras_bert_app.modeling.task_head import Head
from keras_bert_app.modeling.task_model import BertTaskModel
from keras_bert_app.runs import checkpoint_manifests, checkpoints
from keras_bert_app.runs.work_directory import ExistingRun, unfinished
from keras_bert_app.tasks.dev_evaluation import Scorer
from keras_bert_app.tasks.scoring import FinetunedRun
from keras_bert_app.training import reporting
from tests.tasks.conftest import CONFIG, SETTINGS, newest, run_on, weights_of

_EARLY = dict(
    learning_rate=0.0,
    num_train_steps=11,
    eval_steps=3,
    save_checkpoints_steps=2,
    keep_checkpoints=9,
    early_stopping=2,
    max_eval_examples=8,
)


@pytest.fixture(scope="module")
def ended_early(tmp_path_factory, table_dir):
    """(work directory, results, output) of a run of _EARLY, which learns nothing and ends at step 9.

    No test may change it.
    """
    workdir = str(tmp_path_factory.mktemp("early") / "run")
    return (workdir, *run_on(workdir, table_dir, **_EARLY))


def test_the_best_weights_are_those_of_the_first_evaluation_with_the_highest_score(finished):
    workdir, figures, _ = finished
    scores = {row["step"]: row["eval_accuracy"] for row in reporting.read_metrics(workdir) if "eval_accuracy" in row}
    assert sorted(scores) == [20, 40, 60]
    assert figures["best"]["step"] == min(step for step, score in scores.items() if score == max(scores.values()))
    assert figures["num_evaluations"] == 3 and figures["last"] == {"step": 60, "score": scores[60]}
    (best,) = checkpoints.best_checkpoints(workdir)
    same_step = os.path.join(workdir, "checkpoints", f"step-{figures['best']['step']:08d}")
    assert all(np.array_equal(tensor, weights_of(same_step)[path]) for path, tensor in weights_of(best).items())


def test_an_equal_score_after_a_resume_is_not_a_better_score(ended_early, table_dir, tmp_path):
    figures, workdir = ended_early[1], str(tmp_path / "run")
    # 3 of the 8 examples choose the weights. A resumed run reads this score from metrics.jsonl with seven digits.
    assert figures["dev_examples"] == 3 and figures["best"]["score"] == pytest.approx(1 / 3, abs=1e-6)
    shutil.copytree(ended_early[0], workdir)
    shutil.rmtree(newest(workdir))
    _, output = run_on(workdir, table_dir, **_EARLY)
    assert "resumed at step 8" in output and "the best so far" not in output
    assert [path[-8:] for path in checkpoints.best_checkpoints(workdir)] == ["00000003"]


def test_early_stopping_ends_a_run_after_two_evaluations_without_a_better_score(ended_early, table_dir, tmp_path):
    workdir, figures, output = ended_early
    rows = [row["step"] for row in reporting.read_metrics(workdir) if "eval_accuracy" in row]
    assert rows == [3, 6, 9] and figures["best"]["step"] == 3
    assert newest(workdir).endswith("step-00000009")
    message = (
        "ended early at step 9: 2 evaluations without a better score than that of step 3; --early_stopping=0 continues"
    )
    assert message in output
    shutil.copytree(workdir, tmp_path / "run")
    existing = ExistingRun.read(str(tmp_path / "run"))
    _, run = existing.resumed(None, {"early_stopping": 0}, run_class=FinetuningConfig)
    _, output = run_on(tmp_path / "run", table_dir, **{**_EARLY, "early_stopping": run.early_stopping})
    assert newest(str(tmp_path / "run")).endswith("step-00000011") and "ended early" not in output


def test_the_best_weights_of_a_repeated_step_are_replaced_only_with_another_score(tmp_path):
    model = BertTaskModel(CONFIG, Head("text", 2))
    for bias in (1.0, 2.0):
        model.classifier.bias.assign([bias, bias])
        checkpoints.save_best(str(tmp_path), model, 100, {"eval_accuracy": bias})
    (best,) = checkpoints.best_checkpoints(str(tmp_path))
    written_at = os.stat(os.path.join(best, "manifest.json")).st_mtime_ns
    # A finished run that starts again saves its best weights again.
    checkpoints.save_best(str(tmp_path), model, 100, {"eval_accuracy": 2.0})
    assert os.stat(os.path.join(best, "manifest.json")).st_mtime_ns == written_at
    assert weights_of(best)["classifier/bias"].tolist() == [2.0, 2.0]
    assert checkpoints.read_manifest(best)["figures"] == {"eval_accuracy": 2.0}


def test_best_weights_of_steps_that_are_taken_again_are_forgotten_and_earlier_ones_come_back(
    ended_early, table_dir, tmp_path
):
    workdir = str(tmp_path / "run")
    shutil.copytree(ended_early[0], workdir)
    model = FinetunedRun(workdir).model
    for directory in checkpoints.list_checkpoints(workdir):
        if checkpoints.step_of(directory) > 4:
            shutil.rmtree(directory)
    for step, score in ((6, 0.8), (7, 0.9)):  # as a run that was killed after step 7 leaves them
        checkpoints.save_best(workdir, model, step, {"eval_accuracy": score})
    assert [path[-8:] for path in checkpoints.best_checkpoints(workdir)] == ["00000003", "00000007"]
    figures, output = run_on(workdir, table_dir, **_EARLY)
    assert "resumed at step 4" in output and figures["best"] == ended_early[1]["best"]
    assert [path[-8:] for path in checkpoints.best_checkpoints(workdir)] == ["00000003"]


def test_a_better_mean_of_an_earlier_end_stays_when_the_run_goes_on(ended_early, table_dir, tmp_path):
    workdir = str(tmp_path / "run")
    shutil.copytree(ended_early[0], workdir)
    shutil.rmtree(newest(workdir))
    model, path = FinetunedRun(workdir).model, pathlib.Path(workdir, "metrics.jsonl")
    checkpoints.save_best(workdir, model, 8, {"eval_accuracy": 0.9}, [6, 8])
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    path.write_text("".join(f"{json.dumps(row | {'eval_accuracy': 0.1})}\n" for row in rows))
    figures, _ = run_on(workdir, table_dir, **_EARLY)
    assert figures["best"].items() >= {"step": 8, "score": 0.9, "mean_of_steps": [6, 8]}.items()


def test_a_mean_that_is_only_as_good_as_the_last_evaluation_does_not_replace_its_weights(
    ended_early, table_dir, tmp_path
):
    workdir = str(tmp_path / "run")
    shutil.copytree(ended_early[0], workdir)
    model = FinetunedRun(workdir).model
    score = reporting.as_written(ended_early[1]["best"]["score"])
    checkpoints.save_best(workdir, model, 9, {"eval_accuracy": score, "eval_f1": 0.5})  # as if step 9 were the best
    figures, output = run_on(workdir, table_dir, **_EARLY, average_checkpoints=2)
    assert "mean of the checkpoints of steps 8, 9" in output and "the best so far" not in output.split("mean of")[1]
    assert "mean_of_steps" not in figures["best"] and figures["best"]["step"] == 9


def test_later_best_weights_stay_if_the_earlier_ones_are_lost(ended_early, table_dir, tmp_path):
    workdir = str(tmp_path / "run")
    shutil.copytree(ended_early[0], workdir)
    (best,) = checkpoints.best_checkpoints(workdir)
    os.rename(best, best.replace("00000003", "00000009"))  # as a run of an earlier version leaves it
    for directory in checkpoints.list_checkpoints(workdir):
        if checkpoints.step_of(directory) > 4:
            shutil.rmtree(directory)
    run_on(workdir, table_dir, **_EARLY)
    assert [path[-8:] for path in checkpoints.best_checkpoints(workdir)] == ["00000009"]


def test_a_checkpoint_whose_removal_was_interrupted_is_none_of_the_run(ended_early, tmp_path, monkeypatch):
    workdir = str(tmp_path / "run")
    shutil.copytree(ended_early[0], workdir)
    model = FinetunedRun(workdir).model
    with monkeypatch.context() as patched:
        patched.setattr(checkpoints.storage, "remove_tree", lambda path: os.remove(os.path.join(path, "manifest.json")))
        checkpoints.save_best(workdir, model, 10, {"eval_accuracy": 0.9})  # step 9 has a checkpoint
        checkpoints.save_best(workdir, model, 11, {"eval_accuracy": 0.95})
    assert [path[-8:] for path in checkpoints.best_checkpoints(workdir)] == ["00000003", "00000011"]
    assert unfinished(workdir)
    checkpoints.save_best(workdir, model, 12, {"eval_accuracy": 0.99})
    assert not unfinished(workdir)


@pytest.mark.parametrize("stops_again", [False, True])
def test_a_repeated_evaluation_can_end_a_run_and_survives_a_second_stop(
    ended_early, table_dir, tmp_path, monkeypatch, stops_again
):
    workdir, figures = str(tmp_path / "run"), ended_early[1]
    shutil.copytree(ended_early[0], workdir)
    # These changes give the state after a kill during the last evaluation.
    manifest = checkpoints.read_manifest(newest(workdir))
    pathlib.Path(newest(workdir), "manifest.json").write_text(
        checkpoint_manifests.manifest_text({**manifest, "evaluation_due": True})
    )
    path = pathlib.Path(workdir, "metrics.jsonl")
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join(line for line in lines if not (json.loads(line)["step"] == 9 and "eval_accuracy" in line)))
    os.remove(os.path.join(workdir, "results.json"))
    if stops_again:
        original_evaluate = Scorer.evaluate

        def evaluate(self, step, should_stop):
            signal.raise_signal(signal.SIGTERM)
            return original_evaluate(self, step, should_stop)

        with monkeypatch.context() as patched:
            patched.setattr(Scorer, "evaluate", evaluate)
            with pytest.raises(Interrupted) as stop:
                run_on(workdir, table_dir, **_EARLY)
        assert stop.value.step == 9
    again, _ = run_on(workdir, table_dir, **_EARLY)
    assert newest(workdir).endswith("step-00000009") and again["reported"] == figures["reported"]
    assert [row["step"] for row in reporting.read_metrics(workdir) if "eval_accuracy" in row] == [3, 6, 9]


def test_evaluations_that_are_rarer_than_checkpoints_have_a_checkpoint_of_their_step(ended_early, table_dir):
    assert [int(path[-8:]) for path in checkpoints.list_checkpoints(ended_early[0])] == [2, 3, 4, 6, 8, 9]
    run = FinetuningConfig(**SETTINGS, data_dir=table_dir)
    assert run.resolved(2500).save_checkpoints_steps == 1000 and run.resolved(12).save_checkpoints_steps == 12
    assert dataclasses.replace(run, keep_every_steps=2500).resolved(2500).save_checkpoints_steps == 2500
