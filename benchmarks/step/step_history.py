"""What changes of the training step gained: the pretrain command of several commits, on one corpus, in turn.

python -m benchmarks.step.step_history --corpus_dir=CORPUS --vocab_file=VOCAB --output_file=runs/step_history.json
python -m benchmarks.step.step_history --corpus_dir=CORPUS --vocab_file=VOCAB --commits=0350a67^:false,HEAD --config=small

An entry of --commits is COMMIT[:COMPILED], COMPILED what --jit_compile is there (parts by default; false before there was a choice).
Each commit's files are taken out of git into a directory of their own and run as a user would run them, by this interpreter, so that
packages are those of today. A figure is the tokens a second of the last third of the steps: before, functions are traced and compiled.
BUILD.md, "Beside the peers", names what each of the commits changed.
"""

import os
import statistics
import subprocess
import sys
import tempfile

from absl import flags

from benchmarks.common import report
from benchmarks.common.resumable import spread
from benchmarks.common.this_machine import machine
from benchmarks.common.turns import ratio
from benchmarks.reliability import own_commands
from keras_bert_app.cli.common import app
from keras_bert_app.config.bert_config import SIZES
from keras_bert_app.errors import UserError

flags.DEFINE_string("corpus_dir", "", "What prepare_corpus wrote.")
flags.DEFINE_string("vocab_file", "", "One piece a line.")
flags.DEFINE_list(
    "commits",
    ["0350a67^:false", "0350a67", "43fd021", "8f5cd99", "c22808e", "27ca529", "753cad0", "HEAD"],
    "COMMIT[:COMPILED], the oldest first.",
)
_CONFIG = flags.DEFINE_enum("config", "mini", list(SIZES), "Published size.")
_ROWS = flags.DEFINE_integer("rows", 16, "Rows of 128 tokens a step.", lower_bound=1)
_PRECISION = flags.DEFINE_enum("precision", "float32", ["float32", "bfloat16"], "Compute type.")
_STEPS = flags.DEFINE_integer("steps", 10, "Steps that are timed, a third of all.", lower_bound=1)
_ROUNDS = flags.DEFINE_integer("rounds", 3, "Rounds in which all run in turn.", lower_bound=1)
_OUTPUT_FILE = flags.DEFINE_string(
    "output_file", "", "Where to write every figure as JSON; table and picture beside it."
)


def main(arguments):
    del arguments
    *paths, commits = app.required("corpus_dir", "vocab_file", "commits")
    corpus_dir, vocab_file = map(os.path.abspath, paths)
    subjects = {
        entry: git("show", "-s", "--format=%h %s", entry.partition(":")[0]).decode().strip() for entry in commits
    }
    found = {
        "machine": machine(("tensorflow", "keras")),
        "config": _CONFIG.value,
        "rows": _ROWS.value,
        "precision": _PRECISION.value,
        "tokens_per_second": {entry: [] for entry in subjects},
    }
    print(report.in_words(found["machine"]), flush=True)
    with tempfile.TemporaryDirectory() as directory:
        for entry in subjects:
            take_out(entry.partition(":")[0], os.path.join(directory, entry))
        for number in range(_ROUNDS.value):
            for entry, rates in found["tokens_per_second"].items():
                rates.append(rate(entry, directory, number, corpus_dir, vocab_file))
                print(f"round {number + 1} of {_ROUNDS.value}: {entry}: {rates[-1]:,.0f} tokens/s", flush=True)
    lines = list(table(subjects, found["tokens_per_second"]))
    print("\n" + "\n".join(lines))
    report.keep(_OUTPUT_FILE.value, found, lines, lambda path: draw(found, path))


def git(*arguments):
    """What a git command says, bytes.

    Raises:
        UserError: it failed.
    """
    done = subprocess.run(["git", *arguments], capture_output=True)
    if done.returncode:
        raise UserError(
            f"git {' '.join(arguments)}: {(done.stderr.decode().strip() or 'no message').splitlines()[0]}; this wants a clone "
            "with all commits"
        )
    return done.stdout


def take_out(commit, directory):
    """Writes a commit's files."""
    os.makedirs(directory)
    done = subprocess.run(["tar", "-x", "-C", directory], input=git("archive", commit), capture_output=True)
    if done.returncode:
        raise UserError(
            f"files of {commit}: tar ended with exit code {done.returncode} ({done.stderr.decode().strip() or 'no message'})"
        )


def rate(entry, directory, number, corpus_dir, vocab_file):
    """Tokens a second of one run."""
    workdir = os.path.join(directory, f"run-{number}-{entry}")
    given = {
        "config": _CONFIG.value,
        "corpus_dir": corpus_dir,
        "vocab_file": vocab_file,
        "global_batch_size": _ROWS.value,
        "precision": _PRECISION.value,
        "num_train_steps": 3 * _STEPS.value,
        "log_steps": _STEPS.value,
        "max_eval_steps": 1,
        "save_checkpoints_steps": 3 * _STEPS.value,
        "jit_compile": entry.partition(":")[2] or "parts",
        "workdir": workdir,
    }
    command = [
        sys.executable,
        "-m",
        "keras_bert_app.cli.pretrain",
        *(f"--{flag}={value}" for flag, value in given.items()),
    ]
    done = subprocess.run(command, cwd=os.path.join(directory, entry), capture_output=True, text=True)
    if done.returncode:
        raise UserError(
            f"--commits={entry}: its pretrain ended with exit code {done.returncode} "
            f"({(done.stderr.strip() or 'no message').splitlines()[-1]})"
        )
    return [row for row in own_commands.metrics_of(workdir) if "tokens_per_second" in row][-1]["tokens_per_second"]


def table(subjects, rates):
    """Markdown: a line for each commit."""
    yield "| commit | tokens/s, mean (lowest to highest) | times the one before, median (lowest to highest) | times the first |"
    yield "|---|---|---|---|"
    entries = list(subjects)
    for before, entry in zip([None, *entries], entries):
        ratios = [_in_words(rates[entry], rates[other]) if other else "" for other in (before, before and entries[0])]
        subject = subjects[entry].replace("|", "\\|") + (f" ({entry.partition(':')[2]})" if ":" in entry else "")
        yield f"| {subject} | {spread(rates[entry], ',.0f')} | {' | '.join(ratios)} |"


def _in_words(rates, others):
    middle, low, high = ratio(*([[each] for each in rounds] for rounds in (rates, others)))
    return f"{middle:.2f} ({low:.2f} to {high:.2f})"


def draw(found, path):
    """A bar for each commit."""
    bars = {
        entry: (statistics.mean(rates), min(rates), max(rates)) for entry, rates in found["tokens_per_second"].items()
    }
    report.draw_bars(
        {f"{found['config']}, {found['rows']} x 128, {found['precision']}": bars},
        "Pre-training by commit\ntokens/s, more is better",
        path,
        stands_out=lambda name: name == list(bars)[-1],
    )


if __name__ == "__main__":
    app.run(main, __doc__)
