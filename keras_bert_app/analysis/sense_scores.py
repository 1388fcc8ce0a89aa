"""Whether the vectors of a word lie in clusters, and whether the nearest ones are of the same document."""

import dataclasses

import numpy as np

MOST_CLUSTERS = 5
FEWEST_OF_CLUSTER = 3  # two sentences alike are no sense


@dataclasses.dataclass(frozen=True)
class Scores:
    """Of one word at every layer, L + 1 of them.

    Attributes:
        clusters: int [L + 1, n], the largest first. silhouette, same_document: L + 1 floats, or None where there is none.
        chance: same_document's; of how many it is: asked.
    """

    clusters: np.ndarray
    silhouette: list
    same_document: list
    chance: float | None
    asked: int

    def as_json(self):
        return {
            "occurrences": self.clusters.shape[1],
            **{name: getattr(self, name) for name in ("silhouette", "same_document", "chance", "asked")},
        }


def scores(vectors, documents, contexts):
    """Scores of a word. Args: vectors: [L + 1, n, H], of length 1. documents, contexts: int [n], see same_document."""
    clusters = [sense_clusters(layer) for layer in vectors]
    same = [same_document(layer, documents, contexts) for layer in vectors]
    return Scores(
        np.stack([labels for labels, _ in clusters]),
        [score for _, score in clusters],
        [share for share, _, _ in same],
        *same[0][1:],
    )


def sense_clusters(vectors):
    """(int [n], clusters from 0, the largest first; their silhouette), (zeros, None) where no number of clusters is
    allowed.

    Args:
        vectors: [n, H], of length 1.
    """
    from sklearn.cluster import KMeans
    from sklearn.metrics import silhouette_score

    best = np.zeros(len(vectors), int), None
    num_distinct = len(np.unique(np.round(vectors, 5), axis=0))  # a sentence may be there twice
    for count in range(2, min(MOST_CLUSTERS, num_distinct, len(vectors) // FEWEST_OF_CLUSTER) + 1):
        labels = KMeans(count, n_init=4, random_state=0).fit_predict(vectors)
        sizes = np.bincount(labels, minlength=count)
        if sizes.min() < FEWEST_OF_CLUSTER:
            continue
        score = float(silhouette_score(vectors, labels, metric="cosine"))
        if best[1] is None or score > best[1]:
            best = np.argsort(np.argsort(-sizes, kind="stable"))[labels], score
    return best


def same_document(vectors, documents, contexts):
    """(share whose nearest vector of another context is of the same document; what chance gives; of how many). None, None, 0
    where no document has two contexts.

    Two occurrences in one sentence, or in a sentence that is there twice, are alike because of it: they are neither counted as
    of the same document nor can be the nearest.

    Args:
        vectors: [n, H], of length 1. documents: int [n]. contexts: int [n], the same number in sentences that are alike.
    """
    is_other = contexts[:, None] != contexts
    is_same = (documents[:, None] == documents) & is_other
    asked = is_same.any(axis=1)
    if not asked.any():
        return None, None, 0
    nearest = np.where(is_other, vectors @ vectors.T, -np.inf).argmax(axis=1)
    right = is_same[np.arange(len(vectors)), nearest]
    chance = is_same[asked].sum(axis=1) / is_other[asked].sum(axis=1)
    return float(right[asked].mean()), float(chance.mean()), int(asked.sum())
