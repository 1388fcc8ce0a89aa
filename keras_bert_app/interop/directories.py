"""Writes a new directory completely or not at all."""

import contextlib
import os
import tempfile
from collections.abc import Iterator

from keras_bert_app.errors import UserError
from pipelines import storage


@contextlib.contextmanager
def written_whole(directory: str | os.PathLike) -> Iterator[str]:
    """Gives a temporary directory that gets the name `directory` when the block ends without an error.

    The temporary directory lies beside `directory`. If the block fails, the temporary directory is removed.

    Args:
        directory: str or os.PathLike. Local directory that does not exist yet or is empty.

    Yields:
        str. Path of the temporary directory.

    Raises:
        UserError: `directory` is remote, or exists and is not empty.
    """
    if storage.is_remote(directory):
        raise UserError(f"{directory}: is not a local directory; write to a local directory, then copy the files")
    directory = os.path.abspath(directory)
    if os.path.exists(directory) and (not os.path.isdir(directory) or os.listdir(directory)):
        raise UserError(f"{directory}: is there already and not empty; name a new directory")
    parent, name = os.path.split(directory)
    os.makedirs(parent, exist_ok=True)
    # mkdtemp gives a unique name. whole_directory makes that directory again, with the mode of the umask.
    unique_name = tempfile.mkdtemp(prefix=f".{name}.", suffix=".writing", dir=parent)
    with storage.whole_directory(directory, unique_name) as temporary:
        yield temporary
        # rmdir fails if another program has put files into the directory. whole_directory would delete these files.
        if os.path.isdir(directory):
            os.rmdir(directory)
