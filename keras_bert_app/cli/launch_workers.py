"""Runs a training command as several processes on this machine that train together, and restarts them if one dies.

python -m keras_bert_app.cli.launch_workers --num_workers=2 -- pretrain --workdir=runs/mine --config=mini ...

Write a command with its flags after "--": pretrain, finetune, evaluate or predict. Every worker runs that command with
--strategy=multi_worker. The launcher shows the output of the chief. Ctrl-C or SIGTERM saves and stops all workers at
the same step. If a worker dies, the launcher ends the others, and all resume from the last checkpoint. The processes
share the cores of this machine. Several GPUs of one machine need no launcher; give --strategy=mirrored.
"""

import sys
from collections.abc import Iterator, Sequence

from absl import flags

from keras_bert_app.cli.common import app
from keras_bert_app.errors import UserError
from keras_bert_app.training import local_cluster

_NUM_WORKERS = flags.DEFINE_integer("num_workers", 2, "Number of processes.", lower_bound=1)
_MAX_RESTARTS = flags.DEFINE_integer(
    "max_restarts", 3, "How many times all workers restart after one of them died.", lower_bound=0
)
_GRACE_SECONDS = flags.DEFINE_float(
    "grace_seconds", 5.0, "Time from SIGTERM to SIGKILL when the launcher ends the workers.", lower_bound=0.0
)
_VERBS = ("pretrain", "finetune", "evaluate", "predict")


def main(arguments: list[str]) -> None:
    command = worker_command(arguments)
    sys.exit(
        local_cluster.run_workers(
            command, _NUM_WORKERS.value, _MAX_RESTARTS.value, _GRACE_SECONDS.value, lambda line: print(line, flush=True)
        )
    )


def worker_command(arguments: Sequence[str]) -> list[str]:
    """Makes the command line of a worker.

    Args:
        arguments: sequence of str. The verb and its flags, which follow "--".

    Returns:
        list of str: the command line.

    Raises:
        UserError: the verb has no --strategy, or the flags name another strategy.
    """
    example = "launch_workers --num_workers=2 -- pretrain --workdir=runs/mine"
    if not arguments:
        raise UserError(f'there is no command after "--"; give one, as in {example}')
    verb, *verb_flags = arguments
    if verb not in _VERBS:
        raise UserError(
            f'{verb!r} after "--" is not a command that several workers run; '
            f"expected {', '.join(_VERBS)}, as in {example}"
        )
    strategies = [value for flag, value in _flag_values(verb_flags) if flag == "strategy"]
    if any(value not in ("multi_worker", "auto") for value in strategies):
        raise UserError(f"--strategy={strategies[-1]} is not for several workers; leave it out, or give multi_worker")
    return [
        sys.executable,
        "-m",
        f"keras_bert_app.cli.{verb}",
        *verb_flags,
        *(() if strategies else ("--strategy=multi_worker",)),
    ]


def _flag_values(arguments: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yields (flag, value) of each --flag=value or --flag value."""
    for argument, following in zip(arguments, [*arguments[1:], ""], strict=True):
        name, equals, value = argument.lstrip("-").partition("=")
        if argument.startswith("-"):
            yield name, value if equals else following


if __name__ == "__main__":
    app.run(main, __doc__, takes_arguments=True)
