"""Files of vectors: written whole or not at all, in memory that does not grow with them, and read back."""

import contextlib
import io
import os
import typing

import numpy as np
import tensorflow as tf

from keras_bert_app.errors import UserError
from keras_bert_app.vectors.embedding import BATCH_SIZE, embed_texts

# Texts that are sorted by their lengths together.
_POOL_TEXTS, _POOL_BYTES = 8192, 1 << 23


class Counts(typing.NamedTuple):
    """texts: rows written. size: numbers of each. truncated: how many texts lost their ends."""

    texts: int
    size: int
    truncated: int


def write_vectors(embed, texts, num_texts, output_file, batch_size=BATCH_SIZE, done=lambda texts, work: None):
    """Writes the vectors of texts, row i of the i-th, whole or not at all.

    Args:
        embed: Embedder. texts: iterator over bytes. num_texts: N, 1 or more. output_file: X.npy,
            float32 [N, D], or X.tsv, a line of D numbers each. done: see embed_texts.

    Returns:
        Counts.

    Raises:
        UserError: there are not so many texts.
    """
    written = size = num_truncated = 0
    with written_whole(output_file) as file:
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
                "embed a file that nobody is writing to"
            )
    return Counts(written, size, num_truncated)


@contextlib.contextmanager
def written_whole(path):
    """Gives a file open for writing bytes, which gets its name when the block ends without an error."""
    temporary = f"{path}.writing"
    try:
        with tf.io.gfile.GFile(temporary, "wb") as file:
            yield file
        tf.io.gfile.rename(temporary, path, overwrite=True)
    except BaseException:
        if tf.io.gfile.exists(temporary):
            tf.io.gfile.remove(temporary)
        raise


def load_vectors(path):
    """float32 or other floating vectors [N, D] that lie in a .npy file, and are read from there as they are needed.

    Raises:
        UserError: it is not such a file.
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
        found = f"{vectors.dtype} {list(vectors.shape)}" if isinstance(vectors, np.ndarray) else "several arrays"
        raise UserError(f"{path}: holds {found}; expected floating numbers [texts, size], as `embed` writes them")
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
    line = "\t".join(["%.9g"] * vectors.shape[1]) + "\n"  # nine digits give every float32 back
    return "".join(line % tuple(vector) for vector in vectors.tolist()).encode()
