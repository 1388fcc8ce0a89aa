"""Runs a script of a reference implementation as a process that answers requests (lines of JSON)."""

import contextlib
import json
import os
import pathlib
import signal
import subprocess
import tempfile

from keras_bert_app.errors import UserError

_PROGRAM = pathlib.Path(__file__).with_name("reference_answers.py")


class ReferenceProcess:
    """A process in which another interpreter runs a script with reference_answers.

    A `with` block ends the process.

    Args:
        interpreter: str. Python of the environment that has the reference.
        script: str or os.PathLike. Path of the script.
        name: str. Name of the process in error messages.
        mend: str. Advice in error messages if the process fails.

    Attributes:
        versions: dict package -> str. The versions of the script's PACKAGES.

    Raises:
        UserError: the interpreter cannot be run, or the script fails.
    """

    def __init__(self, interpreter: str, script: str | os.PathLike, name: str, mend: str):
        self._name, self._mend = name, mend
        self._errors = tempfile.TemporaryFile("w+", errors="replace")
        try:
            self._process = subprocess.Popen(
                [interpreter, os.fspath(_PROGRAM), os.fspath(script)],
                text=True,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._errors,
            )
        except OSError as error:
            raise UserError(f"{name} cannot be run ({error.strerror}); {mend}") from error
        self.versions = self._read()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def ask(self, **request) -> dict:
        """Sends a request and waits for its answer.

        Args:
            **request: values that JSON can hold. The request.

        Returns:
            dict. The answer.

        Raises:
            UserError: the process ended. The message has the last line that it wrote to standard error.
        """
        with contextlib.suppress(BrokenPipeError):
            print(json.dumps(request), file=self._process.stdin, flush=True)
        return self._read()

    def close(self) -> None:
        """Ends the process and frees its memory."""
        with contextlib.suppress(BrokenPipeError):
            self._process.communicate()

    def _read(self):
        answer = self._process.stdout.readline()
        if not answer:
            code = self._process.wait()
            if code == -signal.SIGKILL:
                raise UserError(
                    f"{self._name} was killed; if nobody did this, memory ran out; give the process less "
                    "work, or run fewer processes at a time"
                )
            self._errors.seek(0)
            reason = (self._errors.read().strip() or "no message").splitlines()[-1]
            if code < 0:
                raise UserError(
                    f"{self._name} crashed with {signal.Signals(-code).name} ({reason}); try it alone, or in a new "
                    "environment"
                )
            raise UserError(f"{self._name} ended ({reason}); {self._mend}")
        try:
            return json.loads(answer)
        except ValueError:
            self._process.kill()
            raise UserError(f"{self._name} printed {answer.strip()[:80]!r} as an answer; {self._mend}") from None
