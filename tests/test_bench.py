"""`make bench`: the flags that its parts build are flags of what they run, and a part that fails leaves the others."""

import json
import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).parents[1]

# Flags are one table of a process, and benchmarks share names in it: each module is asked in a process of its own.
_TELL_COMMANDS = """
import json, sys
from absl import flags
from benchmarks import bench

flags.FLAGS(["bench", *json.loads(sys.argv[1])])
of_own_commands = []
bench.own_commands.process = lambda name, command: of_own_commands.append(command[2:])
bench._python, bench._minilm = lambda environment: "python", lambda: "minilm"
bench._whole = lambda name, make: make(name) or name
bench._write_text = bench._learn_vocabulary = lambda path: None
if not flags.FLAGS.input_files:  # which would read the documentation of all that is installed
    bench._corpus = lambda: "corpus"
parts = [[bench.module_of(part), *flags_of()] for part, flags_of in bench.PARTS.items()]
print(json.dumps(parts + of_own_commands))
"""
_PARSE = """
import importlib, json, sys
from absl import flags

module, *given = json.loads(sys.argv[1])
importlib.import_module(module)
left_over = flags.FLAGS([module, *given])[1:]
assert not left_over, left_over
"""
_RUN = """
import json, sys
from benchmarks import bench
from keras_bert_app.errors import UserError

def unready():
    raise UserError("its peer is not here")

bench.PARTS = {"startup": lambda: [], "tokenizer": unready, "data": lambda: [], "serving": lambda: []}
bench.module_of = {"startup": "no_such_module", "data": "platform", "serving": "no_such_module"}.get
sys.argv = ["bench", *json.loads(sys.argv[1])]
bench.app.run(bench.main, "")
"""


def in_process(code, argument):
    return subprocess.run([sys.executable, "-c", code, json.dumps(argument)], cwd=ROOT, capture_output=True, text=True)


@pytest.mark.parametrize("given", [[], ["--input_files=texts,more", "--vocab_file=vocab.txt"]])
def test_every_flag_that_a_part_builds_is_one_of_what_it_runs(given, tmp_path):
    told = in_process(_TELL_COMMANDS, [f"--output_dir={tmp_path}", "--tasks_dir=tasks", *given])
    assert told.returncode == 0, told.stderr
    commands = json.loads(told.stdout)
    modules = {command[0] for command in commands}
    assert {
        "benchmarks.step.startup_time",
        "benchmarks.data.prepare_corpus",
        "benchmarks.finetuning.length_buckets",
        "benchmarks.finetuning.finetuning_epoch",
        "benchmarks.step.estimate_check",
        "benchmarks.step.update_time",
        "benchmarks.step.kernel_time",
        "benchmarks.step.forward_time",
        "keras_bert_app.cli.export",
    } <= modules
    assert ("keras_bert_app.cli.prepare_corpus" in modules) == bool(given)
    for command in commands:
        found = in_process(_PARSE, command)
        assert found.returncode == 0, f"{command}: {found.stderr}"


@pytest.mark.parametrize(
    "given, left_out",
    [
        ([], {"quality", "finetuning", "length_buckets"}),
        (["--tasks_dir=tasks"], {"quality"}),
        (["--parts=all"], {"finetuning", "length_buckets"}),
        (["--parts=all", "--tasks_dir=tasks"], set()),
    ],
)
def test_all_parts_are_run_that_can_be_and_the_long_one_when_all_are_asked_for(given, left_out):
    code = """
import json, sys
from absl import flags
from benchmarks import bench

flags.FLAGS(["bench", *json.loads(sys.argv[1])])
print(json.dumps([bench.wanted_parts(), list(bench.PARTS)]))
"""
    *said, found = in_process(code, given).stdout.splitlines()
    wanted, parts = json.loads(found)
    assert wanted == [part for part in parts if part not in left_out]
    assert any("--tasks_dir" in line for line in said) == ("finetuning" in left_out)


