"""Converts the texts of callers to tensors: strings, lists, arrays and pandas columns."""

from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from pipelines.data_error import DataError


def as_batch(texts: Any) -> tuple[tf.Tensor, bool]:
    """Makes a batch of texts.

    Args:
        texts: one str or bytes; an iterable of str or bytes, such as a list, a numpy array or a pandas column; or a
            string tensor. Half of a surrogate pair, which UTF-8 cannot hold, becomes "?".

    Returns:
        (string [B], whether it was one text and not a list of them).

    Raises:
        DataError: an item is not a text; the message names the item and its place.
    """
    tensor = texts if tf.is_tensor(texts) else tf.constant(_bytes_of(texts), tf.string)
    if tensor.dtype != tf.string or isinstance(tensor, tf.RaggedTensor) or (tensor.shape.rank or 0) > 1:
        raise DataError(
            f"texts are a tensor of {tensor.dtype.name} of shape {tensor.shape}; expected one string, or strings of "
            "shape [B]"
        )
    if tensor.shape.rank == 0:
        return tensor[None], True
    return tf.ensure_shape(tensor, [None]), False


def _bytes_of(texts):
    """Returns the bytes of one text, or a list with the bytes of each text."""
    if isinstance(texts, str | bytes):
        return _encoded(texts)
    # Iteration over a mapping or a data frame would give the names of its columns.
    if isinstance(texts, Mapping) or hasattr(texts, "columns"):
        raise DataError(f"texts are a {type(texts).__name__}; expected one of its columns, such as texts['text']")
    try:
        texts = list(texts)
    except TypeError:
        raise DataError(f"texts are {texts!r}; expected a string or a list of strings") from None
    for number, text in enumerate(texts):
        if not isinstance(text, str | bytes):
            raise DataError(
                f"text {number} is {_shown(text)}; expected a string; leave such rows out, or replace the value by ''"
            )
    return [_encoded(text) for text in texts]


def _shown(value):
    """Writes a value and its type in one short line."""
    text = " ".join(repr(value).split())
    return f"{text[:60]}{'...' if len(text) > 60 else ''} ({type(value).__name__})"


def _encoded(text):
    return text.encode("utf-8", "replace") if isinstance(text, str) else text
