"""A peer in an interpreter of its own, asked by lines of JSON: what the pretraining_* benchmarks share."""

import contextlib
import json
import os
import signal
import subprocess
import tempfile

from keras_bert_app.errors import UserError


class PeerProcess:
    """Runs a script of this directory; its first line, a dict of versions, is `versions`.

    Args:
        interpreter: of the peer's environment. script: file name in this directory. flag: that gave the interpreter.
        expected: package -> version; raises UserError when the script reports another, or ends.
    """

    def __init__(self, interpreter, script, flag, expected):
        self._name, self._expected = f"--{flag}={interpreter}", expected
        self._errors = tempfile.TemporaryFile("w+")
        try:
            self._process = subprocess.Popen(
                [interpreter, os.path.join(os.path.dirname(os.path.abspath(__file__)), script)],
                text=True,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._errors,
            )
        except OSError as error:
            raise UserError(f"{self._name} cannot be run ({error.strerror}); {self._mend()}") from error
        self.versions = self._read()
        # What follows "+" names a build, as in torch 2.13.0+cpu.
        if any(self.versions.get(package, "").split("+")[0] != version for package, version in expected.items()):
            raise UserError(f"{self._name} has {self.versions}; {self._mend()}")

    def ask(self, **request):
        """The answer, a dict.

        Raises:
            UserError: the process ended; names the last line that it wrote on stderr.
        """
        with contextlib.suppress(BrokenPipeError):
            print(json.dumps(request), file=self._process.stdin, flush=True)
        return self._read()

    def close(self):
        """Ends the process, and gives back its memory."""
        self._process.communicate()

    def _read(self):
        answer = self._process.stdout.readline()
        if not answer:
            code = self._process.wait()
            if code == -signal.SIGKILL:
                raise UserError(
                    f"{self._name} was killed, which where nobody did it means that memory ran out; give it less work, or "
                    "fewer contenders at a time"
                )
            self._errors.seek(0)
            reason = (self._errors.read().strip() or "no message").splitlines()[-1]
            if code < 0:
                raise UserError(
                    f"{self._name} crashed with {signal.Signals(-code).name} ({reason}); try it alone, or in a new environment"
                )
            raise UserError(f"{self._name} ended ({reason}); {self._mend()}")
        return json.loads(answer)

    def _mend(self):
        wanted = " and ".join(f"{package}=={version}" for package, version in self._expected.items())
        return f"expected an interpreter with {wanted}: --help says how to make it"
