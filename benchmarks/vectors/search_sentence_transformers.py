"""sentence-transformers' util.semantic_search, for the benchmark of large searches.

reference_answers runs this script in an environment with benchmarks/requirements-sentence-transformers.txt. The vectors
have length 1, so the score is dot_score, as the documentation of sentence-transformers advises.
"""

import numpy as np
import search_answers
import torch
from sentence_transformers import util

PACKAGES = ("sentence_transformers", "torch")


def make(request):
    """The search of a contender; see search_answers."""
    vectors = torch.from_numpy(np.load(request["vectors"]))

    def search(queries, top_k):
        found = util.semantic_search(torch.from_numpy(queries), vectors, top_k=top_k, score_function=util.dot_score)
        return [[result["corpus_id"] for result in results] for results in found]

    return search


answer = search_answers.answers_of_searches(make)
