"""The data about a word's occurrences for the page and the pictures of word_senses.

The data has the sentences of the occurrences, and a map for each layer.
"""

import numpy as np

from keras_bert_app.analysis.occurrences import Corpus
from keras_bert_app.drawing import planes

_NEAREST = 6


def described(
    corpus: Corpus, word: str, trained: np.ndarray, untrained: np.ndarray, clusters: np.ndarray
) -> dict[str, list | dict]:
    """Describes the occurrences of a word.

    Each layer of the encoder has a view with the clusters of that layer. One more view shows the untrained encoder's
    last layer in the colours of the trained last layer.

    Args:
        corpus: occurrences.Corpus.
        word: str.
        trained: float [L + 1, n, H], of length 1. The word's vectors in the encoder.
        untrained: float [L + 1, n, H], of length 1. The word's vectors in an encoder of random weights.
        clusters: int [L + 1, n]. The trained clusters of each layer.

    Returns:
        dict with items, a list of dicts (before, word, after, document), and views, a dict of view name -> dict.
    """
    items = []
    for sentence, at in corpus.places[word]:
        text = corpus.texts[sentence]
        start, end = text.word_spans()[at]
        items.append(
            {
                "before": text.text[:start],
                "word": text.text[start:end],
                "after": text.text[end:],
                "document": int(corpus.documents[sentence]),
            }
        )
    last = len(trained) - 1
    views = {
        layer_name(layer, last): _view(corpus, word, trained[layer], clusters[layer])
        for layer in reversed(range(last + 1))
    }
    return {
        "items": items,
        "views": {**views, "untrained, last layer": _view(corpus, word, untrained[last], clusters[last])},
    }


def layer_name(layer: int, last: int) -> str:
    """Names a layer in views.

    Args:
        layer: int. 0 is the embeddings.
        last: int. The number of the last layer.

    Returns:
        str.
    """
    return {0: "layer 0, the embeddings", last: f"layer {last}, the last"}.get(layer, f"layer {layer}")


def _view(corpus, word, vectors, clusters):
    """One map of the occurrences.

    Returns:
        dict with these keys:
        points: list of [x, y], one for each occurrence.
        clusters: list of int, one for each occurrence.
        nearest: list of lists of [occurrence, cosine], the nearest occurrences in other sentences.
        typical: list of lists of str, the words around each cluster.
        middles: list of int, the central occurrence of each cluster.
    """
    sentences = corpus.places[word][:, 0]
    contexts = corpus.contexts[sentences]
    cosines = np.where(contexts[:, None] != contexts, vectors @ vectors.T, -np.inf)
    nearest = [
        [
            [int(place), round(float(row[place]), 3)]
            for place in np.argsort(-row, kind="stable")[:_NEAREST]
            if np.isfinite(row[place])
        ]
        for row in cosines
    ]
    rows = [set(corpus.keys[sentence]) - {word.lower(), word} for sentence in sentences]
    typical, middles = planes.described_clusters(rows, vectors, clusters)
    return {
        "points": planes.t_sne(vectors),
        "clusters": clusters.tolist(),
        "nearest": nearest,
        "typical": typical,
        "middles": middles,
    }
