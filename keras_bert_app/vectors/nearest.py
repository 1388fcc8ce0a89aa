"""Exact search for the nearest of many vectors: it compares all of them."""

from collections.abc import Callable, Iterable

import numpy as np
import tensorflow as tf

from keras_bert_app.errors import UserError

_BLOCK_BYTES = 1 << 25  # bytes of the vectors that are compared at a time
_SAMPLES = 8
# The least cosine of two vectors of one text from different batches or machines. Another model's cosine is far lower.
_SAME = 0.99


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
    queries = _unit(queries)
    best, rows = np.zeros((len(queries), 0), np.float32), np.zeros((len(queries), 0), np.int64)
    for start in range(0, len(vectors), size):
        block = _unit(np.asarray(vectors[start : start + size], np.float32))
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


def check_vectors(vectors: np.ndarray, texts: Iterable[bytes], embed: Callable, name: str) -> None:
    """Checks with a few samples that vectors belong to texts and to a model.

    Args:
        vectors: [N, D].
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
    prompts = getattr(embed, "prompts", None)  # not an Embedder: a function
    advice = "embed this corpus with this model" + (" and --prompt=document" if prompts and prompts.named else "")
    if embedded.shape[1] != vectors.shape[1]:
        raise UserError(
            f"{name}: has vectors of {vectors.shape[1]} numbers, and the model gives {embedded.shape[1]}; embed "
            "the corpus with this model"
        )
    for row, ours in zip(taken, embedded, strict=True):
        theirs = np.asarray(vectors[row], np.float32)
        cosine = float(_unit(ours[None])[0] @ _unit(theirs[None])[0])
        if cosine < _SAME and ours.any():
            raise UserError(
                f"{name}: vector {row + 1:,} is not that of text {row + 1:,} (cosine {cosine:.3f}, expected 1); "
                f"{advice}"
            )


def _unit(vectors):
    norms = np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors / np.where(norms > 0, norms, 1)
