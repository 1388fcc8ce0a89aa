"""Distances between attention heads by the Jensen-Shannon divergence of their attention.

See Clark et al. 2019, What Does BERT Look At?, section 6.
"""

import numpy as np

_MOST_CLUSTERS = 8


class Distances:
    """The mean over tokens of the Jensen-Shannon divergence between every two heads, in nats (0 to ln 2).

    Clark et al. sum over the tokens of the data. A mean does not grow with the number of tokens.
    """

    def __init__(self):
        self.total, self.num_rows = 0.0, 0

    def add(self, attention: np.ndarray) -> None:
        """Adds the tokens of one sentence.

        Args:
            attention: [heads, S, S]. Each row is a distribution.
        """
        self.total = self.total + divergences(attention)
        self.num_rows += attention.shape[1]

    def matrix(self) -> np.ndarray:
        """Returns the mean divergences, float64 [heads, heads]."""
        return self.total / self.num_rows


def divergences(attention: np.ndarray) -> np.ndarray:
    """Computes JS(p, q) = H((p + q) / 2) - (H(p) + H(q)) / 2 for every two heads, summed over rows.

    Args:
        attention: [heads, rows, S]. Each row is a distribution.

    Returns:
        float64 [heads, heads], in nats.
    """
    flat = attention.reshape(len(attention), -1)
    negative_entropies = _sum_of_p_log_p(flat)
    upper_triangle = np.zeros((len(flat),) * 2)
    for head in range(len(flat) - 1):
        middle_entropies = -_sum_of_p_log_p((flat[head] + flat[head + 1 :]) / 2)
        upper_triangle[head, head + 1 :] = np.maximum(
            middle_entropies + (negative_entropies[head] + negative_entropies[head + 1 :]) / 2, 0
        )
    return upper_triangle + upper_triangle.T


def _sum_of_p_log_p(flat):
    return np.einsum("hp,hp->h", flat, np.log(np.maximum(flat, 1e-12))).astype(np.float64)


def head_clusters(distances: np.ndarray) -> np.ndarray:
    """Clusters heads by Ward's linkage, into the number of clusters (2 to 8) with the best silhouette.

    Ward's linkage needs distances between points. The square root of the divergence is a distance between points of a
    Hilbert space (Fuglede and Topsoe 2004).

    Args:
        distances: [heads, heads]. The matrix of Distances.

    Returns:
        int [heads]. The cluster of each head, from 0.
    """
    from scipy.cluster.hierarchy import fcluster, linkage
    from scipy.spatial.distance import squareform

    if len(distances) < 3:
        return np.zeros(len(distances), int)
    roots = np.sqrt(distances)
    tree = linkage(squareform(roots, checks=False), "ward")
    cuts = [fcluster(tree, count, "maxclust") - 1 for count in range(2, min(_MOST_CLUSTERS, len(distances) - 1) + 1)]
    return max(cuts, key=lambda clusters: silhouette(roots, clusters) or -1)


def silhouette(distances: np.ndarray, labels: np.ndarray) -> float | None:
    """Computes the mean silhouette of labels.

    Args:
        distances: [n, n].
        labels: int [n].

    Returns:
        float, -1 to 1, or None if there are fewer than 2 labels or as many labels as items.
    """
    from sklearn.metrics import silhouette_score

    if not 2 <= len(set(labels)) < len(labels):
        return None
    return float(silhouette_score(distances, labels, metric="precomputed"))
