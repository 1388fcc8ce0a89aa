"""The commands as a user runs them: from a small text to an exported model, and every wrong input."""

import json
import os
import pathlib
import re
import signal
import string
import subprocess
import sys
import time

import pytest

from keras_bert_app.cli.common.flag_groups import BY_VERB
from keras_bert_app.runs import checkpoints

ROOT = pathlib.Path(__file__).parents[2]
VERBS = sorted(path.stem for path in (ROOT / "keras_bert_app/cli").glob("*.py") if path.stem != "__init__")


def command(verb, *arguments):
    return [sys.executable, "-m", f"keras_bert_app.cli.{verb}", *arguments]


def run_process(verb, *arguments, cwd=None):
    environment = {key: value for key, value in os.environ.items() if key != "TF_CPP_MIN_LOG_LEVEL"}
    return subprocess.run(
        command(verb, *arguments),
        capture_output=True,
        text=True,
        cwd=cwd,
        env={**environment, "PYTHONPATH": str(ROOT)},
        check=False,
    )


def assert_refused(result, *parts):
    """Checks that a command ended with exit code 2 and one line on standard error that holds all the parts."""
    assert result.returncode == 2, result.stderr
    assert result.stderr.count("\n") == 1 and result.stderr.startswith("error: "), result.stderr
    for part in parts:
        assert part in result.stderr


def pretrain_flags(texts, workdir, *more):
    return (
        "pretrain",
        f"--input_files={texts}/text.txt",
        f"--vocab_file={texts}/vocab.txt",
        "--config=tiny",
        f"--workdir={workdir}",
        "--max_seq_length=32",
        "--global_batch_size=4",
        "--holdout_fraction=0.2",
        *more,
    )


@pytest.mark.long
def test_commands_alone_make_an_exported_model_from_a_text(run, texts, tmp_path):
    workdir, export_dir = tmp_path / "run", tmp_path / "models" / "mine"
    result = run_process(
        *pretrain_flags(
            texts,
            workdir,
            "--num_train_steps=4",
            "--log_steps=2",
            "--save_checkpoints_steps=2",
            "--num_hidden_layers=1",
        )
    )
    assert result.returncode == 0, result.stderr
    assert "step 4/4" in result.stdout and "majority share" in result.stdout
    assert result.stderr == ""  # no messages of TensorFlow

    assert_refused(run("pretrain", f"--workdir={workdir}", "--learning_rate=0.5"), "learning_rate=0.0001", "0.5")
    other = pretrain_flags(texts, workdir, "--num_hidden_layers=1", "--hidden_act=relu")
    assert_refused(run(*other), "hidden_act 'gelu_tanh'", "'relu'")
    # --keep_every_steps is a multiple of this run's --save_checkpoints_steps, but not of the default.
    resumed = run("pretrain", f"--workdir={workdir}", "--num_train_steps=6", "--keep_every_steps=4")
    assert resumed.returncode == 0 and "resumed at step 4" in resumed.stdout and "step 6/6" in resumed.stdout, (
        resumed.stderr
    )

    exported = run("export", f"--workdir={workdir}", f"--export_dir={export_dir}")
    assert exported.returncode == 0 and (export_dir / "1" / "saved_model.pb").exists(), exported.stderr
    filled = run_process("fill_mask", f"--saved_model={export_dir}", "The [MASK] sat on the mat.", cwd="/")
    assert filled.returncode == 0, filled.stderr
    assert filled.stdout.startswith("The [MASK] sat") and filled.stdout.count(".0") >= 1 and filled.stderr == ""
    assert_refused(run("fill_mask", f"--saved_model={export_dir}", "no mask"), "has no [MASK]")
    assert_refused(run("fill_mask", f"--saved_model={tmp_path}/none", "[MASK]"), "no SavedModel there")


