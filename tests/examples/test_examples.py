"""The examples import only public names. Those about symbols run to their tables at toy length."""

import ast
import json
import os
import pathlib
import signal
import subprocess
import sys
import types

import numpy as np
import pytest

import keras_bert_app
import pipelines
from examples import common
from examples.items import items
from examples.multilingual import multilingual
from examples.stages import stages
from examples.video import video
from examples.video.clips import two_parts
from examples.visits import visits

ROOT = pathlib.Path(__file__).parents[2]
EXAMPLES = sorted((ROOT / "examples").rglob("*.py"))
PUBLIC = {"keras_bert_app": keras_bert_app.__all__, "pipelines": pipelines.__all__}


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_imports_nothing_private_and_is_short(path):
    text = path.read_text()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import) and path.stem != "__init__":  # which uses no name of the package
            assert not {alias.name.split(".")[0] for alias in node.names} & {*PUBLIC, "benchmarks", "tests"}
        if isinstance(node, ast.ImportFrom):
            package = node.module.split(".")[0]
            assert package not in ("benchmarks", "tests")
            if package in PUBLIC:
                assert node.module == package and {alias.name for alias in node.names} <= set(PUBLIC[package])
    assert text.count("\n") <= 210


def failing(error):
    def main(directory):
        raise error

    return main


@pytest.mark.parametrize("error", [keras_bert_app.UserError("a: b"), pipelines.DataError("a: b"), OSError(2, "b", "a")])
def test_an_error_of_the_user_ends_an_example_with_its_line(monkeypatch, error):
    monkeypatch.setattr(common.app, "run", lambda main: main([]))
    monkeypatch.setattr(common.flags, "FLAGS", types.SimpleNamespace(output_dir="runs/a"))
    with pytest.raises(SystemExit, match="^a: b"):
        common.run_with_flags(failing(error))


def test_a_signal_during_finetune_ends_an_example_with_one_line(monkeypatch, capsys):
    monkeypatch.setattr(common.app, "run", lambda main: main([]))
    monkeypatch.setattr(common.flags, "FLAGS", types.SimpleNamespace(output_dir="runs/a"))
    with pytest.raises(SystemExit) as stop:
        common.run_with_flags(failing(keras_bert_app.Interrupted(signal.SIGTERM, 7, True)))
    assert stop.value.code == 143 and capsys.readouterr().err == "stopped; the same command continues\n"


def test_a_command_that_fails_ends_an_example_with_its_exit_code(capfd):
    with pytest.raises(SystemExit) as stop:
        common.run("nearest_words", vectors_file="")
    assert stop.value.code == 2 and capfd.readouterr().err.startswith("error: --vectors_file is missing")


_SAVES_AFTER_A_SIGNAL = """#!/bin/sh
trap 'sleep 1; echo saved > "{place}"; exit 0' INT TERM
echo begun
while true; do sleep 0.1; done
"""
_EXAMPLE = """
import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)
from absl import flags
from examples import common
flags.DEFINE_string("output_dir", "", "")
sys.executable = "{command}"
common.run_with_flags(lambda directory: common.run("pretrain"))
"""


