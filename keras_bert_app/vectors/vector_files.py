"""Files of vectors, written whole or not at all. Reading and writing need little memory."""

import io
import os
import typing
from collections.abc import Callable, Collection, Iterable

import numpy as np

from keras_bert_app.errors import UserError
from keras_bert_app.vectors import compact_vectors
from keras_bert_app.vectors.embedding import BATCH_SIZE, Embedder, embed_texts
from pipelines import storage

# The most texts that are sorted by length together, and their most bytes.
_POOL_TEXTS, _POOL_BYTES = 8192, 1 << 23
FLOATS = ("float16", "float32", "float64")
ANY = (*FLOATS, "int8", "binary")


class Counts(typing.NamedTuple):
    """The counts of a written file.

    Attributes:
        texts: int. The number of rows.
        size: int. The length of each vector.
        truncated: int. The number of texts that lost their end.
    """

    texts: int
    size: int
    truncated: int


def write_vectors(
    embed: Embedder,
    texts: Iterable[bytes],
    num_texts: int,
    output_file: str,
    batch_size: int = BATCH_SIZE,
    done: Callable[[int, float], None] = lambda texts, work: None,
    dtype: str = "float32",
) -> Counts:
    """Writes the vectors of texts, one row for each text, whole or not at all.

    Args:
        embed: Embedder. It makes the vectors.
        texts: iterable of bytes. The texts.
        num_texts: int. The number N of texts, at least 1.
        output_file: str. X.npy for an array, or X.tsv for a line of D numbers for each text.
        batch_size: int. The most texts of a batch.
        done: function of the texts and the work of a batch; see embed_texts.
        dtype: str. One of compact_vectors.DTYPES; X.tsv has float32 only.

    Returns:
        Counts.

    Raises:
        UserError: the number of texts is not num_texts, or the type cannot hold a vector.
    """
    written = size = num_truncated = 0
    with storage.whole_file(output_file) as file:
        for pool in _pools(texts):
            vectors, truncated = embed_texts(embed, pool, batch_size, done)
            if not written and output_file.endswith(".npy"):
                file.write(npy_header(num_texts, vectors.shape[1], dtype))
            rows = compact_vectors.packed(vectors, dtype, written + 1)
            file.write(rows.tobytes() if output_file.endswith(".npy") else _lines(rows))
            written, size = written + len(pool), vectors.shape[1]
            num_truncated += int(truncated.sum())
        if written != num_texts:
            raise UserError(
                f"there were {num_texts:,} texts when they were counted and {written:,} when they were read; "
                "embed the file when no program writes to it"
            )
    return Counts(written, size, num_truncated)


def write_in_type(vectors: np.ndarray, output_file: str, dtype: str) -> None:
    """Writes vectors in a smaller type, in blocks, whole or not at all.

    Args:
        vectors: float32 [N, D], in memory or in a file.
        output_file: str. X.npy.
        dtype: str. One of compact_vectors.DTYPES.

    Raises:
        UserError: the type cannot hold a vector.
    """
    with storage.whole_file(output_file) as file:
        file.write(npy_header(*vectors.shape, dtype))
        for start in range(0, len(vectors), _POOL_TEXTS):
            file.write(compact_vectors.packed(vectors[start : start + _POOL_TEXTS], dtype, start + 1).tobytes())


def load_vectors(path: str, dtypes: Collection[str] = FLOATS) -> np.ndarray:
    """Opens the vectors of a .npy file. The array reads parts of the file when they are needed.

    Args:
        path: str. A local .npy file.
        dtypes: collection of str. The types that the caller takes: FLOATS or ANY.

    Returns:
        np.ndarray of floats or int8 [N, D], or of rows of bits [N]; see compact_vectors.

    Raises:
        UserError: the file holds no such vectors.
    """
    try:
        if os.path.isdir(path):
            raise ValueError("a directory")
        vectors = np.load(path, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        raise UserError(
            f"{path}: cannot be read as vectors ({getattr(error, 'strerror', None) or error}); give a local "
            ".npy file that `embed` wrote"
        ) from None
    dtype = compact_vectors.dtype_of(vectors) if isinstance(vectors, np.ndarray) else ""
    if dtype not in dtypes or not len(vectors):
        content = f"{vectors.dtype} {list(vectors.shape)}" if isinstance(vectors, np.ndarray) else "several arrays"
        content = f"{dtype} vectors" if dtype and len(vectors) else content
        raise UserError(f"{path}: holds {content}; expected {_listed(dtypes)} [texts, size], as `embed` writes them")
    return vectors


def _listed(dtypes):
    return f"{', '.join(dtypes[:-1])} or {dtypes[-1]}" if len(dtypes) > 1 else dtypes[0]


def _pools(texts):
    pool, size = [], 0
    for text in texts:
        pool.append(text)
        size += len(text)
        if len(pool) == _POOL_TEXTS or size > _POOL_BYTES:
            yield pool
            pool, size = [], 0
    if pool:
        yield pool


def npy_header(num_rows: int, size: int, dtype: str) -> bytes:
    """The first bytes of a .npy file; the rows of compact_vectors.packed follow.

    Args:
        num_rows: int. The number of vectors.
        size: int. The numbers of a vector.
        dtype: str. One of compact_vectors.DTYPES.
    """
    row, header = compact_vectors.row_type(dtype, size), io.BytesIO()
    descr = np.lib.format.dtype_to_descr(row.base)
    shape = (num_rows, *row.shape)
    np.lib.format.write_array_header_1_0(header, {"descr": descr, "fortran_order": False, "shape": shape})
    return header.getvalue()


def _lines(vectors):
    line = "\t".join(["%.9g"] * vectors.shape[1]) + "\n"  # nine digits restore every float32
    return "".join(line % tuple(vector) for vector in vectors.tolist()).encode()
