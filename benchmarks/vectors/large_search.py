"""Search over a million vectors: ours, faiss called directly, and sentence-transformers' semantic_search in one run.

python -m benchmarks.vectors.large_search --sentence_transformers_python=VECTORS_ENV/bin/python

The vectors are random, around centres of clusters, and have length 1. Vectors of texts may be easier for an index,
because they vary in fewer directions. Each contender runs in a process of its own, on all cores: first each query
alone, then all queries at a time. Files are in the system's cache. "memory" is the most that the process held beyond
its imports, and includes parts of files that the system can drop; "own" is the part that it cannot drop. A found vector
counts for recall if its cosine is at least that of the exact result's last.

"build hnsw" builds the index for the rows "ours hnsw" and "faiss the same index". --rows="build hnsw" does only this,
so that the searches can run later, when the machine has nothing else to do.

Results go to OUTPUT_DIR/large_search.json. If the file has a row already, the command does not measure it again. The
vectors stay in OUTPUT_DIR/vectors-*, and take 2.2 KB each with 384 numbers, and 1.8 KB more in the index.
"""

import contextlib
import os
import sys

import numpy as np
from absl import flags

from benchmarks.common.peer_process import PeerProcess
from benchmarks.common.report import in_words
from benchmarks.common.resumable import results_of
from benchmarks.common.this_machine import machine
from keras_bert_app.cli.common import app
from keras_bert_app.errors import UserError, nearest
from pipelines import storage

_NUM_VECTORS = flags.DEFINE_integer("num_vectors", 1_000_000, "Vectors that are searched.", lower_bound=100)
_SIZE = flags.DEFINE_integer("size", 384, "Numbers of a vector.", lower_bound=2)
_NUM_QUERIES = flags.DEFINE_integer("num_queries", 50, "Queries.", lower_bound=1)
_NUM_CLUSTERS = flags.DEFINE_integer("num_clusters", 1000, "Centres of the random vectors.", lower_bound=1)
_SEED = flags.DEFINE_integer("seed", 1, "Seed of the vectors.")
_TOP_K = flags.DEFINE_integer("top_k", 10, "Results of a query.", lower_bound=1)
_PYTHON = flags.DEFINE_string(
    "sentence_transformers_python",
    "",
    "Interpreter with sentence-transformers 6.2.0 and torch 2.13.0; without it no row.",
)
_OUTPUT_DIR = flags.DEFINE_string("output_dir", "runs/large_search", "Where vectors and results go.")
_ROWS_AT_A_TIME = 20_000
_NOISE = 0.8  # the cosine of two vectors of a cluster is 1 / (1 + 0.8^2) = 0.61 on average
_VERSIONS = {"sentence_transformers": "6.2.0", "torch": "2.13.0"}
_BUILD = "build hnsw"
_SEARCH_WIDTH = 128  # of both searches in the index; the default of approximate_index
# Row -> (script, file of its vectors or index). Scripts are in this folder.
_ROWS = {
    "ours float32": ("search_ours", "float32.npy"),
    "ours int8": ("search_ours", "int8.npy"),
    "ours binary": ("search_ours", "binary.npy"),
    "ours binary rescored": ("search_ours", "binary.npy"),
    _BUILD: ("search_ours", "hnsw.faiss"),
    "ours hnsw": ("search_ours", "hnsw.faiss"),
    "faiss IndexFlatIP": ("search_faiss", "float32.npy"),
    "faiss the same index": ("search_faiss", "hnsw.faiss"),
    "sentence-transformers semantic_search": ("search_sentence_transformers", "float32.npy"),
}
_WANTED = flags.DEFINE_list("rows", list(_ROWS), "Rows to measure.")


def main(arguments):
    del arguments
    with app.quiet_start():
        from keras_bert_app.vectors import approximate_index
    approximate_index.check_installed()
    if not _WANTED.value:
        raise UserError(f"--rows: is empty; give one or more of {', '.join(_ROWS)}")
    if unknown := next((row for row in _WANTED.value if row not in _ROWS), None):
        raise UserError(f"--rows: {unknown!r} is not known: {nearest(unknown, list(_ROWS))}")
    rows = [row for row in _WANTED.value if _PYTHON.value or not row.startswith("sentence")]
    settings = {flag.name: flag.value for flag in (_NUM_VECTORS, _SIZE, _NUM_QUERIES, _NUM_CLUSTERS, _SEED, _TOP_K)}
    directory = os.path.join(_OUTPUT_DIR.value, "vectors-" + "-".join(map(str, settings.values())))
    settings["machine"] = machine(("numpy", "tensorflow", "faiss-cpu"))
    path = os.path.join(_OUTPUT_DIR.value, "large_search.json")
    if not os.path.exists(os.path.join(directory, "queries.npy")):
        write_vectors(directory)
    least = least_cosines(directory)
    done = results_of(rows, lambda row: measured(row, directory, least), path, settings, _shown)
    print(f"\n{in_words(settings['machine'])}\n\n" + "\n".join(table(done)))


