"""Both notebooks run from top to bottom with a tiny model. The second one starts from the model of the first."""

import os
import pathlib
import sys

import nbclient
import nbformat
import pytest

from notebooks import colab

NOTEBOOKS = pathlib.Path(__file__).parents[2] / "notebooks"
NAMES = ("pretrain_colab_tpu", "finetune_colab")


def read(name):
    return nbformat.read(NOTEBOOKS / f"{name}.ipynb", as_version=4)


def executed(name, settings):
    """Runs a notebook with other settings. Returns the printed text of each cell, and the executed notebook."""
    notebook = read(name)
    index = next(number for number, cell in enumerate(notebook.cells) if "parameters" in cell.metadata.get("tags", ()))
    lines = "".join(f"{key} = {value!r}\n" for key, value in settings.items())
    notebook.cells.insert(index + 1, nbformat.v4.new_code_cell(lines))
    nbclient.NotebookClient(notebook, timeout=300, resources={"metadata": {"path": str(NOTEBOOKS)}}).execute()
    texts = ["".join(output.get("text", "") for output in cell.get("outputs", ())) for cell in notebook.cells]
    return texts, notebook


def pictures(notebook):
    return sum("image/png" in output.get("data", {}) for cell in notebook.cells for output in cell.get("outputs", ()))


@pytest.fixture(scope="module")
def pretrained(tmp_path_factory):
    """(WORK_DIR of the first notebook, its printed text, the executed notebook)."""
    work_dir = str(tmp_path_factory.mktemp("bert") / "work")
    texts, notebook = executed(
        "pretrain_colab_tpu",
        {
            "WORK_DIR": work_dir,
            "MINUTES": 0.02,
            "VOCAB_SIZE": 500,
            "MOST_MEGABYTES": 0.05,
            "SENTENCES": ["Returns the [MASK]."],
            "MORE_FLAGS": {
                "num_hidden_layers": 1,
                "hidden_size": 22,
                "intermediate_size": 37,
                "max_seq_length": 32,
                "global_batch_size": 8,
                "jit_compile": "none",
                "log_steps": 5,
                "holdout_fraction": 0.0,
            },
        },
    )
    return work_dir, "\n".join(texts), notebook


@pytest.mark.long
def test_the_first_notebook_goes_from_text_to_a_filled_mask(pretrained):
    work_dir, printed, notebook = pretrained
    for part in (
        "this runtime has a CPU",
        "1 x CPU, batch 8 (8 a replica)",
        "--jit_compile=none",
        "documents",
        "some of the pieces",
        "MLM acc",
        "exported",
        "Returns the [MASK].",
    ):
        assert part in printed
    assert pictures(notebook) == 1
    assert (pathlib.Path(work_dir) / "saved_models" / "my_bert" / "1" / "saved_model.pb").exists()


@pytest.mark.slow
def test_the_second_notebook_goes_from_examples_to_answers_beside_its_baselines(pretrained, tmp_path):
    texts, notebook = executed(
        "finetune_colab",
        {
            "START": pretrained[0],
            "WORK_DIR": str(tmp_path / "work"),
            "PACKAGES": ["absl", "h5py"],
            "MOST_PER_PACKAGE": 40,
            "EPOCHS": 1,
            "NEW_TEXTS": ["Defines a flag.", "Opens a file."],
            "MORE_FLAGS": {"max_seq_length": 29, "length_buckets": False},
        },
    )
    printed = "\n".join(texts)
    for part in (
        "most frequent label",
        "counting words",
        "BERT, fine-tuned",
        "Opens a file.",
        "--precision=",
        "exported",
    ):
        assert part in printed
    assert pictures(notebook) == 2


@pytest.mark.parametrize("name", NAMES)
def test_the_stored_notebook_has_no_outputs(name):
    for cell in read(name).cells:
        assert not cell.get("outputs") and not cell.get("execution_count")


def test_pip_takes_the_requirements_of_the_runtime(tmp_path, monkeypatch):
    (tmp_path / "requirements.txt").write_text("# all\ntensorflow==2.1\nkeras==3.0   # why\n", encoding="utf-8")
    (tmp_path / "requirements-tpu.txt").write_text("tensorflow-tpu==2.0\nlibtpu==0.1\n", encoding="utf-8")
    (tmp_path / "requirements-tpu-no-deps.txt").write_text("tensorflow-text==2.0\n", encoding="utf-8")
    monkeypatch.setattr(colab, "PROJECT", tmp_path)
    plain = ["tensorflow==2.1", "keras==3.0"]
    assert colab.pip_arguments("CPU") == [plain]
    assert colab.pip_arguments("GPU") == [plain, ["tensorflow[and-cuda]==2.1"]]
    assert colab.pip_arguments("TPU") == [["tensorflow-tpu==2.0", "libtpu==0.1"], ["--no-deps", "tensorflow-text==2.0"]]


def test_the_environment_identifies_a_tpu_runtime():
    assert colab.runtime({"TPU_ACCELERATOR_TYPE": "v5e-1"}) == "TPU"


def test_a_failed_command_ends_the_cell_with_one_line_and_the_next_command_runs(capsys):
    run = colab.Commands(sys.executable)
    try:
        with pytest.raises(colab.Stop, match="fill_mask ended with exit code 2") as stopped:
            run("fill_mask", "no mask", saved_model="nowhere")
        assert stopped.value._render_traceback_() == [str(stopped.value)]
        run("fill_mask", "--help")
    finally:
        run.close()
    printed = capsys.readouterr().out
    assert "$ python -m keras_bert_app.cli.fill_mask --saved_model=nowhere 'no mask'" in printed
    assert "has no [MASK]" in printed and "Directory that export wrote" in printed


@pytest.mark.skipif(not os.path.exists("/proc/self/environ"), reason="needs /proc")
def test_commands_do_not_use_the_matplotlib_backend_of_the_kernel(monkeypatch):
    monkeypatch.setenv("MPLBACKEND", "module://matplotlib_inline.backend_inline")
    run = colab.Commands(sys.executable)
    try:
        run("fill_mask", "--help")
        with open(f"/proc/{run.process.pid}/environ", "rb") as file:
            assert [each for each in file.read().split(b"\0") if each.startswith(b"MPLBACKEND=")] == [b"MPLBACKEND=agg"]
    finally:
        run.close()
