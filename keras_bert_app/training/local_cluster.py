"""Several processes of one command on this machine, as the workers of one job.

The module does not load TensorFlow. When a worker dies, the other workers wait forever for its part of a sum. The
launcher therefore ends all workers and starts them again from the last checkpoint.
"""

import contextlib
import ctypes
import dataclasses
import functools
import itertools
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from typing import BinaryIO

from keras_bert_app.errors import UserError
from keras_bert_app.training.signals import Signals

USAGE_ERROR = 2
ASKED_TO_STOP = (128 + signal.SIGINT, 128 + signal.SIGTERM)  # exit codes of a run that stopped and saved
_POLL_SECONDS = 0.1
_SECONDS_TO_AGREE = 5.0  # time in which all workers report the same wrong flag, or stop after the same signal
_SECONDS_TO_SAVE = 600.0
_PR_SET_PDEATHSIG = 1  # linux/prctl.h


@dataclasses.dataclass
class Worker:
    """A process of the job.

    Attributes:
        index: number of the worker; 0 is the chief.
        process: the process.
        errors: the file that gets the process's standard error.
    """

    index: int
    process: subprocess.Popen
    errors: BinaryIO

    def exit_code(self) -> int | None:
        """The exit code as a shell shows it; None while the process runs.

        After signal n has killed the process, the code is 128 + n.
        """
        code = self.process.poll()
        return 128 - code if code is not None and code < 0 else code

    def was_killed(self) -> bool:
        """Whether a signal ended the process."""
        return (self.process.poll() or 0) < 0

    def ending(self) -> str:
        """Describes the end of the process, such as "was killed by SIGKILL" or "exited with 1 (last line)"."""
        if self.was_killed():
            return f"was killed by {signal.Signals(-self.process.poll()).name}"
        lines = self.error_text().strip().splitlines()
        return f"exited with {self.exit_code()}" + (f" ({lines[-1][:200]})" if lines else "")

    def error_text(self) -> str:
        """The standard error of the process."""
        self.errors.seek(0)
        return self.errors.read().decode("utf-8", "replace")


def run_workers(
    command: Sequence[str], num_workers: int, max_restarts: int, grace_seconds: float, say: Callable[[str], None]
) -> int:
    """Runs a command as the workers of one job until the job succeeds, stops or cannot go on.

    The launcher passes SIGINT and SIGTERM on to all workers, which finish their step and save. A signal to one worker
    stops all workers, because they agree on stopping. Worker 0 is the chief, and it writes to the launcher's standard
    output. At the end the launcher prints the standard error of the chief, or of the worker that ended the job.

    Args:
        command: the command and its arguments.
        num_workers: number of workers.
        max_restarts: how many times all workers start again after one was killed or crashed.
        grace_seconds: time between SIGTERM and SIGKILL.
        say: function that prints a line.

    Returns:
        the exit code of the chief, or of the worker that ended the job.

    Raises:
        UserError: the caller is not the main thread.
    """
    if threading.current_thread() is not threading.main_thread():
        raise UserError("launch the workers from the main thread, because only the main thread receives signals")
    with Signals() as signals:
        for restarts in itertools.count(1):
            with contextlib.ExitStack() as stack:
                workers = start_workers(command, num_workers, stack)
                culprit = _watch(workers, signals)
                _end(workers, grace_seconds)
                if culprit is None or signals.received or culprit.exit_code() == USAGE_ERROR or restarts > max_restarts:
                    return _report(workers, culprit, num_workers)
                say(
                    f"worker {culprit.index} {culprit.ending()}; starting all {num_workers} again from the last "
                    f"checkpoint (restart {restarts} of {max_restarts})"
                )


