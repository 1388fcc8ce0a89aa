"""At most one run at a time in a work directory."""

import contextlib
import errno
import fcntl
import os

from keras_bert_app.errors import UserError
from keras_bert_app.runs import work_directory


@contextlib.contextmanager
def locked(workdir):
    """While active, no other process can lock the work directory.

    WORKDIR/.lock stays behind, but the lock is the kernel's (flock): it ends with the process, however that ends, so that
    a killed run leaves none. Remote paths ("://") and file systems without such locks are not guarded.

    Raises:
        UserError: another run has it.
    """
    path = work_directory.path_in(workdir, ".lock")
    if "://" in path:
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
