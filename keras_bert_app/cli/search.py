"""Finds the texts of a corpus that are nearest to a query by the cosine of their vectors.

python -m keras_bert_app.cli.search --saved_model=saved_models/vectors --corpus_file=texts.txt "a query" "another"
python -m keras_bert_app.cli.search --saved_model=saved_models/vectors --corpus_file=texts.txt --vectors=texts.npy \\
    --query_file=- --output_format=jsonl

--vectors takes the file that `embed` wrote for the corpus, of any --dtype. Without it the command embeds the corpus
first. The search compares every text. --index takes a file of `index_vectors` instead, for a faster search that finds
most of the nearest texts. With --rerank, a run of finetune --task=rerank scores the nearest texts again, and its scores
decide their order.
"""

import functools
import itertools
import os
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from absl import flags

from keras_bert_app.cli.common import app, input_files
from keras_bert_app.errors import UserError, nearest
from keras_bert_app.vectors import text_sources
from pipelines import storage
from pipelines.text.text_files import ReaderCounts, open_text

flags.DEFINE_string("saved_model", "", "An export of embeddings, with or without its version number.")
flags.DEFINE_string("corpus_file", "", "File of texts, one a line or JSON lines, plain or .gz.")
_INPUT_FORMAT = flags.DEFINE_string("input_format", "auto", "Format of the corpus: auto (by the name), lines or jsonl.")
_TEXT_FIELD = flags.DEFINE_string("text_field", "text", "The field of JSON lines that holds the text.")
_VECTORS = flags.DEFINE_string("vectors", "", "The .npy file that embed wrote for the corpus.")
_INDEX = flags.DEFINE_string("index", "", "Instead of --vectors: the file that index_vectors wrote for the corpus.")
_SEARCH_WIDTH = flags.DEFINE_integer(
    "search_width", 0, "With --index: a larger width finds more, and takes longer. 0: 128 (hnsw) or 32 (ivf).", 0
)
_RESCORE_VECTORS = flags.DEFINE_string(
    "rescore_vectors",
    "",
    "A .npy file of floats by which the nearest texts of --vectors or --index are compared again.",
)
_RESCORE_COUNT = flags.DEFINE_integer(
    "rescore_count",
    0,
    "How many texts are compared again. Without --rescore_vectors they are embedded again. 0: none, or with "
    "--rescore_vectors four times the wanted texts (--rerank_count with --rerank, else --top_k), at least 100.",
    lower_bound=0,
)
_QUERY_FILE = flags.DEFINE_string("query_file", "", "File with one query a line; - for standard input.")
_TOP_K = flags.DEFINE_integer("top_k", 5, "How many texts are shown.", lower_bound=1)
_RERANK = flags.DEFINE_string("rerank", "", "A run of finetune --task=rerank, or its export, that orders the texts.")
_RERANK_COUNT = flags.DEFINE_integer(
    "rerank_count", 100, "How many of the nearest texts --rerank scores.", lower_bound=1
)
_OUTPUT_FORMAT = flags.DEFINE_string("output_format", "table", "table or jsonl.")
_FORMATS = ("table", "jsonl")
_QUERIES_AT_A_TIME = 256


