"""A probe of the attention of all heads between two words.

See Coenen et al. 2019, Visualizing and Measuring the Geometry of BERT. The attention of every head from one word to the
other one and back gives a vector of 2 L N numbers. A linear classifier predicts from the vector whether the tree joins
the two words, and by which relation.

Dimensions: L layers, N heads of each, W words, n pairs.
"""

import collections
import dataclasses
import warnings
from collections.abc import Callable

import numpy as np

from keras_bert_app.analysis import encoded_sentences, encoders, treebank
from keras_bert_app.analysis.encoders import Subject
from keras_bert_app.analysis.even_samples import evenly_spaced
from keras_bert_app.analysis.findings import Findings, Table
from keras_bert_app.analysis.options import Options
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
_NUM_RELATIONS = 30  # as in Coenen et al.
_UNRELATED = "(none)"


@dataclasses.dataclass(frozen=True)
class Pairs:
    """Pairs of words of one file.

    Attributes:
        trees: int64 [n]. The number of each pair's tree.
        words: int64 [2, n]. Places in the sentence.
        labels: str [n].
    """

    trees: np.ndarray
    words: np.ndarray
    labels: np.ndarray

    def distances(self) -> np.ndarray:
        """Returns int64 [n]: the offset of the second word from the first one."""
        return self.words[1] - self.words[0]


def run(subject: Subject, options: Options, log: Callable[[str], None]) -> Findings:
    """Compares the accuracy of the probe with majority, distance alone and untrained encoders.

    Args:
        subject: Subject. The encoder to look into.
        options: Options. Uses train_file, dev_file, max_sentences, num_seeds and seed.
        log: Callable. Receives progress lines.

    Returns:
        Findings.

    Raises:
        UserError: a file has no pair of words for a question, or the training pairs have one label.
    """
    (train_trees, train_remark), (dev_trees, dev_remark) = (
        _read(subject, path, options.most_sentences()) for path in (options.train_file, options.dev_file)
    )
    relations = _frequent_relations(train_trees)
    seeds = range(options.seed, options.seed + options.num_seeds)
    drawn = {
        (task, seed): _drawn(options, train_trees, dev_trees, task, relations, seed) for task in TASKS for seed in seeds
    }
    encoded = _encoded(subject, train_trees, dev_trees, log)
    untrained = [_encoded(encoders.untrained(subject, seed), train_trees, dev_trees, log) for seed in seeds]
    rows, scores_by_task = [], {}
    for task in TASKS:
        scores = _task_scores(task, seeds, drawn, encoded, untrained, log)
        _, dev = drawn[task, seeds[-1]]
        rows.append(
            [
                task,
                len(dev.labels),
                *(float(np.mean(scores[name])) for name in _PROBES),
                float(np.std(scores["attention"])) if task != TASKS[2] else None,
            ]
        )
        scores_by_task[task] = scores
    table = Table(
        f"Accuracy of a linear classifier of {_num_numbers(subject):,} attention weights a pair",
        ("question", "pairs", "majority", "distance alone", "untrained attention", "attention", "spread"),
        rows,
    )
    picture = probe_pictures.draw_bars(
        TASKS,
        {name: [scores_by_task[task][name] for task in TASKS] for name in _PROBES},
        f"{subject.name}: what the attention between two words tells",
    )
    return Findings(
        "attention_probe",
        f"Attention of word pairs: {subject.name}",
        [table],
        _remarks(rows, relations, options, (train_remark, dev_remark)),
        {"attention_probe.png": picture},
        {"accuracy": scores_by_task, "relations": sorted(relations)},
    )


def _task_scores(task, seeds, drawn, encoded, untrained, log):
    """dict of a name of _PROBES -> list of accuracies, one for each seed on which the probe depends."""
    scores = collections.defaultdict(list)
    for seed, random in zip(seeds, untrained, strict=True):
        train, dev = drawn[task, seed]
        scores["untrained"].append(
            accuracy(_vectors(random[0], train), train.labels, _vectors(random[1], dev), dev.labels)
        )
        if task == TASKS[2] and scores["attention"]:
            continue  # this task draws no pairs, so the other scores do not depend on the seed
        labels, counts = np.unique(train.labels, return_counts=True)
        scores["majority"].append(float(np.mean(dev.labels == labels[counts.argmax()])))
        scores["distance"].append(
            accuracy(one_hot_distances(train.distances()), train.labels, one_hot_distances(dev.distances()), dev.labels)
        )
        scores["attention"].append(
            accuracy(_vectors(encoded[0], train), train.labels, _vectors(encoded[1], dev), dev.labels)
        )
        log(f"{task}, seed {seed}: attention {scores['attention'][-1]:.1%}, distance {scores['distance'][-1]:.1%}")
    return dict(scores)


def _read(subject, path, max_sentences):
    """(trees of a file, taken evenly of those that fit into the encoder's positions, remark on the others)."""
    read = treebank.read_trees(path, max_sentences)
    fitting, left_out = encoded_sentences.fitting(subject, read, path)
    trees = evenly_spaced(fitting, _MOST_SENTENCES)
    return trees, (
        f"{path}: {len(trees):,} of {len(read):,} sentences that were read, taken evenly ({left_out:,} were longer "
        "than the model's positions)"
    )


