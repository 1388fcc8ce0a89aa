"""Teachers of fine-tuning: runs of one or several seeds whose answers other runs learn from."""

import io
import itertools
import json
import os
import shutil
import types

import numpy as np
import pytest

from keras_bert_app.analysis import head_tasks
from keras_bert_app.analysis.options import Options
from keras_bert_app.config.finetuning_config import FinetuningConfig
from keras_bert_app.errors import UserError
from keras_bert_app.modeling.task_model import BertTaskModel
from keras_bert_app.runs import checkpoints, seeds
from keras_bert_app.tasks import registry, scoring, transfer
from keras_bert_app.tasks.labelled_data import load_data
from keras_bert_app.training import loop, pace, reporting
from pipelines.wordpiece.tokenizer import BertTokenizer
from tests.tasks.conftest import CONFIG, SETTINGS, VOCABULARY, launched, write_table


@pytest.fixture(scope="module")
def tokenizer():
    return BertTokenizer(VOCABULARY, True)


def test_a_bilstm_over_embeddings_learns_from_a_teacher(finished, table_dir, tmp_path):
    wanted = {
        "data_dir": table_dir,
        "init_checkpoint": finished[0],
        "teacher": finished[0],
        "encoder_layers": 0,
        "bilstm_units": 5,
        "pooling": "max",
        "layers": "scalar_mix",
        "num_train_steps": 1,
    }
    figures, output = launched(tmp_path / "student", wanted)
    assert "layers 1 -> 0: kept none" in output and figures["best"]["step"] == 1
    assert figures["layer_shares"] == [1.0] and os.path.exists(tmp_path / "student" / "layer_shares.png")
    answers = scoring.FinetunedRun(str(tmp_path / "student"))
    scores, *_ = answers.evaluate(os.path.join(table_dir, "dev.tsv"), has_chosen=True)
    assert scores == pytest.approx(figures["reported"]["metrics"], abs=1e-6)


def test_a_teacher_of_other_labels_is_refused(finished, tmp_path):
    for name, count in (("train", 4), ("dev", 4)):
        write_table(str(tmp_path), name, count, 1)
        path = tmp_path / f"{name}.tsv"
        path.write_text(
            path.read_text(encoding="utf-8").replace("\t1\n", "\tyes\n").replace("\t0\n", "\tno\n"), encoding="utf-8"
        )
    with pytest.raises(
        UserError, match="answers classification with 0, 1; expected a run of classification with no, yes"
    ):
        launched(tmp_path / "run", {"data_dir": str(tmp_path), "init_checkpoint": finished[0], "teacher": finished[0]})
    assert not os.path.exists(tmp_path / "run" / "config.json")


@pytest.mark.parametrize(
    "teacher, task, is_accepted",
    [("sst-2", "mrpc", False), ("mrpc", "paws-x", True), ("classification", "cola", True), ("sst-2", "sst-2", True)],
)
def test_a_teacher_of_another_task_is_refused_although_its_labels_have_the_same_names(
    finished, table_dir, tmp_path, monkeypatch, teacher, task, is_accepted
):
    shutil.copytree(finished[0], tmp_path / "teacher")
    path = tmp_path / "teacher" / "config.json"
    path.write_text(
        path.read_text(encoding="utf-8").replace('"task": "classification"', f'"task": "{teacher}"'), encoding="utf-8"
    )
    examples = registry.find("classification").read_split(table_dir, "dev", FinetuningConfig())
    data = fake_data(task, examples)
    run = FinetuningConfig(teacher=str(tmp_path / "teacher"))
    if is_accepted:
        assert transfer.Teacher(None, io.StringIO()).logits(data, run, [run.teacher]).shape == (len(examples), 2)
    else:
        with pytest.raises(UserError, match=f"answers {teacher} with 0, 1; expected a run of {task} with 0, 1"):
            transfer.Teacher(None, io.StringIO()).logits(data, run, [run.teacher])


def fake_data(task, examples, fingerprint="first"):
    train = types.SimpleNamespace(fingerprint=lambda: fingerprint)
    return types.SimpleNamespace(
        task=registry.find(task), labels=("0", "1"), train_examples=examples, unlabelled_examples=[], train=train
    )


