"""Helpers of both notebooks: the kind of runtime, the packages, the commands, and local and remote files.

This module does not load TensorFlow, and neither does the kernel of the notebook. Commands run in a second process
(worker.py), which can import newly installed packages without a restart of the runtime.
"""

import importlib.metadata
import importlib.util
import itertools
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping

from keras_bert_app.training import tpu_wheels
from notebooks.worker import END
from pipelines import storage

PROJECT = pathlib.Path(__file__).resolve().parents[1]
ENVIRONMENT = PROJECT / ".venv-notebook"
# The requirement files of each runtime, with the options of pip for each file.
REQUIREMENTS = {
    "CPU": {"requirements.txt": ()},
    "GPU": {"requirements.txt": ()},
    "TPU": {"requirements-tpu.txt": (), "requirements-tpu-no-deps.txt": ("--no-deps",)},
}


def runtime(environment: Mapping[str, str] = os.environ) -> str:
    """The kind of this machine: "TPU", "GPU" or "CPU". In Colab the user chooses the kind in a menu.

    Args:
        environment: environment variables. Some of them show that the machine has a TPU.
    """
    if shutil.which("nvidia-smi") and not _code("nvidia-smi"):
        return "GPU"
    return "TPU" if tpu_wheels.chips() or any(environment.get(name) for name in tpu_wheels.SIGNS_OF_CHIPS) else "CPU"


def install(kind: str) -> str:
    """Installs missing packages into an environment of the project.

    Args:
        kind: the result of runtime(). Each kind needs other packages.

    Returns:
        The path of the Python that runs the commands.

    Raises:
        Stop: the installation failed.
    """
    needed = pip_arguments(kind)
    if all(_is_installed(pin) for arguments in needed for pin in arguments if "==" in pin):
        return sys.executable
    # The kernel's environment stays unchanged, because the kernel has already loaded other versions of some packages.
    python, stamp = ENVIRONMENT / "bin" / "python", ENVIRONMENT / f".installed-for-{kind}"
    if not stamp.exists():
        _must(sys.executable, "-m", "pip", "install", "--quiet", "virtualenv")
        _must(sys.executable, "-m", "virtualenv", "--quiet", "--clear", str(ENVIRONMENT))
        for arguments in needed:
            _must(str(python), "-m", "pip", "install", "--quiet", *arguments)
        stamp.touch()
    return str(python)


def _is_installed(pin):
    name, _, version = pin.partition("==")
    try:
        return importlib.metadata.version(name.partition("[")[0]) == version
    except importlib.metadata.PackageNotFoundError:
        return False


def pip_arguments(kind: str) -> list[list[str]]:
    """The arguments of each call of `pip install` for a kind of runtime."""
    calls = []
    for name, options in REQUIREMENTS[kind].items():
        lines = (line.split("#")[0].strip() for line in (PROJECT / name).read_text(encoding="utf-8").splitlines())
        calls.append([*options, *filter(None, lines)])
    if kind == "GPU":  # CUDA libraries in the versions that this TensorFlow needs
        calls.append([pin.replace("==", "[and-cuda]==") for pin in calls[0] if pin.startswith("tensorflow==")])
    return calls


class Stop(Exception):
    """Ends a cell, and "Run all", with one line instead of a traceback."""

    def _render_traceback_(self):
        return [str(self)]


