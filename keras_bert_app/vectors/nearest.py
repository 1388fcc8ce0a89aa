"""Exact search for the nearest of many vectors: it compares all of them, in blocks."""

from collections.abc import Callable, Iterable

import numpy as np
import tensorflow as tf

from keras_bert_app.errors import UserError
from keras_bert_app.vectors import compact_vectors
from keras_bert_app.vectors.static import exact_nearest

_SAMPLES = 8
# The least cosine of two vectors of one text from different batches or machines. Another model's cosine is far lower.
_SAME = 0.99


def nearest(queries: np.ndarray, vectors: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
    """Finds the k vectors of greatest cosine for each query. If cosines are equal, the first row wins.

    The memory depends on the number of queries and on k, not on N.

    Args:
        queries: float32 [Q, D].
        vectors: float or int8 [N, D], or the rows of a binary file [N]; in memory or in a file. The vectors may have
            any length.
        k: int. The number of vectors to find. If k is larger than N, it counts as N.

    Returns:
        (cosines float32 [Q, k], descending; rows int64 [Q, k]). The cosine with a vector of zeros is 0. For a binary
        file the cosine is that of the signs of both vectors, 1 - 2 * (number of signs that differ) / D.

    Raises:
        UserError: a vector holds an infinite number or NaN.
    """
    if compact_vectors.dtype_of(vectors) == "binary":
        exact_nearest.check_queries(queries)
        return _nearest_bits(queries, vectors, min(k, len(vectors)))
    return exact_nearest.nearest(queries, vectors, k)


def _nearest_bits(queries, vectors, k):
    """The arguments and the result are those of `nearest`. Distances are whole numbers, so ties are exact."""
    size = compact_vectors.size_of(vectors)
    asked = _words(np.packbits(queries > 0, axis=1))
    best, rows = np.zeros((len(asked), 0), np.int32), np.zeros((len(asked), 0), np.int64)
    at_a_time = max(1, exact_nearest.BLOCK_BYTES // (8 * max(asked.shape)))
    for start in range(0, len(vectors), at_a_time):
        words = np.ascontiguousarray(_words(compact_vectors.bytes_of(vectors[start : start + at_a_time])).T)
        same = np.zeros((len(asked), words.shape[1]), np.int32)  # minus the number of signs that differ
        for query, of_query in zip(asked, same, strict=True):
            for word, of_block in zip(query, words, strict=True):
                of_query -= np.bitwise_count(of_block ^ word)
        values, places = (part.numpy() for part in tf.math.top_k(same, min(k, same.shape[1])))
        # Earlier rows come first, because top_k takes the first of equal values.
        both, numbers = np.append(best, values, axis=1), np.append(rows, start + places.astype(np.int64), axis=1)
        values, places = (part.numpy() for part in tf.math.top_k(both, min(k, both.shape[1])))
        best, rows = values, np.take_along_axis(numbers, places, axis=1)
    return (1 + 2 * best.astype(np.float64) / size).astype(np.float32), rows


def _words(rows):
    """uint8 [N, B] -> uint64 [N, ceil(B / 8)], which compares 64 signs at a time."""
    words = np.zeros((len(rows), -(-rows.shape[1] // 8) * 8), np.uint8)
    words[:, : rows.shape[1]] = rows
    return words.view(np.uint64)


def check_vectors(vectors: np.ndarray, texts: Iterable[bytes], embed: Callable, name: str) -> None:
    """Checks with a few samples that vectors belong to texts and to a model.

    Args:
        vectors: float or int8 [N, D], the rows of a binary file [N], or approximate_index.SearchIndex.
        texts: iterable of bytes. All texts of the corpus.
        embed: embedding.Embedder. The model.
        name: str. The name of the vectors in messages.

    Raises:
        UserError: the vectors belong to other texts or to another model.
    """
    samples = set(np.linspace(0, max(len(vectors) - 1, 0), _SAMPLES, dtype=int).tolist())
    count, taken = 0, {}
    for count, text in enumerate(texts, start=1):
        if count - 1 in samples:
            taken[count - 1] = text
    if count != len(vectors):
        raise UserError(
            f"{name}: has {len(vectors):,} vectors, but the corpus has {count:,} texts; embed the corpus again"
        )
    embedded, _ = embed(list(taken.values()))
    prompts = getattr(embed, "prompts", None)  # a plain function has none
    advice = "embed this corpus with this model" + (" and --prompt=document" if prompts and prompts.named else "")
    size = compact_vectors.size_of(vectors)
    if embedded.shape[1] != size:
        raise UserError(
            f"{name}: has vectors of {size} numbers, and the model gives {embedded.shape[1]}; embed "
            "the corpus with this model"
        )
    for row, ours in zip(taken, embedded, strict=True):
        cosine = _agreement(ours, vectors[row : row + 1])
        if cosine < _SAME and ours.any():
            raise UserError(
                f"{name}: vector {row + 1:,} is not that of text {row + 1:,} (cosine {cosine:.3f}, expected 1); "
                f"{advice}"
            )


def _agreement(ours, stored):
    """The cosine of a vector and a stored one [1, D]. For signs, numbers near 0 count less, since they may change."""
    theirs = compact_vectors.as_floats(stored)
    if stored.dtype.names:
        return float(theirs[0] @ ours) / max(float(np.abs(ours).sum()), 1e-30)
    return float(exact_nearest.exact_cosines(ours, theirs)[0])