@pytest.mark.slow
def test_several_seeds_teach_by_the_mean_of_their_logits_and_answer_once(three_seeds, table_dir, tmp_path):
    shutil.copytree(three_seeds, tmp_path / "teacher")
    path = tmp_path / "teacher" / "results.json"
    figures = json.loads(path.read_text(encoding="utf-8"))
    numbers = [run["seed"] for run in figures["runs"]]
    changed = json.loads(path.read_text(encoding="utf-8"))
    for number, run in enumerate(changed["runs"]):
        run["best"] = {
            "score": 0.6 - 0.1 * number,
            "difference_interval": [0.1 * (1.5 - number), 0.2],
        }  # the third: < 0
    path.write_text(json.dumps(changed), encoding="utf-8")
    examples = registry.find("classification").read_split(table_dir, "dev", FinetuningConfig())
    single = [scoring.FinetunedRun(str(tmp_path / "teacher" / f"seed-{seed}")).logits(examples) for seed in numbers[:2]]
    stream, run = io.StringIO(), FinetuningConfig(teacher=str(tmp_path / "teacher"))
    teacher, directories = transfer.Teacher(None, stream), seeds.sound(run.teacher)
    mean_logits = teacher.logits(fake_data("classification", examples), run, directories)
    np.testing.assert_allclose(mean_logits, (single[0] + single[1]) / 2, atol=1e-6)
    assert np.abs(single[0] - single[1]).max() > 1e-3
    assert teacher.logits(fake_data("classification", examples), run, directories) is mean_logits
    assert len(teacher.logits(fake_data("classification", examples[:3], "second"), run, directories)) == 3
    assert stream.getvalue().count("(2 runs) answers") == 2 and stream.getvalue().count("seed-") == 4
    # A resumed student keeps the teachers that it began with.
    wanted = {"data_dir": table_dir, "teacher": run.teacher, "num_train_steps": 1}
    _, output = launched(tmp_path / "student", wanted, start=(None, False, CONFIG, VOCABULARY))
    assert "(2 runs) answers" in output
    path.write_text(json.dumps(figures), encoding="utf-8")
    kept_path = tmp_path / "student" / "teacher_logits.npy"
    np.testing.assert_allclose(
        np.load(kept_path)[:3],
        teacher.logits(
            fake_data(
                "classification",
                registry.find("classification").read_split(table_dir, "train", FinetuningConfig()),
                "train",
            ),
            run,
            directories,
        )[:3],
        atol=1e-5,
    )
    kept_path.write_bytes(kept_path.read_bytes()[:-7])  # a damaged file makes the student ask the teachers again
    _, output = launched(tmp_path / "student", {"num_train_steps": 2}, start=(None, True, None, None))
    assert "(2 runs) answers" in output and "resumed at step 1" in output
    # The importance of the student's attention heads is measured with the labels.
    tuned = head_tasks.Tuned(Options(workdir=str(tmp_path / "student")))
    assert np.isfinite(float(tuned.loss(tuned.outputs(tuned.model, tuned.estimation[0]), tuned.estimation[0])))
    # A finished run does not ask its teachers.
    _, output = launched(tmp_path / "student", {"num_train_steps": 2}, start=(None, True, None, None))
    assert ") answers " not in output and "resumed at step 2" in output


