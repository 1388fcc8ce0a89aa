"""What all heads together say of two words (Coenen et al. 2019, Visualizing and Measuring the Geometry of BERT).

The attention of every head from one word to the other and back is a vector of 2 L N numbers, L layers of N heads; a
linear classifier reads from it whether the two hang together in the tree, and by which relation.
"""

import collections
import dataclasses
import warnings

import numpy as np

from keras_bert_app.analysis import encoders, sentences, treebank
from keras_bert_app.analysis.attention_parser import one_hot_distances, pair_vectors
from keras_bert_app.analysis.findings import Findings, Table
from keras_bert_app.analysis.progress import reported
from keras_bert_app.drawing import probes

SUMMARY = "whether two words are related, and how, from the attention of all heads between them"
NEEDS = ("train_file", "dev_file")

TASKS = ("related (any pair)", "related (as far apart)", "which relation")
_MOST_SENTENCES = 600
_MOST_PAIRS = 10_000
_NUM_RELATIONS = 30  # as many as Coenen et al. have
_UNRELATED = "(none)"


@dataclasses.dataclass(frozen=True)
class Pairs:
    """Pairs of words of one file.

    Attributes:
        trees: number of each pair's tree, int64 [n]. words: int64 [2, n], places in the sentence. labels: n str.
    """

    trees: np.ndarray
    words: np.ndarray
    labels: np.ndarray

    def distances(self):
        return self.words[1] - self.words[0]


def run(subject, options, log):
    train_trees, dev_trees = (_evenly(treebank.read_trees(path, options.max_sentences), _MOST_SENTENCES)
                              for path in (options.train_file, options.dev_file))
    relations = _frequent_relations(train_trees)
    seeds = range(options.seed, options.seed + options.num_seeds)
    rows, numbers = [], {}
    encoded = _encoded(subject, train_trees, dev_trees, log)
    untrained = [_encoded(encoders.untrained(subject, seed), train_trees, dev_trees, log) for seed in seeds]
    for task in TASKS:
        scores = collections.defaultdict(list)
        for seed, random in zip(seeds, untrained):
            generator = np.random.default_rng(seed)
            train, dev = (pairs_of(trees, task, relations, generator) for trees in (train_trees, dev_trees))
            labels, counts = np.unique(train.labels, return_counts=True)
            scores["majority"].append(float(np.mean(dev.labels == labels[counts.argmax()])))
            for name, (first, second) in (
                    ("distance", (one_hot_distances(train.distances()), one_hot_distances(dev.distances()))),
                    ("untrained", (_vectors(random[0], train), _vectors(random[1], dev))),
                    ("attention", (_vectors(encoded[0], train), _vectors(encoded[1], dev)))):
                scores[name].append(accuracy(first, train.labels, second, dev.labels))
            log(f"{task}, seed {seed}: attention {scores['attention'][-1]:.1%}, distance {scores['distance'][-1]:.1%}")
        rows.append([task, len(dev.labels), *(float(np.mean(scores[name])) for name in
                                              ("majority", "distance", "untrained", "attention")),
                     float(np.std(scores["attention"]))])
        numbers[task] = dict(scores)
    table = Table(f"Accuracy of a linear classifier of {_num_numbers(subject):,} attention weights a pair", (
        "question", "pairs", "majority", "distance alone", "untrained attention", "attention", "spread"), rows)
    picture = probes.draw_bars(TASKS, {name: [numbers[task][name] for task in TASKS] for name in
                                       ("majority", "distance", "untrained", "attention")},
                               f"{subject.name}: what the attention between two words tells")
    return Findings("attention_probe", f"Attention of word pairs: {subject.name}", [table],
                    _remarks(rows, relations, options), {"attention_probe.png": picture},
                    {"accuracy": numbers, "relations": sorted(relations)})


