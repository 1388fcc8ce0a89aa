"""Senses of words: whether a word's vectors lie in clusters, what stands in each, and how far context moves them.

Two scores, for there are no senses to compare with: the silhouette of clusters (k-means of vectors of length 1,
cosine, as many of 2 to 5 as have the best one); and how often the nearest vector is of the same document, where a word
mostly has one sense (Gale, Church and Yarowsky 1992, One Sense Per Discourse). Self-similarity is that of Ethayarajh
2019, How Contextual are Contextualized Word Representations?: the mean cosine of a word's vectors, less that of words
at random.
"""

import numpy as np

from keras_bert_app.analysis import occurrences, sense_maps, sense_scores
from keras_bert_app.analysis.encoders import require_layers, untrained
from keras_bert_app.analysis.findings import Findings, Table
from keras_bert_app.drawing.sense_pictures import draw_self_similarity, draw_senses, senses_page
from keras_bert_app.terminal.progress import reported
from keras_bert_app.training.evaluation import wilson_interval

SUMMARY = "vectors of a word over a corpus: map, clusters, nearest contexts; how alike they are, by layer"
NEEDS = ("input_file", "words")
_SCORES = ("silhouette", "same_document")
_FALLS = -0.8  # rank correlation with the layer from which on self-similarity is said to fall


def run(subject, options, log):
    """Findings; options.input_file, words, max_sentences, num_seeds, seed.

    Raises:
        UserError: a word is not there often enough, or can be nowhere.
    """
    require_layers(subject.config)
    words = tuple(dict.fromkeys(options.words))
    corpus = occurrences.find(subject, options.input_file, words, options.most_sentences(), options.seed)
    log(
        f"senses: {', '.join(f'{word} {len(places)} times' for word, places in corpus.places.items())}; "
        f"{len(corpus.texts):,} sentences"
    )
    trained = occurrences.vectors(subject, corpus, options.seed, log)
    others = [
        occurrences.vectors(untrained(subject, seed), corpus, options.seed, log)
        for seed in range(options.seed, options.seed + options.num_seeds)
    ]
    log("senses: clusters")
    scores, other_scores = {}, {}
    for word in words:
        sentences = corpus.places[word][:, 0]
        groups = corpus.documents[sentences], corpus.contexts[sentences]
        scores[word] = sense_scores.scores(trained.words[word], *groups)
        other_scores[word] = [sense_scores.scores(other.words[word], *groups) for other in others]
    described = {
        word: sense_maps.described(corpus, word, trained.words[word], others[0].words[word], scores[word].clusters)
        for word in reported(words, len(words), "words drawn at every layer", log)
    }
    name = f"{subject.name} encoder"
    similarity = {word: _similarity(corpus, trained, word) for word in words}
    tables = [
        _sense_table(words, scores, other_scores),
        _layer_table(words, scores, other_scores),
        _similarity_table(similarity, trained, others),
        _cluster_table(described),
    ]
    other = np.mean([one.all_words - one.random_cosine for one in others], axis=0)
    files = {
        "senses.html": senses_page(described, f"Senses: {', '.join(words)} ({name})"),
        "senses.png": draw_senses(
            _in_one_colour(described),
            f"Vectors of words in {len(corpus.texts):,} sentences: {name}\n"
            "t-SNE of cosines; the colours are the clusters of the trained last layer in all three",
        ),
        "senses_layers.png": draw_self_similarity(
            {**similarity, f"all {trained.num_words:,} words": trained.all_words - trained.random_cosine},
            other,
            f"How alike a word's vectors are in different sentences: {name}",
        ),
    }
    remarks = [
        f"Each silhouette is the best of 2 to {sense_scores.MOST_CLUSTERS} clusters of {sense_scores.FEWEST_OF_CLUSTER} vectors or "
        "more. At layer 0 a word's "
        "vectors differ by their position alone, and its clusters are those of position: read the silhouette beside "
        "the other score.",
        "Same document: of the occurrences whose document has another one in another sentence, how often the nearest vector of "
        "another sentence is of that document. Sentences that are there twice count as one.",
        f"Untrained: {options.num_seeds} seeds. Self-similarity is that of different sentences, less the mean cosine of words at "
        f"random; all words: {trained.num_words:,} that stand in five sentences or more.",
        *_said(words, scores, other_scores, trained),
        *corpus.remarks,
    ]
    values = {
        "scores": {word: one.as_json() for word, one in scores.items()},
        "untrained": {word: [one.as_json() for one in several] for word, several in other_scores.items()},
        "random_cosine": trained.random_cosine.tolist(),
        "all_words": [None if np.isnan(value) else value for value in trained.all_words.tolist()],
        "similarity": {word: one.tolist() for word, one in similarity.items()},
        "clusters": {word: one.clusters[-1].tolist() for word, one in scores.items()},
    }
    return Findings("senses", f"Senses of {', '.join(words)} in {options.input_file}", tables, remarks, files, values)


