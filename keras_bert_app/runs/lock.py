"""Locks a work directory, so that at most one run uses it at a time."""

import contextlib
import errno
import fcntl
import os
from collections.abc import Iterator

from keras_bert_app.errors import UserError
from keras_bert_app.runs import work_directory
from pipelines import storage


@contextlib.contextmanager
def locked(workdir: str) -> Iterator[None]:
    """Keeps other processes from locking the work directory while the block runs.

    The kernel releases the lock (flock) when the process ends, so a killed run leaves no lock. The file
    WORKDIR/.lock stays. The function does not protect remote paths, or file systems without such locks.

    Args:
        workdir: the work directory.

    Raises:
        UserError: another run holds the lock.
    """
    path = work_directory.path_in(workdir, ".lock")
    if storage.is_remote(path):
        yield
        return
    os.makedirs(workdir, exist_ok=True)
    with open(path, "a+", encoding="ascii") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno in (errno.EWOULDBLOCK, errno.EACCES):
                file.seek(0)
                raise UserError(
                    f"--workdir={workdir}: another run is at work there (process "
                    f"{file.read().strip() or 'unknown'}); wait for its end or stop it, or take another "
                    "--workdir"
                ) from None
        else:
            file.truncate(0)
            file.write(str(os.getpid()))
            file.flush()
        yield
