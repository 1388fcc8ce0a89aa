"""Files of vectors, written whole or not at all. Reading and writing need little memory."""

import io
import os
import typing
from collections.abc import Callable, Iterable

import numpy as np

from keras_bert_app.errors import UserError
from keras_bert_app.vectors.embedding import BATCH_SIZE, Embedder, embed_texts
from pipelines import storage

# The most texts that are sorted by length together, and their most bytes.
_POOL_TEXTS, _POOL_BYTES = 8192, 1 << 23


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
) -> Counts:
    """Writes the vectors of texts, one row for each text, whole or not at all.

    Args:
        embed: Embedder. It makes the vectors.
        texts: iterable of bytes. The texts.
        num_texts: int. The number N of texts, at least 1.
        output_file: str. X.npy for float32 [N, D], or X.tsv for a line of D numbers for each text.
        batch_size: int. The most texts of a batch.
        done: function of the texts and the work of a batch; see embed_texts.

    Returns:
        Counts.

    Raises:
        UserError: the number of texts is not num_texts.
    """
    written = size = num_truncated = 0
    with storage.whole_file(output_file) as file:
        for pool in _pools(texts):
            vectors, truncated = embed_texts(embed, pool, batch_size, done)
            if not written and output_file.endswith(".npy"):
                file.write(_npy_header(num_texts, vectors.shape[1]))
            file.write(_rows(vectors, output_file))
            written, size = written + len(pool), vectors.shape[1]
            num_truncated += int(truncated.sum())
        if written != num_texts:
            raise UserError(
                f"there were {num_texts:,} texts when they were counted and {written:,} when they were read; "
                "embed the file when no program writes to it"
            )
    return Counts(written, size, num_truncated)


def load_vectors(path: str) -> np.ndarray:
    """Opens the vectors of a .npy file. The array reads parts of the file when they are needed.

    Args:
        path: str. A local .npy file.

    Returns:
        np.ndarray of floats [N, D]. Files of `embed` hold float32.

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
    if not isinstance(vectors, np.ndarray) or vectors.ndim != 2 or vectors.dtype.kind != "f":
        content = f"{vectors.dtype} {list(vectors.shape)}" if isinstance(vectors, np.ndarray) else "several arrays"
        raise UserError(f"{path}: holds {content}; expected floating numbers [texts, size], as `embed` writes them")
    return vectors


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


def _npy_header(num_rows, size):
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": "<f4", "fortran_order": False, "shape": (num_rows, size)})
    return header.getvalue()


def _rows(vectors, output_file):
    if output_file.endswith(".npy"):
        return vectors.astype("<f4").tobytes()
    line = "\t".join(["%.9g"] * vectors.shape[1]) + "\n"  # nine digits restore every float32
    return "".join(line % tuple(vector) for vector in vectors.tolist()).encode()
