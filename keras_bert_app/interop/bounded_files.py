"""Reads files from unknown sources, local or remote, and refuses files above a size limit."""

import json
import os
from typing import Any

from keras_bert_app.errors import UserError
from pipelines import storage


def read_whole(path: str | os.PathLike, limit: int) -> bytes:
    """Reads a file of limited size.

    Args:
        path: str or os.PathLike. Local or remote file.
        limit: int. Largest accepted size in bytes.

    Returns:
        bytes. The whole content.

    Raises:
        UserError: The file is larger than `limit`. In this case the function reads nothing.
    """
    size = storage.size_of(path)
    if size > limit:
        raise UserError(f"{path}: has {size:,} bytes; a file of this kind has at most {limit:,}")
    return storage.read_range(path, 0, size)


def read_json(path: str | os.PathLike, limit: int) -> dict[str, Any]:
    """Reads the object in a JSON file of limited size.

    Args:
        path: str or os.PathLike. Local or remote file.
        limit: int. Largest accepted size in bytes.

    Returns:
        dict. The JSON object.

    Raises:
        UserError: The file is larger than `limit`, is not valid JSON, or does not contain an object.
    """
    try:
        values = json.loads(read_whole(path, limit).decode("utf-8"))
    except UserError:  # UserError is a ValueError and would match the next clause.
        raise
    except (ValueError, RecursionError) as error:
        raise UserError(f"{path}: is no JSON ({type(error).__name__}: {str(error)[:100]}); fetch it again") from None
    if not isinstance(values, dict):
        raise UserError(f"{path}: holds a JSON {type(values).__name__}; expected an object of keys and values")
    return values
