"""Maps of vectors in the plane: places of the points, colours of clusters, and typical words of a cluster."""

import collections
from collections.abc import Collection, Sequence

import numpy as np

# Colours of Paul Tol's schemes for colour-blind readers, and a grey.
COLORS = ("#4477aa", "#cc3311", "#228833", "#ccbb44", "#aa3377", "#66ccee", "#ee7733", "#7f7f7f")
_MOST_TYPICAL = 6
_PERPLEXITY = 30.0  # scikit-learn's default; less for few points


def t_sne(vectors: np.ndarray, init: str = "random") -> list[list[float]]:
    """Places vectors in the plane by t-SNE of their cosines (van der Maaten and Hinton 2008).

    Args:
        vectors: float [N, D].
        init: str. "random", or "pca", which keeps more of the large distances (Kobak and Berens 2019).

    Returns:
        list of N [x, y].
    """
    from sklearn.manifold import TSNE
    from threadpoolctl import threadpool_limits  # comes with scikit-learn

    if np.allclose(vectors, vectors[0], atol=1e-6):
        return np.zeros((len(vectors), 2)).tolist()
    perplexity = min(_PERPLEXITY, (len(vectors) - 1) / 3)
    if min(vectors.shape) < 2:
        init = "random"  # a plane of principal components needs two numbers in each vector
    # The threads wait for each other at every step: two of them took three times as long as one on two busy cores.
    with threadpool_limits(1):
        plane = TSNE(metric="cosine", init=init, perplexity=perplexity, random_state=0).fit_transform(vectors)
    return np.round(plane, 2).tolist()


def principal_plane(vectors: np.ndarray) -> list[list[float]]:
    """Places vectors in the plane of their first two principal components.

    Args:
        vectors: float [N, D]. N is 2 or more.

    Returns:
        list of N [x, y].
    """
    from sklearn.decomposition import PCA

    places = np.zeros((len(vectors), 2))
    if not np.allclose(vectors, vectors[0], atol=1e-6):
        found = PCA(min(2, vectors.shape[1]), random_state=0).fit_transform(vectors)
        places[:, : found.shape[1]] = found
    return np.round(places, 4).tolist()


def described_clusters(
    words: Sequence[Collection[str]], vectors: np.ndarray, clusters: np.ndarray
) -> tuple[list[list[str]], list[int]]:
    """Describes clusters of texts by their typical words and their central text.

    Args:
        words: N collections of str. The different words of each text.
        vectors: float [N, D], of length 1.
        clusters: int [N]. The cluster of each text, from 0.

    Returns:
        (typical, middles): the typical words of each cluster, at most six; the row of its central text.
    """
    typical, middles = [], []
    for cluster in range(max(clusters) + 1):
        inside, outside = (
            [row for row, label in zip(words, clusters, strict=True) if (label == cluster) == is_inside]
            for is_inside in (True, False)
        )
        typical.append(typical_words(inside, outside))
        members = np.flatnonzero(clusters == cluster)
        middles.append(int(members[np.argmax(vectors[members] @ vectors[members].sum(axis=0))]))
    return typical, middles


def typical_words(inside: Sequence[Collection[str]], outside: Sequence[Collection[str]]) -> list[str]:
    """Finds the words that are most typical of the texts of a cluster.

    A word is typical if the share of texts with the word is much larger inside the cluster than outside.
    Only words of three letters or more count. They must occur in at least two texts of the cluster.

    Args:
        inside: collections of str. The different words of each text of the cluster.
        outside: the same of all other texts.

    Returns:
        list of at most six str, the most typical word first.
    """
    counts, others = (collections.Counter(word for row in rows for word in row) for rows in (inside, outside))
    gains = {
        word: count / len(inside) - others[word] / max(len(outside), 1)
        for word, count in counts.items()
        if count > 1 and word.isalpha() and len(word) > 2
    }
    return sorted(gains, key=lambda word: (-gains[word], word))[:_MOST_TYPICAL]
