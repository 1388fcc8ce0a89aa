"""Recall of vectors in fewer bytes: float16, int8 and binary, also rescored, against the exact search by float32.

python -m benchmarks.vectors.compact_recall --vectors=sentences.npy
python -m benchmarks.vectors.compact_recall --init_checkpoint=MINILM --text_file=sentences.txt --output_file=recall.json

The vectors are a float32 file of `embed`, or those of the lines of a text file. --num_queries of them, evenly spread
over the file, are the queries. The others are the corpus, in a file of each type, and the search reads these files.

A found vector counts for recall if its cosine is at least that of the exact result's last, less 1e-6. So it does not
matter which of two equal texts is found. "rescored" compares the nearest --rescore_count again by float32.
"""

import json
import os
import tempfile

import numpy as np
from absl import flags

from keras_bert_app.cli.common import app
from keras_bert_app.errors import UserError
from pipelines import storage

_VECTORS = flags.DEFINE_string("vectors", "", "X.npy of float32, written by `embed`.")
_SAVED_MODEL = flags.DEFINE_string("saved_model", "", "Instead of --vectors: an export of embeddings, for --text_file.")
_INIT_CHECKPOINT = flags.DEFINE_string("init_checkpoint", "", "Instead of --saved_model: a model.")
_TEXT_FILE = flags.DEFINE_string("text_file", "", "File of texts, one a line or JSON lines.")
_NUM_QUERIES = flags.DEFINE_integer("num_queries", 200, "Vectors that are queries.", lower_bound=1)
_TOP_K = flags.DEFINE_integer("top_k", 10, "Results of a query.", lower_bound=1)
_RESCORE_COUNT = flags.DEFINE_integer(
    "rescore_count", 0, "Vectors to compare again; 0: as many as `search` does.", lower_bound=0
)
_OUTPUT_FILE = flags.DEFINE_string("output_file", "", "JSON file for the figures.")
_SAME = 1e-6


def main(arguments):
    del arguments
    _check_flags()
    with app.quiet_start():
        from keras_bert_app.vectors import rescoring, vector_files
    vectors = vector_files.load_vectors(_VECTORS.value, ("float32",)) if _VECTORS.value else embedded()
    if len(vectors) < _NUM_QUERIES.value + _TOP_K.value:
        raise UserError(
            f"there are {len(vectors):,} vectors; expected at least {_NUM_QUERIES.value + _TOP_K.value:,}, "
            "--num_queries and --top_k together; give more texts or a smaller number"
        )
    is_query = np.zeros(len(vectors), bool)
    is_query[np.linspace(0, len(vectors) - 1, _NUM_QUERIES.value, dtype=int)] = True
    corpus = vectors[~is_query]
    count = min(_RESCORE_COUNT.value or rescoring.default_count(_TOP_K.value), len(corpus))
    rows = measured(vectors[is_query], corpus, count)
    print(f"\n{len(corpus):,} vectors of {vectors.shape[1]} numbers, {_NUM_QUERIES.value:,} other vectors as queries\n")
    print("\n".join(table(rows, count)))
    if _OUTPUT_FILE.value:
        storage.write_whole(_OUTPUT_FILE.value, json.dumps(rows, indent=1))


def _check_flags():
    models = [flag.name for flag in (_SAVED_MODEL, _INIT_CHECKPOINT) if flag.value]
    if bool(_VECTORS.value) == bool(models) or len(models) > 1:
        raise UserError("expected one of --vectors, --saved_model and --init_checkpoint; give exactly one")
    if bool(_TEXT_FILE.value) != bool(models):
        raise UserError("--text_file goes with --saved_model or --init_checkpoint; give both, or --vectors alone")
    if 0 < _RESCORE_COUNT.value < _TOP_K.value:
        raise UserError(f"--rescore_count={_RESCORE_COUNT.value}: expected at least --top_k={_TOP_K.value}")


def embedded() -> np.ndarray:
    """The vectors of the lines of --text_file, float32 [N, D]."""
    from keras_bert_app import load_embedder
    from keras_bert_app.vectors import text_sources

    texts = list(text_sources.read_texts(_TEXT_FILE.value))
    if not texts:
        raise UserError(f"{_TEXT_FILE.value}: has no text; give a file with one text a line")
    return load_embedder(_SAVED_MODEL.value or _INIT_CHECKPOINT.value, print).encode(texts, show_progress_bar=True)


def measured(queries: np.ndarray, corpus: np.ndarray, count: int) -> dict:
    """Searches the corpus in each type.

    Args:
        queries: float32 [Q, D].
        corpus: float32 [N, D].
        count: int. The vectors to compare again.

    Returns:
        dict. Type of the numbers -> dict of file_bytes, bytes_of_vector, recall and recall_rescored.
    """
    from keras_bert_app.vectors import compact_vectors, rescoring, vector_files
    from keras_bert_app.vectors.nearest import nearest

    least = nearest(queries, corpus, _TOP_K.value)[0][:, -1]
    rows = {}
    with tempfile.TemporaryDirectory() as directory:
        for dtype in compact_vectors.DTYPES:
            path = os.path.join(directory, f"{dtype}.npy")
            vector_files.write_in_type(corpus, path, dtype)
            stored = vector_files.load_vectors(path, vector_files.ANY)
            candidates = nearest(queries, stored, count)[1]
            again = rescoring.rescored(queries, candidates, corpus.__getitem__, _TOP_K.value)[1]
            rows[dtype] = {
                "file_bytes": os.path.getsize(path),
                "bytes_of_vector": stored.dtype.itemsize * int(np.prod(stored.shape[1:])),
                "recall": recall(queries, corpus, candidates[:, : _TOP_K.value], least),
                "recall_rescored": recall(queries, corpus, again, least),
            }
    return rows


def recall(queries: np.ndarray, corpus: np.ndarray, rows: np.ndarray, least: np.ndarray) -> float:
    """The share of found vectors that are as near as the exact result's last.

    Args:
        queries: float32 [Q, D].
        corpus: float32 [N, D].
        rows: int64 [Q, k]. The found vectors.
        least: float32 [Q]. The cosine of the exact result's last.
    """
    from keras_bert_app.vectors.static.exact_nearest import exact_cosines

    cosines = np.stack([exact_cosines(query, corpus[found]) for query, found in zip(queries, rows, strict=True)])
    return float((cosines >= least[:, None] - _SAME).mean())


def table(rows: dict, count: int):
    """Yields the table in Markdown.

    Args:
        rows: dict. Result of `measured`.
        count: int. The vectors that were compared again.
    """
    yield f"| type | bytes of a vector | file, bytes | recall@{_TOP_K.value} | with {count} rescored |"
    yield f"|{'---|' * 5}"
    for dtype, row in rows.items():
        yield (
            f"| `{dtype}` | {row['bytes_of_vector']:,} | {row['file_bytes']:,} | {row['recall']:.4f} | "
            f"{row['recall_rescored']:.4f} |"
        )


if __name__ == "__main__":
    app.run(main, __doc__)
