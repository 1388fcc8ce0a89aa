"""Writing a directory whole or not at all."""

import contextlib
import os
import shutil

from keras_bert_app.errors import UserError


@contextlib.contextmanager
def written_whole(directory):
    """Gives a temporary directory beside `directory`, which gets its name when the block ends without an error.

    Raises:
        UserError: `directory` is there and not empty.
    """
    directory = os.path.abspath(directory)
    if os.path.exists(directory) and (not os.path.isdir(directory) or os.listdir(directory)):
        raise UserError(f"{directory}: is there already and not empty; name a new directory")
    temporary = f"{directory}.writing"
    shutil.rmtree(temporary, ignore_errors=True)
    try:
        os.makedirs(temporary)
        yield temporary
        if os.path.isdir(directory):
            os.rmdir(directory)
        os.rename(temporary, directory)
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise
