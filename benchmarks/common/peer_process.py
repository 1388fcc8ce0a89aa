"""A script in the environment of another library, as a process that answers requests (lines of JSON)."""

import contextlib
import json
import os
import pathlib
import signal
import subprocess
import tempfile

from keras_bert_app.errors import UserError

_BENCHMARKS = pathlib.Path(__file__).parents[1]
_PROGRAM = _BENCHMARKS / "common" / "peer_answers.py"


class PeerProcess:
    """Runs a script by peer_answers in an interpreter of its own. The attribute `versions` has its package versions.

    Args:
        interpreter: str. Python of the environment that has the library.
        script: str. Path of the script below benchmarks/, such as "serving/peer_openvino.py".
        flag: str. Name of the flag that gave the interpreter, for error messages.
        expected: dict. Package -> version that the environment must have.

    Raises:
        UserError: the interpreter cannot be run, the script fails, or a version differs.
    """

    def __init__(self, interpreter: str, script: str, flag: str, expected: dict[str, str]):
        self._name, self._expected = f"--{flag}={interpreter}", expected
        self._errors = tempfile.TemporaryFile("w+")
        try:
            self._process = subprocess.Popen(
                [interpreter, os.fspath(_PROGRAM), os.fspath(_BENCHMARKS / script)],
                text=True,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._errors,
            )
        except OSError as error:
            raise UserError(f"{self._name} cannot be run ({error.strerror}); {self._mend()}") from error
        self.versions = self._read()
        # A suffix after "+" names a build, as in torch 2.13.0+cpu.
        if any(self.versions.get(package, "").split("+")[0] != version for package, version in expected.items()):
            raise UserError(f"{self._name} has {self.versions}; {self._mend()}")

    def ask(self, **request) -> dict:
        """Sends a request and waits for its answer.

        Args:
            **request: JSON-able values of the request.

        Raises:
            UserError: the process ended. The message has the last line that it wrote to standard error.
        """
        with contextlib.suppress(BrokenPipeError):
            print(json.dumps(request), file=self._process.stdin, flush=True)
        return self._read()

    def close(self) -> None:
        """Ends the process, which gives back its memory."""
        self._process.communicate()

    def _read(self):
        answer = self._process.stdout.readline()
        if not answer:
            code = self._process.wait()
            if code == -signal.SIGKILL:
                raise UserError(
                    f"{self._name} was killed, which where nobody did it means that memory ran out; give it less work, "
                    "or fewer contenders at a time"
                )
            self._errors.seek(0)
            reason = (self._errors.read().strip() or "no message").splitlines()[-1]
            if code < 0:
                raise UserError(
                    f"{self._name} crashed with {signal.Signals(-code).name} ({reason}); try it alone, or in a new "
                    "environment"
                )
            raise UserError(f"{self._name} ended ({reason}); {self._mend()}")
        return json.loads(answer)

    def _mend(self):
        wanted = " and ".join(f"{package}=={version}" for package, version in self._expected.items())
        return f"expected an interpreter with {wanted}: --help says how to make it"