def pairs_of(trees, task, relations, generator):
    """Pairs for a task; words of whose relation is asked stand in their order in the sentence, so that nothing but the
    attention tells of the relation, or as dependent and head for which relation it is.

    Args:
        relations: set of those that "which relation" asks for; root and punct never count.
    """
    numbers, words, labels = [], [], []
    for number, tree in enumerate(trees):
        arcs = [(word, int(head)) for word, head in enumerate(tree.heads)
                if tree.relations[word] not in ("root", "punct")]
        if task == TASKS[2]:
            chosen = [(pair, tree.relations[pair[0]]) for pair in arcs if tree.relations[pair[0]] in relations]
        else:
            related = {tuple(sorted((word, int(head)))) for word, head in enumerate(tree.heads) if head >= 0}
            chosen = []
            for pair in map(sorted, arcs):
                other = _unrelated(len(tree), related, pair[1] - pair[0] if task == TASKS[1] else None, generator)
                if other:
                    chosen += [(tuple(pair), "related"), (other, _UNRELATED)]
        numbers += [number] * len(chosen)
        words += [pair for pair, _ in chosen]
        labels += [label for _, label in chosen]
    keep = _evenly(list(range(len(labels))), _MOST_PAIRS)
    return Pairs(np.array(numbers)[keep], np.array(words).T[:, keep], np.array(labels)[keep])


def _unrelated(length, related, distance, generator):
    """A pair of a sentence's words that do not hang together, ascending, so far apart if a distance is given; None if
    there is none."""
    pairs = [(first, first + away) for away in (range(1, length) if distance is None else (distance,))
             for first in range(length - away) if (first, first + away) not in related]
    return pairs[generator.integers(len(pairs))] if pairs else None


def accuracy(train_vectors, train_labels, dev_vectors, dev_labels):
    """Of a logistic regression over numbers brought to one scale."""
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    classifier = make_pipeline(StandardScaler(), LogisticRegression(max_iter=300, tol=1e-3))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # the last digits of the loss do not move the accuracy
        classifier.fit(train_vectors, train_labels)
    return float(classifier.score(dev_vectors, dev_labels))


def _encoded(subject, train_trees, dev_trees, log):
    """For each file, for each tree float16 [2 L N, W, W], None for one longer than the encoder's positions."""
    result = []
    for trees in (train_trees, dev_trees):
        ours = [None] * len(trees)
        encoded = sentences.encode(subject, [tree.words for tree in trees], with_attention=True)
        for one in reported(encoded, len(trees), f"sentences through {subject.name}", log):
            size = len(trees[one.number])
            vectors = pair_vectors(one, np.indices((size, size)).reshape(2, -1)).T
            ours[one.number] = vectors.reshape(-1, size, size).astype(np.float16)
        result.append(ours)
    return result


def _vectors(encoded, pairs):
    """float32 [n, 2 L N]; zeros where there is no attention."""
    size = next(len(one) for one in encoded if one is not None)
    return np.stack([np.zeros(size, np.float32) if encoded[tree] is None else encoded[tree][:, first, second]
                     for tree, first, second in zip(pairs.trees, *pairs.words)]).astype(np.float32)


def _frequent_relations(trees):
    counts = collections.Counter(relation for tree in trees for relation in tree.relations)
    return {name for name, _ in counts.most_common(_NUM_RELATIONS + 2) if name not in ("root", "punct")}


def _num_numbers(subject):
    return 2 * subject.config.num_hidden_layers * subject.config.num_attention_heads


def _evenly(items, most):
    return [items[at] for at in np.linspace(0, len(items) - 1, min(len(items), most)).astype(int)]


def _remarks(rows, relations, options):
    above = [row[0] for row in rows if row[5] > max(row[2:5]) + 0.05]
    return [
        f"Attention is 5 points or more above majority, distance alone and untrained attention at {len(above)} of "
        f"{len(rows)} questions{': ' if above else ''}{', '.join(above)}. Coenen et al. report 85.8% for whether and "
        "71.9% for which (BERT-base, Penn Treebank).",
        "Half of the pairs of the first two questions are related, by any relation but punct. any pair: the others are "
        "drawn from the same sentence; as far apart: so that distance tells nothing. "
        f"which relation: of the {len(relations)} most frequent ones, dependent and head being given.",
        f"At most {_MOST_SENTENCES:,} sentences and {_MOST_PAIRS:,} pairs of each file, taken evenly; means over "
        f"{options.num_seeds} seeds of the pairs and of untrained encoders, and the standard deviation of attention's."]