def start_workers(command: Sequence[str], num_workers: int, stack: contextlib.ExitStack) -> list[Worker]:
    """Starts the workers, each with its own TF_CONFIG.

    Args:
        command: the command and its arguments.
        num_workers: number of workers.
        stack: contextlib.ExitStack. When it closes, it kills the workers that still run.
    """
    ports = free_ports(num_workers)
    cluster = {"worker": [f"localhost:{port}" for port in ports]}
    # Without this variable every worker would use all cores. A value that the user has set has priority.
    threads = str(max(1, (os.cpu_count() or 1) // num_workers))
    workers = []
    for index in range(num_workers):
        config = json.dumps({"cluster": cluster, "task": {"type": "worker", "index": index}})
        errors = stack.enter_context(tempfile.TemporaryFile())
        # Each worker has its own session, so the terminal does not send it Ctrl-C. The launcher passes Ctrl-C on.
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=None if index == 0 else subprocess.DEVNULL,
            stderr=errors,
            env={"TF_NUM_INTRAOP_THREADS": threads, **os.environ, "TF_CONFIG": config},
            start_new_session=True,
            preexec_fn=functools.partial(_end_with_parent, os.getpid()) if sys.platform == "linux" else None,
        )
        stack.callback(process.wait)
        stack.callback(process.kill)
        workers.append(Worker(index, process, errors))
    return workers


def _end_with_parent(launcher):
    """Makes the kernel send SIGTERM to this child process when the launcher dies.

    If the launcher is dead already, the child process ends now.
    """
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != launcher:
        os._exit(128 + signal.SIGTERM)


def free_ports(count: int) -> list[int]:
    """Finds ports of this machine that nothing listens on.

    Args:
        count: number of ports.
    """
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("localhost", 0))
        return [each.getsockname()[1] for each in sockets]


def _watch(workers, signals):
    """Waits until all workers have ended, or the job must end. Returns the worker to blame, or None."""
    sent = stopping_since = None
    while True:
        ended = [worker for worker in workers if worker.exit_code() is not None]
        stopping_since = stopping_since or (time.monotonic() if signals.received or _has_one_stopped(ended) else None)
        good_codes = (0, *ASKED_TO_STOP) if stopping_since else (0,)
        failed = [worker for worker in ended if worker.exit_code() not in good_codes]
        if failed and all(worker.exit_code() == USAGE_ERROR for worker in failed):
            # Other workers may find the same fault a moment later. A usage error may also be the result of the
            # death of another worker.
            _wait_for(workers, _SECONDS_TO_AGREE)
            failed += [worker for worker in workers if worker.exit_code() not in (None, USAGE_ERROR, *good_codes)]
        if failed:
            # A killed worker comes first, because its death may have made the other workers fail.
            return min(failed, key=lambda worker: (not worker.was_killed(), worker.exit_code() == USAGE_ERROR))
        if len(ended) == len(workers):
            return None
        if stopping_since and not sent and (signals.received or time.monotonic() - stopping_since > _SECONDS_TO_AGREE):
            sent = signals.received or signal.SIGTERM
            for worker in workers:
                _send(worker, sent)
        if stopping_since and time.monotonic() - stopping_since > _SECONDS_TO_SAVE:
            return None
        time.sleep(_POLL_SECONDS)


def _has_one_stopped(ended):
    """Whether one of the workers has saved and stopped because of a signal. The other workers then stop too."""
    return any(worker.exit_code() in ASKED_TO_STOP and not worker.was_killed() for worker in ended)


def _end(workers, grace_seconds):
    """Sends SIGTERM to the workers that still run, and SIGKILL after the grace time."""
    for worker in workers:
        _send(worker, signal.SIGTERM)
    _wait_for(workers, grace_seconds)
    for worker in workers:
        _send(worker, signal.SIGKILL)
        worker.process.wait()


def _wait_for(workers, seconds):
    until = time.monotonic() + seconds
    while any(worker.exit_code() is None for worker in workers) and time.monotonic() < until:
        time.sleep(_POLL_SECONDS)


def _send(worker, number):
    if worker.exit_code() is None:
        worker.process.send_signal(number)


def _report(workers, culprit, num_workers):
    """Prints the errors of the chief, or of the worker that ended the job. Returns the exit code."""
    speaker = workers[0]
    if culprit is not None and (culprit.exit_code() != USAGE_ERROR or speaker.exit_code() != USAGE_ERROR):
        speaker = culprit
    sys.stdout.flush()
    sys.stderr.write(speaker.error_text())
    if culprit is not None and culprit.exit_code() != USAGE_ERROR:
        print(
            f"worker {culprit.index} of {num_workers} {culprit.ending()}; the same command continues from the last "
            "checkpoint",
            file=sys.stderr,
        )
    return speaker.exit_code()
