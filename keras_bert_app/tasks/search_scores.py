"""Scores of rankings, by the definitions of trec_eval.

A grade says how relevant a text is to a query: above 0 is relevant, 0 or less is not. Texts without a grade are not
relevant.
"""

import math
from collections.abc import Hashable, Mapping, Sequence

import numpy as np


def ndcg(ranking: Sequence[Hashable], grades: Mapping[Hashable, float], k: int) -> float:
    """The normalized discounted cumulative gain (Jarvelin and Kekalainen 2002): gain grade, discount log2(rank + 1).

    Args:
        ranking: names of texts, the best first.
        grades: dict name of a text -> grade. At least one grade is positive.
        k: only the first k texts count.
    """
    gains = [max(grades.get(name, 0), 0) for name in ranking[:k]]
    best = sorted((grade for grade in grades.values() if grade > 0), reverse=True)[:k]
    return _discounted(gains) / _discounted(best)


def _discounted(gains):
    return sum(gain / math.log2(rank + 1) for rank, gain in enumerate(gains, 1))


def reciprocal_rank(ranking: Sequence[Hashable], grades: Mapping[Hashable, float], k: int) -> float:
    """1 / rank of the first relevant text among the first k, or 0. The arguments are those of ndcg."""
    return next((1.0 / rank for rank, name in enumerate(ranking[:k], 1) if grades.get(name, 0) > 0), 0.0)


def recall(ranking: Sequence[Hashable], grades: Mapping[Hashable, float], k: int) -> float:
    """The share of the relevant texts that is among the first k. The arguments are those of ndcg."""
    relevant = {name for name, grade in grades.items() if grade > 0}
    return len(relevant.intersection(ranking[:k])) / len(relevant)


def average_precision(ranking: Sequence[Hashable], grades: Mapping[Hashable, float], k: int) -> float:
    """The mean, over the relevant texts, of the precision at their ranks among the first k; 0 for those beyond."""
    found = total = 0
    for rank, name in enumerate(ranking[:k], 1):
        if grades.get(name, 0) > 0:
            found += 1
            total += found / rank
    return total / sum(grade > 0 for grade in grades.values())


# Name of a score -> (function, k). The first one is the usual one of BEIR.
SCORES = {
    "ndcg@10": (ndcg, 10),
    "mrr@10": (reciprocal_rank, 10),
    "recall@10": (recall, 10),
    "recall@100": (recall, 100),
    "map@100": (average_precision, 100),
}
LONGEST = max(k for _, k in SCORES.values())


def of_queries(rankings: Mapping[str, Sequence[str]], judged: Mapping[str, Mapping[str, int]]) -> dict[str, np.ndarray]:
    """dict score -> float64 [Q], in the order of `judged`.

    Args:
        rankings: dict query -> ids of texts, the best first. A query without a ranking scores 0.
        judged: dict query -> dict id -> grade. Each query has a positive grade.
    """
    return {
        name: np.array([score(rankings.get(query, ()), grades, k) for query, grades in judged.items()])
        for name, (score, k) in SCORES.items()
    }
