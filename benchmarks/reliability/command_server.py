"""Commands of this package in processes that start in a moment: forks of one with TensorFlow loaded and nothing run.

What the reliability benchmark kills and restarts a hundred times. As a script it is the server: lines of JSON on
standard input, one answer a line on standard output.
"""

import json
import os
import runpy
import subprocess
import sys
import time
import traceback


class CommandServer:
    """The server's client; use it as a context manager."""

    def __enter__(self):
        self._process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.reliability.command_server"],
            text=True,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        self._ask({})  # TensorFlow is loaded when the answer is there
        return self

    def __exit__(self, *exception):
        self._process.stdin.close()
        self._process.wait()

    def start(self, arguments, log, logical_cpus=1):
        """Starts a command, its output going to the end of a file; returns a Command.

        Args:
            arguments: the verb and its flags. logical_cpus: devices that the one CPU is shown as.
        """
        return Command(self, self._ask({"arguments": arguments, "log": log, "logical_cpus": logical_cpus}))

    def run(self, arguments, log, logical_cpus=1):
        """The exit code of a command when it has ended; negative for the signal that killed it."""
        return self.start(arguments, log, logical_cpus).wait()

    def _ask(self, request):
        print(json.dumps(request), file=self._process.stdin, flush=True)
        answer = self._process.stdout.readline()
        if not answer:
            raise RuntimeError("the command server ended; see its message above")
        return json.loads(answer)


class Command:
    """A started command. code: None while it runs, as far as it was asked."""

    def __init__(self, server, pid):
        self._server, self.pid, self.code = server, pid, None

    def poll(self):
        """The exit code, or None while it runs."""
        if self.code is None:
            self.code = self._server._ask({"poll": self.pid})
        return self.code

    def wait(self):
        while self.poll() is None:
            time.sleep(0.02)
        return self.code

    def send(self, number):
        """Sends a signal; nothing if it has ended."""
        if self.poll() is None:
            os.kill(self.pid, number)


def _serve():
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    # No device is asked for here: what TensorFlow starts then does not survive a fork.
    kept = os.dup(2)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    from keras_bert_app.export import pretrained_export  # noqa: F401  for its imports
    from keras_bert_app.training import pretraining_start  # noqa: F401

    os.dup2(kept, 2)
    for line in sys.stdin:
        request = json.loads(line)
        answer = None
        if "poll" in request:
            pid, status = os.waitpid(request["poll"], os.WNOHANG)
            answer = os.waitstatus_to_exitcode(status) if pid else None
        elif "arguments" in request:
            answer = os.fork()
            if not answer:
                _become(**request)
        print(json.dumps(answer), flush=True)


def _become(arguments, log, logical_cpus):
    """The forked process: runs the command as `python -m` would, and never returns."""
    code = 1
    try:
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        file = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        os.dup2(file, 1)
        os.dup2(file, 2)
        if logical_cpus > 1:
            import tensorflow as tf

            tf.config.set_logical_device_configuration(
                tf.config.list_physical_devices("CPU")[0], [tf.config.LogicalDeviceConfiguration()] * logical_cpus
            )
        verb, *flags = arguments
        sys.argv = [verb, *flags]
        runpy.run_module(f"keras_bert_app.cli.{verb}", run_name="__main__", alter_sys=True)
        code = 0
    except SystemExit as stop:
        code = stop.code if isinstance(stop.code, int) else 0 if stop.code is None else 1
    except BaseException:
        traceback.print_exc()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    _serve()