class Commands:
    """Runs the commands of keras_bert_app in a second process, and shows their output in the notebook.

    Args:
        python: the path that install() returns.
    """

    def __init__(self, python: str):
        self.python, self.process = python, None

    def __call__(self, verb: str, *texts: str, **flags: object) -> None:
        """Runs python -m keras_bert_app.cli.VERB --flag=value ... TEXT ...

        After the stop button of the notebook, a training run saves and ends.

        Args:
            verb: the name of the command.
            texts: positional arguments.
            flags: values of flags. A flag with the value None is left out.

        Raises:
            Stop: the command failed and printed the reason.
        """
        arguments = [*(f"--{name}={value}" for name, value in flags.items() if value is not None), *texts]
        print(f"$ python -m keras_bert_app.cli.{verb}", " ".join(map(_quoted, arguments)), flush=True)
        self._run(f"keras_bert_app.cli.{verb}", arguments)

    def show_device(self, **flags: object) -> None:
        """Prints the devices of this machine, and the precision and the compilation that a run on them gets.

        Args:
            flags: flags of the run. Its length, precision and compilation matter.
        """
        self._run("notebooks.device", [json.dumps(flags)])

    def _run(self, module, arguments):
        if self.process is None or self.process.poll() is not None:
            # In a new session the process gets the signal of the stop button once, from the handler below. MPLBACKEND
            # replaces the kernel's inline backend, which the environment lacks; Matplotlib would fail to import.
            self.process = subprocess.Popen(
                [self.python, "-u", "-m", "notebooks.worker"],
                cwd=PROJECT,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                encoding="utf-8",
                errors="replace",
                start_new_session=True,
                env={**os.environ, "MPLBACKEND": "agg"},
            )
        self.process.stdin.write(json.dumps([module, *arguments]) + "\n")
        self.process.stdin.flush()
        code = None
        while code is None:
            try:
                code = self._shown()
            except KeyboardInterrupt:
                self.process.send_signal(signal.SIGINT)
        if code:
            raise Stop(
                f"{module.rpartition('.')[2]} ended with exit code {code}; the line above gives the reason. Correct "
                "the cause and run this cell again; saved work is kept."
            )

    def _shown(self):
        """Prints the remaining output of the command, and returns its exit code."""
        for line in self.process.stdout:
            if line.startswith(END):
                return int(line.removeprefix(END))
            print(line, end="", flush=True)
        return self.process.wait() or 1

    def close(self) -> None:
        """Ends the process."""
        if self.process is not None:
            self.process.stdin.close()
            self.process.wait()
            self.process.stdout.close()


def _quoted(argument):
    return f"'{argument}'" if re.search(r"[^\w@%+=:,./-]", argument) else argument


def _must(*command):
    print("$", *command[2:], flush=True)
    if subprocess.run(command, check=False).returncode:
        raise Stop("the installation failed; the lines above give the reason. Run this cell again.")


def _code(*command):
    return subprocess.run(command, check=False, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode


def absolute(path: str) -> str:
    """Makes a local path absolute, because the commands run in another directory. Remote paths do not change."""
    return path if storage.is_remote(path) or not path else str(pathlib.Path(path).expanduser().absolute())


def connect_storage(*paths: str) -> None:
    """Connects Colab to Google Drive or to a Google Cloud account if a path needs it. Colab asks the user."""
    if "google.colab" not in sys.modules:
        return
    if any(path.startswith("/content/drive") for path in paths):
        from google.colab import drive

        drive.mount("/content/drive")
    if any(path.startswith("gs://") for path in paths):
        from google.colab import auth

        auth.authenticate_user()


def exists(path: str) -> bool:
    """Whether a file or directory exists. For a path at gs:// the function runs gsutil, which Colab has."""
    if path.startswith("gs://"):
        return not _code("gsutil", "-q", "ls", path)
    return os.path.exists(path)


def read(path: str) -> bytes:
    """Reads a file, local or in Google Cloud Storage."""
    if path.startswith("gs://"):
        return subprocess.run(["gsutil", "-q", "cat", path], check=True, capture_output=True).stdout
    return pathlib.Path(path).read_bytes()


def write_installed_docs(path: str, most_megabytes: float) -> int:
    """Writes the documentation of the installed Python packages, with a blank line between documents.

    Args:
        path: file to write.
        most_megabytes: size of the text. The text ends after the document that exceeds this size.

    Returns:
        The number of documents.
    """
    from pipelines.text.installed_docs import installed_documents

    num_bytes, count = 0, 0
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as file:
        for document in installed_documents():
            if num_bytes > most_megabytes * 1e6:
                break
            num_bytes += file.write(("\n".join(document) + "\n\n").encode())
            count += 1
    return count


def docs_of_package(name: str, most: int) -> list[tuple[str, int]]:
    """Texts of two sentences each from the documentation of a package.

    Args:
        name: the name of the package in an import statement.
        most: the largest number of texts.

    Returns:
        List of (text, number of its document).

    Raises:
        Stop: the package is not installed.
    """
    from pipelines.text.installed_docs import installed_documents

    spec = importlib.util.find_spec(name)
    if not (spec and spec.submodule_search_locations):
        raise Stop(f"PACKAGES: {name} is not installed; give other packages, such as {', '.join(_common_packages())}")
    documents = installed_documents(list(spec.submodule_search_locations))
    pairs = (
        (f"{first} {second}", number)
        for number, document in enumerate(documents)
        for first, second in zip(document[::2], document[1::2], strict=False)  # drops an odd last sentence
    )
    return list(itertools.islice(pairs, most))


def _common_packages():
    names = ("numpy", "scipy", "matplotlib", "sklearn", "keras", "pandas", "jax", "requests")
    return [name for name in names if importlib.util.find_spec(name)]
