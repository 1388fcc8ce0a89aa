"""A probe of the attention of all heads between two words.

See Coenen et al. 2019, Visualizing and Measuring the Geometry of BERT. A vector of 2 L N numbers holds the attention of
every head between two words, in both directions. A linear classifier predicts from the vector whether the tree joins
the two words, and by which relation. The same classifier also learns a control task (control_tasks.random_labels), in
which the first word of a pair decides on a random answer.

Dimensions: L layers, N heads of each, W words, n pairs.
"""

import collections
import dataclasses
import warnings
from collections.abc import Callable

import numpy as np

from keras_bert_app.analysis import control_tasks, encoded_sentences, encoders, sentence_bootstrap, treebank
from keras_bert_app.analysis.encoders import Subject
from keras_bert_app.analysis.even_samples import evenly_spaced
from keras_bert_app.analysis.findings import Findings, Table
from keras_bert_app.analysis.options import Options
from keras_bert_app.analysis.studies.attention_parser import one_hot_distances, pair_vectors
from keras_bert_app.analysis.word_pairs import MOST_PAIRS, TASKS, pairs_of
from keras_bert_app.drawing import probe_pictures
from keras_bert_app.errors import UserError
from keras_bert_app.terminal.progress import reported

SUMMARY = "whether two words are related, and how, from the attention of all heads between them"
NEEDS = ("train_file", "dev_file")
TAKES = ("max_sentences", "num_seeds", "seed")

_PROBES = ("majority", "distance", "control", "untrained", "attention")
_BASELINES = ("majority", "distance", "untrained")
_MOST_SENTENCES = 600
_NUM_RELATIONS = 30  # as in Coenen et al.


def run(subject: Subject, options: Options, log: Callable[[str], None]) -> Findings:
    """Compares the accuracy of the probe with majority, distance alone and untrained encoders.

    Args:
        subject: Subject. The encoder to look into.
        options: Options. Uses train_file, dev_file, max_sentences, num_seeds and seed.
        log: Callable. Receives progress lines.

    Returns:
        Findings.

    Raises:
        UserError: a file has no pair of words for a question, or the training pairs have only one label.
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
    rows, answers = [], {}
    is_uncased = subject.config.do_lower_case
    for task in TASKS:
        answers[task] = _task_answers(task, seeds, drawn, encoded, untrained, (train_trees, dev_trees, is_uncased), log)
        rows.append(_row(task, len(drawn[task, seeds[-1]][1].labels), answers[task]))
    columns = ("question", "pairs", "majority", "distance alone", "untrained attention", "attention", "low", "high")
    table = Table(
        f"Accuracy of a linear classifier of {_num_numbers(subject):,} attention weights a pair",
        (*columns, "spread", "control", "selectivity", "low", "high"),
        rows,
    )
    bars = {
        name: [(float(own.right[name].mean()), *own.interval(name)) for own in answers.values()] for name in _PROBES
    }
    picture = probe_pictures.draw_bars(TASKS, bars, f"{subject.name}: what the attention between two words tells")
    return Findings(
        "attention_probe",
        f"Attention of word pairs: {subject.name}",
        [table],
        _remarks(answers, relations, options, (train_remark, dev_remark)),
        {"attention_probe.png": picture},
        {
            "accuracy": {task: own.accuracies for task, own in answers.items()},
            "intervals": {task: {name: own.interval(name) for name in _PROBES} for task, own in answers.items()},
            "relations": sorted(relations),
        },
    )


@dataclasses.dataclass(frozen=True)
class _Answers:
    """The answers of all probes to the same n questions of one task.

    Attributes:
        right: dict of a name of _PROBES -> float [n]. Whether each answer is right. If all seeds have the same
            questions, it is the share of seeds with a right answer.
        sentences: int64 [n]. The sentence of each question.
        accuracies: dict of a name of _PROBES -> list of accuracies, one for each run.
    """

    right: dict
    sentences: np.ndarray
    accuracies: dict

    def interval(self, name):
        return sentence_bootstrap.share_interval(self.right[name], self.sentences)

    def difference(self, name):
        """The interval of the difference between attention and another probe."""
        return sentence_bootstrap.difference_interval(self.right["attention"] - self.right[name], self.sentences)


def _row(task, num_pairs, answers):
    right = answers.right
    return [
        task,
        num_pairs,
        *(float(right[name].mean()) for name in (*_BASELINES, "attention")),
        *answers.interval("attention"),
        float(np.std(answers.accuracies["attention"])) if task != TASKS[2] else None,
        float(right["control"].mean()),
        float((right["attention"] - right["control"]).mean()),
        *answers.difference("control"),
    ]


def _task_answers(task, seeds, drawn, encoded, untrained, words, log):
    """Trains the probes of one task. Returns _Answers.

    Args:
        words: (training trees, dev trees, bool whether the encoder is uncased), for the control task.
    """
    runs = collections.defaultdict(list)
    for seed, random in zip(seeds, untrained, strict=True):
        train, dev = drawn[task, seed]
        runs["untrained"].append(
            right_answers(_vectors(random[0], train), train.labels, _vectors(random[1], dev), dev.labels)
        )
        if task == TASKS[2] and runs["attention"]:
            # This task draws no pairs, so the answers of the remaining probes do not depend on the seed. One control
            # task is enough.
            continue
        own = [_vectors(vectors, pairs) for vectors, pairs in zip(encoded, (train, dev), strict=True)]
        control = _control_labels(train, dev, words, seed)
        runs["control"].append(right_answers(own[0], control[0], own[1], control[1]))
        labels, counts = np.unique(train.labels, return_counts=True)
        runs["majority"].append(dev.labels == labels[counts.argmax()])
        distances = [one_hot_distances(pairs.distances()) for pairs in (train, dev)]
        runs["distance"].append(right_answers(distances[0], train.labels, distances[1], dev.labels))
        runs["attention"].append(right_answers(own[0], train.labels, own[1], dev.labels))
        log(
            f"{task}, seed {seed}: attention {runs['attention'][-1].mean():.1%}, distance "
            f"{runs['distance'][-1].mean():.1%}"
        )
    accuracies = {name: [float(run.mean()) for run in runs[name]] for name in _PROBES}
    if task == TASKS[2]:
        return _Answers({name: np.mean(runs[name], axis=0) for name in _PROBES}, dev.trees, accuracies)
    return _Answers(
        {name: np.concatenate(runs[name]).astype(float) for name in _PROBES},
        np.concatenate([drawn[task, seed][1].trees for seed in seeds]),
        accuracies,
    )


def _control_labels(train, dev, words, seed):
    """(str [n], str [m]): the random label of the first word of each pair."""
    train_trees, dev_trees, is_uncased = words
    types = [
        [word.lower() if is_uncased else word for word in pairs.first_words(trees)]
        for pairs, trees in ((train, train_trees), (dev, dev_trees))
    ]
    return [np.array(labels) for labels in control_tasks.random_labels(types[0], train.labels, types[1], seed)]


def _read(subject, path, max_sentences):
    """Reads the trees that fit into the encoder's positions, and takes some of them at equal steps.

    Returns (trees, remark on the number of sentences that were read and left out).
    """
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
        UserError: a file has no pair for the task, or the training pairs have only one label.
    """
    generator, pairs_by_file = np.random.default_rng(seed), []
    for path, trees in ((options.train_file, train_trees), (options.dev_file, dev_trees)):
        pairs_by_file.append(pairs_of(trees, task, relations, generator))
        if not len(pairs_by_file[-1].labels):
            raise UserError(
                f"{path}: its {len(trees):,} sentences have no pair of words for the question {task!r}; give longer "
                "sentences, with relations other than punct"
            )
    if len(set(pairs_by_file[0].labels)) < 2:
        raise UserError(
            f"{options.train_file}: all its pairs for the question {task!r} have the label "
            f"{pairs_by_file[0].labels[0]!r}; expected at least two labels; give more sentences"
        )
    return pairs_by_file


