"""Runs a training command as several processes on this machine that train together, and restarts them if one dies.

python -m keras_bert_app.cli.launch_workers --num_workers=2 -- pretrain --workdir=runs/mine --config=mini ...

What stands after "--" is a command that has --strategy (pretrain, finetune, evaluate, predict) with its flags; every worker
gets it with --strategy=multi_worker.
The chief's output is shown. Ctrl-C or SIGTERM stops all workers at the same step, saved. A worker that is killed or
crashes ends the others, and all go on from the last checkpoint. The processes share this machine's cores; for several
GPUs of one machine --strategy=mirrored needs no launcher.
"""

import sys

from absl import flags

from keras_bert_app.cli.common import app
from keras_bert_app.errors import UserError
from keras_bert_app.training import local_cluster

_NUM_WORKERS = flags.DEFINE_integer("num_workers", 2, "Processes.", lower_bound=1)
_MAX_RESTARTS = flags.DEFINE_integer("max_restarts", 3, "How often all start again after one died.", lower_bound=0)
_GRACE_SECONDS = flags.DEFINE_float(
    "grace_seconds", 5.0, "When one has died: time from SIGTERM to SIGKILL for the others.", lower_bound=0.0
)
_VERBS = ("pretrain", "finetune", "evaluate", "predict")


def main(arguments):
    command = worker_command(arguments)
    sys.exit(
        local_cluster.run_workers(
            command, _NUM_WORKERS.value, _MAX_RESTARTS.value, _GRACE_SECONDS.value, lambda line: print(line, flush=True)
        )
    )


def worker_command(arguments):
    """The command line of a worker, from what stands after "--".

    Raises:
        UserError: it is no command that has --strategy, or names another strategy.
    """
    example = "launch_workers --num_workers=2 -- pretrain --workdir=runs/mine"
    if not arguments:
        raise UserError(f'there is no command after "--"; give one, as in {example}')
    verb, *its_flags = arguments
    if verb not in _VERBS:
        raise UserError(
            f'{verb!r} after "--" is no command that several workers run; expected {", ".join(_VERBS)}, as in {example}'
        )
    strategies = [value for flag, value in _values(its_flags) if flag == "strategy"]
    if any(value not in ("multi_worker", "auto") for value in strategies):
        raise UserError(f"--strategy={strategies[-1]} is not for several workers; leave it out, or give multi_worker")
    return [
        sys.executable,
        "-m",
        f"keras_bert_app.cli.{verb}",
        *its_flags,
        *(() if strategies else ("--strategy=multi_worker",)),
    ]


def _values(arguments):
    """(flag, value) of each --flag=value or --flag value."""
    for argument, following in zip(arguments, [*arguments[1:], ""]):
        name, equals, value = argument.lstrip("-").partition("=")
        if argument.startswith("-"):
            yield name, value if equals else following


if __name__ == "__main__":
    app.run(main, __doc__)
