"""Exact search for the nearest of many vectors of numbers: it compares all of them, in blocks."""

import numpy as np
import tensorflow as tf

from keras_bert_app.errors import UserError

BLOCK_BYTES = 1 << 25  # bytes of the vectors that are compared at a time, and of their cosines
# The squares of numbers of other sizes overflow or vanish in float32.
_LEAST_SQUARE, _MOST_SQUARE = 1e-30, 1e30


def nearest(queries: np.ndarray, vectors: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
    """Finds the k vectors of greatest cosine for each query. If cosines are equal, the first row wins.

    The memory depends on the number of queries and on k, not on N.

    Args:
        queries: float32 [Q, D].
        vectors: float or int8 [N, D], in memory or in a file. The vectors may have any length.
        k: int. The number of vectors to find. If k is larger than N, it counts as N.

    Returns:
        (cosines float32 [Q, k], descending; rows int64 [Q, k]). The cosine with a vector of zeros is 0.

    Raises:
        UserError: a vector holds an infinite number or NaN.
    """
    check_queries(queries)
    k = min(k, len(vectors))
    units = unit_rows(queries, slice(None))
    # The error of a product in float32 is below (D + a few) * 2^-24. Rows within the error are compared exactly.
    margin = (units.shape[1] + 16) * 2.0**-23
    best, rows = np.full((len(units), k), -np.inf, np.float32), np.full((len(units), k), -1, np.int64)
    at_a_time = max(1, BLOCK_BYTES // (4 * max(units.shape)))
    for start in range(0, len(vectors), at_a_time):
        block, scaled, norms = _measured(vectors, slice(start, start + at_a_time))
        cosines = units @ scaled.T
        cosines /= norms
        kth = tf.math.top_k(cosines, min(k, len(block))).values.numpy()[:, -1]
        least = np.maximum(kth - 2 * margin, best[:, -1] - margin)
        for query in range(len(units)):
            places = np.flatnonzero(cosines[query] >= least[query])
            exact = exact_cosines(queries[query], block[places])
            # Earlier rows come first, and the sort is stable.
            values, numbers = np.append(best[query], exact), np.append(rows[query], start + places)
            order = np.argsort(-values, kind="stable")[:k]
            best[query], rows[query] = values[order], numbers[order]
    return best, rows


def check_queries(queries: np.ndarray) -> None:
    """Checks that the vectors of queries are finite.

    Args:
        queries: float32 [Q, D].

    Raises:
        UserError: a vector holds an infinite number or NaN.
    """
    finite = np.isfinite(queries).all(axis=1)
    if not finite.all():
        bad = int(np.argmin(finite))
        raise UserError(f"the vector of query {bad + 1:,} holds numbers that are not finite; take another model")


def exact_cosines(query: np.ndarray, vectors: np.ndarray) -> np.ndarray:
    """Cosines that depend on nothing but the two vectors.

    A matrix product gives equal rows different last digits, which depend on the place of a row in the matrix.

    Args:
        query: float [D].
        vectors: float32 [C, D].

    Returns:
        float32 [C]. The cosine with a vector of zeros is 0.
    """
    query, cosines = np.asarray(query, np.float64), np.empty(len(vectors), np.float32)
    at_a_time = max(1, BLOCK_BYTES // (8 * max(1, vectors.shape[1])))
    for start in range(0, len(vectors), at_a_time):
        rows = vectors[start : start + at_a_time].astype(np.float64)
        squares = (rows * rows).sum(axis=1) * (query * query).sum()
        cosines[start : start + at_a_time] = (rows * query).sum(axis=1) / np.sqrt(np.where(squares > 0, squares, 1))
    return cosines


def unit_rows(vectors: np.ndarray, rows: slice | np.ndarray) -> np.ndarray:
    """Some vectors with length 1; a vector of zeros stays as it is.

    Args:
        vectors: float or int8 [N, D], in memory or in a file.
        rows: slice or int [B].

    Returns:
        float32 [B, D].

    Raises:
        UserError: a vector holds an infinite number or NaN.
    """
    _, scaled, norms = _measured(vectors, rows)
    return scaled / norms[:, None]


def _measured(vectors, rows):
    """Returns float32 rows [B, D], the same scaled so that float32 can hold their squares, and their norms or 1."""
    with np.errstate(over="ignore", under="ignore"):  # a float64 may become infinite, which the check below names
        block = scaled = np.asarray(vectors[rows], np.float32)
        squares = np.einsum("nd,nd->n", block, block)
    odd = np.flatnonzero(~((squares > _LEAST_SQUARE) & (squares < _MOST_SQUARE)))
    if odd.size:
        finite = np.isfinite(block[odd]).all(axis=1)
        if not finite.all():
            numbers = range(*rows.indices(len(vectors))) if isinstance(rows, slice) else rows
            bad = numbers[odd[np.argmin(finite)]]
            raise UserError(f"vector {bad + 1:,} holds numbers that are not finite; embed the texts again")
        largest = np.abs(block[odd]).max(axis=1, keepdims=True)
        scaled = block.copy()
        scaled[odd] /= np.where(largest > 0, largest, 1)
        squares[odd] = np.einsum("nd,nd->n", scaled[odd], scaled[odd])
    return block, scaled, np.sqrt(np.where(squares > 0, squares, 1))