def _drawn(options, train_trees, dev_trees, task, relations, seed):
    """Draws pairs for a task and a seed.

    Returns:
        [Pairs of the training file, Pairs of the dev file].

    Raises:
        UserError: a file has no pair for the task, or the training pairs have one label.
    """
    generator, pairs_by_file = np.random.default_rng(seed), []
    for path, trees in ((options.train_file, train_trees), (options.dev_file, dev_trees)):
        pairs_by_file.append(pairs_of(trees, task, relations, generator))
        if not len(pairs_by_file[-1].labels):
            raise UserError(
                f"{path}: its {len(trees):,} sentences have no pair of words for {task!r}; expected longer sentences, "
                "with relations other than punct"
            )
    if len(set(pairs_by_file[0].labels)) < 2:
        raise UserError(
            f"{options.train_file}: all its pairs for {task!r} are {pairs_by_file[0].labels[0]!r}; "
            "expected two kinds of them"
        )
    return pairs_by_file


def pairs_of(trees: list[treebank.Tree], task: str, relations: set[str], generator: np.random.Generator) -> Pairs:
    """Collects pairs of words for a task.

    In the first two tasks the words stand in the order of the sentence, so that only attention reveals a relation. In
    the third task they are dependent and head. No pair contains punctuation, because punctuation alone would reveal the
    answer.

    Args:
        trees: list of treebank.Tree.
        task: str. One of TASKS.
        relations: set of str. The relations that the third task asks for.
        generator: np.random.Generator. Draws the pairs of unrelated words.

    Returns:
        Pairs.
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
                unrelated = _unrelated(
                    np.flatnonzero(is_word).tolist(), related, second - first if task == TASKS[1] else None, generator
                )
                if unrelated:
                    chosen += [((first, second), "related"), (unrelated, _UNRELATED)]
        numbers += [number] * len(chosen)
        words += [pair for pair, _ in chosen]
        labels += [label for _, label in chosen]
    if task == TASKS[2]:
        keep = evenly_spaced(list(range(len(labels))), _MOST_PAIRS)
    else:  # a related pair and its unrelated pair stay together, so that both kinds are equally frequent
        keep = [
            at for first in evenly_spaced(list(range(0, len(labels), 2)), _MOST_PAIRS // 2) for at in (first, first + 1)
        ]
    return Pairs(
        np.array(numbers, np.int64)[keep],
        np.array(words, np.int64).reshape(-1, 2).T[:, keep],
        np.array(labels, str)[keep],
    )


def spoken_words(tree: treebank.Tree) -> np.ndarray:
    """Marks the words that pairs may contain.

    These are all words except those with the relation punct and a root that is punctuation.

    Args:
        tree: treebank.Tree.

    Returns:
        bool [W].
    """
    return np.array(
        [
            relation != "punct" and not (head < 0 and is_mark)
            for relation, head, is_mark in zip(tree.relations, tree.heads, tree.is_punctuation(), strict=True)
        ]
    )


def _unrelated(words, related, distance, generator):
    """A random ascending pair of words that the tree does not join, at a given distance if any; None without one."""
    pairs = [
        (first, second)
        for at, first in enumerate(words)
        for second in words[at + 1 :]
        if (first, second) not in related and distance in (None, second - first)
    ]
    return pairs[generator.integers(len(pairs))] if pairs else None


def accuracy(
    train_vectors: np.ndarray, train_labels: np.ndarray, dev_vectors: np.ndarray, dev_labels: np.ndarray
) -> float:
    """Trains a logistic regression on standardized numbers, and measures its accuracy.

    Args:
        train_vectors: float [n, numbers].
        train_labels: str [n].
        dev_vectors: float [m, numbers].
        dev_labels: str [m].

    Returns:
        float, 0 to 1.
    """
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    classifier = make_pipeline(StandardScaler(), LogisticRegression(max_iter=300, tol=1e-3))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # the last digits of the loss do not change the accuracy
        classifier.fit(train_vectors, train_labels)
    return float(classifier.score(dev_vectors, dev_labels))


def _encoded(subject, train_trees, dev_trees, log):
    """For each file a list with float16 [2 L N, W, W] for each tree."""
    result = []
    for trees in (train_trees, dev_trees):
        attention_by_tree = [None] * len(trees)
        encoded = encoded_sentences.encode(subject, [tree.words for tree in trees], with_attention=True)
        for sentence in reported(encoded, len(trees), f"sentences through {subject.name}", log):
            size = len(trees[sentence.number])
            vectors = pair_vectors(sentence, np.indices((size, size)).reshape(2, -1)).T
            attention_by_tree[sentence.number] = vectors.reshape(-1, size, size).astype(np.float16)
        result.append(attention_by_tree)
    return result


def _vectors(encoded, pairs):
    """float32 [n, 2 L N]."""
    return np.stack(
        [encoded[tree][:, first, second] for tree, first, second in zip(pairs.trees, *pairs.words, strict=True)]
    ).astype(np.float32)


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
        "Half of the pairs of the first two questions are related, by any relation but punct; punctuation is in none. "
        "any pair: the others are drawn from the same sentence; as far apart: so that distance tells nothing. "
        f"which relation: of the {len(relations)} most frequent ones, dependent and head being given.",
        f"At most {_MOST_PAIRS:,} pairs of each file, taken evenly; means over {options.num_seeds} seeds of the "
        "pairs and of untrained encoders, and the standard deviation of attention's. "
        "Which relation draws no pair, so that attention has no spread there.",
        "; ".join(read) + ".",
    ]
