"""What both notebooks need around the commands: the runtime, the packages, commands with their output, files near and far.

Standard library only: the notebook's own kernel never loads TensorFlow. Commands run in a process beside it (worker.py), which
sees what was installed a moment ago without a restart of the runtime.
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

from keras_bert_app.training import tpu_wheels
from notebooks.worker import END

PROJECT = pathlib.Path(__file__).resolve().parents[1]
ENVIRONMENT = PROJECT / ".venv-notebook"
# What pip installs, by runtime: one call for each file, with its options.
REQUIREMENTS = {
    "CPU": {"requirements.txt": ()},
    "GPU": {"requirements.txt": ()},
    "TPU": {"requirements-tpu.txt": (), "requirements-tpu-no-deps.txt": ("--no-deps",)},
}


def runtime(environment=os.environ):
    """ "TPU", "GPU" or "CPU": what the person chose in Colab's menu, or what this machine has."""
    if shutil.which("nvidia-smi") and not _code("nvidia-smi"):
        return "GPU"
    return "TPU" if tpu_wheels.chips() or any(environment.get(name) for name in tpu_wheels.SIGNS_OF_CHIPS) else "CPU"


def install(kind):
    """The Python that runs the commands; installs the packages into an environment of the project's own where they are missing.

    Args:
        kind: of runtime(); a TPU has other wheels.
    """
    needed = pip_arguments(kind)
    if all(_is_installed(pin) for arguments in needed for pin in arguments if "==" in pin):
        return sys.executable
    # Not into the kernel's own: Colab has loaded some of its packages already, in other versions.
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


def pip_arguments(kind):
    """What pip installs, one list of arguments a call."""
    calls = []
    for name, options in REQUIREMENTS[kind].items():
        lines = (line.split("#")[0].strip() for line in (PROJECT / name).read_text(encoding="utf-8").splitlines())
        calls.append([*options, *filter(None, lines)])
    if kind == "GPU":  # CUDA's libraries in the versions that this TensorFlow wants, whatever the machine has
        calls.append([pin.replace("==", "[and-cuda]==") for pin in calls[0] if pin.startswith("tensorflow==")])
    return calls


class Stop(Exception):
    """Ends a cell, and with it "Run all", with one line instead of a traceback."""

    def _render_traceback_(self):
        return [str(self)]


class Commands:
    """Runs the commands of keras_bert_app in a process beside the notebook, and shows what they print.

    Args:
        python: of install().
    """

    def __init__(self, python):
        self.python, self.process = python, None

    def __call__(self, verb, *texts, **flags):
        """python -m keras_bert_app.cli.VERB --flag=value ... TEXT ...; a flag of None is left out.

        The stop button lets a training save and end.

        Raises:
            Stop: the command failed, and has said why.
        """
        arguments = [*(f"--{name}={value}" for name, value in flags.items() if value is not None), *texts]
        print(f"$ python -m keras_bert_app.cli.{verb}", " ".join(map(_quoted, arguments)), flush=True)
        if self.process is None or self.process.poll() is not None:
            # A session of its own: the stop button reaches it once, through here. The kernel's way of drawing into its page is
            # none of the environment's, where Matplotlib would refuse to be imported for it.
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
        self.process.stdin.write(json.dumps([verb, *arguments]) + "\n")
        self.process.stdin.flush()
        code = None
        while code is None:
            try:
                code = self._shown()
            except KeyboardInterrupt:
                self.process.send_signal(signal.SIGINT)
        if code:
            raise Stop(
                f"{verb} ended with exit code {code}; the line above says why. Mend that, or run this cell again: "
                "what was saved is kept."
            )

    def _shown(self):
        """The exit code of the command that is at work, after what it still prints."""
        for line in self.process.stdout:
            if line.startswith(END):
                return int(line.removeprefix(END))
            print(line, end="", flush=True)
        return self.process.wait() or 1

    def close(self):
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
        raise Stop("the installation failed; its last lines say why. Run this cell again.")


def _code(*command):
    return subprocess.run(command, check=False, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode


def absolute(path):
    """A path that holds in the commands too, which run in the project's folder; gs:// ones do as they are."""
    return path if "://" in path or not path else str(pathlib.Path(path).expanduser().absolute())


def connect_storage(*paths):
    """Asks Colab for the person's Drive, or for their Google Cloud account, where a path lies there."""
    if "google.colab" not in sys.modules:
        return
    if any(path.startswith("/content/drive") for path in paths):
        from google.colab import drive

        drive.mount("/content/drive")
    if any(path.startswith("gs://") for path in paths):
        from google.colab import auth

        auth.authenticate_user()


def exists(path):
    """Whether a file or directory is there; gsutil, which Colab has, looks in Google Cloud Storage."""
    if path.startswith("gs://"):
        return not _code("gsutil", "-q", "ls", path)
    return os.path.exists(path)


def read(path):
    """The bytes of a file."""
    if path.startswith("gs://"):
        return subprocess.run(["gsutil", "-q", "cat", path], check=True, capture_output=True).stdout
    return pathlib.Path(path).read_bytes()


def write_installed_docs(path, most_megabytes):
    """Writes the default text: the documentation of the Python packages of this machine, a blank line between documents.

    Returns:
        the number of documents.
    """
    from pipelines.text.installed_docs import installed_documents

    size, count = 0, 0
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as file:
        for document in installed_documents():
            if size > most_megabytes * 1e6:
                break
            size += file.write("\n".join(document) + "\n\n")
            count += 1
    return count


def docs_of_package(name, most):
    """Texts of two sentences each from the documentation of a package, and the number of the document that each comes from.

    Args:
        name: as it is imported. most: how many at most.

    Returns:
        list of (text, number of the document).
    """
    from pipelines.text.installed_docs import installed_documents

    spec = importlib.util.find_spec(name)
    if not (spec and spec.submodule_search_locations):
        raise Stop(f"PACKAGES: {name} is not installed here; name others, such as {', '.join(_common_packages())}")
    documents = installed_documents(list(spec.submodule_search_locations))
    pairs = (
        (f"{first} {second}", number)
        for number, document in enumerate(documents)
        for first, second in zip(document[::2], document[1::2])
    )
    return list(itertools.islice(pairs, most))


def _common_packages():
    names = ("numpy", "scipy", "matplotlib", "sklearn", "keras", "pandas", "jax", "requests")
    return [name for name in names if importlib.util.find_spec(name)]
