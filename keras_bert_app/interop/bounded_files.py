"""Files of strangers, read with a limit: local, or anything tf.io.gfile opens."""

import json
import os

from keras_bert_app.errors import UserError


def is_file(path):
    """Whether there is such a file."""
    if "://" in path:
        import tensorflow as tf

        return tf.io.gfile.exists(path) and not tf.io.gfile.isdir(path)
    return os.path.isfile(path)


def size_of(path):
    """The size of a file in bytes."""
    if "://" in path:
        import tensorflow as tf

        return tf.io.gfile.stat(path).length
    return os.path.getsize(path)


def read_range(path, offset, size):
    """At most `size` bytes from `offset` on."""
    if "://" in path:
        import tensorflow as tf

        with tf.io.gfile.GFile(path, "rb") as file:
            file.seek(offset)
            return file.read(size)
    with open(path, "rb") as file:
        file.seek(offset)
        return file.read(size)


def read_whole(path, limit):
    """The bytes of a file.

    Raises:
        UserError: it is larger than `limit` bytes; nothing has been read then.
    """
    size = size_of(path)
    if size > limit:
        raise UserError(f"{path}: has {size:,} bytes; a file of this kind has at most {limit:,}")
    return read_range(path, 0, size)


def read_json(path, limit):
    """The object in a JSON file.

    Raises:
        UserError: it is larger than `limit` bytes, no JSON, or no object.
    """
    try:
        values = json.loads(read_whole(path, limit).decode("utf-8"))
    except UserError:  # a ValueError too
        raise
    except (ValueError, RecursionError) as error:
        raise UserError(f"{path}: is no JSON ({type(error).__name__}: {str(error)[:100]}); fetch it again") from None
    if not isinstance(values, dict):
        raise UserError(f"{path}: holds a JSON {type(values).__name__}; expected an object of keys and values")
    return values
