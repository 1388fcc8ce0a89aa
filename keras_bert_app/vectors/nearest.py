"""The nearest of many vectors, exactly: every one is compared."""

import numpy as np
import tensorflow as tf

from keras_bert_app.errors import UserError

_BLOCK_BYTES = 1 << 25  # of vectors that are compared at a time
_SAMPLES = 8
_SAME = 0.99  # least cosine of a text's vector with its own from another batch or machine; other models' are far below


def nearest(queries, vectors, k):
    """The k vectors of greatest cosine for each query; of equal ones the first.

    Args:
        queries: float32 [Q, D]. vectors: [N, D], in memory or in a file; of any length. k: N where it is more.

    Returns:
        (cosines float32 [Q, k], descending; rows int64 [Q, k]). The cosine with a vector of zeros is 0.

    Raises:
        UserError: a number of the vectors is infinite or none at all.
    """
    k, size = min(k, len(vectors)), max(1, _BLOCK_BYTES // (4 * vectors.shape[1]))
    queries = _unit(queries)
    best, rows = np.zeros((len(queries), 0), np.float32), np.zeros((len(queries), 0), np.int64)
    for start in range(0, len(vectors), size):
        block = _unit(np.asarray(vectors[start : start + size], np.float32))
        if not np.isfinite(block).all():
            bad = start + int(np.argmin(np.isfinite(block).all(axis=1)))
            raise UserError(f"vector {bad + 1:,} holds numbers that are not finite; embed the texts again")
        # Those found before stand first, and top_k takes the first of equal ones.
        found = np.concatenate([best, queries @ block.T], axis=1)
        numbers = np.broadcast_to(np.arange(start, start + len(block)), (len(queries), len(block)))
        numbers = np.concatenate([rows, numbers], axis=1)
        values, places = tf.math.top_k(found, min(k, found.shape[1]))
        best, rows = values.numpy(), np.take_along_axis(numbers, places.numpy(), axis=1)
    return best, rows


def check_vectors(vectors, texts, embed, name):
    """Raises UserError where vectors are not those of these texts by this model, as far as a few of them tell.

    Args:
        vectors: [N, D]. texts: iterator over the texts. embed: embedding.Embedder. name: of the vectors.
    """
    samples = set(np.linspace(0, max(len(vectors) - 1, 0), _SAMPLES, dtype=int).tolist())
    count, taken = 0, {}
    for count, text in enumerate(texts, start=1):
        if count - 1 in samples:
            taken[count - 1] = text
    if count != len(vectors):
        raise UserError(f"{name}: has {len(vectors):,} vectors, and the corpus {count:,} texts; embed the corpus again")
    found, _ = embed(list(taken.values()))
    if found.shape[1] != vectors.shape[1]:
        raise UserError(
            f"{name}: has vectors of {vectors.shape[1]} numbers, and the model gives {found.shape[1]}; embed "
            "the corpus with this model"
        )
    for row, ours in zip(taken, found):
        theirs = np.asarray(vectors[row], np.float32)
        cosine = float(_unit(ours[None])[0] @ _unit(theirs[None])[0])
        if cosine < _SAME and ours.any():
            raise UserError(
                f"{name}: vector {row + 1:,} is not that of text {row + 1:,} (cosine {cosine:.3f}, expected 1); "
                "embed this corpus with this model"
            )


def _unit(vectors):
    norms = np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors / np.where(norms > 0, norms, 1)
