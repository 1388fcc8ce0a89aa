"""Files that the application reads, local or remote: JSON objects, and whether one path lies in another."""

import json
import os
from typing import Any

from keras_bert_app.errors import UserError
from pipelines import storage


def read_json(path: str | os.PathLike) -> dict[str, Any]:
    """Reads a JSON object from a file.

    Args:
        path: local, or any path that tf.io.gfile opens.

    Raises:
        UserError: the file is missing or holds no JSON object.
    """
    try:
        with storage.open_file(path) as file:
            values = json.loads(file.read().decode("utf-8"))
    except (OSError, UnicodeDecodeError, json.JSONDecodeError, RecursionError) as error:
        raise UserError(
            f"{path}: not a readable JSON file ({type(error).__name__}: {error}); expected a configuration object"
        ) from None
    if not isinstance(values, dict):
        raise UserError(f"{path}: holds a JSON {type(values).__name__}; expected an object of keys and values")
    return values


def lies_below(path: str | os.PathLike, directory: str | os.PathLike) -> bool:
    """Whether a path lies in a directory or in one below it. Links are followed.

    A command calls this before it writes, because output among its input files would be read as text the next time.
    """
    return os.path.realpath(path).startswith(os.path.join(os.path.realpath(directory), ""))
