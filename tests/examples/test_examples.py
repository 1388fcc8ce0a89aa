"""The examples import only public names, and each runs to its table at toy length."""

import ast
import json
import pathlib

import pytest

import keras_bert_app
import pipelines
from examples.visits import visits
from tests.cli.conftest import run  # noqa: F401  a fixture

ROOT = pathlib.Path(__file__).parents[2]
EXAMPLES = sorted((ROOT / "examples").glob("*/*.py"))
PUBLIC = {"keras_bert_app": keras_bert_app.__all__, "pipelines": pipelines.__all__}


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_imports_nothing_private_and_is_short(path):
    text = path.read_text()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            assert not {alias.name.split(".")[0] for alias in node.names} & {*PUBLIC, "benchmarks", "tests"}
        if isinstance(node, ast.ImportFrom):
            package = node.module.split(".")[0]
            assert package not in ("benchmarks", "tests")
            if package in PUBLIC:
                assert node.module == package and {alias.name for alias in node.names} <= set(PUBLIC[package])
    assert text.count("\n") <= 210


@pytest.fixture
def command(run):  # noqa: F811
    """A function that runs a command in this process, in place of the example's new process."""

    def call(name, **values):
        done = run(name, *(f"--{key}={value}" for key, value in values.items()))
        assert done.returncode == 0, done.stderr

    return call


def test_visits_are_predicted_with_and_without_the_tree(tmp_path, monkeypatch, command, capsys):
    monkeypatch.setattr(visits, "run", command)
    lines = [f"{block}.{number}.{code} {block}.{number}" for block in "ABCD" for number in "12" for code in "abc"]
    lines += [f"{block}.{number} {block}" for block in "ABCD" for number in "12"]
    (tmp_path / "tree of codes.txt").write_text("\n".join(lines) + "\n")
    directory = str(tmp_path / "my visits")
    visits.main(directory, str(tmp_path / "tree of codes.txt"), num_patients=60, num_blocks=4, steps=2, num_seeds=1)
    results = json.loads((tmp_path / "my visits" / "results.json").read_text())
    assert set(results) == {"most frequent codes", "codes of the patient so far", "plain", "tree", "gain"}
    # 20 of 24 codes: even a model without training names most of them
    assert all(0.5 < results[kind][0][0] <= 1.0 for kind in ("plain", "tree"))
    assert "| tree | " in capsys.readouterr().out
    config = json.loads((tmp_path / "my visits" / "tree-1" / "config.json").read_text())
    assert config["token_vectors_shape"] == [12, 2] and config["channels"] == ["age:120"]
