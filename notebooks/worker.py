"""Runs commands of keras_bert_app one after the other in one process, so that TensorFlow loads once.

colab.Commands starts the process and writes a JSON list per line: [module, argument, ...]. After the output of a
command the worker prints a line of END and the exit code. When standard input ends, for instance because the notebook
is closed, a training run in progress saves and stops.
"""

import json
import os
import queue
import runpy
import signal
import sys
import threading
from collections.abc import Sequence

END = "\x1eexit code "


def run(module: str, arguments: Sequence[str]) -> int:
    """Runs a command and returns its exit code. Removes the command's flags, because the next command defines its own.

    Args:
        module: the module of the command, such as keras_bert_app.cli.pretrain.
        arguments: its flags and texts.
    """
    from absl import flags

    # After a signal has stopped a run, this process ignores both signals.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    flags_before = set(flags.FLAGS)
    sys.argv = [module.rpartition(".")[2], *arguments]
    try:
        runpy.run_module(module, run_name="__main__")
    except SystemExit as stop:
        return stop.code or 0
    finally:
        for name in set(flags.FLAGS) - flags_before:
            delattr(flags.FLAGS, name)
    return 0


def main() -> None:
    """Runs the commands that arrive on standard input."""
    from absl import app

    app.define_help_flags()
    commands = queue.Queue()

    def listen():
        for line in sys.stdin:
            commands.put(json.loads(line))
        commands.put(None)
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=listen, daemon=True).start()
    while command := commands.get():
        code = run(command[0], command[1:])
        sys.stdout.flush()
        print(f"{END}{code}", flush=True)


if __name__ == "__main__":
    main()
