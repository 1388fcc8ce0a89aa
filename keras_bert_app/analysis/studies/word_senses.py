"""Senses of words: clusters of a word's vectors, and how far context moves the vectors.

The corpus has no labels of senses, so the analysis uses two scores that need no labels. The first is the silhouette of
clusters: k-means of vectors of length 1, by cosine, with the best number of clusters from 2 to 5. The second is how
often the nearest vector from another sentence is of the same document. In one document a word mostly has one sense
(Gale, Church and Yarowsky 1992, One Sense Per Discourse).

Self-similarity is the mean cosine of a word's vectors, minus the mean cosine of random words. See Ethayarajh 2019, How
Contextual are Contextualized Word Representations?
"""

from collections.abc import Callable

import numpy as np

from keras_bert_app.analysis import occurrences, sense_maps, sense_scores, sentence_bootstrap
from keras_bert_app.analysis.encoders import Subject, require_layers, untrained
from keras_bert_app.analysis.findings import Findings, Table
from keras_bert_app.analysis.options import Options
from keras_bert_app.analysis.tree_scores import spearman
from keras_bert_app.drawing.sense_pictures import draw_self_similarity, draw_senses, senses_page
from keras_bert_app.tasks.intervals import FEWEST_SOURCES
from keras_bert_app.terminal.progress import reported

SUMMARY = "vectors of a word over a corpus: map, clusters, nearest contexts; how alike they are, by layer"
NEEDS = ("input_file", "words")
TAKES = ("max_sentences", "num_seeds", "seed")
_SCORES = ("silhouette", "same_document")
_FALLS = -0.8  # rank correlation with the layer; below it, the remark says that self-similarity falls


