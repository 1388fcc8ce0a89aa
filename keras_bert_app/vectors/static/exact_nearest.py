"""Exact search for the nearest of many vectors: it compares all of them."""

import numpy as np
import tensorflow as tf

from keras_bert_app.errors import UserError

_BLOCK_BYTES = 1 << 25  # bytes of the vectors that are compared at a time


def nearest(queries: np.ndarray, vectors: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
    """Finds the k vectors of greatest cosine for each query. If cosines are equal, the first row wins.

    Args:
        queries: float32 [Q, D].
        vectors: [N, D], in memory or in a file. The vectors may have any length.
        k: int. The number of vectors to find. If k is larger than N, it counts as N.

    Returns:
        (cosines float32 [Q, k], descending; rows int64 [Q, k]). The cosine with a vector of zeros is 0.

    Raises:
        UserError: a vector holds an infinite number or NaN.
    """
    k, size = min(k, len(vectors)), max(1, _BLOCK_BYTES // (4 * vectors.shape[1]))
    queries = unit(queries)
    best, rows = np.zeros((len(queries), 0), np.float32), np.zeros((len(queries), 0), np.int64)
    for start in range(0, len(vectors), size):
        block = unit(np.asarray(vectors[start : start + size], np.float32))
        if not np.isfinite(block).all():
            bad = start + int(np.argmin(np.isfinite(block).all(axis=1)))
            raise UserError(f"vector {bad + 1:,} holds numbers that are not finite; embed the texts again")
        # Earlier rows come first, because top_k takes the first of equal values.
        cosines = np.concatenate([best, queries @ block.T], axis=1)
        numbers = np.broadcast_to(np.arange(start, start + len(block)), (len(queries), len(block)))
        numbers = np.concatenate([rows, numbers], axis=1)
        values, places = tf.math.top_k(cosines, min(k, cosines.shape[1]))
        best, rows = values.numpy(), np.take_along_axis(numbers, places.numpy(), axis=1)
    return best, rows


def unit(vectors: np.ndarray) -> np.ndarray:
    """The vectors with length 1, float [N, D]. A vector of zeros stays as it is.

    Args:
        vectors: [N, D].
    """
    norms = np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors / np.where(norms > 0, norms, 1)
