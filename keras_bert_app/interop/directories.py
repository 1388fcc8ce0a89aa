"""Writing a directory whole or not at all."""

import contextlib
import os
import shutil
import tempfile

from keras_bert_app.errors import UserError


@contextlib.contextmanager
def written_whole(directory):
    """Gives a temporary directory beside `directory`, which gets its name when the block ends without an error.

    Raises:
        UserError: `directory` is there and not empty.
    """
    if "://" in str(directory):
        raise UserError(f"{directory}: is no local directory; write to one and copy it from there")
    directory = os.path.abspath(directory)
    if os.path.exists(directory) and (not os.path.isdir(directory) or os.listdir(directory)):
        raise UserError(f"{directory}: is there already and not empty; name a new directory")
    parent, name = os.path.split(directory)
    os.makedirs(parent, exist_ok=True)
    temporary = tempfile.mkdtemp(prefix=f".{name}.", suffix=".writing", dir=parent)
    try:
        os.chmod(temporary, 0o777 & ~_umask())
        yield temporary
        if os.path.isdir(directory):
            os.rmdir(directory)
        os.rename(temporary, directory)
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise


def _umask():
    mask = os.umask(0)
    os.umask(mask)
    return mask
