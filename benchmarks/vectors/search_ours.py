"""Our searches, for the benchmark of large searches. reference_answers runs this script.

A request has the key file: the vectors of this contender, or an index. A request with the key build writes an index.
"""

import os
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", ".."))
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import search_answers

from keras_bert_app.vectors import approximate_index, rescoring, vector_files
from keras_bert_app.vectors.nearest import nearest

PACKAGES = ("tensorflow", "numpy", "faiss-cpu")


def make(request):
    """The search of a contender; see search_answers."""
    if request["file"].endswith(".faiss"):
        index = approximate_index.SearchIndex(request["file"])
        return lambda queries, top_k: index.search(queries, top_k)[1]
    vectors = vector_files.load_vectors(request["file"], vector_files.ANY)
    if not request["contender"].endswith("rescored"):
        return lambda queries, top_k: nearest(queries, vectors, top_k)[1]
    floats = vector_files.load_vectors(request["vectors"])

    def search(queries, top_k):
        _, rows = nearest(queries, vectors, rescoring.default_count(top_k))
        return rescoring.rescored(queries, rows, floats.__getitem__, top_k)[1]

    return search


_search = search_answers.answers_of_searches(make)


def answer(request):
    """The answer to a request; see the module's docstring."""
    if "build" not in request:
        return _search(request)
    started = time.perf_counter()
    vectors = vector_files.load_vectors(request["vectors"])
    index = approximate_index.new_index(vectors, request["build"])
    approximate_index.add(index, vectors)
    approximate_index.save(index, request["file"])
    return {"seconds_to_build": time.perf_counter() - started}