def test_texts_without_labels_are_learned_with_the_teachers_answers(finished, table_dir, tmp_path):
    (tmp_path / "more").mkdir()
    texts = tmp_path / "more" / "texts of others.tsv"
    texts.write_text("sentence\nthe grim day\n\nso very kind\na warm day\n", encoding="utf-8")
    wanted = {
        "data_dir": table_dir,
        "init_checkpoint": finished[0],
        "teacher": finished[0],
        "unlabelled_files": (str(texts),),
        "max_train_examples": 9,
        "num_train_epochs": 2.0,
    }
    figures, output = launched(tmp_path / "student", wanted)
    assert "answers 9 training examples and 4 texts without labels" in output and "training: 9 examples" in output
    assert "; 4 more without labels" in output and figures["num_train_steps"] == 4  # 26 texts in two epochs, 8 a step
    assert figures["baseline"]["what"] == "always 1"  # 5 examples have label 1, 4 have label 0
    answers = np.load(tmp_path / "student" / "teacher_logits.npy")
    teacher = scoring.FinetunedRun(finished[0])
    np.testing.assert_allclose(
        answers[9:], teacher.logits(teacher.task.read_file(str(texts), teacher.run, has_labels=False)), atol=1e-5
    )
    # A resumed run keeps the teacher's answers if the file has moved. It refuses other texts.
    moved = texts.rename(tmp_path / "texts.tsv")
    _, output = launched(tmp_path / "student", {**wanted, "num_train_epochs": 3.0, "unlabelled_files": (str(moved),)})
    assert ") answers " not in output and "resumed at step 4" in output
    moved.write_text("sentence\nthe grim day\n", encoding="utf-8")
    with pytest.raises(UserError, match="with --unlabelled_files: has other training examples than the run"):
        launched(tmp_path / "student", {**wanted, "num_train_epochs": 4.0, "unlabelled_files": (str(moved),)})


@pytest.mark.parametrize(
    "task, known, answers, expected",
    [
        ("classification", np.array([1, 0, 1, 1], np.int32), [[0, 1], [2, 1], [-3, -2], [0.5, 0.25]], [1, 0, 1, 0]),
        ("regression", np.array([2.5, 1, 2.5, 2.5], np.float32), [[7], [8], [-1.25], [3]], [2.5, 1, -1.25, 3]),
        (
            "multi_label",
            np.array([[1, 0], [0, 0], [1, 0], [1, 0]], np.float32),
            [[1, 1], [1, 1], [-1, 0.5], [-1, -1]],
            [[1, 0], [0, 0], [0, 1], [0, 0]],
        ),
    ],
)
def test_the_most_likely_answer_of_a_teacher_becomes_the_label_of_an_unlabelled_text(task, known, answers, expected):
    train = types.SimpleNamespace(labels={"labels": known.copy()})
    data = types.SimpleNamespace(task=registry.find(task), train_examples=[None] * 2, train=train)
    answers = np.array(answers, np.float32)
    transfer.learn_from(answers, data)
    assert train.labels["labels"].dtype == known.dtype and train.labels["teacher_logits"] is answers
    np.testing.assert_array_equal(train.labels["labels"], expected)


def test_the_units_of_a_regression_come_from_the_known_labels(tmp_path, tokenizer):
    table = "text\tlabel\nthe day\t10\nfine\t20\ngrim\t30\n"
    for name in ("train", "more"):
        (tmp_path / f"{name}.tsv").write_text(table, encoding="utf-8")
    (tmp_path / "dev.tsv").write_text("text\tlabel\nkind\t10\nwarm\t20\n", encoding="utf-8")
    run = FinetuningConfig(
        **{
            **SETTINGS,
            "task": "regression",
            "data_dir": str(tmp_path),
            "text_columns": ("text",),
            "teacher": "any",
            "unlabelled_files": (str(tmp_path / "more.tsv"),) * 3,
        }
    )
    data = load_data(run, tokenizer)
    assert data.train.num_units == 12 and data.known_labels().tolist() == [10, 20, 30]
    head = transfer.in_units_of(data.task.family.make_head(data.task, run, ()), data)
    assert head.offset == 20 and head.scale == pytest.approx((200 / 3) ** 0.5)


def test_the_bias_for_label_sets_begins_with_the_shares_of_the_known_labels(tmp_path, tokenizer):
    (tmp_path / "train.tsv").write_text("text\tlabel\nthe day\ta\nfine\tb\ngrim\ta\n", encoding="utf-8")
    shutil.copy(tmp_path / "train.tsv", tmp_path / "more.tsv")
    (tmp_path / "dev.tsv").write_text("text\tlabel\nkind\tb\nwarm\ta\n", encoding="utf-8")
    run = FinetuningConfig(
        **{
            **SETTINGS,
            "task": "multi_label",
            "data_dir": str(tmp_path),
            "text_columns": ("text",),
            "teacher": "any",
            "unlabelled_files": (str(tmp_path / "more.tsv"),),
        }
    )
    data = load_data(run, tokenizer)
    model = BertTaskModel(CONFIG, data.task.family.make_head(data.task, run, data.labels))
    transfer.begin_with_label_shares(model, data)
    np.testing.assert_allclose(1 / (1 + np.exp(-model.classifier.bias.numpy())), [2.5 / 4, 1.5 / 4], rtol=1e-6)


