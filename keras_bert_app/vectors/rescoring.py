"""A second comparison of the nearest vectors of a compact file or an index, by vectors with all their digits."""

from collections.abc import Callable, Iterable

import numpy as np

from keras_bert_app.errors import UserError
from keras_bert_app.vectors import compact_vectors
from keras_bert_app.vectors.embedding import Embedder, embed_texts
from keras_bert_app.vectors.static.exact_nearest import exact_cosines
from keras_bert_app.vectors.text_sources import texts_at

_LEAST, _TIMES = 100, 4


def default_count(top_k: int) -> int:
    """How many of the nearest vectors to compare again for top_k results."""
    return max(_LEAST, _TIMES * top_k)


def rescored(
    queries: np.ndarray, rows: np.ndarray, vectors_at: Callable[[np.ndarray], np.ndarray], k: int
) -> tuple[np.ndarray, np.ndarray]:
    """Orders candidates by the cosines of other vectors. If cosines are equal, the first row wins.

    Args:
        queries: float32 [Q, D].
        rows: int64 [Q, C]. The candidates; -1 for none.
        vectors_at: function of rows int64 [M], ascending. Returns their vectors, float [M, D].
        k: int. The number of results for each query, at most C.

    Returns:
        (cosines float32 [Q, k], descending; rows int64 [Q, k]). Missing results are at the end: -inf and -1.

    Raises:
        UserError: a vector holds an infinite number or NaN.
    """
    k = min(k, rows.shape[1])
    best, kept = np.full((len(rows), k), -np.inf, np.float32), np.full((len(rows), k), -1, np.int64)
    for query, of_query in enumerate(rows):
        candidates = np.unique(of_query[of_query >= 0])
        cosines = exact_cosines(queries[query], _checked(compact_vectors.as_floats(vectors_at(candidates)), candidates))
        order = np.argsort(-cosines, kind="stable")[:k]
        best[query, : len(order)], kept[query, : len(order)] = cosines[order], candidates[order]
    return best, kept


def _checked(vectors, rows):
    finite = np.isfinite(vectors).all(axis=1)
    if not finite.all():
        number = rows[int(np.argmin(finite))] + 1
        raise UserError(f"vector {number:,} holds numbers that are not finite; embed the texts again")
    return vectors


def embedded_again(embed: Embedder, texts: Iterable[bytes], rows: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
    """Embeds candidates, for `rescored`. It reads the texts once.

    Args:
        embed: Embedder. The model.
        texts: iterable of bytes. All texts of the corpus.
        rows: int64 [Q, C]. The candidates of all queries; -1 for none.

    Returns:
        The function vectors_at for `rescored`.
    """
    wanted = np.unique(rows[rows >= 0])
    if not wanted.size:
        return lambda rows: np.zeros((0, 1), np.float32)
    found = texts_at(texts, wanted)
    vectors, _ = embed_texts(embed, [found[row] for row in wanted.tolist()])
    return lambda rows: vectors[np.searchsorted(wanted, rows)]
