"""faiss, called directly, for the benchmark of large searches. reference_answers runs this script.

The file of a request has vectors, for IndexFlatIP, or is an index.
"""

import faiss
import numpy as np
import search_answers

PACKAGES = ("faiss-cpu", "numpy")


def make(request):
    """The search of a contender; see search_answers."""
    if request["file"].endswith(".faiss"):
        index = faiss.read_index(request["file"])
        index.hnsw.efSearch = request["search_width"]
    else:
        vectors = np.load(request["file"])
        index = faiss.IndexFlatIP(vectors.shape[1])
        index.add(vectors)
    return lambda queries, top_k: index.search(queries, top_k)[1]


answer = search_answers.answers_of_searches(make)