def test_a_directory_of_results_is_one_of_one_text(tmp_path):
    code = """
import json, sys
from benchmarks import bench

bench.PARTS = dict.fromkeys(("data", "prepare_corpus", "startup"), lambda: [])
bench.module_of = dict.fromkeys(bench.PARTS, "platform").get
sys.argv = ["bench", *json.loads(sys.argv[1])]
bench.app.run(bench.main, "")
"""
    mine = f"--output_dir={tmp_path / 'mine'}"
    one, other = (f"--input_files={tmp_path / name}" for name in ("one", "other"))
    found = in_process(code, [mine, "--parts=data", one])
    assert found.returncode == 2 and "matches no file" in found.stderr  # and is not kept
    for name in ("one", "other"):
        (tmp_path / name).write_text("a text")
    assert in_process(code, [mine, "--parts=prepare_corpus", other]).returncode == 0
    assert (
        in_process(code, [mine, "--parts=data", other, f"--vocab_file={tmp_path / 'one'}"]).returncode == 0
    )  # the first that needs one
    found = in_process(code, [mine, "--parts=data", one])
    assert (
        found.returncode == 2
        and one in found.stderr
        and f"figures of {tmp_path / 'other'}; give another" in found.stderr
    )
    assert in_process(code, [mine, "--parts=startup", one]).returncode == 0  # reads no text
    (tmp_path / "other").write_text("a longer text")
    found = in_process(code, [mine, "--parts=data", other])
    assert found.returncode == 2 and "has other files or sizes than when" in found.stderr
    for made in ("corpus", "prepare_corpus"):
        (tmp_path / made / made).mkdir(parents=True)
        found = in_process(code, [f"--output_dir={tmp_path / made}", "--parts=data"])
        assert found.returncode == 2 and "does not say of which text" in found.stderr


def test_a_flag_that_a_program_has_not_is_found():
    assert in_process(_PARSE, ["keras_bert_app.cli.export", "--init_checkpoint=minilm"]).returncode


def test_parts_that_fail_are_told_in_one_line_at_the_end_and_the_others_run(tmp_path):
    found = in_process(_RUN, ["--parts=startup,tokenizer,data,serving", f"--output_dir={tmp_path}"])
    assert found.returncode == 2
    last = found.stderr.strip().splitlines()[-1]
    assert (
        last.startswith("error: 3 of 4 parts failed: startup (exit code 1")
        and "tokenizer (its peer is not here)" in last
    )
    assert "serving (exit code 1" in last and "Traceback" not in found.stderr
    assert (tmp_path / "data.txt").read_text().strip()


def test_contenders_of_fine_tuning_are_told_what_they_may_be_and_must_start_alike():
    code = """
import json, sys
import numpy as np
from benchmarks import finetuning_epoch
from keras_bert_app.errors import UserError

def refusal(function, *arguments):
    try:
        return function(*arguments)
    except UserError as error:
        return str(error)

entries = json.loads(sys.argv[1])
found = [refusal(finetuning_epoch.parsed, entry) for entry in entries]
logits = np.array([[1.0, -2.0], [0.5, 0.25]])
found += [refusal(finetuning_epoch.check_same, "x", other, logits) for other in (logits + 0.05, logits + 0.2, logits * np.nan)]
print(json.dumps(found))
"""
    good = ["ours@bfloat16@parts", "keras_hub@float32@step"]
    wrong = ["keras_hub@float32@parts", "ours@float16@none", "ours", "them@float32@none"]
    told = json.loads(in_process(code, [*good, *wrong]).stdout.splitlines()[-1])
    assert told[:2] == [entry.split("@") for entry in good]
    assert all(
        line.startswith(f"--contenders={entry}: expected NAME@PRECISION@COMPILED")
        for entry, line in zip(wrong, told[2:6])
    )
    assert told[6] is None and all("not the same work" in line for line in told[7:])


def test_what_an_interrupted_run_left_is_not_taken_for_whole(tmp_path):
    code = """
import json, os, sys
from absl import flags
from benchmarks import bench

flags.FLAGS(["bench", "--output_dir=" + json.loads(sys.argv[1])])

def stopped(path):
    os.makedirs(os.path.join(path, "half"))
    raise KeyboardInterrupt

try:
    bench._whole("export", stopped)
except KeyboardInterrupt:
    pass
print(os.path.exists(bench._at("export")), os.listdir(bench._whole("export", os.makedirs)))
bench._whole("export", stopped)
"""
    assert in_process(code, str(tmp_path)).stdout.split() == ["False", "[]"]


