"""The convert command removes attention heads of a model, and of a fine-tuned run as analyze advises."""

import json
import shlex
import shutil

import pytest

from keras_bert_app.interop import load
from keras_bert_app.tasks.scoring import FinetunedRun
from tests.interop.conftest import CONFIGS, make_weights
from tests.tasks.conftest import finished, table_dir  # noqa: F401  pytest finds fixtures by these names


@pytest.fixture
def source(tmp_path):
    load.write_weights(make_weights(CONFIGS["three_layers"]), "workdir", str(tmp_path / "whole"))
    return tmp_path / "whole"


def test_a_model_is_written_without_the_heads_that_the_flag_names(run, source, tmp_path):
    target = tmp_path / "pruned"
    result = run("convert", f"--input={source}", "--to=workdir", f"--output={target}", "--prune_heads=0:1;2:2,0")
    assert result.returncode == 0 and "heads 9 -> 6: by layer 2, 3, 1" in result.stdout
    assert load.load_pretrained(target).config.head_counts == (2, 3, 1)


@pytest.mark.parametrize("text", ["0", "0:", "0:1,", "a:1", "0:-1", ":1"])
def test_a_prune_heads_flag_of_another_form_is_refused_with_an_example(run, source, text):
    result = run("convert", f"--input={source}", f"--prune_heads={text}")
    assert result.returncode == 2 and "is not LAYER:HEAD,HEAD; count from 0, as in 0:1,3;2:5" in result.stderr
    assert len(result.stderr.splitlines()) == 1


def test_the_command_that_analyze_prints_prunes_a_fine_tuned_run(run, finished, tmp_path):  # noqa: F811  fixture
    workdir, analysis_dir = tmp_path / "my run", tmp_path / "seen"
    shutil.copytree(finished[0], workdir)
    config = json.loads((workdir / "config.json").read_text(encoding="utf-8"))
    config["finetuning"]["precision"] = "bfloat16"
    (workdir / "config.json").write_text(json.dumps(config), encoding="utf-8")
    result = run(
        "analyze",
        "--what=head_importance,pruning",
        f"--workdir={workdir}",
        f"--output_dir={analysis_dir}",
        "--num_seeds=1",
    )
    assert result.returncode == 0, result.stderr
    pruning = json.loads((analysis_dir / "pruning.json").read_text(encoding="utf-8"))
    assert pruning["values"]["difference"] <= 1e-5  # analyze computes both encoders in float32
    # As in training, one half of dev chooses (here the heads that are removed), and analyze scores the second half.
    assert "importance on 16 dev examples" in result.stdout and "scores on 21 examples" in result.stdout
    command = next(line for line in pruning["remarks"] if line.startswith("To write it: "))
    python, _, module, *arguments = shlex.split(command.removeprefix("To write it: "))
    assert module == "keras_bert_app.cli.convert" and command in result.stdout
    result = run("convert", *arguments)
    assert result.returncode == 0 and "heads 2 -> 1: by layer 1" in result.stdout, result.stderr
    result = run("evaluate", f"--workdir={workdir}-pruned")
    assert result.returncode == 0, result.stderr
    # 16 of the 37 dev examples chose the weights, so evaluate scores the other 21.
    assert "21 examples" in result.stdout and FinetunedRun(f"{workdir}-pruned").model.config.head_counts == (1,)
    assert pruning["origin"]["weights"].startswith(f"fine-tuned run {workdir}/checkpoints/best-")
    assert pruning["files"] == ["pruning.png"] and pruning["origin"]["weights"] in (
        analysis_dir / "report.html"
    ).read_text(encoding="utf-8")


def test_keep_layers_is_refused_together_with_prune_heads_for_a_run(run, finished, tmp_path):  # noqa: F811  fixture
    result = run(
        "convert",
        f"--input={finished[0]}",
        "--to=workdir",
        f"--output={tmp_path}/out",
        "--prune_heads=0:0",
        "--keep_layers=0",
    )
    assert result.returncode == 2 and "--keep_layers: does not go together with --prune_heads" in result.stderr
    assert len(result.stderr.splitlines()) == 1 and not (tmp_path / "out").exists()
