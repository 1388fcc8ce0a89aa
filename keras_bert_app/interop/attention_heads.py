"""Attention tensors of Keras' MultiHeadAttention, which keep the heads on an axis of their own."""

from keras_bert_app.errors import UserError


def shape_with_heads(path, config):
    """The shape of query, key or value's kernel [H, N, D] or bias [N, D], of the output's kernel [N, D, H] or bias [H].

    Args:
        path: of one of our attention tensors, query, key and value apart. config: BertConfig.
    """
    hidden, heads = config.hidden_size, config.num_attention_heads
    split = (heads, hidden // heads)
    if path.endswith("/output/bias"):
        return (hidden,)
    if path.endswith("/output/kernel"):
        return (*split, hidden)
    return (hidden, *split) if path.endswith("/kernel") else split


def without_heads(name, path, array, config):
    """An array of shape_with_heads as ours, [H, H] or [H]; an array of something else than attention as it is.

    Raises:
        UserError: attention of another size than the configuration's; the heads cannot be told apart then.
    """
    if "/attention/" not in path:
        return array
    expected = shape_with_heads(path, config)
    if array.shape != expected:
        raise UserError(f"{name} does not fit the configuration: expected {list(expected)}, found {list(array.shape)}")
    return array.reshape((config.hidden_size,) * (2 if path.endswith("/kernel") else 1))


def with_heads(path, array, config):
    """The reverse of without_heads."""
    return array.reshape(shape_with_heads(path, config)) if "/attention/" in path else array
