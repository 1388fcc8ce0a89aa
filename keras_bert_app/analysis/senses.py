"""Senses of words: whether a word's vectors lie in clusters, what stands in each, and how far context moves them.

Two scores, for there are no senses to compare with: the silhouette of clusters (k-means of vectors of length 1,
cosine, as many of 2 to 5 as have the best one); and how often the nearest vector is of the same document, where a word
mostly has one sense (Gale, Church and Yarowsky 1992, One Sense Per Discourse). Self-similarity is that of Ethayarajh
2019, How Contextual are Contextualized Word Representations?: the mean cosine of a word's vectors, less that of words
at random.
"""

import collections

import numpy as np

from keras_bert_app.analysis import occurrences
from keras_bert_app.analysis.encoders import untrained
from keras_bert_app.analysis.findings import Findings, Table
from keras_bert_app.drawing.senses import draw_self_similarity, draw_senses, senses_page
from keras_bert_app.training.evaluation import wilson_interval

SUMMARY = "vectors of a word over a corpus: map, clusters, nearest contexts; how alike they are, by layer"
NEEDS = ("input_file", "words")
_MOST_CLUSTERS = 5
_FEWEST_OF_CLUSTER = 3  # two sentences alike are no sense
_NEAREST = 6
_FALLS = -0.8  # rank correlation with the layer from which on self-similarity is said to fall


