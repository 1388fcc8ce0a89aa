"""`analyze`: its flags, and one analysis as a user runs it."""

import json

import pytest

from keras_bert_app.analysis import study_registry
from keras_bert_app.interop import own_layout
from tests.export.small_model import WEIGHTS


@pytest.mark.parametrize(
    "flags, said",
    [
        ([], "--what is missing"),
        (["--what=atention"], "--what=atention is not known: did you mean 'attention'"),
        (["--what=attention"], "--init_checkpoint is missing"),
        (["--what=pruning", "--workdir=run"], "--output_dir is missing"),
        (["more"], "unexpected argument 'more'"),
    ],
)
def test_what_is_missing_or_unknown_is_said_in_one_line(run, flags, said):
    result = run("analyze", *flags)
    assert result.returncode == 2 and said in result.stderr and result.stderr.count("\n") == 1


def test_what_an_analysis_reads_must_be_given(run, golden, tmp_path):
    result = run(
        "analyze",
        "--what=patterns",
        f"--init_checkpoint={golden}/huggingface_files/encoder",
        f"--output_dir={tmp_path}/out",
    )
    assert result.returncode == 2 and "--input_file is missing, which --what=patterns reads" in result.stderr
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    "flags, said",
    [
        (["--what=attention,surprise", "--text="], "--text is missing, which --what=attention reads"),
        (["--what=surprise"], "--text is missing; give --text, or --input_file"),
        (["--what=pruning"], "--input_file is missing: the text that masked LM is scored on; or give --workdir"),
        (["--what=pruning", "--input_file=t", "--prune_percent=100"], "--prune_percent=100: expected 1 to 99"),
        (["--what=edge_probing", "--train_file=t", "--dev_file=d", "--ner_train_file=n"], "--ner_dev_file is missing"),
    ],
)
def test_what_does_not_go_together_is_said_before_a_model_is_loaded(run, flags, said, tmp_path):
    result = run("analyze", "--init_checkpoint=nowhere", f"--output_dir={tmp_path}/out", *flags)
    assert result.returncode == 2 and said in result.stderr and result.stderr.count("\n") == 1


def test_what_was_learned_is_not_measured_on_the_same_sentences(run, tmp_path):
    (tmp_path / "a.conllu").touch()
    result = run(
        "analyze",
        "--init_checkpoint=nowhere",
        f"--output_dir={tmp_path}/out",
        "--what=structural_probe",
        f"--train_file={tmp_path}/a.conllu",
        f"--dev_file={tmp_path}/./a.conllu",
    )
    assert (
        result.returncode == 2
        and "is also the --train_file; give a file of other sentences to measure on" in result.stderr
    )


def test_a_workdir_stands_for_the_model_of_those_that_read_it_alone(run, tmp_path):
    result = run(
        "analyze", "--what=pruning,features", f"--workdir={tmp_path}", "--input_file=t", f"--output_dir={tmp_path}/out"
    )
    assert result.returncode == 2 and "--init_checkpoint is missing" in result.stderr
    result = run("analyze", "--what=pruning", f"--workdir={tmp_path}", f"--output_dir={tmp_path}/out")
    assert result.returncode == 2 and f"{tmp_path}: holds no fine-tuning run" in result.stderr


def test_the_list_names_every_analysis(run):
    lines = run("analyze", "--what=list").stdout.splitlines()
    assert [line.split()[0] for line in lines] == list(study_registry.NAMES)
    studies = map(study_registry.find, study_registry.NAMES)
    assert all(study.SUMMARY in line for line, study in zip(lines, studies, strict=True))


def test_an_analysis_leaves_its_figures_its_pictures_and_the_report(run, tmp_path):
    own_layout.write(WEIGHTS, str(tmp_path / "model"))
    result = run(
        "analyze",
        "--what=attention",
        f"--init_checkpoint={tmp_path}/model",
        "--text=a cat sat",
        f"--output_dir={tmp_path}/my finds",
    )
    assert result.returncode == 0, result.stderr
    found = json.loads((tmp_path / "my finds" / "attention.json").read_text(encoding="utf-8"))
    assert {*found["files"], "attention.json", "report.html"} == {
        path.name for path in (tmp_path / "my finds").iterdir()
    }
    assert found["origin"]["weights"] == f"workdir {tmp_path}/model/checkpoints/step-00000000"
    assert found["options"]["text"] == "a cat sat" and len(found["origin"]["sha256"]) == 64
    assert found["title"] in result.stdout and found["title"] in (tmp_path / "my finds" / "report.html").read_text(
        encoding="utf-8"
    )
