"""Indexes of faiss that find most of the nearest vectors without a comparison with all of them: HNSW and IVF.

HNSW (Malkov and Yashunin 2016) walks a graph of near vectors. IVF compares the query with the vectors of the clusters
that are nearest to it. Both keep the vectors as float32 of length 1, and compare inner products, which are cosines.
"""

import os
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from keras_bert_app.errors import UserError
from keras_bert_app.vectors.static import exact_nearest
from pipelines import storage
from pipelines.processors import num_cores

# How many candidates HNSW keeps during a search (efSearch), and how many clusters IVF reads (nprobe).
DEFAULT_WIDTHS = {"hnsw": 128, "ivf": 32}
_WIDTHS_MEASURED = (1 / 4, 1, 4)  # times the default
_LINKS, _BUILD_WIDTH = 32, 200  # M and efConstruction of HNSW; hnswlib's efConstruction is 200, too
_CLUSTERS_PER_ROOT = 4  # clusters = 4 * sqrt(N), within the advice of faiss' wiki: 4 to 16
# faiss advises 39 to 256 training vectors for each cluster. More of them take more time and memory.
_LEAST_PER_CLUSTER, _MOST_PER_CLUSTER = 39, 64
_ROWS_AT_A_TIME = 4096
_SAMPLED_QUERIES, _RECALL_AT = 100, 10
_TIMED_EXACT = 3
_SAME_COSINE = 1e-6


def check_installed() -> None:
    """Checks that faiss is installed.

    Raises:
        UserError: it is not.
    """
    _faiss()


def _faiss():
    # The threads of OpenMP spin after each search by default, and take the cores from TensorFlow's threads.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    try:
        import faiss
    except ImportError:
        raise UserError(
            "the package faiss-cpu is not installed; pip install -r requirements-search.txt, or leave the index out: "
            "search --vectors is exact"
        ) from None
    faiss.omp_set_num_threads(num_cores())
    return faiss


