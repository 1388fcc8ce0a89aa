"""Our own commands as processes, for tables whose rows are runs of them."""

import json
import os
import signal
import subprocess
import sys

from keras_bert_app.errors import UserError

# What small models are judged by: a classification and a tagging task, 10,000 examples of each, twice.
SMALL_TASKS = {
    "sst-2": {"task": "sst-2", "data_dir": "glue/SST-2", "pooling": "mean", "max_seq_length": 64},
    "conll2003": {"task": "ner", "data_dir": "conll2003"},
}
_FINETUNING = {"learning_rate": 5e-4, "num_train_epochs": 2.0, "max_train_examples": 10_000}


def run(verb, **given):
    """Runs `keras_bert_app.cli.VERB --flag=value ...`, which says what it has to say itself; raises as `process` does."""
    process(
        verb,
        [sys.executable, "-m", f"keras_bert_app.cli.{verb}", *(f"--{flag}={value}" for flag, value in given.items())],
    )


def process(name, command):
    """Runs a command to its end. Ctrl-C reaches it too, SIGTERM is handed on, and it is waited for: it may save what it has.

    Raises:
        UserError: it ended otherwise than well.
    """
    with subprocess.Popen(command) as running:
        before = signal.signal(signal.SIGTERM, lambda *_: running.terminate())
        try:
            running.wait()
        except KeyboardInterrupt:
            running.wait()
            raise
        finally:
            signal.signal(signal.SIGTERM, before)
    if running.returncode:
        raise UserError(f"{name} ended with exit code {running.returncode}; what it said is above")


def finetune_small(task, data_dir, workdir, **given):
    """Fine-tunes on one of SMALL_TASKS; dict of metric, score and baseline on its dev set."""
    settings = SMALL_TASKS[task]
    run(
        "finetune",
        **{**_FINETUNING, **settings, "data_dir": os.path.join(data_dir, settings["data_dir"])},
        workdir=workdir,
        **given,
    )
    with open(os.path.join(workdir, "results.json"), encoding="utf-8") as file:
        found = json.load(file)
    metric = found["metric"]
    return {"metric": metric, "score": found["dev"][metric], "baseline": found["baseline"][metric]}


def metrics_of(workdir):
    """The rows of a run's metrics.jsonl."""
    with open(os.path.join(workdir, "metrics.jsonl"), encoding="utf-8") as file:
        return [json.loads(line) for line in file]