def test_commits_stand_beside_the_one_before_and_the_first_round_by_round():
    code = """
import json, sys
from benchmarks import step_history
print(json.dumps(list(step_history.table(*json.loads(sys.argv[1])))))
"""
    subjects = {"abc^:false": "1234567 Before", "abc": "abcdef0 Kernels: a|b", "HEAD": "fedcba9 Now"}
    rates = {"abc^:false": [100.0, 200.0, 100.0], "abc": [150.0, 300.0, 160.0], "HEAD": [300.0, 600.0, 80.0]}
    _, _, *lines = json.loads(in_process(code, [subjects, rates]).stdout)
    assert lines == [
        "| 1234567 Before (false) | 133 (100 to 200) |  |  |",
        "| abcdef0 Kernels: a\\|b | 203 (150 to 300) | 1.50 (1.50 to 1.60) | 1.50 (1.50 to 1.60) |",
        "| fedcba9 Now | 327 (80 to 600) | 2.00 (0.50 to 2.00) | 3.00 (0.80 to 3.00) |",
    ]


def test_every_row_of_the_fine_tuning_table_is_a_run_that_its_task_takes():
    code = """
import json, sys
from absl import flags
from benchmarks import finetune_table
from keras_bert_app.config.finetuning_config import FinetuningConfig
from keras_bert_app.tasks import registry

flags.FLAGS([""])
given = {row: finetune_table._given(row, "MODEL", "TASKS") for row in finetune_table.ROWS}
for row, values in given.items():
    run = FinetuningConfig(**{name: value for name, value in values.items() if name not in ("random_init", "num_seeds")})
    registry.find(run.task).check_options(run)
print(json.dumps([given["rte_from_sts-b"]["init_checkpoint"], given["option_small_distilled"]["teacher"],
                  given["mrpc_taught"]["unlabelled_files"]]))
"""
    told = in_process(code, None)
    assert told.returncode == 0, told.stderr
    assert json.loads(told.stdout.splitlines()[-1]) == [
        "runs/finetune/stage_sts-b",
        "runs/finetune/option_none",
        "TASKS/glue/MRPC/test.tsv",
    ]


def test_kernels_are_timed_beside_ops_that_compute_the_same_and_no_others(tmp_path):
    code = """
import json, sys
from absl import flags
from benchmarks import kernel_time
from keras_bert_app.config import BertConfig
from keras_bert_app.errors import UserError

flags.FLAGS(["kernel_time", "--sizes=tiny", "--rows=1", "--length=8", "--precisions=float32", "--rounds=1", "--seconds=0.01",
             "--output_file=" + json.loads(sys.argv[1])])
kernel_time.main([])
for part in kernel_time.parts_of(BertConfig.of_size("tiny"), 1, 8):
    ops = kernel_time.call_of(part.ops, "none", part.tensors("float32"), None)(None)
    for number in range(len(ops)):
        try:
            kernel_time.check_same(part.name, "float32", ops, [tensor * (1.001 if at == number else 1.0) for at, tensor in enumerate(ops)])
        except UserError as error:
            print(error)
"""
    found = in_process(code, str(tmp_path / "kernels.json"))
    assert found.returncode == 0, found.stderr
    of_tiny = json.loads((tmp_path / "kernels.json").read_text())["sizes"]["tiny"]
    assert len(of_tiny) == found.stdout.count("| tiny |") == 6
    assert all(
        seconds > 0
        for ways in of_tiny.values()
        for seconds in ways["float32"]["ops"][0] + ways["float32"]["kernels"][0]
    )
    assert (tmp_path / "kernels.png").stat().st_size and "| tiny | cross-entropy" in (
        tmp_path / "kernels.md"
    ).read_text()
    results_and_gradients = 6 + (5 + 2 + 2 + 1 + 1 + 2)
    assert found.stdout.count("not the same work") == results_and_gradients
