"""Starts commands of this package without waiting for the import of TensorFlow.

The reliability benchmark kills and restarts commands a hundred times. The server imports TensorFlow once and forks for
each command. As a script, this module is the server. It reads requests from standard input, a line of JSON each, and
writes a line with the answer to standard output.
"""

import contextlib
import importlib
import json
import os
import runpy
import subprocess
import sys
import time
import traceback

from keras_bert_app.errors import UserError
from keras_bert_app.terminal import screen


class CommandServer:
    """A context manager that starts the server and sends it requests."""

    def __enter__(self):
        self._process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.reliability.command_server"],
            text=True,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        self._ask({})  # the answer comes when TensorFlow is loaded
        return self

    def __exit__(self, *exception):
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()
        self._process.wait()

    def start(self, arguments: list[str], log: str, logical_cpus: int = 1) -> "Command":
        """Starts a command.

        Args:
            arguments: list of str. The verb and its flags.
            log: str. File to which the output is appended.
            logical_cpus: int. Number of devices that TensorFlow shows for the CPU.
        """
        return Command(self, self._ask({"arguments": arguments, "log": log, "logical_cpus": logical_cpus}))

    def run(self, arguments: list[str], log: str, logical_cpus: int = 1) -> int:
        """Runs a command to its end. Returns its exit code, or -N if signal N killed the command."""
        return self.start(arguments, log, logical_cpus).wait()

    def _ask(self, request):
        with contextlib.suppress(BrokenPipeError):  # the server has ended, so that readline returns ""
            print(json.dumps(request), file=self._process.stdin, flush=True)
        answer = self._process.stdout.readline()
        if not answer:
            raise UserError(
                f"the command server ended with exit code {self._process.wait()}; see its messages above, mend the "
                "cause, and start the benchmark again"
            )
        return json.loads(answer)


class Command:
    """A started command.

    Attributes:
        pid: int. The process of the command.
        code: int. The exit code. None until poll or wait has seen the end of the command.
    """

    def __init__(self, server: CommandServer, pid: int):
        self._server, self.pid, self.code = server, pid, None

    def poll(self) -> int | None:
        """The exit code, or None while the command runs."""
        if self.code is None:
            self.code = self._server._ask({"poll": self.pid})
        return self.code

    def wait(self) -> int:
        while self.poll() is None:
            time.sleep(0.02)
        return self.code

    def send(self, number: int) -> None:
        """Sends a signal by its number, unless the command has ended."""
        if self.poll() is None:
            os.kill(self.pid, number)


def _serve():
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    # Import modules only, and request no device. A device makes TensorFlow start threads, which do not survive a fork.
    with screen.hidden_chatter():
        for name in ("keras_bert_app.export.pretrained_export", "keras_bert_app.training.pretraining_start"):
            importlib.import_module(name)
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
    """Runs the command in the forked process as `python -m` would, and never returns."""
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
