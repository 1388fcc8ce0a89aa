"""finetune, evaluate and predict as a user runs them: from labelled files to answers, and every wrong flag."""

import json

import pytest

from keras_bert_app.config.finetuning_config import FinetuningConfig
from keras_bert_app.tasks import dev_halves, registry
from tests.cli.test_commands import assert_refused
from tests.tasks.conftest import CONFIG, VOCABULARY, write_table


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A directory with the files of a task, a vocabulary and a bert_config.json."""
    directory = tmp_path_factory.mktemp("my task")
    write_table(str(directory), "train", 24, 1)
    write_table(str(directory), "dev", 10, 2)
    (directory / "vocab.txt").write_bytes(VOCABULARY)
    (directory / "bert_config.json").write_text(json.dumps(CONFIG.to_dict()))
    return directory


def test_labelled_files_become_answers_and_scores_by_commands_alone(run, folder, tmp_path):
    workdir = f"{tmp_path}/run"
    trained = run(
        "finetune",
        "--task=classification",
        f"--data_dir={folder}",
        f"--config={folder}/bert_config.json",
        f"--vocab_file={folder}/vocab.txt",
        f"--workdir={workdir}",
        "--max_seq_length=29",
        "--global_batch_size=8",
        "--num_train_steps=3",
        "--jit_compile=none",
    )
    assert trained.returncode == 0 and "classification accuracy " in trained.stdout, trained.stderr
    reported = json.loads((tmp_path / "run" / "results.json").read_text())["reported"]
    accuracy = reported["score"]

    scored = run("evaluate", f"--workdir={workdir}", f"--output_dir={tmp_path}/scores")
    assert scored.returncode == 0 and f"  accuracy {accuracy:.4f}" in scored.stdout, scored.stderr
    scores = json.loads((tmp_path / "scores" / "scores.json").read_text())
    assert scores["examples"] == reported["examples"] < 10 and scores["accuracy"] == pytest.approx(accuracy, abs=1e-6)

    assert_refused(
        run("evaluate", f"--workdir={workdir}", "--ensemble"),
        f"--workdir={workdir} holds no runs of several seeds",
        "leave out --ensemble",
    )

    rows = (folder / "dev.tsv").read_text().splitlines()
    (tmp_path / "unlabelled.tsv").write_text("".join(f"{row.split(chr(9))[0]}\n" for row in rows))
    (tmp_path / "a file").touch()
    for verb, given in (("predict", [f"--input_file={tmp_path}/unlabelled.tsv"]), ("evaluate", [])):
        refused = run(verb, f"--workdir={workdir}", f"--output_dir={tmp_path}/a file", *given)
        assert_refused(refused, "a file")
        assert "rows" not in refused.stdout  # the command refuses before it computes answers
    predict = (
        "predict",
        f"--workdir={workdir}",
        f"--input_file={tmp_path}/unlabelled.tsv",
        f"--output_dir={tmp_path}/answers",
    )
    assert run(*predict).returncode == 0
    assert_refused(run(*predict), "is there already; --overwrite replaces it")
    answered = run(*predict, "--overwrite")
    assert answered.returncode == 0 and "10 examples" in answered.stdout, answered.stderr
    answers = [json.loads(line) for line in (tmp_path / "answers" / "probabilities.jsonl").read_text().splitlines()]
    task = registry.find("classification")
    _, reported_examples = dev_halves.split(task, task.read_file(f"{folder}/dev.tsv", FinetuningConfig()))
    is_correct = [answers[int(example.guid)]["label"] == example.label for example in reported_examples]
    assert len(answers) == 10 and sum(is_correct) / len(is_correct) == pytest.approx(accuracy, abs=1e-6)


@pytest.mark.parametrize("flag", ["--split=test", "--data_dir=elsewhere"])
def test_evaluate_refuses_a_flag_that_a_named_file_leaves_without_a_meaning(run, flag):
    name = flag.partition("=")[0]
    result = run("evaluate", "--workdir=runs/none", "--input_file=some.tsv", flag)
    assert_refused(result, f"{name}=", "has no meaning with --input_file; leave it out")


def test_all_tasks_are_listed_with_their_files(run):
    result = run("finetune", "--list_tasks")
    assert result.returncode == 0 and len(result.stdout.splitlines()) > 20
    assert any(line.startswith("sst-2 ") and "train.tsv" in line for line in result.stdout.splitlines())


@pytest.mark.parametrize(
    "flags, parts",
    [
        (["--random_init"], ["--random_init takes the shape of --init_checkpoint, which is missing"]),
        (["--config=tiny"], ["--config and --vocab_file go together"]),
        (
            ["--config=tiny", "--init_checkpoint=somewhere"],
            ["--init_checkpoint has its own configuration and vocabulary"],
        ),
        ([], ["--init_checkpoint is missing"]),
        (["--task=sst2"], ["sst2", "did you mean 'sst-2'"]),
        (["--learning_rate=nan"], ["--learning_rate=nan: expected a finite number"]),
        (
            ["--decay_share=0.5", "--config={folder}/bert_config.json", "--vocab_file={folder}/vocab.txt"],
            ["has an effect only with --learning_rate_schedule"],
        ),
    ],
)
def test_flags_that_cannot_start_a_run_give_one_line_and_leave_no_directory(run, folder, tmp_path, flags, parts):
    given = [flag.format(folder=folder) for flag in flags]
    result = run(
        "finetune",
        "--task=classification",
        f"--data_dir={folder}",
        f"--workdir={tmp_path}/run",
        "--max_seq_length=29",
        *given,
    )
    assert_refused(result, *parts)
    assert not (tmp_path / "run").exists()
