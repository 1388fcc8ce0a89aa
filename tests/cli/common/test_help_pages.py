"""--help of commands with many flags shows the flags that most people need, then the names of the groups."""

import re
import subprocess
import sys

import pytest

from keras_bert_app.cli.common.flag_groups import BY_VERB as GROUPED
from tests.cli.test_commands import ROOT, assert_refused


def listed(text):
    """The names of the flags that a help text explains."""
    return re.findall(r"^  --(?:\[no\])?(\w+): \S", text, re.M)


@pytest.mark.parametrize("verb", GROUPED)
def test_help_shows_ten_flags_three_examples_and_the_size_of_each_group(run, verb):
    grouped, result = GROUPED[verb], run(verb, "--help")
    assert result.returncode == 0 and not result.stderr
    assert len(grouped.most_needed) == 10 and listed(result.stdout) == list(grouped.most_needed)
    assert len(re.findall(r"^To .*:\npython -m keras_bert_app\.cli\.", result.stdout, re.M)) == 3
    sizes = re.findall(r"^  (\w+) +(\d+)  \S.*$", result.stdout, re.M)
    assert sizes == [(group.name, str(len(group.flags))) for group in grouped.groups]
    assert max(map(len, result.stdout.split("\n"))) <= 120 and result.stdout.count("\n") < 75


@pytest.mark.parametrize("verb", GROUPED)
@pytest.mark.parametrize("flag", ["-h", "-help", "--helpshort", "--help="])
def test_other_spellings_of_help_show_the_same_page(run, verb, flag):
    assert run(verb, "--workdir=x", flag).stdout == run(verb, "--help").stdout


@pytest.mark.parametrize("verb, group", [(verb, group) for verb in GROUPED for group in GROUPED[verb].groups])
def test_help_of_a_group_shows_the_flags_of_this_group(run, verb, group):
    result = run(verb, f"--help={group.name}")
    assert result.returncode == 0 and result.stdout.startswith(f"{group.name}: {group.summary}\n")
    assert listed(result.stdout) == list(group.flags)


# tests/cli/test_commands.py compares the flags of --helpfull with those that the command defines.
@pytest.mark.parametrize("verb", GROUPED)
def test_helpfull_shows_every_flag_once_by_group(run, verb):
    names = listed(run(verb, "--helpfull").stdout)
    assert names == [name for group in GROUPED[verb].groups for name in group.flags]
    assert len(set(names)) == len(names) and set(GROUPED[verb].most_needed) <= set(names)


def test_an_explanation_has_the_default_and_the_kind_of_the_value(run):
    text = " ".join(run("finetune", "--helpfull").stdout.split())
    assert "--num_seeds: Number of runs, each with the next seed, in WORKDIR/seed-N" in text
    assert "Default: 1. (a positive integer)" in text and "Default: 5e-05. (a number)" in text
    assert "--[no]random_init: " in text and "Default: None" not in text


def test_a_name_of_a_group_may_have_a_hyphen_or_a_space(run):
    expected = run("finetune", "--help=what_learns").stdout
    assert run("finetune", "--help=what-learns").stdout == run("finetune", "--help=what learns").stdout == expected


@pytest.mark.parametrize("verb", GROUPED)
def test_an_unknown_group_is_refused_in_one_line_that_names_the_groups(run, verb):
    result = run(verb, "--help=optimiser")
    assert_refused(result, "error: --help=optimiser: there is no such group of flags; give one of data, ")
    assert result.stderr.rstrip().endswith(", ".join(group.name for group in GROUPED[verb].groups))


def test_a_command_without_groups_refuses_a_group_in_one_line(run):
    assert_refused(run("tokenize", "--help=data"), "--help=data: the flags of this command have no groups; --help")


def test_help_of_a_group_loads_neither_tensorflow_nor_numpy():
    code = (
        "import runpy, sys; sys.argv = ['finetune', '--help=schedule']\n"
        "try:\n    runpy.run_module('keras_bert_app.cli.finetune', run_name='__main__', alter_sys=True)\n"
        "except SystemExit as stop:\n    assert not stop.code\n"
        "assert not {'tensorflow', 'keras', 'numpy'} & sys.modules.keys()\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT, stdout=subprocess.DEVNULL)
