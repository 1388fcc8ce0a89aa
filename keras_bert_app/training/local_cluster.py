"""Several processes of one command on this machine, as the workers of one job. Loads no TensorFlow.

A worker that dies leaves its neighbours waiting in a sum that never comes, so all are ended and started again together;
they go on from the last checkpoint.
"""

import contextlib
import ctypes
import dataclasses
import itertools
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time

from keras_bert_app.errors import UserError

USAGE_ERROR = 2
ASKED_TO_STOP = (128 + signal.SIGINT, 128 + signal.SIGTERM)  # exit codes of a run that stopped and saved
_POLL_SECONDS = 0.1
_SECONDS_TO_AGREE = 5.0  # workers given the same wrong flag all say so, one after the other
_SECONDS_TO_SAVE = 600.0
_PR_SET_PDEATHSIG = 1  # linux/prctl.h


@dataclasses.dataclass
class Worker:
    """A running process of the job. errors: the file that its standard error goes to."""

    index: int
    process: subprocess.Popen
    errors: object

    def exit_code(self):
        """As a shell has it, 128 + n for a process that signal n killed; None while it runs."""
        code = self.process.poll()
        return 128 - code if code is not None and code < 0 else code

    def was_killed(self):
        return (self.process.poll() or 0) < 0

    def end(self):
        """ "was killed by SIGKILL", or "exited with 1 (the last line that it wrote on standard error)"."""
        if self.was_killed():
            return f"was killed by {signal.Signals(-self.process.poll()).name}"
        lines = self.error_text().strip().splitlines()
        return f"exited with {self.exit_code()}" + (f" ({lines[-1][:200]})" if lines else "")

    def error_text(self):
        self.errors.seek(0)
        return self.errors.read().decode("utf-8", "replace")


def run_workers(command, num_workers, max_restarts, grace_seconds, say):
    """Runs a command as num_workers workers of one job until it ends well, is asked to stop, or cannot go on.

    SIGINT and SIGTERM are passed on to all workers, which finish their step and save; a signal to one worker alone
    stops all of them, since they agree on it. Worker 0 is the chief: what it prints goes to our standard output, and
    what it wrote on standard error is printed when the job ends.

    Args:
        command: list of str. max_restarts: how often all are started again after one was killed or crashed.
        grace_seconds: from SIGTERM to SIGKILL for those that are left then. say: called with a line of news.

    Returns:
        the chief's exit code, or that of the worker that ended the job.
    """
    with _Forwarded() as received:
        for restarts in itertools.count(1):
            with contextlib.ExitStack() as stack:
                workers = start_workers(command, num_workers, stack)
                culprit = _watch(workers, received)
                _end(workers, grace_seconds)
                if culprit is None or received.number or culprit.exit_code() == USAGE_ERROR or restarts > max_restarts:
                    return _report(workers, culprit, num_workers)
                say(
                    f"worker {culprit.index} {culprit.end()}; starting all {num_workers} again from the last "
                    f"checkpoint (restart {restarts} of {max_restarts})"
                )


def start_workers(command, num_workers, stack):
    """The workers, each with its own TF_CONFIG; those left when `stack` (contextlib.ExitStack) ends are killed."""
    ports = free_ports(num_workers)
    cluster = {"worker": [f"localhost:{port}" for port in ports]}
    # Unless the user says so, workers do not compete for the cores.
    threads = str(max(1, (os.cpu_count() or 1) // num_workers))
    workers = []
    for index in range(num_workers):
        config = json.dumps({"cluster": cluster, "task": {"type": "worker", "index": index}})
        errors = stack.enter_context(tempfile.TemporaryFile())
        # A session of its own: Ctrl-C at the terminal reaches us, and we pass it on, once.
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=None if index == 0 else subprocess.DEVNULL,
            stderr=errors,
            env={"TF_NUM_INTRAOP_THREADS": threads, **os.environ, "TF_CONFIG": config},
            start_new_session=True,
            preexec_fn=_end_with_parent if sys.platform == "linux" else None,
        )
        stack.callback(process.wait)
        stack.callback(process.kill)
        workers.append(Worker(index, process, errors))
    return workers


def _end_with_parent():
    """Called in the child: when the launcher is killed its workers get SIGTERM, so that no orphans train on."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)


def free_ports(count):
    """Ports of this machine that nothing listens on."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind(("localhost", 0))
        return [one.getsockname()[1] for one in sockets]


class _Forwarded:
    """While active, notes the first SIGINT or SIGTERM as `number`, 0 before."""

    def __enter__(self):
        self.number = 0
        try:
            self.previous = {number: signal.signal(number, self._note) for number in (signal.SIGINT, signal.SIGTERM)}
        except ValueError:
            raise UserError("workers are launched from the main thread, which is where signals arrive") from None
        return self

    def _note(self, number, frame):
        self.number = self.number or number

    def __exit__(self, *exception):
        for number, handler in self.previous.items():
            signal.signal(number, handler)


def _watch(workers, received):
    """Waits until all workers ended as they should, or the rest must be ended; returns the worker to blame, or None."""
    signalled = stopping_since = None
    while True:
        ended = [worker for worker in workers if worker.exit_code() is not None]
        stopping_since = stopping_since or (time.monotonic() if received.number or _stopped(ended) else None)
        is_well = (0, *ASKED_TO_STOP) if stopping_since else (0,)
        failed = [worker for worker in ended if worker.exit_code() not in is_well]
        if failed and all(worker.exit_code() == USAGE_ERROR for worker in failed):
            # Give the others time to find the same fault; and one whose neighbour died may see a fault of its own.
            _wait_for(workers, _SECONDS_TO_AGREE)
            failed += [worker for worker in workers if worker.exit_code() not in (None, USAGE_ERROR, *is_well)]
        if failed:
            # Those killed before those that failed since.
            return min(failed, key=lambda worker: (not worker.was_killed(), worker.exit_code() == USAGE_ERROR))
        if len(ended) == len(workers):
            return None
        if (
            stopping_since
            and not signalled
            and (received.number or time.monotonic() - stopping_since > _SECONDS_TO_AGREE)
        ):
            signalled = received.number or signal.SIGTERM
            for worker in workers:
                _send(worker, signalled)
        if stopping_since and time.monotonic() - stopping_since > _SECONDS_TO_SAVE:
            return None
        time.sleep(_POLL_SECONDS)


def _stopped(ended):
    """Whether one of them was asked to stop, by a signal to itself, and has told its neighbours."""
    return any(worker.exit_code() in ASKED_TO_STOP and not worker.was_killed() for worker in ended)


def _end(workers, grace_seconds):
    """SIGTERM to those that still run, SIGKILL after the grace time."""
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
    """Prints what the chief, or whoever ended the job, has to say; returns the exit code."""
    speaker = workers[0]
    if culprit is not None and (culprit.exit_code() != USAGE_ERROR or speaker.exit_code() != USAGE_ERROR):
        speaker = culprit
    sys.stdout.flush()
    sys.stderr.write(speaker.error_text())
    if culprit is not None and culprit.exit_code() != USAGE_ERROR:
        print(
            f"worker {culprit.index} of {num_workers} {culprit.end()}; the same command goes on from the last "
            "checkpoint",
            file=sys.stderr,
        )
    return speaker.exit_code()