def right_answers(
    train_vectors: np.ndarray, train_labels: np.ndarray, dev_vectors: np.ndarray, dev_labels: np.ndarray
) -> np.ndarray:
    """Trains a logistic regression on standardized numbers, and checks its answers.

    Args:
        train_vectors: float [n, numbers].
        train_labels: str [n].
        dev_vectors: float [m, numbers].
        dev_labels: str [m].

    Returns:
        bool [m].
    """
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    if len(set(train_labels)) < 2:  # a control task of few words may draw one label; the classifier needs two
        return dev_labels == train_labels[0]
    classifier = make_pipeline(StandardScaler(), LogisticRegression(max_iter=300, tol=1e-3))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # the last digits of the loss do not change the accuracy
        classifier.fit(train_vectors, train_labels)
    return classifier.predict(dev_vectors) == dev_labels


def _encoded(subject, train_trees, dev_trees, log):
    """The attention between all words: for each file a list with float16 [2 L N, W, W] for each tree."""
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


def _remarks(answers, relations, options, read):
    lines = []
    for task, own in answers.items():
        words = [
            f"{sentence_bootstrap.compared(own.difference(name))} {name} ({own.right[name].mean():.4f})"
            for name in _BASELINES
        ]
        lines.append(
            f"{task}: attention {own.right['attention'].mean():.4f} "
            f"({sentence_bootstrap.written(own.interval('attention'))}), {', '.join(words)}; selectivity "
            f"{(own.right['attention'] - own.right['control']).mean():.4f} "
            f"({sentence_bootstrap.written(own.difference('control'))})."
        )
    above = [task for task, own in answers.items() if all(own.difference(name)[0] > 0 for name in _BASELINES)]
    return [
        f"Attention is above majority, distance alone and untrained attention at {len(above)} of "
        f"{len(answers)} questions{': ' if above else ''}{', '.join(above)}. Coenen et al. report 85.8% for whether "
        "two words are related and 71.9% for which relation it is (BERT-base, Penn Treebank).",
        *lines,
        "In the first two questions, half of the pairs are related, by any relation but punct. No pair contains "
        'punctuation. Unrelated pairs come from the same sentence: "any pair" draws them at random, "as far apart" '
        'draws them with the distances of the related pairs. "which relation" names one of the '
        f"{len(relations)} most frequent relations of a given dependent and head.",
        f"Each file gives at most {MOST_PAIRS:,} pairs, taken evenly. Figures are means over {options.num_seeds} seeds "
        "of the pairs, of the control tasks and of the untrained encoders. spread is the standard deviation of the "
        'accuracy of attention over seeds. "which relation" has the same pairs and one control task for all seeds, so '
        "it has no spread.",
        "Control task (after Hewitt and Liang 2019): each first word of a pair has one random answer, the same in "
        "both files. In the last question this word is the dependent. Intervals cover 95 % and come from sentences "
        "that are drawn again with replacement; the choice of the training sentences is not part of them.",
        "; ".join(read) + ".",
    ]
