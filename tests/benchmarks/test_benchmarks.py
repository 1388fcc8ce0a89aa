"""Every benchmark prints its help, and documents name only benchmarks and flags that exist."""

import json
import pathlib
import re
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).parents[2]
BENCHMARKS = ROOT / "benchmarks"
# The log names removed benchmarks.
DOCUMENTS = [path for path in sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")]) if path.name != "log.md"]

# Runs the --help of all commands in one process, so that TensorFlow is loaded once. Benchmarks share names of flags, so
# a command's flags are deleted before the next command defines its own.
_HELP_OF_ALL = """
import contextlib, importlib, io, json, runpy, sys
from absl import flags
from keras_bert_app.cli.common import app

helps = {}
for module in json.loads(sys.argv[1]):
    sys.argv = [module, "--help"]
    before, output = set(flags.FLAGS), io.StringIO()
    try:
        with contextlib.redirect_stdout(output):
            runpy.run_module(module, run_name="__main__", alter_sys=True)
        code = "no exit"
    except SystemExit as stop:
        code = stop.code
    except BaseException as error:
        code = repr(error)
    helps[module] = code, output.getvalue()
    for name in set(flags.FLAGS) - before:
        delattr(flags.FLAGS, name)

bench = importlib.import_module("benchmarks.bench")
flags.FLAGS(["bench", "--tasks_dir=tasks"])
for name in ("_corpus", "_text", "_vocabulary", "_minilm", "_exported_minilm"):
    setattr(bench, name, lambda: "made")
bench._python = lambda environment: "python"
print(json.dumps([helps, {name: (part.module, list(part.flags())) for name, part in bench.PARTS.items()}]))
"""


def commands():
    """Modules of the benchmarks that are commands with flags."""
    for path in sorted(BENCHMARKS.rglob("*.py")):
        if "app.run(main, __doc__" in path.read_text(encoding="utf-8"):
            # A package's __main__.py is the command of the package.
            yield ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__main__")


@pytest.fixture(scope="module")
def helps_and_parts():
    """(command -> (exit code, text of --help), part of bench -> (command, names of the flags that it gets))."""
    code = [sys.executable, "-c", _HELP_OF_ALL, json.dumps(list(commands()))]
    process = subprocess.run(code, cwd=ROOT, capture_output=True, text=True)
    assert process.returncode == 0, process.stderr
    return json.loads(process.stdout.splitlines()[-1])


@pytest.fixture(scope="module")
def flags_of(helps_and_parts):
    """Command -> names of its flags."""
    return {
        command: set(re.findall(r"^  --(?:\[no\])?(\w+):", text, re.MULTILINE))
        for command, (_, text) in helps_and_parts[0].items()
    }


def command_lines(text):
    """The command lines in a document: code spans, and lines of code joined with their continuation lines."""
    text = re.sub(r"\\\n", " ", text)
    for number, part in enumerate(text.split("```")):
        if number % 2:
            yield from part.splitlines()
        else:
            yield from (span.replace("\n", " ") for span in re.findall(r"`([^`]+)`", part))


def unknown_flags(line, flags_of, parts):
    """The commands, parts and flags in a command line that do not exist."""
    for module, rest in re.findall(r"-m (benchmarks[\w.]+)(.*)", line):
        if module not in flags_of:
            yield module
        yield from (f"{module} --{flag}" for flag in set(re.findall(r"--(\w+)", rest)) - flags_of.get(module, set()))
    if "make bench" in line:
        part = (re.findall(r"PARTS=(\w+)", line) or ["all"])[0]
        module = parts[part][0] if part in parts else ""
        if part != "all" and not module:
            yield f"PARTS={part}"
        for variable, known in (("BENCH", flags_of.get(module, set())), ("SETUP", flags_of["benchmarks.bench"])):
            given = re.findall(rf'{variable}="([^"]*)"', line)
            yield from (f"{variable} --{flag}" for flag in set(re.findall(r"--(\w+)", " ".join(given))) - known)


def test_every_benchmark_prints_its_help_and_exits_with_0(helps_and_parts, flags_of):
    helps, _ = helps_and_parts
    assert len(helps) > 25
    assert {command: code for command, (code, _) in helps.items() if code != 0} == {}
    assert [command for command in helps if not flags_of[command]] == []


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_documents_name_benchmarks_and_flags_that_exist(document, helps_and_parts, flags_of):
    lines = list(command_lines(document.read_text(encoding="utf-8")))
    assert [fault for line in lines for fault in unknown_flags(line, flags_of, helps_and_parts[1])] == []


def test_docstrings_name_benchmarks_and_flags_that_exist(helps_and_parts, flags_of):
    helps, parts = helps_and_parts
    lines = [line for _, text in helps.values() for line in re.sub(r"\\\n", " ", text).splitlines()]
    assert [fault for line in lines for fault in unknown_flags(line, flags_of, parts)] == []


def test_bench_gives_each_part_flags_that_exist(helps_and_parts, flags_of):
    for module, given in helps_and_parts[1].values():
        assert set(given) <= flags_of[module], module


def test_every_script_of_a_peer_names_its_packages_and_answers_requests():
    scripts = [
        *BENCHMARKS.rglob("peer_*.py"),
        *BENCHMARKS.rglob("training_step_*.py"),
        *BENCHMARKS.rglob("finetuning_epoch_*.py"),
        *(BENCHMARKS / "text_to_text" / f"speed_{who}.py" for who in ("ours", "transformers")),
    ]
    not_peers = {"peer_process.py", "training_step_table.py"}
    scripts = {path.relative_to(BENCHMARKS).as_posix(): path for path in scripts if path.name not in not_peers}
    sources = "".join(path.read_text(encoding="utf-8") for path in BENCHMARKS.rglob("*.py"))
    assert set(re.findall(r'PeerProcess\([\w.]+, "([^"]+)"', sources)) <= scripts.keys()
    for name, path in scripts.items():
        source = path.read_text(encoding="utf-8")
        assert re.search(r"^PACKAGES = ", source, re.MULTILINE), name
        assert re.search(r"^(def answer\(|answer = )", source, re.MULTILINE), name
