"""Runs commands of keras_bert_app one after the other in one process, so that TensorFlow is loaded once.

colab.Commands starts it and gives it a JSON list a line, [verb, argument, ...]. After what the command prints comes a line of
END and the exit code. When its input ends, as when the notebook is closed, a run that is at work saves and stops.
"""

import json
import os
import queue
import runpy
import signal
import sys
import threading

END = "\x1eexit code "


def run(verb, arguments):
    """The exit code of a command; the flags that it defined are forgotten, since each command defines its own."""
    from absl import flags

    # A run that was stopped has left these ignored.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    known = set(flags.FLAGS)
    sys.argv = [verb, *arguments]
    try:
        runpy.run_module(f"keras_bert_app.cli.{verb}", run_name="__main__")
    except SystemExit as stop:
        return stop.code or 0
    finally:
        for name in set(flags.FLAGS) - known:
            delattr(flags.FLAGS, name)
    return 0


def main():
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