def test_ctrl_c_saves_the_run_at_the_step_that_the_error_names(texts, tmp_path):
    workdir = tmp_path / "run"
    process = subprocess.Popen(
        command(
            *pretrain_flags(
                texts,
                workdir,
                "--num_train_steps=100000",
                "--log_steps=5",
                "--jit_compile=none",
                "--num_hidden_layers=1",
                "--hidden_size=16",
                "--num_attention_heads=1",
                "--intermediate_size=16",
                "--holdout_fraction=0",
            )
        ),
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    for line in process.stdout:
        if line.startswith("step "):
            break
    process.send_signal(signal.SIGINT)
    time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=120)
    assert process.returncode == 128 + signal.SIGINT and "saved; the same command continues" in errors
    step = int(errors.split("after step ")[1].split(",")[0])
    newest = checkpoints.list_checkpoints(str(workdir))[-1]
    assert step >= 1 and checkpoints.read_manifest(newest)["step"] == step


# Reads verbs and listings. Each verb runs in a fork, because importing what all of them use takes most of the time.
_SHOW_HELP = """
import contextlib, io, json, os, runpy, sys
from absl import flags
from keras_bert_app.cli.common import app

for verb, listing in json.load(sys.stdin):
    if child := os.fork():
        assert os.waitpid(child, 0)[1] == 0, verb
        continue
    sys.argv = [verb, f"--{listing}"]
    shown = io.StringIO()
    try:
        with contextlib.redirect_stdout(shown):
            runpy.run_module(f"keras_bert_app.cli.{verb}", run_name="__main__", alter_sys=True)
    except SystemExit as stop:
        code = stop.code or 0
    names = [
        flag.name
        for module, found in flags.FLAGS.flags_by_module_dict().items()
        for flag in found
        if not module.startswith("absl")
    ]
    loaded = sorted({"tensorflow", "keras", "numpy"} & sys.modules.keys())
    print(json.dumps([verb, code, shown.getvalue(), names, loaded]), flush=True)
    os._exit(0)
"""