def test_pairs_without_labels_are_swapped_too_and_answered_in_the_order_of_the_rows(tmp_path, tokenizer):
    header = "index\t#1 ID\t#2 ID\t#1 String\t#2 String\n"
    (tmp_path / "more.tsv").write_text(f"{header}0\t1\t2\tgrim\tso dull\n1\t1\t2\tthe day was\ta\n", encoding="utf-8")
    for name, more in (("train", ""), ("dev", "0\t1\t2\tfine\tgrim\n")):
        (tmp_path / f"{name}.tsv").write_text(
            f"Quality\t{header.partition(chr(9))[2]}1\t1\t2\tfine\tkind\n{more}", encoding="utf-8"
        )
    run = FinetuningConfig(
        **{
            **SETTINGS,
            "task": "mrpc",
            "data_dir": str(tmp_path),
            "teacher": "any",
            "swap_pairs": True,
            "unlabelled_files": (str(tmp_path / "more.tsv"),),
        }
    )
    data = load_data(run, tokenizer)
    pairs = [(one.text_a, one.text_b) for one in (*data.train_examples, *data.unlabelled_examples)]
    assert pairs == [
        ("fine", "kind"),
        ("kind", "fine"),
        ("grim", "so dull"),
        ("the day was", "a"),
        ("so dull", "grim"),
        ("a", "the day was"),
    ]
    lengths = [[len(a.split()) + 2, len(b.split()) + 1] for a, b in pairs]
    np.testing.assert_array_equal(data.train.b_starts, [a for a, _ in lengths])
    np.testing.assert_array_equal(data.train.row_lengths(), [a + b for a, b in lengths])


@pytest.mark.parametrize(
    "flags, expected",
    [
        (
            {"unlabelled_files": ("a.tsv", "b.tsv")},
            r"--unlabelled_files=a.tsv,b.tsv: there is no --teacher to learn from",
        ),
        (
            {"task": "ner", "teacher": "runs/a"},
            "--teacher=runs/a: task ner cannot learn from a teacher; leave it out: a teacher is for tasks of "
            "classification, regression, multi-label",
        ),
        ({"teacher": "runs/a", "unlabelled_files": ("none.tsv",)}, "none.tsv: there is no such file"),
    ],
)
def test_a_missing_or_unsuitable_teacher_and_a_missing_file_of_texts_are_refused(table_dir, tokenizer, flags, expected):
    with pytest.raises(UserError, match=expected):
        load_data(FinetuningConfig(**{**SETTINGS, "data_dir": table_dir, **flags}), tokenizer)


@pytest.mark.slow
def test_a_student_with_a_time_limit_trains_beyond_the_steps_of_its_epochs(finished, table_dir, tmp_path, monkeypatch):
    # Each reading of this clock adds a tenth of a second, so that the speed of the machine has no effect.
    ticks = itertools.count()
    for module in (loop, pace, reporting):
        monkeypatch.setattr(module, "time", types.SimpleNamespace(monotonic=lambda: next(ticks) / 10))
    wanted = {
        "data_dir": table_dir,
        "init_checkpoint": finished[0],
        "teacher": finished[0],
        "max_train_examples": 8,
        "num_train_epochs": 1.0,
        "jit_compile": "none",
        "train_minutes": 0.05,
    }
    launched(tmp_path / "student", wanted)
    _, output = launched(tmp_path / "student", wanted)
    assert ") answers " not in output and "resumed at step" in output
    step = int(output.split("resumed at step ")[1].split()[0])
    assert step > 1  # one pass over the examples is 1 step
    figures, output = launched(tmp_path / "student", {**wanted, "train_minutes": 0.2})
    # The student keeps the answers from its first run.
    assert f"resumed at step {step}" in output and ") answers " not in output and figures["best"]["step"] >= 1
    steps = [
        int(os.path.basename(path).split("-")[1]) for path in checkpoints.list_checkpoints(str(tmp_path / "student"))
    ]
    assert steps[-1] > step
