"""The place where a corpus is made: its lock, what a run that was stopped left there, and how faults are told.

OUTPUT_DIR/.incomplete/ holds lock, parameters.json, spool/ (sorted runs of the text that was read) and shards/. What is
there is whole: files are written under a temporary name. A run with equal parameters goes on from it.
"""

import contextlib
import fcntl
import json
import os
import shutil
import tempfile
from typing import NamedTuple

from pipelines.corpus.manifest import MANIFEST_NAME
from pipelines.data_error import DataError

NAME = ".incomplete"


class Staging(NamedTuple):
    """Directories: shards where output_dir is, local or remote; spool always local."""

    shards: str
    spool: str


@contextlib.contextmanager
def staging(output_dir, parameters, log):
    """The Staging of one run, which no other can have at the same time; removed when the run has ended well.

    It is kept when the run is interrupted or a file cannot be read or written, so that the next one goes on; it is
    removed when parameters is None (the text cannot be read again) or the text is refused as a whole.

    Args:
        parameters: JSON values that must be equal for a run to go on. log: function of a line for the user.

    Raises:
        DataError: there is a corpus already, another process is at work there, or something cannot be written.
    """
    with _write_faults(output_dir):
        if "://" in output_dir:
            with _remote_staging(output_dir) as found:
                yield found
            return
        directory = os.path.join(output_dir, NAME)
        with _lock(directory, output_dir):
            try:
                refuse_corpus(output_dir)
            except DataError:  # another process was quicker
                shutil.rmtree(directory)
                raise
            if not _is_resumable(directory, parameters, log):
                for name in set(os.listdir(directory)) - {"lock"}:
                    _remove(os.path.join(directory, name))
                for name in ("shards", "spool"):
                    os.makedirs(os.path.join(directory, name))
                write_json(os.path.join(directory, "parameters.json"), parameters)
            found = Staging(os.path.join(directory, "shards"), os.path.join(directory, "spool"))
            try:
                yield found
            except BaseException:
                if parameters is None or not any(name.endswith(".json") for name in os.listdir(found.spool)):
                    shutil.rmtree(directory, ignore_errors=True)
                raise
            shutil.rmtree(directory)


def discard(found):
    """Nothing that was made so far is worth keeping, should the run end now."""
    for name in os.listdir(found.spool):
        os.remove(os.path.join(found.spool, name))


def refuse_corpus(output_dir, others=()):
    """Raises DataError if output_dir holds a corpus. Args: others: names of files that a new one would overwrite."""
    exists = os.path.exists
    if "://" in output_dir:
        import tensorflow as tf

        exists = tf.io.gfile.exists
    if exists(manifest := os.path.join(output_dir, MANIFEST_NAME)):
        left = os.path.join(output_dir, NAME)
        if "://" not in output_dir and os.path.isdir(left):  # of a run that was killed at its very end
            with contextlib.suppress(DataError), _lock(left, output_dir):
                shutil.rmtree(left)
        raise DataError(
            f"{manifest} is there already; expected an output_dir without a corpus: name another, or delete that one"
        )
    # Reports without a corpus are someone's own, but for those that a run published just before it was stopped.
    if not exists(os.path.join(output_dir, NAME)):
        for path in filter(exists, (os.path.join(output_dir, name) for name in others)):
            raise DataError(
                f"{path}: is there already, and would be overwritten; name another output_dir, or move it away"
            )


def write_json(path, value):
    with open(path + ".tmp", "w", encoding="utf-8") as file:
        json.dump(value, file)
    os.replace(path + ".tmp", path)


def read_json(path):
    """What write_json wrote; None where there is no such file, or no whole one."""
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
    log(f"begins anew, what an earlier run left was made with other parameters: {'; '.join(changes) or 'other files'}")
    return False


def _remove(path):
    shutil.rmtree(path) if os.path.isdir(path) else os.remove(path)


@contextlib.contextmanager
def _lock(directory, output_dir):
    """The kernel frees the lock when the process ends, however it does."""
    while True:
        os.makedirs(directory, exist_ok=True)
        path = os.path.join(directory, "lock")
        try:
            file = open(path, "w", encoding="utf-8")
        except FileNotFoundError:  # the run that held it has just ended, and removed the directory
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
    """Without a lock and without going on: the spool is in a local directory that goes with the process."""
    import tensorflow as tf

    refuse_corpus(output_dir)
    directory = os.path.join(output_dir, NAME)
    if tf.io.gfile.exists(directory):
        tf.io.gfile.rmtree(directory)
    shards = os.path.join(directory, "shards")
    tf.io.gfile.makedirs(shards)
    try:
        with tempfile.TemporaryDirectory(prefix="prepare_corpus-") as spool:
            yield Staging(shards, spool)
    finally:
        tf.io.gfile.rmtree(directory)


@contextlib.contextmanager
def _write_faults(output_dir):
    try:
        yield
    except OSError as error:
        reason = f"{error.strerror or error}{f': {error.filename}' if error.filename else ''}"
        raise DataError(
            f"{output_dir}: the corpus could not be written ({reason}); expected a directory to write to "
            "with room for about 2.3 times the text; the same command then goes on"
        ) from error
    except Exception as error:
        if not type(error).__module__.startswith("tensorflow"):
            raise
        reason = " ".join(str(error).split())
        raise DataError(f"{output_dir}: the corpus could not be written ({reason})") from error
