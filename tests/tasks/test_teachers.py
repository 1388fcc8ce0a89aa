"""Teachers of fine-tuning: runs whose answers others learn from, of one seed and of several."""

import io
import json
import os
import shutil
import types

import numpy as np
import pytest

from keras_bert_app.analysis import head_tasks
from keras_bert_app.analysis.options import Options
from keras_bert_app.errors import UserError
from keras_bert_app.finetuning_config import FinetuningConfig
from keras_bert_app.runs import checkpoints, seeds
from keras_bert_app.tasks import registry, scoring, transfer
from tests.tasks.conftest import CONFIG, VOCABULARY, launched, write_table


def test_a_bilstm_over_embeddings_learns_from_a_teacher(finished, table_dir, tmp_path):
    wanted = {"data_dir": table_dir, "init_checkpoint": finished[0], "teacher": finished[0], "encoder_layers": 0,
              "bilstm_units": 5, "pooling": "max", "layers": "scalar_mix", "num_train_steps": 1}
    figures, output = launched(tmp_path / "student", wanted)
    assert "layers 1 -> 0: kept none" in output and figures["best_step"] == 1
    assert figures["layer_shares"] == [1.0] and os.path.exists(tmp_path / "student" / "layer_shares.png")
    answers = scoring.FinetunedRun(str(tmp_path / "student"))
    assert answers.evaluate(os.path.join(table_dir, "dev.tsv"))[0] == pytest.approx(figures["dev"], abs=1e-6)


def test_a_teacher_of_other_labels_is_refused(finished, tmp_path):
    for name, count in (("train", 4), ("dev", 4)):
        write_table(str(tmp_path), name, count, 1)
        path = tmp_path / f"{name}.tsv"
        path.write_text(path.read_text(encoding="utf-8").replace("\t1\n", "\tyes\n").replace("\t0\n", "\tno\n"), encoding="utf-8")
    with pytest.raises(UserError, match="answers classification with 0, 1; expected a run of classification with no, yes"):
        launched(tmp_path / "run", {"data_dir": str(tmp_path), "init_checkpoint": finished[0], "teacher": finished[0]})
    assert not os.path.exists(tmp_path / "run" / "config.json")


@pytest.mark.parametrize("teacher, task, is_taken", [
    ("sst-2", "mrpc", False), ("mrpc", "paws-x", True), ("classification", "cola", True), ("sst-2", "sst-2", True)])
def test_a_teacher_of_another_task_is_no_teacher_though_its_labels_are_called_the_same(
        finished, table_dir, tmp_path, monkeypatch, teacher, task, is_taken):
    shutil.copytree(finished[0], tmp_path / "teacher")
    path = tmp_path / "teacher" / "config.json"
    path.write_text(path.read_text(encoding="utf-8").replace('"task": "classification"', f'"task": "{teacher}"'), encoding="utf-8")
    examples = registry.find("classification").read_split(table_dir, "dev", FinetuningConfig())
    data = given(task, examples)
    run = FinetuningConfig(teacher=str(tmp_path / "teacher"))
    if is_taken:
        assert transfer.Teacher(None, io.StringIO()).logits(data, run, [run.teacher]).shape == (len(examples), 2)
    else:
        with pytest.raises(UserError, match=f"answers {teacher} with 0, 1; expected a run of {task} with 0, 1"):
            transfer.Teacher(None, io.StringIO()).logits(data, run, [run.teacher])


def given(task, examples, fingerprint="of the examples"):
    train = types.SimpleNamespace(fingerprint=lambda: fingerprint)
    return types.SimpleNamespace(task=registry.find(task), labels=("0", "1"), train_examples=examples, train=train)


def test_several_seeds_teach_by_the_mean_of_their_logits_and_are_asked_once(three_seeds, table_dir, tmp_path):
    shutil.copytree(three_seeds, tmp_path / "teacher")
    path = tmp_path / "teacher" / "results.json"
    figures = json.loads(path.read_text(encoding="utf-8"))
    numbers = [run["seed"] for run in figures["runs"]]
    path.write_text(json.dumps({**figures, "degenerate_seeds": numbers[2:]}), encoding="utf-8")
    examples = registry.find("classification").read_split(table_dir, "dev", FinetuningConfig())
    alone = [scoring.FinetunedRun(str(tmp_path / "teacher" / f"seed-{seed}")).logits(examples) for seed in numbers[:2]]
    stream, run = io.StringIO(), FinetuningConfig(teacher=str(tmp_path / "teacher"))
    teacher, directories = transfer.Teacher(None, stream), seeds.sound(run.teacher)
    found = teacher.logits(given("classification", examples), run, directories)
    np.testing.assert_allclose(found, (alone[0] + alone[1]) / 2, atol=1e-6)
    assert np.abs(alone[0] - alone[1]).max() > 1e-3
    assert teacher.logits(given("classification", examples), run, directories) is found
    assert len(teacher.logits(given("classification", examples[:3], "of others"), run, directories)) == 3
    assert stream.getvalue().count("teaches by 2 runs") == 2 and stream.getvalue().count("seed-") == 4
    # A student goes on with the teachers that it began with.
    wanted = {"data_dir": table_dir, "teacher": run.teacher, "num_train_steps": 1}
    _, output = launched(tmp_path / "student", wanted, start=(None, False, CONFIG, VOCABULARY))
    assert "teaches by 2 runs" in output
    path.write_text(json.dumps(figures), encoding="utf-8")
    kept = tmp_path / "student" / "teacher_logits.npy"
    np.testing.assert_allclose(np.load(kept)[:3], teacher.logits(given("classification", registry.find("classification").read_split(
        table_dir, "train", FinetuningConfig()), "train"), run, directories)[:3], atol=1e-5)
    kept.write_bytes(kept.read_bytes()[:-7])  # so that they are asked again
    _, output = launched(tmp_path / "student", {"num_train_steps": 2}, start=(None, True, None, None))
    assert "teaches by 2 runs" in output and "resumed at step 1" in output
    # What its heads are worth is told by the labels.
    tuned = head_tasks.Tuned(Options(workdir=str(tmp_path / "student")))
    assert np.isfinite(float(tuned.loss(tuned.outputs(tuned.model, tuned.estimation[0]), tuned.estimation[0])))
    # Where nothing is left to learn nobody is asked.
    _, output = launched(tmp_path / "student", {"num_train_steps": 2}, start=(None, True, None, None))
    assert "teaches" not in output and "resumed at step 2" in output


def test_a_student_whose_clock_is_not_over_goes_on_beyond_the_steps_of_its_epochs(finished, table_dir, tmp_path):
    wanted = {"data_dir": table_dir, "init_checkpoint": finished[0], "teacher": finished[0], "max_train_examples": 8, "num_train_epochs": 1.0,
              "jit_compile": "none", "train_minutes": 0.01}
    launched(tmp_path / "student", wanted)
    _, output = launched(tmp_path / "student", wanted)
    assert "teaches" not in output and "resumed at step" in output
    step = int(output.split("resumed at step ")[1].split()[0])
    assert step > 1  # of one a pass over the examples
    figures, output = launched(tmp_path / "student", {**wanted, "train_minutes": 0.25})  # longer than compiling takes
    # It goes on with what it was taught before.
    assert f"resumed at step {step}" in output and "teaches" not in output and figures["best_step"] >= 1
    steps = [int(os.path.basename(path).split("-")[1]) for path in checkpoints.list_checkpoints(str(tmp_path / "student"))]
    assert steps[-1] > step