def main(queries: list[str]) -> None:
    saved_model, corpus_file = app.required("saved_model", "corpus_file")
    _check_flags(queries, corpus_file)
    with app.quiet_start():
        from keras_bert_app.vectors import embedding, found_texts
        from keras_bert_app.vectors.rerankers import load_reranker
    reranker = load_reranker(_RERANK.value) if _RERANK.value else None
    embed = embedding.load_embedder(saved_model)
    embed, embed_query = (embedding.for_role(embed, role) for role in ("document", "query"))
    show = found_texts.json_line if _OUTPUT_FORMAT.value == "jsonl" else found_texts.table
    with tempfile.TemporaryDirectory() as directory:
        find, measure = _finder(embed, corpus_file, os.path.join(directory, "corpus.npy"))
        for batch in _batches(queries):
            query_vectors, truncated = embedding.embed_texts(embed_query, batch)
            cosines, rows = find(query_vectors, k=_num_wanted())
            texts = text_sources.texts_at(_corpus(corpus_file), rows.ravel())
            for query, query_cosines, query_rows in zip(batch, cosines.tolist(), rows.tolist(), strict=True):
                nearest_texts = [
                    found_texts.FoundText(row, cosine, texts[row])
                    for row, cosine in zip(query_rows, query_cosines, strict=True)
                    if row >= 0
                ]
                if reranker:
                    nearest_texts = found_texts.reranked(reranker, query, nearest_texts, _TOP_K.value)
                sys.stdout.write(show(query, nearest_texts, measure))
                sys.stdout.flush()
            if truncated.any():
                print(
                    f"{truncated.sum():,} queries had more tokens than the model reads; their ends were left out",
                    file=sys.stderr,
                )
            if missing := int((rows < 0).any(axis=1).sum()):
                print(
                    f"{missing:,} queries found fewer than {rows.shape[1]:,} texts; give a larger --search_width",
                    file=sys.stderr,
                )
    for line in reranker.remarks() if reranker else ():
        print(line, file=sys.stderr)


def _num_wanted():
    """How many texts the search by vectors finds for each query."""
    return _RERANK_COUNT.value if _RERANK.value else _TOP_K.value


def _check_flags(queries, corpus_file):
    if _OUTPUT_FORMAT.value not in _FORMATS:
        raise UserError(
            f"--output_format={_OUTPUT_FORMAT.value} is not known: {nearest(_OUTPUT_FORMAT.value, _FORMATS)}"
        )
    if bool(queries) == bool(_QUERY_FILE.value):
        raise UserError(
            "queries and --query_file were both given; give one of them"
            if queries
            else "no query was given; write it after the flags: search --saved_model=DIR --corpus_file=FILE "
            '"a query", or give --query_file=FILE (- for standard input)'
        )
    if _RERANK.value and _RERANK_COUNT.value < _TOP_K.value:
        raise UserError(
            f"--rerank_count={_RERANK_COUNT.value}: is less than --top_k={_TOP_K.value}, the texts to show; give "
            f"{_TOP_K.value} or more"
        )
    if flags.FLAGS["rerank_count"].present and not _RERANK.value:
        raise UserError(f"--rerank_count={_RERANK_COUNT.value}: has an effect only with --rerank; leave it out")
    _check_vector_flags()
    text_sources.format_of(corpus_file, _INPUT_FORMAT.value)
    for path in (corpus_file, _QUERY_FILE.value):
        # This reports a wrong name before TensorFlow loads. A pipe can be read only once, so it is not opened here.
        if path not in ("", "-") and not storage.is_remote(path) and not input_files.is_local_other(path):
            with open_text(path) as file:
                if path == _QUERY_FILE.value and not file.read(1):
                    raise UserError(f"--query_file={path}: has no query; write one a line")
    input_files.check_regular("corpus_file", corpus_file)


def _check_vector_flags():
    if _INDEX.value and _VECTORS.value:
        raise UserError("--index and --vectors were both given; give one of them, the index holds the vectors")
    if _SEARCH_WIDTH.value and not _INDEX.value:
        raise UserError(f"--search_width={_SEARCH_WIDTH.value} goes with --index; a search of --vectors is exact")
    if (_RESCORE_VECTORS.value or _RESCORE_COUNT.value) and not (_INDEX.value or _VECTORS.value):
        flag = "rescore_vectors" if _RESCORE_VECTORS.value else "rescore_count"
        raise UserError(f"--{flag} goes with --vectors or --index; without them all vectors are float32 already")
    if 0 < _RESCORE_COUNT.value < _num_wanted():
        flag = "rerank_count" if _RERANK.value else "top_k"
        raise UserError(
            f"--rescore_count={_RESCORE_COUNT.value} is below --{flag}={_num_wanted()}; give at least as many"
        )


def _corpus(corpus_file: str, counts: ReaderCounts | None = None) -> Iterator[bytes]:
    return text_sources.read_texts(corpus_file, _INPUT_FORMAT.value, _TEXT_FIELD.value, counts)


