"""Runs the commands of this package as processes, for tables whose rows are runs of these commands."""

import json
import os
import signal
import subprocess
import sys

from keras_bert_app.errors import UserError

# The benchmarks compare small models by classification and by tagging: two epochs of 10,000 examples each.
SMALL_TASKS = {
    "sst-2": {"task": "sst-2", "data_dir": "glue/SST-2", "pooling": "mean", "max_seq_length": 64},
    "conll2003": {"task": "ner", "data_dir": "conll2003"},
}
_FINETUNING = {"learning_rate": 5e-4, "num_train_epochs": 2.0, "max_train_examples": 10_000}


def run(verb: str, **given) -> None:
    """Runs `keras_bert_app.cli.VERB --flag=value ...`. The command prints to this terminal.

    Args:
        verb: str. The command.
        **given: the command's flags and their values.

    Raises:
        UserError: the command failed.
    """
    process(
        verb,
        [sys.executable, "-m", f"keras_bert_app.cli.{verb}", *(f"--{flag}={value}" for flag, value in given.items())],
    )


def process(name: str, command: list[str]) -> None:
    """Runs a command to its end.

    Ctrl-C and SIGTERM also reach the command. This function then waits until the command ends, because the command may
    save its state.

    Args:
        name: str. Name of the command in error messages.
        command: list of str. The program and its arguments.

    Raises:
        UserError: the exit code is not 0.
    """
    with subprocess.Popen(command) as running:
        previous_handler = signal.signal(signal.SIGTERM, lambda *_: running.terminate())
        try:
            running.wait()
        except KeyboardInterrupt:
            running.wait()
            raise
        finally:
            signal.signal(signal.SIGTERM, previous_handler)
    if running.returncode:
        raise UserError(f"{name} ended with exit code {running.returncode}; see its messages above")


def finetune_small(task: str, data_dir: str, workdir: str, **given) -> dict:
    """Fine-tunes on one of SMALL_TASKS.

    Args:
        task: str. A key of SMALL_TASKS.
        data_dir: str. Folder of all tasks.
        workdir: str. Work directory of the run.
        **given: further flags of finetune.

    Returns:
        dict with metric (name), score and baseline on the dev set.
    """
    settings = SMALL_TASKS[task]
    run(
        "finetune",
        **{**_FINETUNING, **settings, "data_dir": os.path.join(data_dir, settings["data_dir"])},
        workdir=workdir,
        **given,
    )
    with open(os.path.join(workdir, "results.json"), encoding="utf-8") as file:
        results = json.load(file)
    metric = results["metric"]
    return {"metric": metric, "score": results["reported"]["score"], "baseline": results["baseline"]["score"]}


def metrics_of(workdir: str) -> list[dict]:
    """The rows of a run's metrics.jsonl.

    Args:
        workdir: str. The work directory of the run.

    Returns:
        list of dict, one for each line of the file.
    """
    with open(os.path.join(workdir, "metrics.jsonl"), encoding="utf-8") as file:
        return [json.loads(line) for line in file]