@pytest.fixture(scope="module")
def help_by_verb():
    """dict verb -> (exit code, help page, names of its flags, large packages that it loaded)."""
    listings = [(verb, "helpfull" if verb in BY_VERB else "help") for verb in VERBS]
    result = subprocess.run(
        [sys.executable, "-c", _SHOW_HELP],
        input=json.dumps(listings),
        capture_output=True,
        text=True,
        cwd=ROOT,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    return {verb: rest for verb, *rest in map(json.loads, result.stdout.splitlines())}


@pytest.mark.parametrize("verb", VERBS)
def test_help_shows_every_flag_without_loading_tensorflow_or_numpy(help_by_verb, verb):
    code, page, names, loaded = help_by_verb[verb]
    assert code == 0 and not loaded
    shown = re.findall(r"^  --(?:\[no\])?(\w+):", page, re.M)
    assert sorted(names) == sorted(shown)
    # A user can copy every example: a command begins its line, and a backslash stands only at the end of a line.
    for line in page.split("\n"):
        assert "python -m" not in line or line.lstrip().startswith("python -m"), line
        assert "\\" not in line[:-1] or "--" not in line, line


@pytest.mark.parametrize(
    "flags, parts",
    [
        (["--input_files=/nowhere/*.txt"], ["/nowhere/*.txt", "matches no file"]),
        (["--max_seq_length=513"], ["--max_seq_length=513", "512"]),
        (["--strategy=all"], ["--strategy=all", "mirrored"]),
        (["--config=tinny"], ["did you mean 'tiny'"]),
        (["--num_train_steps=many"], ["num_train_steps", "many"]),
        (["--no_such_flag=1"], ["no_such_flag"]),
        (["--vocab_file="], ["--vocab_file is missing"]),
        (["--corpus_dir=somewhere"], ["--corpus_dir", "not as both"]),
        (["surplus"], ["unexpected argument 'surplus'"]),
        (["--masking=words"], ["--masking=words", "whole_word"]),
        (["--masking=lexicon"], ["--lexicon_file"]),
        (["--masking=lexicon", "--lexicon_file=/nowhere/phrases.txt"], ["/nowhere/phrases.txt", "no such file"]),
        (["--mask_token_rate=0.8", "--random_token_rate=0.3"], ["--random_token_rate=0.3", "1 or less"]),
        (["--input_files=", "--corpus_dir=a,b,a"], ["names a directory twice"]),
        (
            ["--input_files=", "--corpus_dir=a", "--strict"],
            ["is for --input_files; prepare_corpus has fixed it in --corpus_dir"],
        ),
        (["--train_minutes=inf"], ["--train_minutes=inf: expected a finite number"]),
        (
            ["--decay_power=2"],
            [
                "--decay_power=2.0: has an effect only with --learning_rate_schedule=polynomial, but this run has "
                "--learning_rate_schedule=linear; leave out --decay_power"
            ],
        ),
        (
            ["--optimizer=adafactor", "--adam_beta_1=0.8"],
            [
                "--adam_beta_1=0.8: has an effect only with --optimizer=adamw or lamb or muon, but this run has "
                "--optimizer=adafactor"
            ],
        ),
        (["--max_ngram=2"], ["--max_ngram=2: has an effect only with --masking=span, but this run has"]),
        (["--allow_missing=pooler"], ["--allow_missing=pooler: has no meaning without --init_checkpoint"]),
        (["--clip_norm=inf"], ["--clip_norm=inf: expected a finite number"]),
        (["--seed=9223372036854775808"], ["--seed=9223372036854775808: expected less than 9223372036854775808"]),
    ],
)
def test_a_wrong_flag_gives_one_line_and_exit_code_2(run, texts, tmp_path, flags, parts):
    assert_refused(run(*pretrain_flags(texts, tmp_path / "run", "--num_train_steps=2", *flags)), *parts)
    assert not (tmp_path / "run").exists()


def test_the_directory_of_a_model_is_refused_as_workdir(run, texts, tmp_path):
    model = tmp_path / "model"
    model.mkdir()
    (model / "config.json").write_text('{"model_type": "bert"}')
    assert_refused(
        run("pretrain", f"--workdir={model}", f"--init_checkpoint={model}", f"--input_files={texts}/*.txt"),
        "has no key 'pretraining', so it is not a run",
    )
    assert (model / "config.json").read_text() == '{"model_type": "bert"}'


def test_a_casing_that_contradicts_the_vocabulary_is_refused_before_any_text_is_read(run, texts, tmp_path):
    path = tmp_path / "vocab.txt"
    path.write_text(
        (texts / "vocab.txt").read_text()
        + "".join(
            f"##{letter}z\n{letter}\n"
            for letter in string.ascii_lowercase
            if f"\n{letter}\n" not in (texts / "vocab.txt").read_text()
        )
    )
    assert_refused(
        run(*pretrain_flags(texts, tmp_path / "run", f"--vocab_file={path}", "--do_lower_case=false")),
        "is uncased",
        "set do_lower_case to true",
    )


def test_a_vocabulary_without_mask_is_refused_by_name(run, texts, tmp_path):
    path = tmp_path / "vocab.txt"
    path.write_text((texts / "vocab.txt").read_text().replace("[MASK]\n", ""))
    assert_refused(
        run(*pretrain_flags(texts, tmp_path / "run", f"--vocab_file={path}")), str(path), "[MASK] is missing"
    )


def test_an_empty_file_is_refused_with_counts_and_leaves_no_run_behind(run, texts, tmp_path):
    (tmp_path / "empty.txt").touch()
    result = run(*pretrain_flags(texts, tmp_path / "run", f"--input_files={tmp_path}/empty.txt"))
    assert_refused(result, "0 documents")
    assert not (tmp_path / "run" / "config.json").exists()
    assert_refused(
        run("learn_vocab", f"--input_files={tmp_path}/empty.txt", f"--vocab_file={tmp_path}/v.txt"), "no word"
    )


def test_text_in_the_corpus_directory_of_a_run_is_refused_and_not_deleted(run, texts, tmp_path):
    corpus_dir = tmp_path / "run" / "corpus"
    corpus_dir.mkdir(parents=True)
    (corpus_dir / "book.txt").write_bytes((texts / "text.txt").read_bytes())
    for seed_flag in ("--seed=1", "--seed=2"):
        result = run(*pretrain_flags(texts, tmp_path / "run", f"--input_files={corpus_dir}/*.txt", seed_flag))
        assert_refused(result, f"--input_files={corpus_dir}/book.txt: lies in {corpus_dir}")
    assert os.listdir(corpus_dir) == ["book.txt"]
