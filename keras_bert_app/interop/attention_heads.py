"""Converts attention tensors from and to the layout of Keras' MultiHeadAttention.

Keras' layout has a separate axis for the heads. Shapes: H is hidden_size, N is num_attention_heads, D is the size of
one head, H / N.
"""

from keras_bert_app.config.bert_config import BertConfig
from keras_bert_app.errors import UserError


def shape_with_heads(path: str, config: BertConfig) -> tuple[int, ...]:
    """Gives the shape of an attention tensor with a separate head axis.

    Args:
        path: str. Path of an attention tensor of this application. Query, key and value are separate.
        config: BertConfig. Configuration of the model.

    Returns:
        tuple. [H, N, D] for a kernel and [N, D] for a bias of query, key or value. [N, D, H] for the kernel and [H]
        for the bias of the output projection.
    """
    hidden, heads = config.hidden_size, config.num_attention_heads
    split = (heads, hidden // heads)
    if path.endswith("/output/bias"):
        return (hidden,)
    if path.endswith("/output/kernel"):
        return (*split, hidden)
    return (hidden, *split) if path.endswith("/kernel") else split


def without_heads(name: str, path: str, array, config: BertConfig):
    """Removes the separate head axis of an attention tensor. Returns any other tensor unchanged.

    Args:
        name: str. Name of the tensor in its file, for the error message.
        path: str. Path of the tensor in this application.
        array: array. An attention tensor has the shape that shape_with_heads gives.
        config: BertConfig. Configuration of the model.

    Returns:
        array. An attention kernel is [H, H], an attention bias is [H].

    Raises:
        UserError: The attention tensor has another shape than the configuration requires.
    """
    if "/attention/" not in path:
        return array
    expected = shape_with_heads(path, config)
    if array.shape != expected:
        raise UserError(f"{name} does not fit the configuration: expected {list(expected)}, found {list(array.shape)}")
    return array.reshape((config.hidden_size,) * (2 if path.endswith("/kernel") else 1))


def with_heads(path: str, array, config: BertConfig):
    """Adds the separate head axis to an attention tensor. Returns any other tensor unchanged.

    Args:
        path: str. Path of the tensor in this application.
        array: array. An attention kernel is [H, H], an attention bias is [H].
        config: BertConfig. Configuration of the model.

    Returns:
        array. An attention tensor has the shape that shape_with_heads gives.
    """
    return array.reshape(shape_with_heads(path, config)) if "/attention/" in path else array
