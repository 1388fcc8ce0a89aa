"""What all heads together say of two words (Coenen et al. 2019, Visualizing and Measuring the Geometry of BERT).

The attention of every head from one word to the other and back is a vector of 2 L N numbers, L layers of N heads; a
linear classifier reads from it whether the two hang together in the tree, and by which relation.
"""

import collections
import dataclasses
import warnings

import numpy as np

from keras_bert_app.analysis import encoded_sentences, encoders, treebank
from keras_bert_app.analysis.findings import Findings, Table
from keras_bert_app.analysis.samples import evenly
from keras_bert_app.analysis.studies.attention_parser import one_hot_distances, pair_vectors
from keras_bert_app.drawing import probe_pictures
from keras_bert_app.errors import UserError
from keras_bert_app.terminal.progress import reported

SUMMARY = "whether two words are related, and how, from the attention of all heads between them"
NEEDS = ("train_file", "dev_file")

_PROBES = ("majority", "distance", "untrained", "attention")
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
    (train_trees, train_remark), (dev_trees, dev_remark) = (
        _read(subject, path, options.most_sentences()) for path in (options.train_file, options.dev_file)
    )
    relations = _frequent_relations(train_trees)
    seeds = range(options.seed, options.seed + options.num_seeds)
    drawn = {
        (task, seed): _drawn(options, train_trees, dev_trees, task, relations, seed) for task in TASKS for seed in seeds
    }
    rows, numbers = [], {}
    encoded = _encoded(subject, train_trees, dev_trees, log)
    untrained = [_encoded(encoders.untrained(subject, seed), train_trees, dev_trees, log) for seed in seeds]
    for task in TASKS:
        scores = collections.defaultdict(list)
        for seed, random in zip(seeds, untrained):
            train, dev = drawn[task, seed]
            scores["untrained"].append(
                accuracy(_vectors(random[0], train), train.labels, _vectors(random[1], dev), dev.labels)
            )
            if task == TASKS[2] and scores["attention"]:
                continue  # no pair is drawn: what does not change with the seed is known
            labels, counts = np.unique(train.labels, return_counts=True)
            scores["majority"].append(float(np.mean(dev.labels == labels[counts.argmax()])))
            scores["distance"].append(
                accuracy(
                    one_hot_distances(train.distances()), train.labels, one_hot_distances(dev.distances()), dev.labels
                )
            )
            scores["attention"].append(
                accuracy(_vectors(encoded[0], train), train.labels, _vectors(encoded[1], dev), dev.labels)
            )
            log(f"{task}, seed {seed}: attention {scores['attention'][-1]:.1%}, distance {scores['distance'][-1]:.1%}")
        rows.append(
            [
                task,
                len(dev.labels),
                *(float(np.mean(scores[name])) for name in _PROBES),
                float(np.std(scores["attention"])) if task != TASKS[2] else None,
            ]
        )
        numbers[task] = dict(scores)
    table = Table(
        f"Accuracy of a linear classifier of {_num_numbers(subject):,} attention weights a pair",
        ("question", "pairs", "majority", "distance alone", "untrained attention", "attention", "spread"),
        rows,
    )
    picture = probe_pictures.draw_bars(
        TASKS,
        {name: [numbers[task][name] for task in TASKS] for name in _PROBES},
        f"{subject.name}: what the attention between two words tells",
    )
    return Findings(
        "attention_probe",
        f"Attention of word pairs: {subject.name}",
        [table],
        _remarks(rows, relations, options, (train_remark, dev_remark)),
        {"attention_probe.png": picture},
        {"accuracy": numbers, "relations": sorted(relations)},
    )


def _read(subject, path, max_sentences):
    """(trees of a file, evenly taken of those that fit into the encoder's positions; remark on the others)."""
    read = treebank.read_trees(path, max_sentences)
    fitting, left_out = encoded_sentences.fitting(subject, read, path)
    trees = evenly(fitting, _MOST_SENTENCES)
    return trees, (
        f"{path}: {len(trees):,} of {len(read):,} sentences that were read, taken evenly ({left_out:,} were longer than "
        "the model's positions)"
    )


def _drawn(options, train_trees, dev_trees, task, relations, seed):
    """(Pairs of the training file, Pairs of the other) for a task and a seed.

    Raises:
        UserError: a file has no pair for it, or the training pairs have one label.
    """
    generator, found = np.random.default_rng(seed), []
    for path, trees in ((options.train_file, train_trees), (options.dev_file, dev_trees)):
        found.append(pairs_of(trees, task, relations, generator))
        if not len(found[-1].labels):
            raise UserError(
                f"{path}: its {len(trees):,} sentences have no pair of words for {task!r}; expected longer sentences, "
                "with relations other than punct"
            )
    if len(set(found[0].labels)) < 2:
        raise UserError(
            f"{options.train_file}: all its pairs for {task!r} are {found[0].labels[0]!r}; expected two kinds of them"
        )
    return found


