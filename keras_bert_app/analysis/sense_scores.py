"""Scores of a word's vectors: the quality of their clusters, and their agreement with documents.

The second score is the share of occurrences whose nearest vector from another sentence has the same document.
"""

import dataclasses

import numpy as np

from keras_bert_app.analysis.sentence_bootstrap import share_interval

MOST_CLUSTERS = 5
FEWEST_OF_CLUSTER = 3  # two similar sentences are too few to show a sense of a word


@dataclasses.dataclass(frozen=True)
class Scores:
    """The scores of one word at L + 1 layers. The first layer is the embeddings.

    Attributes:
        clusters: int [L + 1, n]. The cluster of each occurrence, from 0 for the largest.
        silhouette: list of L + 1 floats. The entry of a layer without clusters is None.
        same_document: list of L + 1 floats. The share of occurrences whose nearest vector of another context has the
            same document. See right_documents. All entries are None if no occurrence counts.
        intervals: list of L + 1 (lower bound, upper bound) of same_document. The bootstrap draws documents. All entries
            are None if no occurrence counts.
        chance: float or None. The expected value of same_document if the nearest vector is drawn at random.
        asked: int. The number of occurrences that same_document counts.
    """

    clusters: np.ndarray
    silhouette: list
    same_document: list
    intervals: list
    chance: float | None
    asked: int

    def as_json(self) -> dict:
        """Returns a dict of the scores, without the clusters, that JSON can hold."""
        return {
            "occurrences": self.clusters.shape[1],
            **{name: getattr(self, name) for name in ("silhouette", "same_document", "intervals", "chance", "asked")},
        }


def scores(vectors: np.ndarray, documents: np.ndarray, contexts: np.ndarray) -> Scores:
    """Scores the vectors of one word.

    Args:
        vectors: float [L + 1, n, H], of length 1.
        documents: int [n]. The document of each occurrence.
        contexts: int [n]. The context of each occurrence, see right_documents.

    Returns:
        Scores.
    """
    clusters_by_layer = [sense_clusters(layer) for layer in vectors]
    right_by_layer = [right_documents(layer, documents, contexts) for layer in vectors]
    _, asked, chance = right_by_layer[0]
    num_asked = int(asked.sum())
    return Scores(
        np.stack([labels for labels, _ in clusters_by_layer]),
        [score for _, score in clusters_by_layer],
        [float(right[asked].mean()) if num_asked else None for right, _, _ in right_by_layer],
        [share_interval(right[asked], documents[asked]) if num_asked else None for right, _, _ in right_by_layer],
        chance,
        num_asked,
    )


def sense_clusters(vectors: np.ndarray) -> tuple[np.ndarray, float | None]:
    """Clusters vectors by k-means. The number of clusters is the one with the best silhouette.

    Args:
        vectors: float [n, H], of length 1.

    Returns:
        (int [n], float): the clusters, from 0 for the largest, and their silhouette. (zeros, None) if the vectors allow
        no clusters.
    """
    from sklearn.cluster import KMeans
    from sklearn.metrics import silhouette_score

    best = np.zeros(len(vectors), int), None
    num_distinct = len(np.unique(np.round(vectors, 5), axis=0))  # the corpus may repeat a sentence
    for count in range(2, min(MOST_CLUSTERS, num_distinct, len(vectors) // FEWEST_OF_CLUSTER) + 1):
        labels = KMeans(count, n_init=4, random_state=0).fit_predict(vectors)
        sizes = np.bincount(labels, minlength=count)
        if sizes.min() < FEWEST_OF_CLUSTER:
            continue
        score = float(silhouette_score(vectors, labels, metric="cosine"))
        if best[1] is None or score > best[1]:
            best = np.argsort(np.argsort(-sizes, kind="stable"))[labels], score
    return best


def right_documents(
    vectors: np.ndarray, documents: np.ndarray, contexts: np.ndarray
) -> tuple[np.ndarray, np.ndarray, float | None]:
    """Says for each occurrence whether the nearest vector of another context is of the same document.

    Two occurrences in one sentence, or in two equal sentences, are alike because of the sentence. The nearest vector
    therefore never comes from an equal sentence, and such a pair never counts as the same document.

    Args:
        vectors: float [n, H], of length 1.
        documents: int [n]. The document of each occurrence.
        contexts: int [n]. Occurrences in equal sentences have the same number.

    Returns:
        (bool [n], bool [n], float): whether the nearest vector is of the same document; whether the occurrence counts;
        the expected share if the nearest vector is drawn at random, or None if no occurrence counts. An occurrence
        counts if its document has another context.
    """
    is_other = contexts[:, None] != contexts
    is_same = (documents[:, None] == documents) & is_other
    asked = is_same.any(axis=1)
    if not asked.any():
        return np.zeros(len(vectors), bool), asked, None
    nearest = np.where(is_other, vectors @ vectors.T, -np.inf).argmax(axis=1)
    chance = is_same[asked].sum(axis=1) / is_other[asked].sum(axis=1)
    return is_same[np.arange(len(vectors)), nearest], asked, float(chance.mean())