# Ctrl-C reaches the example and its command. `kill` reaches the example alone.
@pytest.mark.parametrize(
    ("send", "number", "code", "line"),
    [(os.killpg, signal.SIGINT, 130, "stopped; the same command continues\n"), (os.kill, signal.SIGTERM, 143, "")],
)
def test_a_signal_waits_until_the_command_has_saved_its_work(tmp_path, send, number, code, line):
    command, place = tmp_path / "command", tmp_path / "saved work"
    command.write_text(_SAVES_AFTER_A_SIGNAL.format(place=place))
    command.chmod(0o755)
    example = subprocess.Popen(
        [sys.executable, "-c", _EXAMPLE.format(command=command)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert example.stdout.readline() == "begun\n"
    send(example.pid, number)
    _, errors = example.communicate(timeout=60)
    assert (example.returncode, errors) == (code, line)
    assert place.read_text() == "saved\n"


def test_inputs_are_checked_before_the_training(tmp_path):
    (tmp_path / "other.json").write_text('{"paragraphs": []}')
    with pytest.raises(SystemExit, match="other.json is not in the layout of SQuAD; give files of XQuAD"):
        multilingual.paragraphs(f"{tmp_path}/other.json")
    (tmp_path / "other.json").unlink()
    (tmp_path / "no article").write_text("text")
    with pytest.raises(SystemExit, match="1 files, no article in them"):
        common.read_articles(f"{tmp_path}/*")
    (tmp_path / "no text").write_bytes(b"BZh91AY&SY\xff")
    with pytest.raises(SystemExit, match="no text: is no text in UTF-8; expected what wikiextractor writes"):
        common.read_articles(f"{tmp_path}/no text")
    (tmp_path / "tree").write_text("a b\n\na b c\n")
    with pytest.raises(SystemExit, match="tree:3: expected a code, a space and its parent"):
        visits.read_tree(f"{tmp_path}/tree")
    (tmp_path / "films").write_text("head\n\nuser\tfilm\t1\n")
    with pytest.raises(SystemExit, match="films:3: expected user, film, rating and time"):
        items.read_users(f"{tmp_path}/films")
    with pytest.raises(SystemExit, match="24 mentions to hide, expected 25 or more"):
        common.sample(list(range(24)), 100)
    assert len(common.sample(list(range(25)), 100)) == 25
    with pytest.raises(SystemExit, match="other/dev.txt: no such file"):
        common.need_files(str(tmp_path), f"{tmp_path}/other/dev.txt")
    with pytest.raises(SystemExit, match="--targets=rte,cola: 'cola' is not known; known: rte, codah"):
        stages.main(str(tmp_path), "data", "model", targets=("rte", "cola"))


@pytest.mark.slow
def test_visits_are_predicted_with_and_without_the_tree(tmp_path, monkeypatch, command, capsys):
    monkeypatch.setattr(visits, "run", command)
    lines = [f"{block}.{number}.{code} {block}.{number}" for block in "ABCD" for number in "12" for code in "abc"]
    lines += [f"{block}.{number} {block}" for block in "ABCD" for number in "12"]
    (tmp_path / "tree of codes.txt").write_text("\n".join(lines) + "\n")
    directory = str(tmp_path / "my visits")
    visits.main(directory, str(tmp_path / "tree of codes.txt"), num_patients=60, num_blocks=4, steps=2, num_seeds=1)
    results = json.loads((tmp_path / "my visits" / "results.json").read_text())
    beside = "these, then frequent codes beside them in the tree"
    assert set(results) == {"most frequent codes", "codes of the patient so far", beside, "plain", "tree", "gain"}
    # 20 of 24 codes: even a model without training names most of them
    assert all(0.5 < results[kind][0][0] <= 1.0 for kind in ("plain", "tree"))
    assert "| tree | " in capsys.readouterr().out
    config = json.loads((tmp_path / "my visits" / "tree-1" / "config.json").read_text())
    assert config["token_vectors_shape"] == [12, 2] and config["channels"] == ["age:120"]


def test_films_are_ranked_and_a_checkpoint_is_chosen(tmp_path, monkeypatch, command, capsys):
    monkeypatch.setattr(items, "run", command)
    lines = [f"u{user}\tf{(user + 3 * time) % 20}\t4\t{100 - time}" for user in range(30) for time in range(9)]
    (tmp_path / "my films.inter").write_text("\n".join(["user_id:token\titem_id:token", *lines]) + "\n")
    users = items.read_users(str(tmp_path / "my films.inter"))
    assert users[2][:3] == ["f6", "f3", "f0"] and users[2][-1] == "f2"  # the oldest film first
    # After f one always sees f - 3, so a Markov chain knows the last film.
    assert (items.metrics(users, items.markov(users)) == 1.0).all()
    directory = str(tmp_path / "my items")
    items.main(directory, str(tmp_path / "my films.inter"), steps=4, num_seeds=1, num_checkpoints=2)
    results = json.loads((tmp_path / "my items" / "results.json").read_text())
    assert results["chosen"][0] in ("step-00000002", "step-00000004") and 0.2 < results["BERT4Rec here"][0][0] <= 1
    assert "| Markov chain | 1.0000" in capsys.readouterr().out


def test_metrics_of_ranks_are_those_by_hand():
    users = [["a", "b"], ["a", "c"], ["a", "d"]]
    ranked = [["b", "x"], ["x", "a", "c"], ["x"]]
    # In the second list, the user knows film a. Without it, c is the second film.
    expected = [[1, 1, 1, 1], [1, 1 / 2, 1, 1 / np.log2(3)], [0, 0, 0, 0]]
    np.testing.assert_allclose(items.metrics(users, ranked), expected)


@pytest.mark.slow
def test_videos_and_captions_become_one_model_and_a_picture(tmp_path, monkeypatch, command, capsys):
    monkeypatch.setattr(video, "run", command)
    video.main(str(tmp_path / "my video"), num_clips=60, steps=2, num_seeds=1)
    results = json.loads((tmp_path / "my video" / "results.json").read_text())
    (figures,) = results["scores"]
    assert 1 <= results["different videos written"][0] <= 10
    assert set(figures) >= {"digit in the caption", "size and digit of a frame that is written"}
    assert (tmp_path / "my video" / "generated.png").read_bytes()[:4] == b"\x89PNG"
    config = json.loads((tmp_path / "my video" / "seed-1" / "config.json").read_text())
    assert config["token_vectors"] == "given" and config["token_vectors_shape"] == [32 * 32]


def test_frames_get_the_word_of_the_nearest_center_at_each_level():
    import numpy as np

    centers = [(np.array([0.0]), [(np.array([-1.0]), []), (np.array([1.0]), [])]), (np.array([9.0]), [])]
    assert video.visual_words(np.array([[[0.6], [-3.0], [8.0]]]), centers) == [["v0.1", "v0.0", "v1"]]
    assert video.center_of("v0.1", centers) == 1.0


def test_new_clips_differ_from_those_of_training_and_from_each_other():
    captions, videos, new_captions, new_videos = two_parts(2000, 300)
    known = {(caption, video.tobytes()) for caption, video in zip(captions, videos, strict=True)}
    new = {(caption, video.tobytes()) for caption, video in zip(new_captions, new_videos, strict=True)}
    assert len(captions) == 2000 and len(new) == 300 and not known & new
