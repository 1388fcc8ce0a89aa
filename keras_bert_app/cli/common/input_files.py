"""Checks of files that a command reads."""

import os

from keras_bert_app.errors import UserError
from pipelines import storage


def check_regular(flag: str, path: str) -> None:
    """Checks that a file can be read more than once. It does not open a pipe, whose content would be lost.

    Args:
        flag: str. The flag that names the file.
        path: str. The file, local or remote. It need not exist.

    Raises:
        UserError: it is a pipe, a device or a directory.
    """
    if is_local_other(path):
        raise UserError(f"--{flag}={path}: cannot be read several times; give a regular file, not a pipe or directory")


def is_local_other(path: str) -> bool:
    """Says whether a path exists on this machine and is no regular file, such as a pipe or a directory.

    Args:
        path: str. A path, local or remote.
    """
    return not storage.is_remote(path) and os.path.exists(path) and not os.path.isfile(path)