def write_vectors(directory: str) -> None:
    """Writes float32.npy, int8.npy, binary.npy and queries.npy.

    Args:
        directory: str. Folder of the files.
    """
    from keras_bert_app.vectors import compact_vectors
    from keras_bert_app.vectors.vector_files import npy_header

    storage.make_directories(directory)
    generator = np.random.default_rng(_SEED.value)
    centres = generator.normal(size=(_NUM_CLUSTERS.value, _SIZE.value)).astype(np.float32)

    def rows(count):
        made = _NOISE * generator.standard_normal((count, _SIZE.value), np.float32)
        made += centres[generator.integers(len(centres), size=count)]
        return made / np.linalg.norm(made, axis=1, keepdims=True)

    with contextlib.ExitStack() as stack:
        files = {
            dtype: stack.enter_context(storage.whole_file(os.path.join(directory, f"{dtype}.npy")))
            for dtype in ("float32", "int8", "binary")
        }
        for dtype, file in files.items():
            file.write(npy_header(_NUM_VECTORS.value, _SIZE.value, dtype))
        for start in range(0, _NUM_VECTORS.value, _ROWS_AT_A_TIME):
            block = rows(min(_ROWS_AT_A_TIME, _NUM_VECTORS.value - start))
            for dtype, file in files.items():
                file.write(compact_vectors.packed(block, dtype).tobytes())
    with storage.whole_file(os.path.join(directory, "queries.npy")) as file:  # the last one: the folder is complete
        np.save(file, rows(_NUM_QUERIES.value))


def least_cosines(directory: str) -> np.ndarray:
    """The cosine of the last of the top_k nearest vectors for each query, by numpy alone: float32 [Q].

    Args:
        directory: str. Folder of the vectors.
    """
    queries = np.load(os.path.join(directory, "queries.npy"))
    vectors = np.load(os.path.join(directory, "float32.npy"), mmap_mode="r")
    top_k = min(_TOP_K.value, len(vectors))
    best = np.full((len(queries), top_k), -np.inf, np.float32)
    for start in range(0, len(vectors), _ROWS_AT_A_TIME):
        cosines = np.concatenate([best, queries @ vectors[start : start + _ROWS_AT_A_TIME].T], axis=1)
        best = np.partition(cosines, -top_k, axis=1)[:, -top_k:]
    return best.min(axis=1)


def measured(row: str, directory: str, least: np.ndarray) -> dict:
    """Measures a contender in a process of its own.

    Args:
        row: str. A key of _ROWS.
        directory: str. Folder of the vectors.
        least: float32 [Q], from least_cosines.

    Returns:
        dict of milliseconds (median), milliseconds_in_batch, recall, seconds_to_ready, peak_bytes, own_bytes,
        file_bytes and versions. For _BUILD a dict of seconds_to_build.

    Raises:
        UserError: the row needs an index that no run has built.
    """
    script, file = _ROWS[row]
    path, vectors, queries = (os.path.join(directory, name) for name in (file, "float32.npy", "queries.npy"))
    request = {"contender": row.split()[-1], "file": path, "vectors": vectors, "queries": queries}
    request["search_width"] = _SEARCH_WIDTH
    if row == _BUILD:
        with _process(script) as peer:
            return peer.ask(build="hnsw", vectors=vectors, file=path)
    if not os.path.exists(path):
        raise UserError(f"{path}: there is no index; give --rows={_BUILD!r} before {row!r}")
    _read_once(path)
    with _process(script) as peer:
        answer, versions = peer.ask(top_k=_TOP_K.value, **request), peer.versions
    rows, known = np.array(answer.pop("rows")), np.load(vectors, mmap_mode="r")
    cosines = np.stack([known[of_query] @ query for of_query, query in zip(rows, np.load(queries), strict=True)])
    answer["milliseconds"] = float(np.median(answer["milliseconds"]))
    recall = float((cosines >= least[:, None] - 1e-6).mean())
    return {**answer, "recall": recall, "file_bytes": os.path.getsize(path), "versions": versions}


def _read_once(path):
    """Reads a file, so that the system's cache has it for every contender alike."""
    with open(path, "rb") as file:
        while file.read(1 << 24):
            pass


def _process(script):
    if script == "search_sentence_transformers":
        return PeerProcess(_PYTHON.value, f"vectors/{script}.py", "sentence_transformers_python", _VERSIONS)
    return PeerProcess(sys.executable, f"vectors/{script}.py", "python", {"faiss-cpu": "1.15.1"})


def _shown(result):
    if "seconds_to_build" in result:
        return f"{result['seconds_to_build']:,.0f} s"
    return f"{result['milliseconds']:,.2f} ms a query, recall {result['recall']:.4f}"


def table(done: dict):
    """Yields the table in Markdown.

    Args:
        done: dict. Row -> result of `measured`.
    """
    yield f"| search of {_NUM_VECTORS.value:,} vectors of {_SIZE.value} numbers | ms a query | ms in a batch of " + (
        f"{_NUM_QUERIES.value} | recall@{_TOP_K.value} | file MB | memory MB | own MB | ready after s |"
    )
    yield f"|{'---|' * 8}"
    for row, result in done.items():
        if row == _BUILD:
            continue
        sizes = (f"{result[name] / 1e6:,.0f}" for name in ("file_bytes", "peak_bytes", "own_bytes"))
        yield (
            f"| {row} | {result['milliseconds']:,.2f} | {result['milliseconds_in_batch']:,.2f} | "
            f"{result['recall']:.4f} | {' | '.join(sizes)} | {result['seconds_to_ready']:,.1f} |"
        )
    if _BUILD in done:
        yield f"\nThe index was built in {done[_BUILD]['seconds_to_build']:,.0f} s."


if __name__ == "__main__":
    app.run(main, __doc__)
