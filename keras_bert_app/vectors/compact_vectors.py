"""Vectors in fewer bytes: float16, one byte (int8) or one bit (binary) for each number.

Search compares cosines, which do not depend on the length of a vector. So every int8 row has a scale of its own, which
nobody needs later: the file is a plain array of int8. A scale for each dimension would need all vectors before the
first row is written, and a second file.
"""

import re
from collections.abc import Sequence

import numpy as np

from keras_bert_app.errors import UserError

FLOAT32 = "float32"
DTYPES = (FLOAT32, "float16", "int8", "binary")
RESCORED = "binary rescored"  # the nearest by signs, compared again by float32
_MOST_INT8 = 127
_FLOAT16 = np.finfo(np.float16)
_BITS = re.compile(r"bits_(\d+)")


def row_type(dtype: str, size: int) -> np.dtype:
    """The type of a row in a file.

    Args:
        dtype: str. One of DTYPES.
        size: int. The numbers D of a vector.

    Returns:
        np.dtype. For binary it has one field, bits_D, of ceil(D / 8) bytes, so that the file remembers D.
    """
    if dtype == "binary":
        return np.dtype([(f"bits_{size}", "u1", (-(-size // 8),))])
    return np.dtype((np.dtype(dtype).newbyteorder("<"), (size,)))


def kinds_of(dtypes: Sequence[str]) -> list[str]:
    """The kinds of search to compare: one for each type, RESCORED after binary, FLOAT32 last.

    Args:
        dtypes: sequence of str. Types of DTYPES without FLOAT32.
    """
    return [kind for dtype in dtypes for kind in ([dtype, RESCORED] if dtype == "binary" else [dtype])] + [FLOAT32]


def packed(vectors: np.ndarray, dtype: str, first_text: int = 1) -> np.ndarray:
    """Makes the rows of a file.

    Args:
        vectors: float32 [B, D].
        dtype: str. One of DTYPES. int8 is round(127 * x / max |x|) for each row; binary has the bit 1 for x > 0, the
            first number in the highest bit of the first byte (np.packbits).
        first_text: int. The number of the first text, for messages.

    Returns:
        float32, float16 or int8 [B, D], or uint8 [B, ceil(D / 8)].

    Raises:
        UserError: a number is infinite or NaN, or float16 cannot hold it.
    """
    _check_finite(vectors, first_text)
    if dtype == "binary":
        return np.packbits(vectors > 0, axis=1)
    largest = np.abs(vectors).max(axis=1, keepdims=True, initial=0)
    if dtype == "int8":
        return np.rint(vectors / np.where(largest > 0, largest, 1) * _MOST_INT8).astype(np.int8)
    if dtype == "float16":
        # A row of which float16 keeps only subnormal numbers would lose its direction.
        bad = (largest > _FLOAT16.max) | (largest > 0) & (largest < _FLOAT16.smallest_normal)
        if bad.any():
            row = int(np.argmax(bad))
            raise UserError(
                f"the vector of text {first_text + row:,} has {largest[row, 0]:.3g} as its largest number; float16 "
                f"holds {_FLOAT16.smallest_normal:.3g} to {_FLOAT16.max:,.0f}; give --dtype=float32 or --dtype=int8, "
                "or export the model again with --normalize"
            )
    return vectors.astype(row_type(dtype, vectors.shape[1]).base)


def _check_finite(vectors, first_text):
    finite = np.isfinite(vectors).all(axis=1)
    if not finite.all():
        raise UserError(
            f"the model gives text {first_text + int(np.argmin(finite)):,} a vector with infinite numbers or NaN; take "
            "another model or layer"
        )


def dtype_of(vectors: np.ndarray) -> str:
    """The kind of the numbers of a file.

    Args:
        vectors: np.ndarray. The content of a .npy file.

    Returns:
        str. One of DTYPES, "float64", or "" if the array holds no vectors.
    """
    if vectors.ndim == 1 and vectors.dtype.names and len(vectors.dtype.names) == 1:
        match = _BITS.fullmatch(vectors.dtype.names[0])
        return "binary" if match and int(match[1]) and vectors.dtype == row_type("binary", int(match[1])) else ""
    is_plain = vectors.ndim == 2 and vectors.shape[1] and (vectors.dtype.kind == "f" or vectors.dtype == np.int8)
    return vectors.dtype.name if is_plain else ""


def size_of(vectors: np.ndarray) -> int:
    """The numbers D of each vector of a file.

    Args:
        vectors: np.ndarray. float or int8 [N, D], or the rows of a binary file [N].
    """
    return int(_BITS.fullmatch(vectors.dtype.names[0])[1]) if vectors.dtype.names else vectors.shape[1]


def bytes_of(rows: np.ndarray) -> np.ndarray:
    """The bytes of rows of a binary file.

    Args:
        rows: [B] of row_type("binary", D).

    Returns:
        uint8 [B, ceil(D / 8)].
    """
    return rows[rows.dtype.names[0]]


def as_floats(rows: np.ndarray) -> np.ndarray:
    """Restores numbers whose cosines approximate those of the vectors.

    Args:
        rows: float or int8 [B, D], or [B] of row_type("binary", D).

    Returns:
        float32 [B, D]. Bits become 1 and -1.
    """
    if rows.dtype.names:
        return np.unpackbits(bytes_of(rows), axis=1, count=size_of(rows)).astype(np.float32) * 2 - 1
    return np.asarray(rows, np.float32)