def run(subject, options, log):
    """Findings; options.input_file, words, max_sentences, num_seeds, seed.

    Raises:
        UserError: a word is not there often enough.
    """
    words = tuple(dict.fromkeys(options.words))
    corpus = occurrences.find(subject, options.input_file, words, options.max_sentences, options.seed)
    log(f"senses: {', '.join(f'{word} {len(places)} times' for word, places in corpus.places.items())}; "
        f"{len(corpus.texts):,} sentences")
    trained = occurrences.vectors(subject, corpus, options.seed, log)
    others = [occurrences.vectors(untrained(subject, seed), corpus, options.seed, log)
              for seed in range(options.seed, options.seed + options.num_seeds)]
    log("senses: clusters")
    scores = {word: _scores(trained.words[word], corpus.documents[corpus.places[word][:, 0]]) for word in words}
    other_scores = {
        word: [_scores(other.words[word], corpus.documents[corpus.places[word][:, 0]]) for other in others]
        for word in words
    }
    clusters = {word: sense_clusters(trained.words[word][-1])[0] for word in words}
    described = {word: _described(corpus, word, clusters[word], trained.words[word][-1], others[0].words[word][-1],
                                  trained.words[word][0]) for word in words}
    name = f"{subject.name} encoder"
    tables = [_sense_table(words, scores, other_scores), _layer_table(words, scores, other_scores),
              _similarity_table(words, trained, others), _cluster_table(described)]
    similarity = {
        word:
        occurrences.mean_cosine(trained.words[word].sum(axis=1), trained.words[word].shape[1]) - trained.random_cosine
        for word in words
    }
    other = np.mean([one.all_words - one.random_cosine for one in others], axis=0)
    files = {
        "senses.html":
        senses_page(described, f"Senses: {', '.join(words)} ({name})"),
        "senses.png":
        draw_senses(
            described, f"Vectors of words in {len(corpus.texts):,} sentences: {name}\n"
            "t-SNE of cosines; the colours are the clusters of the trained last layer in all three"),
        "senses_layers.png":
        draw_self_similarity(
            {
                **similarity, f"all {trained.num_words:,} words": trained.all_words - trained.random_cosine
            }, other, f"How alike a word's vectors are in different sentences: {name}")
    }
    remarks = [
        f"Each silhouette is the best of 2 to {_MOST_CLUSTERS} clusters of {_FEWEST_OF_CLUSTER} vectors or more. At "
        "layer 0 a word's "
        "vectors differ by their position alone, and its clusters are those of position: read the silhouette beside "
        "the other score.",
        "Same document: of the occurrences whose document has another one, how often the nearest vector is of that "
        "document.",
        f"Untrained: {options.num_seeds} seeds. Self-similarity is less the mean cosine of words at random; all words: "
        f"{trained.num_words:,} that stand in five sentences or more.", *_said(words, scores, other_scores, trained),
        *([corpus.remark] if corpus.remark else [])
    ]
    values = {
        "scores": scores,
        "untrained": other_scores,
        "random_cosine": trained.random_cosine.tolist(),
        "all_words": trained.all_words.tolist(),
        "clusters": {
            word: labels.tolist()
            for word, labels in clusters.items()
        }
    }
    return Findings("senses", f"Senses of {', '.join(words)} in {options.input_file}", tables, remarks, files, values)


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
    for count in range(2, min(_MOST_CLUSTERS, num_distinct, len(vectors) // _FEWEST_OF_CLUSTER) + 1):
        labels = KMeans(count, n_init=4, random_state=0).fit_predict(vectors)
        sizes = np.bincount(labels, minlength=count)
        if sizes.min() < _FEWEST_OF_CLUSTER:
            continue
        score = float(silhouette_score(vectors, labels, metric="cosine"))
        if best[1] is None or score > best[1]:
            best = np.argsort(np.argsort(-sizes, kind="stable"))[labels], score
    return best


def same_document(vectors, documents):
    """(share whose nearest vector is of the same document; what chance gives; of how many). None, None, 0 where no
    document has two.

    Args:
        vectors: [n, H], of length 1. documents: int [n].
    """
    is_same = documents[:, None] == documents
    np.fill_diagonal(is_same, False)
    asked = is_same.any(axis=1)
    if not asked.any():
        return None, None, 0
    cosines = vectors @ vectors.T
    np.fill_diagonal(cosines, -np.inf)
    right = is_same[np.arange(len(vectors)), cosines.argmax(axis=1)]
    return float(right[asked].mean()), float(is_same[asked].mean() * len(vectors) / (len(vectors) - 1)), int(
        asked.sum())


def _scores(vectors, documents):
    """dict of both scores by layer; vectors [L + 1, n, H]."""
    same = [same_document(layer, documents) for layer in vectors]
    return {"occurrences": vectors.shape[1], "silhouette": [sense_clusters(layer)[1] for layer in vectors],
            "same_document": [share for share, _, _ in same], "chance": same[0][1], "asked": same[0][2]}


def _mean(values):
    values = [value for value in values if value is not None]
    return float(np.mean(values)) if values else None


def _sense_table(words, scores, other_scores):
    rows = []
    for word in words:
        own, others = scores[word], other_scores[word]
        rows.append((word, own["occurrences"], *(cell for name in ("silhouette", "same_document") for cell in (
            own[name][-1], own[name][0], _mean(other[name][-1] for other in others))), own["chance"], own["asked"]))
    return Table("Are senses apart? Last layer", ("word", "occurrences", "silhouette", "layer 0", "untrained",
                                                  "same document", "layer 0", "untrained", "chance", "of"), rows)


def _layer_table(words, scores, other_scores):
    rows = []
    for layer in range(len(scores[words[0]]["silhouette"])):
        rows.append((str(layer), *(cell for name in ("silhouette", "same_document") for cell in (
            _mean(scores[word][name][layer] for word in words),
            _mean(other[name][layer] for word in words for other in other_scores[word])))))
    return Table("By layer, mean of the words", ("layer", "silhouette", "untrained", "same document", "untrained"),
                 rows)


def _similarity_table(words, trained, others):
    def adjusted(found, word):
        return occurrences.mean_cosine(found.words[word].sum(axis=1), found.words[word].shape[1]) - found.random_cosine

    columns = [adjusted(trained, word) for word in words] + [trained.all_words - trained.random_cosine]
    columns += [np.mean([one.all_words - one.random_cosine for one in others], axis=0), trained.random_cosine,
                np.mean([one.random_cosine for one in others], axis=0)]
    return Table("Self-similarity, less that of words at random",
                 ("layer", *words, "all words", "untrained", "words at random", "untrained"),
                 [(str(layer), *map(float, row)) for layer, row in enumerate(zip(*columns))])


def _described(corpus, word, clusters, last, other, first):
    """dict of what the page and the pictures need of a word; last, other, first: its vectors [n, H]."""
    items, cosines = [], last @ last.T
    np.fill_diagonal(cosines, -np.inf)
    for number, (sentence, at) in enumerate(corpus.places[word]):
        text = corpus.texts[sentence]
        start, end = text.word_spans()[at]
        nearest = np.argsort(-cosines[number], kind="stable")[:_NEAREST]
        items.append({"before": text.text[:start], "word": text.text[start:end], "after": text.text[end:],
                      "cluster": int(clusters[number]), "document": int(corpus.documents[sentence]),
                      "nearest": [[int(place), round(float(cosines[number, place]), 3)] for place in nearest]})
    maps = {"trained, last layer": _plane(last), "untrained, last layer": _plane(other), "layer 0": _plane(first)}
    rows = [set(corpus.keys[sentence]) - {word.lower(), word} for sentence, _ in corpus.places[word]]
    typical = [
        _typical([row for row, label in zip(rows, clusters) if label == cluster],
                 [row for row, label in zip(rows, clusters) if label != cluster])
        for cluster in range(max(clusters) + 1)
    ]
    middles = []
    for cluster in range(max(clusters) + 1):
        members = np.flatnonzero(clusters == cluster)
        middles.append(int(members[np.argmax(last[members] @ last[members].sum(axis=0))]))
    return {"items": items, "maps": maps, "typical": typical, "middles": middles}


def _plane(vectors):
    """List of [x, y], t-SNE of the cosines."""
    from sklearn.manifold import TSNE

    if np.allclose(vectors, vectors[0], atol=1e-6):
        return np.zeros((len(vectors), 2)).tolist()
    made = TSNE(metric="cosine", init="random", perplexity=min(30.0, (len(vectors) - 1) / 3),
                random_state=0).fit_transform(vectors)
    return np.round(made, 2).tolist()


def _typical(inside, outside):
    """The words of letters whose share of the sentences inside is most above that outside; in two sentences at
    least."""
    counts, others = (collections.Counter(word for row in rows for word in row) for rows in (inside, outside))
    gains = {word: count / len(inside) - others[word] / max(len(outside), 1) for word, count in counts.items()
             if count > 1 and word.isalpha() and len(word) > 2}
    return sorted(gains, key=lambda word: (-gains[word], word))[:6]


def _cluster_table(described):
    rows = []
    for word, found in described.items():
        for cluster, (typical, middle) in enumerate(zip(found["typical"], found["middles"])):
            item = found["items"][middle]
            size = sum(one["cluster"] == cluster for one in found["items"])
            context = f"...{item['before'][-35:]}[{item['word']}]{item['after'][:35]}..."
            rows.append((word, str(cluster + 1), size, ", ".join(typical), context))
    return Table("Clusters of the trained last layer", ("word", "cluster", "size", "words around it", "its middle"),
                 rows)


def _said(words, scores, other_scores, trained):
    from scipy.stats import spearmanr

    lines = []
    for word in words:
        own, asked = scores[word]["same_document"], scores[word]["asked"]
        others = [other["same_document"][-1] for other in other_scores[word]]
        if own[-1] is None:
            continue
        low, high = wilson_interval(own[-1], asked)
        found = ("tells its uses apart" if low > max(*others, own[0])
                 else "does not tell its uses apart better than its baselines")
        lines.append(f"{word}: nearest of the same document {own[-1]:.2f} (95 % interval {low:.2f} to {high:.2f}), layer 0 "
                     f"{own[0]:.2f}, untrained at most {max(others):.2f}: context {found}.")
    adjusted = (trained.all_words - trained.random_cosine)[1:]
    if len(adjusted) > 2:
        order = spearmanr(np.arange(len(adjusted)), adjusted).statistic
        lines.append("Ethayarajh found upper layers to be more specific to context. Self-similarity of all words over "
                     f"the layers from 1 on: {', '.join(f'{value:.2f}' for value in adjusted)} "
                     f"(rank correlation {order:.2f}): "
                     + ("it shows." if order <= _FALLS else "it does not show."))
    return lines
