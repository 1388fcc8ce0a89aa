"""The split of large requests into parts of a batch's size, and the join of their outputs."""

import numpy as np

from keras_bert_app.serving import work
from keras_bert_app.serving.request_errors import RequestError

# Outputs with these endings are places in a text. The exports pad them with -1, strings with "", numbers with 0.
_PLACES = ("starts", "ends")


def split(tokens: np.ndarray, most_rows: int, most_tokens: int) -> list[slice]:
    """Splits rows into parts of consecutive rows.

    Args:
        tokens: int64 [rows]. The tokens of each row.
        most_rows: int. The most rows of a part.
        most_tokens: int. The most tokens of a part. A single row may have more.

    Returns:
        list of slice, in order. Without rows it has one empty part.
    """
    slices, start, size = [], 0, 0
    for row, count in enumerate(tokens.tolist()):
        if row > start and (row - start == most_rows or size + count > most_tokens):
            slices.append(slice(start, row))
            start, size = row, 0
        size += count
    return [*slices, slice(start, len(tokens))]


def check_values(outputs: list[list[np.ndarray]], most: int) -> None:
    """Refuses parts whose joined outputs have too many values.

    Args:
        outputs: list of the outputs of each part.
        most: int. The most values of an answer.

    Raises:
        RequestError: there are more values.
    """
    values = 0
    for arrays in zip(*outputs, strict=True):
        rows = sum(len(array) if array.ndim else 1 for array in arrays)
        values += max([0, *(rows * (array[:1].size if array.ndim else 1) for array in arrays)])
    work.check_values(values, most)


def joined(signature, outputs: list[list[np.ndarray]], rows: int) -> list[np.ndarray]:
    """Joins the outputs of the parts along the batch axis. Shorter rows are padded as in a batch.

    Args:
        signature: Signature. The signature that ran.
        outputs: list of the outputs of each part.
        rows: int. The rows of all parts.

    Returns:
        list of np.ndarray in the order of signature.outputs.

    Raises:
        RequestError: an output has no batch axis.
    """
    if len(outputs) == 1:
        return outputs[0]
    columns = list(zip(*outputs, strict=True))
    if any(sum(len(array) if array.ndim else 0 for array in arrays) != rows for arrays in columns):
        raise RequestError(
            400,
            f"the request has {rows:,} rows, too many for a batch, and its outputs cannot be joined: send it in parts",
        )
    return [_join(spec.name, arrays) for spec, arrays in zip(signature.outputs, columns, strict=True)]


def _join(name, arrays):
    sizes = np.max([array.shape[1:] for array in arrays], axis=0).astype(int).tolist()
    padding = -1 if name.endswith(_PLACES) else b"" if arrays[0].dtype == object else 0
    whole = np.full([sum(map(len, arrays)), *sizes], padding, arrays[0].dtype)
    start = 0
    for array in arrays:
        whole[(slice(start, start + len(array)), *map(slice, array.shape[1:]))] = array
        start += len(array)
    return whole