def new_index(vectors: np.ndarray, kind: str) -> Any:
    """Makes an index without vectors. For IVF it finds the clusters in a sample of the vectors.

    Args:
        vectors: float or int8 [N, D], in a file or in memory. N is at least 1.
        kind: str. "hnsw" or "ivf".

    Returns:
        The index of faiss.

    Raises:
        UserError: a vector is not finite.
    """
    faiss, size = _faiss(), vectors.shape[1]
    if kind == "hnsw":
        index = faiss.IndexHNSWFlat(size, _LINKS, faiss.METRIC_INNER_PRODUCT)
        index.hnsw.efConstruction = _BUILD_WIDTH
        return index
    clusters = int(_CLUSTERS_PER_ROOT * len(vectors) ** 0.5)
    clusters = max(1, min(clusters, len(vectors) // _LEAST_PER_CLUSTER))
    index = faiss.IndexIVFFlat(faiss.IndexFlatIP(size), size, clusters, faiss.METRIC_INNER_PRODUCT)
    index.cp.spherical = True  # the centres have length 1, too
    index.cp.min_points_per_centroid = 1  # the smallest files have one cluster and fewer vectors than faiss likes
    index.train(exact_nearest.unit_rows(vectors, _sample(len(vectors), clusters * _MOST_PER_CLUSTER)))
    return index


def add(index: Any, vectors: np.ndarray, done: Callable[[int], None] = lambda rows: None) -> None:
    """Adds vectors to an index, in blocks.

    The index then needs 4 * N * D bytes of memory; HNSW needs about 270 * N more.

    Args:
        index: result of new_index.
        vectors: float or int8 [N, D], in a file or in memory.
        done: function of the number of vectors of a block, called after each block.

    Raises:
        UserError: a vector is not finite.
    """
    for start in range(0, len(vectors), _ROWS_AT_A_TIME):
        block = exact_nearest.unit_rows(vectors, slice(start, start + _ROWS_AT_A_TIME))
        index.add(block)
        done(len(block))


def save(index: Any, path: str) -> None:
    """Writes an index, whole or not at all.

    Args:
        index: index of faiss.
        path: str. A local file.

    Raises:
        UserError: the file cannot be written.
    """
    faiss = _faiss()
    with storage.whole_file(path) as file:
        try:
            faiss.write_index(index, file.name)  # faiss opens the temporary file itself
        except RuntimeError as error:
            raise UserError(f"{path}: cannot be written ({_reason(error)}); free some space, or name another") from None


class SearchIndex:
    """An index in a file, for searches, and as the vectors of check_vectors.

    Args:
        path: str. A local file that `index_vectors` wrote.

    Attributes:
        kind: str. "hnsw" or "ivf".
        shape: (N, D).
        width: int. See DEFAULT_WIDTHS. The caller may change it.

    Raises:
        UserError: the file is no such index.
    """

    def __init__(self, path: str):
        faiss = _faiss()
        if storage.is_remote(path):
            raise UserError(f"{path}: faiss reads local files only; copy the index to this machine")
        if not os.path.isfile(path):
            raise UserError(f"{path}: no such file; give an index that index_vectors wrote")
        try:
            index = faiss.read_index(path, faiss.IO_FLAG_MMAP_IFC)  # searches read the file when they need a part
        except RuntimeError as error:
            raise UserError(
                f"{path}: cannot be read as an index ({_reason(error)}); give one that index_vectors wrote"
            ) from None
        kinds = {faiss.IndexHNSWFlat: "hnsw", faiss.IndexIVFFlat: "ivf"}
        if type(index) not in kinds or index.metric_type != faiss.METRIC_INNER_PRODUCT:
            raise UserError(
                f"{path}: is a {type(index).__name__} of faiss; expected IndexHNSWFlat or IndexIVFFlat with inner "
                "products, as index_vectors writes them"
            )
        self._index, self.kind = index, kinds[type(index)]
        self.shape, self.dtype, self.width = (index.ntotal, index.d), np.dtype(np.float32), DEFAULT_WIDTHS[self.kind]
        self._finds_rows = self.kind == "hnsw"

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, rows: slice) -> np.ndarray:
        """float32 [B, D]: the vectors of some rows, of length 1."""
        if not self._finds_rows:
            self._index.make_direct_map()  # the place of each row in the lists of the clusters
            self._finds_rows = True
        start, stop, _ = rows.indices(len(self))
        return np.stack([self._index.reconstruct(row) for row in range(start, stop)])

    def search(self, queries: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
        """Finds near vectors. The arguments and the result are those of exact_nearest.nearest.

        If the width is too small to find k vectors, missing results are at the end: cosine -inf and row -1.
        """
        exact_nearest.check_queries(queries)
        k = min(k, len(self))
        if self.kind == "hnsw":
            self._index.hnsw.efSearch = max(self.width, k)
        else:
            self._index.nprobe = self.width
        cosines, rows = self._index.search(exact_nearest.unit_rows(queries, slice(None)), k)
        cosines[rows < 0] = -np.inf
        order = np.lexsort((rows, -cosines))  # of equal cosines, the first row
        return np.take_along_axis(cosines, order, axis=1), np.take_along_axis(rows, order, axis=1)


def measure(index: SearchIndex, vectors: np.ndarray) -> Iterator[str]:
    """Compares an index with the exact search, for vectors of some rows as queries. The rows themselves do not count.

    Args:
        index: SearchIndex.
        vectors: float or int8 [N, D]. The vectors of the index; N is at least 2.

    Yields:
        Lines of a table: for each width the recall@10 and the milliseconds a query. A result counts if its cosine is
        at least that of the exact search's last result, so that equal vectors are worth the same.
    """
    sampled = _sample(len(vectors), _SAMPLED_QUERIES)
    queries, k = exact_nearest.unit_rows(vectors, sampled), min(_RECALL_AT, len(vectors) - 1)
    expected = _without_own(*exact_nearest.nearest(queries, vectors, k + 1), sampled)
    started = time.perf_counter()
    for query in queries[:_TIMED_EXACT]:
        exact_nearest.nearest(query[None], vectors, k)
    exact = (time.perf_counter() - started) / len(queries[:_TIMED_EXACT])
    yield f"search_width  recall@{k:<4}  ms a query ({len(sampled)} rows as queries, one at a time)"
    for times in _WIDTHS_MEASURED:
        index.width = int(DEFAULT_WIDTHS[index.kind] * times)
        started = time.perf_counter()
        found = [index.search(query[None], k + 1) for query in queries]
        seconds = (time.perf_counter() - started) / len(queries)
        cosines, rows = (np.concatenate(part) for part in zip(*found, strict=True))
        hits = _without_own(cosines, rows, sampled) >= expected[:, -1:] - _SAME_COSINE
        yield f"{index.width:12,}  {hits.mean():11.4f}  {1000 * seconds:10.2f}"
    index.width = DEFAULT_WIDTHS[index.kind]
    yield f"{'exact':>12}  {1:11.4f}  {1000 * exact:10.2f}"


def _without_own(cosines, rows, sampled):
    """Returns the cosines [Q, k] of results [Q, k + 1] without the query's own row, or else without the last one."""
    is_own = rows == sampled[:, None]
    is_own[~is_own.any(axis=1), -1] = True
    return cosines[~is_own].reshape(len(cosines), -1)


def _sample(count, most):
    """Returns rows in ascending order, the same ones in each run."""
    if most >= count:
        return np.arange(count)
    return np.sort(np.random.default_rng(1).choice(count, most, replace=False))


def _reason(error):
    """Returns the end of a message of faiss, which begins with the place in its sources."""
    return str(error).strip().splitlines()[0].rpartition(": ")[2][:120]
