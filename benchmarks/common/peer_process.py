"""Runs a script of the benchmarks in the environment of another library, and checks the versions of the packages."""

import pathlib

from keras_bert_app.errors import UserError
from keras_bert_app.interop.reference.reference_process import ReferenceProcess

_BENCHMARKS = pathlib.Path(__file__).parents[1]


class PeerProcess(ReferenceProcess):
    """A ReferenceProcess whose packages have the expected versions.

    Args:
        interpreter: str. Python of the environment that has the library.
        script: str. Path of the script below benchmarks/, such as "serving/peer_openvino.py".
        flag: str. Name of the flag that gave the interpreter, for error messages.
        expected: dict. Package -> version that the environment must have.

    Raises:
        UserError: the interpreter cannot be run, the script fails, or a version differs.
    """

    def __init__(self, interpreter: str, script: str, flag: str, expected: dict[str, str]):
        wanted = " and ".join(f"{package}=={version}" for package, version in expected.items())
        name, mend = f"--{flag}={interpreter}", f"expected an interpreter with {wanted}; --help says how to install it"
        super().__init__(interpreter, _BENCHMARKS / script, name, mend)
        # A suffix after "+" names a build, as in torch 2.13.0+cpu.
        if any(self.versions.get(package, "").split("+")[0] != version for package, version in expected.items()):
            raise UserError(f"{name} has {self.versions}; {mend}")
