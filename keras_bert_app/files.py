"""Reads of local and remote files up to a size limit, and checks of where a path lies."""

import json
import os
from typing import Any

from keras_bert_app.errors import UserError
from pipelines import storage

MAX_JSON_BYTES = 1 << 26  # The largest JSON files are the findings of an analysis. They have some MB.


def read_whole(path: str | os.PathLike, limit: int, folder: str | os.PathLike = "") -> bytes:
    """Reads a file of limited size.

    Args:
        path: str. Any path that tf.io.gfile opens.
        limit: int. The largest accepted size in bytes.
        folder: str. The directory of the model or run that the file belongs to; see check_in_folder. "" for a file that
            the user named.

    Returns:
        bytes: the whole content.

    Raises:
        UserError: the file is larger than `limit`, or belongs to a folder and is not a regular file in it.
        OSError, tf.errors.OpError: the file cannot be read.
    """
    if folder:
        check_in_folder(path, folder)
    size = storage.size_of(path)
    if size > limit:
        raise UserError(f"{path}: has {size:,} bytes; a file of this kind has at most {limit:,}")
    with storage.open_file(path) as file:
        content = file.read(size or limit + 1)  # A pipe has no size.
    if len(content) > limit:
        raise UserError(f"{path}: has more than {limit:,} bytes; a file of this kind has no more")
    return content


def read_json(path: str | os.PathLike, limit: int = MAX_JSON_BYTES, folder: str | os.PathLike = "") -> dict[str, Any]:
    """Reads a JSON object from a file.

    Args:
        path: str. Any path that tf.io.gfile opens.
        limit: int. The largest accepted size in bytes.
        folder: str. The same as for read_whole.

    Returns:
        dict: the JSON object.

    Raises:
        UserError: the file is missing, larger than `limit`, or holds no JSON object.
    """
    try:
        values = json.loads(read_whole(path, limit, folder).decode("utf-8"))
    except UserError:  # UserError is a ValueError, too
        raise
    except OSError as error:
        raise UserError(
            f"{path}: cannot be read ({error.strerror or type(error).__name__}); expected a JSON file"
        ) from None
    except (ValueError, RecursionError) as error:  # a number with thousands of digits is a ValueError, too
        raise UserError(
            f"{path}: is not JSON that can be read ({type(error).__name__}: {str(error)[:100]}); expected an object of "
            "keys and values"
        ) from None
    if not isinstance(values, dict):
        raise UserError(f"{path}: holds a JSON {type(values).__name__}; expected an object of keys and values")
    return values


def check_in_folder(path: str | os.PathLike, folder: str | os.PathLike) -> None:
    """Refuses a path that is not safe to read as a file of a folder from an unknown source.

    A pipe would block the reader for ever. A link that leads out of the folder would copy a file of this machine into
    the next output. In the Hub's cache (models--X/snapshots/REVISION) files are links to models--X/blobs. The function
    accepts these links.

    Args:
        path: str. The file.
        folder: str. The directory of a model or run. It may be a link itself.

    Raises:
        UserError: the path is a pipe, a device or a directory, a link that leads nowhere, or a link that leads out of
            the folder.
    """
    if storage.is_remote(path) or not os.path.lexists(path):
        return
    if not os.path.isfile(path):
        raise UserError(f"{path}: is not a regular file; put the model's own file there")
    if not lies_below(path, folder) and os.path.dirname(os.path.realpath(path)) != _blobs_of(folder):
        raise UserError(f"{path}: is a link that leads out of the directory; put the file itself there")


def _blobs_of(folder):
    """Returns the directory of the files' contents if a folder is a snapshot in the Hub's cache, else None."""
    snapshots, _ = os.path.split(os.path.realpath(folder))
    return os.path.join(os.path.dirname(snapshots), "blobs") if os.path.basename(snapshots) == "snapshots" else None


def lies_below(path: str | os.PathLike, directory: str | os.PathLike) -> bool:
    """Returns whether a path lies in a directory or in one below it. The function follows links.

    A command checks this before it writes, because a later run would read output among its input files as text.

    Args:
        path: str. A local path.
        directory: str. A local directory.
    """
    return os.path.realpath(path).startswith(os.path.join(os.path.realpath(directory), ""))