def pairs_of(trees, task, relations, generator):
    """Pairs for a task; words of whose relation is asked stand in their order in the sentence, so that nothing but the
    attention tells of the relation, or as dependent and head for which relation it is.

    Punctuation is in no pair, neither of words that hang together nor of others: it would be told by that alone.

    Args:
        relations: set of those that "which relation" asks for.
    """
    numbers, words, labels = [], [], []
    for number, tree in enumerate(trees):
        is_word = spoken_words(tree)
        arcs = [
            (word, int(head)) for word, head in enumerate(tree.heads) if head >= 0 and is_word[word] and is_word[head]
        ]
        if task == TASKS[2]:
            chosen = [(pair, tree.relations[pair[0]]) for pair in arcs if tree.relations[pair[0]] in relations]
        else:
            related, chosen = {tuple(sorted(pair)) for pair in arcs}, []
            for first, second in sorted(related):
                other = _unrelated(
                    np.flatnonzero(is_word).tolist(), related, second - first if task == TASKS[1] else None, generator
                )
                if other:
                    chosen += [((first, second), "related"), (other, _UNRELATED)]
        numbers += [number] * len(chosen)
        words += [pair for pair, _ in chosen]
        labels += [label for _, label in chosen]
    if task == TASKS[2]:
        keep = evenly(list(range(len(labels))), _MOST_PAIRS)
    else:  # each related pair with its other, so that they stay as many
        keep = [at for first in evenly(list(range(0, len(labels), 2)), _MOST_PAIRS // 2) for at in (first, first + 1)]
    return Pairs(
        np.array(numbers, np.int64)[keep],
        np.array(words, np.int64).reshape(-1, 2).T[:, keep],
        np.array(labels, str)[keep],
    )


def spoken_words(tree):
    """bool [W]: the words that pairs are of, all but those that hang by punct and a root that is punctuation."""
    return np.array(
        [
            relation != "punct" and not (head < 0 and is_mark)
            for relation, head, is_mark in zip(tree.relations, tree.heads, tree.is_punctuation())
        ]
    )


def _unrelated(words, related, distance, generator):
    """A pair of some words that do not hang together, ascending, so far apart if a distance is given; None if there is none."""
    pairs = [
        (first, second)
        for at, first in enumerate(words)
        for second in words[at + 1 :]
        if (first, second) not in related and distance in (None, second - first)
    ]
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
    """For each file, for each tree float16 [2 L N, W, W]."""
    result = []
    for trees in (train_trees, dev_trees):
        ours = [None] * len(trees)
        encoded = encoded_sentences.encode(subject, [tree.words for tree in trees], with_attention=True)
        for one in reported(encoded, len(trees), f"sentences through {subject.name}", log):
            size = len(trees[one.number])
            vectors = pair_vectors(one, np.indices((size, size)).reshape(2, -1)).T
            ours[one.number] = vectors.reshape(-1, size, size).astype(np.float16)
        result.append(ours)
    return result


def _vectors(encoded, pairs):
    """float32 [n, 2 L N]."""
    return np.stack([encoded[tree][:, first, second] for tree, first, second in zip(pairs.trees, *pairs.words)]).astype(
        np.float32
    )


def _frequent_relations(trees):
    counts = collections.Counter(relation for tree in trees for relation in tree.relations)
    return {name for name, _ in counts.most_common(_NUM_RELATIONS + 2) if name not in ("root", "punct")}


def _num_numbers(subject):
    return 2 * subject.config.num_hidden_layers * subject.config.num_attention_heads


def _remarks(rows, relations, options, read):
    above = [row[0] for row in rows if row[5] > max(row[2:5]) + 0.05]
    return [
        f"Attention is 5 points or more above majority, distance alone and untrained attention at {len(above)} of "
        f"{len(rows)} questions{': ' if above else ''}{', '.join(above)}. Coenen et al. report 85.8% for whether and "
        "71.9% for which (BERT-base, Penn Treebank).",
        "Half of the pairs of the first two questions are related, by any relation but punct; punctuation is in none. any pair: "
        "the others are drawn from the same sentence; as far apart: so that distance tells nothing. "
        f"which relation: of the {len(relations)} most frequent ones, dependent and head being given.",
        f"At most {_MOST_PAIRS:,} pairs of each file, taken evenly; means over {options.num_seeds} seeds of the pairs and of "
        "untrained encoders, and the standard deviation of attention's. Which relation draws no pair, so that attention has no "
        "spread there.",
        "; ".join(read) + ".",
    ]
