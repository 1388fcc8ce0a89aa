"""The staging directory of a corpus: its lock, the files for resuming, and errors on writing.

OUTPUT_DIR/.incomplete/ holds lock, parameters.json, spool/ (sorted runs of the text) and shards/. JSON files in spool/
and shards/ list the complete files with their sizes and hashes. A JSON file is always complete, because it is written
under a temporary name. A later run of prepare_corpus with equal parameters resumes from these files.
"""

import contextlib
import fcntl
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from pipelines import storage
from pipelines.corpus.manifest import MANIFEST_NAME
from pipelines.data_error import DataError

NAME = ".incomplete"


class Staging(NamedTuple):
    """The directories of one run.

    Attributes:
        shards: str. In output_dir, local or remote.
        spool: str. Always local.
    """

    shards: str
    spool: str


@contextlib.contextmanager
def staging(output_dir: str, parameters: dict | None, log: Callable[[str], None]) -> Iterator[Staging]:
    """Locks output_dir for one run, and removes the staging directory when the run has succeeded.

    If the run is interrupted or cannot read or write a file, the staging directory stays and the next run resumes. If
    `parameters` is None (the text cannot be read again) or no part of the text was read, the directory is removed.

    Args:
        output_dir: str. The directory of the corpus.
        parameters: dict of JSON values that must be equal for a run to resume, or None.
        log: function of one line for the user.

    Yields:
        Staging.

    Raises:
        DataError: output_dir has a corpus already, another process works in it, or a file cannot be written.
    """
    with _write_faults(output_dir):
        if storage.is_remote(output_dir):
            with _remote_staging(output_dir) as staged:
                yield staged
            return
        directory = os.path.join(output_dir, NAME)
        with _lock(directory, output_dir):
            try:
                refuse_corpus(output_dir)
            except DataError:  # another process has just completed the corpus
                shutil.rmtree(directory)
                raise
            if not _is_resumable(directory, parameters, log):
                for name in set(os.listdir(directory)) - {"lock"}:
                    _remove(os.path.join(directory, name))
                for name in ("shards", "spool"):
                    os.makedirs(os.path.join(directory, name))
                write_json(os.path.join(directory, "parameters.json"), parameters)
            staged = Staging(os.path.join(directory, "shards"), os.path.join(directory, "spool"))
            try:
                yield staged
            except BaseException:
                if parameters is None or not any(name.endswith(".json") for name in os.listdir(staged.spool)):
                    shutil.rmtree(directory, ignore_errors=True)
                raise
            shutil.rmtree(directory)


def discard(staged: Staging) -> None:
    """Removes the sorted runs of the text, so that no later command resumes from them.

    Args:
        staged: Staging.
    """
    for name in os.listdir(staged.spool):
        os.remove(os.path.join(staged.spool, name))


def refuse_corpus(output_dir: str, others: Sequence[str] = ()) -> None:
    """Refuses an output_dir that holds a corpus.

    Args:
        output_dir: str. The directory of the new corpus.
        others: sequence of str. The names of files that the new corpus would overwrite.

    Raises:
        DataError: output_dir holds a corpus or one of these files.
    """
    if storage.exists(manifest := os.path.join(output_dir, MANIFEST_NAME)):
        left = os.path.join(output_dir, NAME)
        # A run may be killed after it completed the corpus, but before it removed the staging directory.
        if not storage.is_remote(output_dir) and os.path.isdir(left):
            with contextlib.suppress(DataError), _lock(left, output_dir):
                shutil.rmtree(left)
        raise DataError(
            f"{manifest} is there already; expected an output_dir without a corpus; name another output_dir, or delete "
            "this corpus"
        )
    # Reports without a corpus belong to the user, unless a run was stopped while it published them.
    if not storage.exists(os.path.join(output_dir, NAME)):
        for path in filter(storage.exists, (os.path.join(output_dir, name) for name in others)):
            raise DataError(
                f"{path}: is there already, and would be overwritten; name another output_dir, or move the file away"
            )


def write_json(path: str, value: object) -> None:
    """Writes a value as a JSON file, whole or not at all.

    Args:
        path: str. A local or remote file.
        value: a value that JSON can hold.
    """
    storage.write_whole(path, json.dumps(value))


def read_json(path: str) -> Any:
    """Reads a JSON file; None if the file does not exist or is not complete.

    Args:
        path: str. A local file.

    Returns:
        The value, or None.
    """
    try:
        with open(path, encoding="utf-8") as file:
            return json.load(file)
    except (OSError, ValueError):
        return None


def _is_resumable(directory, parameters, log):
    before = read_json(os.path.join(directory, "parameters.json"))
    if before is None or parameters is None:
        return False
    if before == json.loads(json.dumps(parameters)):
        return True
    changes = [
        f"{name} was {before.get(name)!r}, is {value!r}"
        for name, value in parameters.items()
        if before.get(name) != value
    ]
    log(
        f"starts over, because an earlier run left files that were made with other parameters: "
        f"{'; '.join(changes) or 'other files'}"
    )
    return False


def _remove(path):
    shutil.rmtree(path) if os.path.isdir(path) else os.remove(path)


@contextlib.contextmanager
def _lock(directory, output_dir):
    """Takes the lock of a staging directory; the kernel frees the lock even if the process is killed."""
    while True:
        os.makedirs(directory, exist_ok=True)
        path = os.path.join(directory, "lock")
        try:
            file = open(path, "w", encoding="utf-8")
        except FileNotFoundError:  # the run that had the lock has just ended and removed the directory
            continue
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.close()
            raise DataError(
                f"{output_dir}: another process is preparing a corpus there; wait for it, stop it, or name "
                "another output_dir"
            ) from None
        if os.path.exists(path) and os.path.samestat(os.fstat(file.fileno()), os.stat(path)):
            break
        file.close()
    with file:
        yield


@contextlib.contextmanager
def _remote_staging(output_dir):
    """Gives a Staging without a lock, for a remote output_dir.

    The spool is a local temporary directory, so a later run cannot resume.
    """
    refuse_corpus(output_dir)
    directory = os.path.join(output_dir, NAME)
    if storage.exists(directory):
        storage.remove_tree(directory)
    shards = os.path.join(directory, "shards")
    storage.make_directories(shards)
    try:
        with tempfile.TemporaryDirectory(prefix="prepare_corpus-") as spool:
            yield Staging(shards, spool)
    finally:
        storage.remove_tree(directory)


@contextlib.contextmanager
def _write_faults(output_dir):
    try:
        yield
    except OSError as error:
        reason = f"{error.strerror or error}{f': {error.filename}' if error.filename else ''}"
        raise DataError(
            f"{output_dir}: the corpus could not be written ({reason}); expected a writable directory with room for "
            "about 2.3 times the text; correct this, and the same command continues"
        ) from error
    except Exception as error:
        if not type(error).__module__.startswith("tensorflow"):
            raise
        reason = " ".join(str(error).split())
        raise DataError(f"{output_dir}: the corpus could not be written ({reason})") from error