def _similarity(corpus, found, word):
    """float [L + 1]: the mean cosine of a word's vectors in different sentences, less that of words at random."""
    contexts = corpus.contexts[corpus.places[word][:, 0]]
    return occurrences.mean_cosine_apart(found.words[word], contexts) - found.random_cosine


def _in_one_colour(described):
    """dict word -> what draw_senses takes: three maps in the clusters of the trained last layer."""
    result = {}
    for word, found in described.items():
        last, *_, first, other = found["views"].values()
        result[word] = {
            "clusters": last["clusters"],
            "typical": last["typical"],
            "maps": {
                "trained, last layer": last["points"],
                "untrained, last layer": other["points"],
                "layer 0": first["points"],
            },
        }
    return result


def _mean(values):
    values = [value for value in values if value is not None]
    return float(np.mean(values)) if values else None


def _sense_table(words, scores, other_scores):
    rows = []
    for word in words:
        own, others = scores[word], other_scores[word]
        rows.append(
            (
                word,
                own.clusters.shape[1],
                *(
                    cell
                    for name in _SCORES
                    for cell in (
                        getattr(own, name)[-1],
                        getattr(own, name)[0],
                        _mean(getattr(other, name)[-1] for other in others),
                    )
                ),
                own.chance,
                own.asked,
            )
        )
    return Table(
        "Are senses apart? Last layer",
        (
            "word",
            "occurrences",
            "silhouette",
            "layer 0",
            "untrained",
            "same document",
            "layer 0",
            "untrained",
            "chance",
            "of",
        ),
        rows,
    )


def _layer_table(words, scores, other_scores):
    rows = []
    for layer in range(len(scores[words[0]].silhouette)):
        rows.append(
            (
                str(layer),
                *(
                    cell
                    for name in _SCORES
                    for cell in (
                        _mean(getattr(scores[word], name)[layer] for word in words),
                        _mean(getattr(other, name)[layer] for word in words for other in other_scores[word]),
                    )
                ),
            )
        )
    return Table(
        "By layer, mean of the words", ("layer", "silhouette", "untrained", "same document", "untrained"), rows
    )


def _similarity_table(similarity, trained, others):
    """Args: similarity: dict word -> float [L + 1]."""
    columns = [*similarity.values(), trained.all_words - trained.random_cosine]
    columns += [
        np.mean([one.all_words - one.random_cosine for one in others], axis=0),
        trained.random_cosine,
        np.mean([one.random_cosine for one in others], axis=0),
    ]
    return Table(
        "Self-similarity, less that of words at random",
        ("layer", *similarity, "all words", "untrained", "words at random", "untrained"),
        [
            (str(layer), *(None if np.isnan(value) else float(value) for value in row))
            for layer, row in enumerate(zip(*columns))
        ],
    )


def _cluster_table(described):
    rows = []
    for word, found in described.items():
        last = next(iter(found["views"].values()))
        for cluster, (typical, middle) in enumerate(zip(last["typical"], last["middles"])):
            item, size = found["items"][middle], last["clusters"].count(cluster)
            context = f"...{item['before'][-35:]}[{item['word']}]{item['after'][:35]}..."
            rows.append((word, str(cluster + 1), size, ", ".join(typical), context))
    return Table(
        "Clusters of the trained last layer", ("word", "cluster", "size", "words around it", "its middle"), rows
    )


def _said(words, scores, other_scores, trained):
    from scipy.stats import spearmanr

    lines = []
    for word in words:
        own, asked = scores[word].same_document, scores[word].asked
        others = [other.same_document[-1] for other in other_scores[word]]
        if own[-1] is None:
            continue
        low, high = wilson_interval(own[-1], asked)
        found = (
            "tells its uses apart"
            if low > max(*others, own[0])
            else "does not tell its uses apart better than its baselines"
        )
        lines.append(
            f"{word}: nearest of the same document {own[-1]:.2f} (95 % interval {low:.2f} to {high:.2f}), layer 0 "
            f"{own[0]:.2f}, untrained at most {max(others):.2f}: context {found}."
        )
    adjusted = (trained.all_words - trained.random_cosine)[1:]
    if len(adjusted) > 2 and not np.isnan(adjusted).any():  # no word stands in sentences enough
        order = spearmanr(np.arange(len(adjusted)), adjusted).statistic
        lines.append(
            "Ethayarajh found upper layers to be more specific to context. Self-similarity of all words over "
            f"the layers from 1 on: {', '.join(f'{value:.2f}' for value in adjusted)} "
            f"(rank correlation {order:.2f}): " + ("it shows." if order <= _FALLS else "it does not show.")
        )
    return lines
