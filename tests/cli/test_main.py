"""The entry point `python -m keras_bert_app`: its list of verbs, and the commands that it runs."""

import pathlib
import re
import subprocess
import sys

import pytest

from keras_bert_app import __main__ as entry_point

ROOT = pathlib.Path(__file__).parents[2]
VERBS = {path.stem for path in (ROOT / "keras_bert_app" / "cli").glob("*.py") if path.stem != "__init__"}


def run_python(*arguments):
    return subprocess.run(
        [sys.executable, "-m", *arguments], capture_output=True, text=True, cwd=ROOT, check=False, timeout=120
    )


@pytest.mark.parametrize("arguments", [[], ["--help"], ["help"], ["-h"]])
def test_the_entry_point_without_a_verb_lists_every_command(monkeypatch, capsys, arguments):
    monkeypatch.setattr(sys, "argv", ["keras_bert_app", *arguments])
    entry_point.main()
    printed = capsys.readouterr()
    assert printed.out.startswith("usage: keras-bert-app VERB") and not printed.err
    listed = re.findall(r"^  (\w+) +\S.*$", printed.out, re.MULTILINE)
    assert set(listed) == VERBS and len(listed) == len(VERBS)


def test_the_version_is_that_of_the_package(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["keras_bert_app", "--version"])
    entry_point.main()
    assert f'version = "{capsys.readouterr().out.strip()}"' in (ROOT / "pyproject.toml").read_text(encoding="utf-8")


def test_the_process_that_prints_the_list_ends_with_exit_code_0():
    result = run_python("keras_bert_app")
    assert result.returncode == 0 and result.stdout == entry_point.overview() + "\n" and not result.stderr


def test_the_process_that_prints_the_list_ends_quietly_when_its_reader_leaves():
    process = subprocess.Popen(
        [sys.executable, "-m", "keras_bert_app"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=ROOT
    )
    process.stdout.close()
    assert process.stderr.read() == b"" and process.wait() == 0
    process.stderr.close()


def test_an_unknown_verb_is_refused_in_one_line_with_the_nearest_name(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["keras_bert_app", "pretran", "--workdir=runs/mine"])
    with pytest.raises(SystemExit) as stopped:
        entry_point.main()
    printed = capsys.readouterr()
    assert stopped.value.code == 2 and not printed.out
    assert printed.err.count("\n") == 1 and "'pretran' is not a verb: did you mean 'pretrain'?" in printed.err


def test_a_verb_does_what_its_module_does(run, texts):
    arguments = (f"--vocab_file={texts}/vocab.txt", "The cat sat on the mat.", "--output_format=jsonl")
    through_entry_point = run_python("keras_bert_app", "tokenize", *arguments)
    direct = run("tokenize", *arguments)
    assert through_entry_point.returncode == direct.returncode == 0, through_entry_point.stderr
    assert through_entry_point.stdout == direct.stdout and '"pieces"' in direct.stdout


def test_help_of_a_verb_lists_the_flags_of_that_verb():
    result = run_python("keras_bert_app", "tokenize", "--help")
    assert result.returncode == 0 and not result.stderr
    assert "--vocab_file: " in result.stdout and "--output_format: " in result.stdout
    assert "--num_train_steps" not in result.stdout
