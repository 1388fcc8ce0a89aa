"""faiss' own indexes, called directly, for the benchmark of large searches. reference_answers runs this script.

IndexHNSWFlat has the settings of our index, and gets all vectors in one call.
"""

import faiss
import numpy as np
import search_answers

PACKAGES = ("faiss-cpu", "numpy")


def make(request):
    """The search of a contender; see search_answers."""
    vectors = np.load(request["vectors"])
    if request["contender"] == "IndexFlatIP":
        index = faiss.IndexFlatIP(vectors.shape[1])
    else:
        index = faiss.IndexHNSWFlat(vectors.shape[1], request["links"], faiss.METRIC_INNER_PRODUCT)
        index.hnsw.efConstruction, index.hnsw.efSearch = request["build_width"], request["search_width"]
    index.add(vectors)
    return lambda queries, top_k: index.search(queries, top_k)[1]


answer = search_answers.answers_of_searches(make)
