"""Files that the application reads: JSON objects, local or remote."""

import json

from keras_bert_app.errors import UserError


def read_json(path):
    """The JSON object in a file; local or anything tf.io.gfile opens.

    Raises:
        UserError: the file is missing or holds no JSON object.
    """
    try:
        if "://" in str(path):
            import tensorflow as tf

            with tf.io.gfile.GFile(str(path)) as file:
                values = json.loads(file.read())
        else:
            with open(path, encoding="utf-8") as file:
                values = json.load(file)
    except (OSError, UnicodeDecodeError, json.JSONDecodeError, RecursionError) as error:
        raise UserError(
            f"{path}: not a readable JSON file ({type(error).__name__}: {error}); expected a configuration object"
        ) from None
    if not isinstance(values, dict):
        raise UserError(f"{path}: holds a JSON {type(values).__name__}; expected an object of keys and values")
    return values