def run(subject: Subject, options: Options, log: Callable[[str], None]) -> Findings:
    """Scores and maps the vectors of words at every layer, next to untrained encoders.

    Args:
        subject: Subject. The encoder to look into.
        options: Options. Uses input_file, words, max_sentences, num_seeds and seed.
        log: Callable. Receives progress lines.

    Returns:
        Findings.

    Raises:
        UserError: the corpus contains a word too rarely, or no text can contain the word.
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
    scores, other_scores = _scores(corpus, words, trained, others)
    described = {
        word: sense_maps.described(corpus, word, trained.words[word], others[0].words[word], scores[word].clusters)
        for word in reported(words, len(words), "words drawn at every layer", log)
    }
    similarity = {word: _similarity(corpus, trained, word) for word in words}
    tables = [
        _sense_table(words, scores, other_scores),
        _layer_table(words, scores, other_scores),
        _similarity_table(similarity, trained, others),
        _cluster_table(described),
    ]
    return Findings(
        "senses",
        f"Senses of {', '.join(words)} in {options.input_file}",
        tables,
        [*_remarks(subject, options, trained), *_verdicts(words, scores, other_scores, trained), *corpus.remarks],
        _files(f"{subject.name} encoder", corpus, described, similarity, trained, others),
        _values(scores, other_scores, trained, similarity),
    )


def _scores(corpus, words, trained, others):
    """(dict of word -> Scores, dict of word -> list of the untrained encoders' Scores)."""
    scores, other_scores = {}, {}
    for word in words:
        sentences = corpus.places[word][:, 0]
        groups = corpus.documents[sentences], corpus.contexts[sentences]
        scores[word] = sense_scores.scores(trained.words[word], *groups)
        other_scores[word] = [sense_scores.scores(other.words[word], *groups) for other in others]
    return scores, other_scores


def _untrained_similarity(others):
    """float [L + 1]: the mean over untrained encoders of the self-similarity of all words."""
    return np.mean([other.all_words - other.random_cosine for other in others], axis=0)


def _files(name, corpus, described, similarity, trained, others):
    """dict of file name -> page or PNG."""
    return {
        "senses.html": senses_page(described, f"Senses: {', '.join(described)} ({name})"),
        "senses.png": draw_senses(
            _in_last_layer_colours(described),
            f"Vectors of words in {len(corpus.texts):,} sentences: {name}\n"
            "t-SNE of cosines; all three maps have the colours of the clusters in the trained last layer",
        ),
        "senses_layers.png": draw_self_similarity(
            {**similarity, f"all {trained.num_words:,} words": trained.all_words - trained.random_cosine},
            _untrained_similarity(others),
            f"How alike a word's vectors are in different sentences: {name}",
        ),
    }


def _remarks(subject, options, trained):
    layer_0 = (
        "all vectors of a word are equal, so it shows no senses, and its score of documents means nothing."
        if subject.config.architecture == "lstm_lm"
        else "the vectors of a word differ only by position, so its clusters show positions, not senses."
    )
    return [
        f"Each silhouette is the best of 2 to {sense_scores.MOST_CLUSTERS} clusters of "
        f"{sense_scores.FEWEST_OF_CLUSTER} vectors or more. At layer 0 {layer_0} Do not read the silhouette without "
        "the other score.",
        "same document: how often the nearest vector from another sentence comes from the same document. Only "
        "occurrences whose document has the word in another sentence count. Equal sentences count as one. The interval "
        "covers 95 % and comes from documents that are drawn again with replacement.",
        f"Untrained: {options.num_seeds} seeds. Self-similarity is the mean cosine of a word's vectors in different "
        "sentences, minus the mean cosine of random words. "
        f"all words: the {trained.num_words:,} words that occur in at least five sentences.",
    ]


def _values(scores, other_scores, trained, similarity):
    return {
        "scores": {word: own.as_json() for word, own in scores.items()},
        "untrained": {word: [other.as_json() for other in others] for word, others in other_scores.items()},
        "random_cosine": trained.random_cosine.tolist(),
        "all_words": [None if np.isnan(value) else value for value in trained.all_words.tolist()],
        "similarity": {word: by_layer.tolist() for word, by_layer in similarity.items()},
        "clusters": {word: own.clusters[-1].tolist() for word, own in scores.items()},
    }


def _similarity(corpus, vectors, word):
    """Computes the self-similarity of a word, float [L + 1].

    It is the mean cosine of the word's vectors in different sentences, minus the mean cosine of random words.
    """
    contexts = corpus.contexts[corpus.places[word][:, 0]]
    return occurrences.mean_cosine_apart(vectors.words[word], contexts) - vectors.random_cosine


def _in_last_layer_colours(described):
    """dict of word -> three maps for draw_senses, in the clusters of the trained last layer."""
    result = {}
    for word, description in described.items():
        last, *_, first, other = description["views"].values()
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
                *(own.intervals[-1] or (None, None)),
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
            "counted",
            "same document low",
            "high",
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
    columns = [*similarity.values(), trained.all_words - trained.random_cosine]
    columns += [
        _untrained_similarity(others),
        trained.random_cosine,
        np.mean([other.random_cosine for other in others], axis=0),
    ]
    return Table(
        "Self-similarity, and the mean cosine of random words",
        ("layer", *similarity, "all words", "untrained", "random words", "untrained"),
        [
            (str(layer), *(None if np.isnan(value) else float(value) for value in row))
            for layer, row in enumerate(zip(*columns, strict=True))
        ],
    )


def _cluster_table(described):
    rows = []
    for word, description in described.items():
        last = next(iter(description["views"].values()))
        for cluster, (typical, middle) in enumerate(zip(last["typical"], last["middles"], strict=True)):
            item, size = description["items"][middle], last["clusters"].count(cluster)
            context = f"...{item['before'][-35:]}[{item['word']}]{item['after'][:35]}..."
            rows.append((word, str(cluster + 1), size, ", ".join(typical), context))
    return Table(
        "Clusters of the trained last layer", ("word", "cluster", "size", "typical words", "central context"), rows
    )


def _verdicts(words, scores, other_scores, trained):
    lines = []
    for word in words:
        own, bounds = scores[word].same_document, scores[word].intervals[-1]
        others = [other.same_document[-1] for other in other_scores[word]]
        if own[-1] is None:
            continue
        verdict = (
            "distinguishes the uses of the word"
            if bounds[0] > max(*others, own[0], scores[word].chance)
            else "is not shown to distinguish the uses of the word better than the baselines"
        )
        lines.append(
            f"{word}: same document {own[-1]:.2f} ({sentence_bootstrap.written(bounds)}), layer 0 {own[0]:.2f}, "
            f"untrained at most {max(others):.2f}, chance {scores[word].chance:.2f}: the last layer {verdict}."
        )
    adjusted = (trained.all_words - trained.random_cosine)[1:]
    if len(adjusted) > 2 and trained.num_words:
        order, (low, high) = _rank_correlations(trained)
        verdict = (
            "the finding shows."
            if order <= _FALLS and high < 0
            else "the finding does not show."
            if low > _FALLS
            else "the words do not decide it."
        )
        lines.append(
            "Ethayarajh found that upper layers depend more on context. Self-similarity of all words over "
            f"the layers from 1 on: {', '.join(f'{value:.2f}' for value in adjusted)} "
            f"(rank correlation {order:.2f}, {sentence_bootstrap.written((low, high))} over words): {verdict}"
        )
    return lines


def _rank_correlations(trained):
    """Computes the rank correlation of the layers from 1 on with the self-similarity of all words.

    Returns (rank correlation, its 95 % interval over words).
    """

    def correlation(counts):
        means = counts @ trained.similarities / counts.sum(axis=1, keepdims=True) - trained.random_cosine
        return spearman(means[:, 1:], np.broadcast_to(np.arange(means.shape[1] - 1), means[:, 1:].shape))

    order = float(correlation(np.ones((1, trained.num_words)))[0])
    if trained.num_words < FEWEST_SOURCES:
        return order, (-1.0, 1.0)
    low, high = sentence_bootstrap.interval(correlation, trained.num_words)
    return order, (float(low), float(high))