def _finder(embed: Any, corpus_file: str, temporary_file: str) -> tuple[Callable, str]:
    """Returns a function (query vectors, k) -> (cosines, rows) [Q, k], and the name of what it calls cosines."""
    from keras_bert_app.vectors import compact_vectors, rescoring
    from keras_bert_app.vectors.nearest import nearest as nearest_rows

    if _INDEX.value:
        find, measure = _index(embed, corpus_file).search, "cosine"
    else:
        vectors = _vectors(embed, corpus_file, temporary_file)
        find = functools.partial(nearest_rows, vectors=vectors)
        measure = "cosine_of_signs" if compact_vectors.dtype_of(vectors) == "binary" else "cosine"
    if not (_RESCORE_VECTORS.value or _RESCORE_COUNT.value):
        return find, measure
    floats = _checked_vectors(_RESCORE_VECTORS.value, embed, corpus_file) if _RESCORE_VECTORS.value else None

    def find_again(queries, k):
        _, rows = find(queries, k=_RESCORE_COUNT.value or rescoring.default_count(k))
        if floats is None:
            vectors_at = rescoring.embedded_again(embed, _corpus(corpus_file), rows)
        else:
            vectors_at = floats.__getitem__
        return rescoring.rescored(queries, rows, vectors_at, k)

    return find_again, "cosine"


def _index(embed: Any, corpus_file: str) -> Any:
    from keras_bert_app.vectors.approximate_index import SearchIndex
    from keras_bert_app.vectors.nearest import check_vectors

    index = SearchIndex(_INDEX.value)
    check_vectors(index, _corpus(corpus_file), embed, _INDEX.value)
    index.width = _SEARCH_WIDTH.value or index.width
    return index


def _checked_vectors(path: str, embed: Any, corpus_file: str, is_any: bool = False) -> Any:
    from keras_bert_app.vectors import vector_files
    from keras_bert_app.vectors.nearest import check_vectors

    vectors = vector_files.load_vectors(path, vector_files.ANY if is_any else vector_files.FLOATS)
    check_vectors(vectors, _corpus(corpus_file), embed, path)
    return vectors


def _vectors(embed: Any, corpus_file: str, temporary_file: str) -> Any:
    """Returns the vectors of --vectors. Without this flag it embeds the corpus.

    The new vectors go into a temporary file, since they may exceed the memory.
    """
    from keras_bert_app.terminal.progress import Progress
    from keras_bert_app.vectors import vector_files

    if _VECTORS.value:
        return _checked_vectors(_VECTORS.value, embed, corpus_file, is_any=True)
    counts = ReaderCounts()
    num_texts, work = text_sources.count_work(_corpus(corpus_file, counts))
    if not num_texts:
        raise UserError(f"{corpus_file}: has no text, not even an empty line; give a file with one text a line")
    progress = Progress("texts", num_texts, work, sys.stderr)
    written = vector_files.write_vectors(embed, _corpus(corpus_file), num_texts, temporary_file, done=progress.done)
    progress.end()
    for line in text_sources.remarks(counts, written.truncated):
        print(f"{corpus_file}: {line}", file=sys.stderr)
    return vector_files.load_vectors(temporary_file)


def _batches(queries: Sequence[str]) -> Iterator[list[bytes]]:
    """Yields lists of queries. Those of standard input come as soon as they arrive."""
    if queries:
        # Python passes arguments that are not UTF-8 as surrogates. fsencode restores the bytes.
        yield [os.fsencode(query) for query in queries]
        return
    if _QUERY_FILE.value == "-":
        arrivals = _arriving_lines(sys.stdin.buffer)
    else:
        arrivals = [text_sources.read_texts(_QUERY_FILE.value, "lines")]
    for lines in arrivals:
        lines = iter(lines)
        while batch := list(itertools.islice(lines, _QUERIES_AT_A_TIME)):
            yield batch


def _arriving_lines(stream):
    """Yields lists of whole lines. read1 does not wait for more than has arrived."""
    while data := stream.read1():
        data = data if data.endswith(b"\n") else data + stream.readline()
        yield [line.rstrip(b"\r") for line in data.removesuffix(b"\n").split(b"\n")]


if __name__ == "__main__":
    app.run(main, __doc__, is_listing=True, takes_arguments=True)
