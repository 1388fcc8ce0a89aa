"""A word's occurrences as the page and the pictures show them: their sentences, and a map of them at every layer."""

import collections

import numpy as np

_NEAREST = 6


def described(corpus, word, trained, untrained, clusters):
    """dict: items, a list of before, word, after, document; views: dict name -> _view.

    There is a view of each layer of the encoder with that layer's clusters, and one of the untrained encoder's last layer in the
    colours of the trained last layer.

    Args:
        trained, untrained: the word's vectors [L + 1, n, H], of length 1. clusters: int [L + 1, n].
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


def layer_name(layer, last):
    return {0: "layer 0, the embeddings", last: f"layer {last}, the last"}.get(layer, f"layer {layer}")


def _view(corpus, word, vectors, clusters):
    """dict: points [x, y]; clusters, the number of each; nearest, for each a list of (occurrence, cosine) in other sentences;
    typical, words around each cluster; middles, the occurrence in the middle of each."""
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
    typical, middles = [], []
    for cluster in range(max(clusters) + 1):
        typical.append(
            _typical(
                [row for row, label in zip(rows, clusters) if label == cluster],
                [row for row, label in zip(rows, clusters) if label != cluster],
            )
        )
        members = np.flatnonzero(clusters == cluster)
        middles.append(int(members[np.argmax(vectors[members] @ vectors[members].sum(axis=0))]))
    return {
        "points": _plane(vectors),
        "clusters": clusters.tolist(),
        "nearest": nearest,
        "typical": typical,
        "middles": middles,
    }


def _plane(vectors):
    """List of [x, y], t-SNE of the cosines."""
    from sklearn.manifold import TSNE

    if np.allclose(vectors, vectors[0], atol=1e-6):
        return np.zeros((len(vectors), 2)).tolist()
    made = TSNE(
        metric="cosine", init="random", perplexity=min(30.0, (len(vectors) - 1) / 3), random_state=0
    ).fit_transform(vectors)
    return np.round(made, 2).tolist()


def _typical(inside, outside):
    """The words of letters whose share of the sentences inside is most above that outside; in two sentences at
    least."""
    counts, others = (collections.Counter(word for row in rows for word in row) for rows in (inside, outside))
    gains = {
        word: count / len(inside) - others[word] / max(len(outside), 1)
        for word, count in counts.items()
        if count > 1 and word.isalpha() and len(word) > 2
    }
    return sorted(gains, key=lambda word: (-gains[word], word))[:6]
