"""`analyze`: its flags, and one analysis as a user runs it."""

import dataclasses
import inspect
import json
import re

import pytest

from keras_bert_app.analysis import study_registry
from keras_bert_app.analysis.options import Options
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
def test_a_missing_or_unknown_flag_is_refused_in_one_line(run, flags, said):
    result = run("analyze", *flags)
    assert result.returncode == 2 and said in result.stderr and result.stderr.count("\n") == 1


def test_an_analysis_is_refused_without_the_file_that_it_reads(run, golden, tmp_path):
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
        (
            ["--what=surprise,endings", "--text=a", "--endings_file=e", "--words=bank"],
            "--words is not read by --what=surprise,endings; leave it out; these analyses read it: senses",
        ),
    ],
)
def test_missing_inputs_and_wrong_values_are_refused_before_a_model_is_loaded(run, flags, said, tmp_path):
    result = run("analyze", "--init_checkpoint=nowhere", f"--output_dir={tmp_path}/out", *flags)
    assert result.returncode == 2 and said in result.stderr and result.stderr.count("\n") == 1


def test_a_probe_is_not_measured_on_the_sentences_that_it_learns_from(run, tmp_path):
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


def test_workdir_replaces_init_checkpoint_only_if_every_chosen_analysis_reads_workdir(run, tmp_path):
    result = run(
        "analyze", "--what=pruning,features", f"--workdir={tmp_path}", "--input_file=t", f"--output_dir={tmp_path}/out"
    )
    assert result.returncode == 2 and "--init_checkpoint is missing" in result.stderr
    result = run("analyze", "--what=pruning", f"--workdir={tmp_path}", f"--output_dir={tmp_path}/out")
    assert result.returncode == 2 and f"{tmp_path}: holds no fine-tuning run" in result.stderr


@pytest.mark.parametrize("name", study_registry.NAMES)
def test_an_analysis_lists_the_options_that_its_module_reads(name):
    study = study_registry.find(name)
    listed = {*study.NEEDS, *study.TAKES}
    helpers = [part for part in vars(study).values() if inspect.ismodule(part) and "analysis" in part.__name__]
    assert _options_in(study) <= listed <= _options_in(study, *helpers)


def _options_in(*modules):
    source = "".join(map(inspect.getsource, modules)).replace("options.most_sentences", "options.max_sentences")
    known = {field.name for field in dataclasses.fields(Options)} - {"init_checkpoint"}
    return known & set(re.findall(r"options\.(\w+)", source))


def test_the_list_names_every_analysis(run):
    lines = run("analyze", "--what=list").stdout.splitlines()
    assert [line.split()[0] for line in lines] == list(study_registry.NAMES)
    studies = map(study_registry.find, study_registry.NAMES)
    assert all(study.SUMMARY in line for line, study in zip(lines, studies, strict=True))


def test_an_analysis_writes_its_figures_its_pictures_and_the_report(run, tmp_path):
    own_layout.write(WEIGHTS, str(tmp_path / "model"))
    result = run(
        "analyze",
        "--what=attention",
        f"--init_checkpoint={tmp_path}/model",
        "--text=a cat sat",
        f"--output_dir={tmp_path}/my finds",
    )
    assert result.returncode == 0, result.stderr
    figures = json.loads((tmp_path / "my finds" / "attention.json").read_text(encoding="utf-8"))
    assert {*figures["files"], "attention.json", "report.html"} == {
        path.name for path in (tmp_path / "my finds").iterdir()
    }
    assert figures["origin"]["weights"] == f"workdir {tmp_path}/model/checkpoints/step-00000000"
    assert figures["options"]["text"] == "a cat sat" and len(figures["origin"]["sha256"]) == 64
    assert figures["title"] in result.stdout and figures["title"] in (tmp_path / "my finds" / "report.html").read_text(
        encoding="utf-8"
    )
