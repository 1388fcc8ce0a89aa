"""Distances between attention heads: the Jensen-Shannon divergence of what they attend to (Clark et al. 2019, section
6)."""

import numpy as np

_MOST_CLUSTERS = 8


class Distances:
    """The mean over tokens of the Jensen-Shannon divergence between each two heads, in nats (0 to ln 2).

    Clark et al. sum over the tokens of the data; a mean does not grow with it.
    """

    def __init__(self):
        self.total, self.num_rows = 0.0, 0

    def add(self, attention):
        """Takes the tokens of a sentence: [heads, S, S]."""
        self.total = self.total + divergences(attention)
        self.num_rows += attention.shape[1]

    def matrix(self):
        """float64 [heads, heads]."""
        return self.total / self.num_rows


def divergences(attention):
    """float64 [heads, heads]: sums over rows of JS(p, q) = H((p + q) / 2) - (H(p) + H(q)) / 2.

    Args:
        attention: [heads, rows, S], each row a distribution.
    """
    flat = attention.reshape(len(attention), -1)
    negative_entropies = _sum_of_p_log_p(flat)
    found = np.zeros((len(flat),) * 2)
    for head in range(len(flat) - 1):
        middles = -_sum_of_p_log_p((flat[head] + flat[head + 1 :]) / 2)
        found[head, head + 1 :] = np.maximum(
            middles + (negative_entropies[head] + negative_entropies[head + 1 :]) / 2, 0
        )
    return found + found.T


def _sum_of_p_log_p(flat):
    return np.einsum("hp,hp->h", flat, np.log(np.maximum(flat, 1e-12))).astype(np.float64)


def head_clusters(distances):
    """int [heads]: clusters from 0 by Ward's linkage, as many (2 to 8) as have the best silhouette.

    The root of the divergence is a distance between points of a Hilbert space (Fuglede and Topsoe 2004), as Ward's
    asks for.

    Args:
        distances: [heads, heads], as Distances.matrix.
    """
    from scipy.cluster.hierarchy import fcluster, linkage
    from scipy.spatial.distance import squareform

    if len(distances) < 3:
        return np.zeros(len(distances), int)
    roots = np.sqrt(distances)
    tree = linkage(squareform(roots, checks=False), "ward")
    cuts = [fcluster(tree, count, "maxclust") - 1 for count in range(2, min(_MOST_CLUSTERS, len(distances) - 1) + 1)]
    return max(cuts, key=lambda clusters: silhouette(roots, clusters) or -1)


def silhouette(distances, labels):
    """The mean silhouette of labels, -1 to 1; None where there are not 2 labels at least, and fewer than things."""
    from sklearn.metrics import silhouette_score

    if not 2 <= len(set(labels)) < len(labels):
        return None
    return float(silhouette_score(distances, labels, metric="precomputed"))
