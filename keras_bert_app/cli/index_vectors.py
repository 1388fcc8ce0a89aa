"""Builds an index of vectors, with which `search --index` compares a query with few vectors of a large corpus.

python -m keras_bert_app.cli.index_vectors --vectors=texts.npy --output_file=texts.faiss
python -m keras_bert_app.cli.index_vectors --vectors=texts.npy --index=ivf --output_file=texts.faiss

--vectors takes a file that `embed` wrote. The command needs faiss (pip install -r requirements-search.txt). At the end
it compares the index with the exact search.
"""

import os
import sys

from absl import flags

from keras_bert_app.cli.common import app, output_files, written_places
from keras_bert_app.errors import UserError, nearest
from pipelines import storage

flags.DEFINE_string("vectors", "", "The .npy file that embed wrote: float32, float16 or int8.")
_INDEX = flags.DEFINE_string("index", "hnsw", "hnsw (a graph) or ivf (clusters, which take less time to build).")
flags.DEFINE_string("output_file", "", "File for the index, such as X.faiss.")
written_places.define_overwrite()
_KINDS = ("hnsw", "ivf")


def main(arguments: list[str]) -> None:
    del arguments
    path, output_file = app.required("vectors", "output_file")
    _check_flags(path, output_file)
    with app.quiet_start():
        from keras_bert_app.terminal.progress import Progress
        from keras_bert_app.vectors import approximate_index, compact_vectors, vector_files
    approximate_index.check_installed()
    vectors = vector_files.load_vectors(path, vector_files.ANY)
    if compact_vectors.dtype_of(vectors) == "binary":
        raise UserError(f"{path}: holds binary vectors, which have no index; embed with --dtype=float32 or int8")
    output_files.make_place_for(output_file, "output_file")
    index = _trained(vectors)
    progress = Progress("vectors", len(vectors), len(vectors), sys.stdout)
    approximate_index.add(index, vectors, lambda count: progress.done(count, count))
    rate = len(vectors) / progress.end()
    approximate_index.save(index, output_file)
    del index  # the measurement reads the file, as `search` does
    size = os.path.getsize(output_file)
    print(f"{output_file}: {len(vectors):,} vectors of {vectors.shape[1]} numbers, {size / 1e6:,.1f} MB, {rate:,.0f}/s")
    if len(vectors) > 1:
        for line in approximate_index.measure(approximate_index.SearchIndex(output_file), vectors):
            print(line, flush=True)


def _check_flags(path, output_file):
    if _INDEX.value not in _KINDS:
        raise UserError(f"--index={_INDEX.value} is not known: {nearest(_INDEX.value, _KINDS)}")
    if storage.is_remote(output_file):
        raise UserError(f"--output_file={output_file}: faiss writes local files only; give a path of this machine")
    if os.path.realpath(path) == os.path.realpath(output_file):
        raise UserError(f"--output_file={output_file}: is the file of --vectors; give another name")
    written_places.check_new([output_file], "output_file")


def _trained(vectors):
    """Returns an index without vectors. faiss gives no progress while it finds clusters, so a clock runs."""
    from keras_bert_app.terminal.durations import duration
    from keras_bert_app.terminal.progress import LiveLine, shown_while
    from keras_bert_app.vectors import approximate_index

    line = LiveLine(sys.stdout)
    with shown_while(lambda seconds: line.show(lambda: f"looking for clusters  {duration(seconds)}")):
        index = approximate_index.new_index(vectors, _INDEX.value)
    line.clear()
    return index


if __name__ == "__main__":
    app.run(main, __doc__, writes={"output_file": ""})
