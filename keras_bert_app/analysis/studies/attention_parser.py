"""A dependency parser that only weighs attention heads.

See Clark et al. 2019, What Does BERT Look At?, section 5. The probability that word j is the head of word i is a
softmax over j. Its scores are a weighted sum of the attention of all heads between the two words, in both directions.
The parser has two weights for each head.

Dimensions: L layers, N heads, K = 2 L N, P pairs, D dependents.
"""

import dataclasses
from collections.abc import Callable

import numpy as np

from keras_bert_app.analysis import encoded_sentences, encoders, sentence_bootstrap, treebank
from keras_bert_app.analysis.encoders import Subject
from keras_bert_app.analysis.even_samples import evenly_spaced
from keras_bert_app.analysis.findings import Table
from keras_bert_app.analysis.options import Options
from keras_bert_app.errors import UserError
from keras_bert_app.terminal.progress import reported

# Sentences. The vectors of their pairs stay in memory, and more sentences hardly help a few hundred weights.
_MOST_TRAINING = 1000
_FARTHEST = 10


@dataclasses.dataclass(frozen=True)
class Training:
    """Trees to learn weights from.

    Attributes:
        trees: list of treebank.Tree.
        remark: str. The end of a sentence that begins with "the weights": how many sentences of the file the
            weights come from.
    """

    trees: list
    remark: str


def read_training(subject: Subject, options: Options, dev_trees: list[treebank.Tree]) -> Training:
    """Reads the training trees.

    Args:
        subject: Subject. Sentences that do not fit into its positions are left out.
        options: Options. Uses train_file, dev_file and max_sentences.
        dev_trees: list of treebank.Tree. The trees to measure on. The function checks that one of their words has a
            head.

    Returns:
        Training.

    Raises:
        UserError: a file has no word with a head to find.
    """
    read = treebank.read_trees(options.train_file, options.most_sentences())
    fitting, left_out = encoded_sentences.fitting(subject, read, options.train_file)
    trees = evenly_spaced(fitting, _MOST_TRAINING)
    for path, given in ((options.train_file, trees), (options.dev_file, dev_trees)):
        if not any(np.any((tree.heads >= 0) & ~tree.is_punctuation()) for tree in given):
            raise UserError(
                f"{path}: except for punctuation, no word of its {len(given):,} sentences has a head; give sentences "
                "of at least two words"
            )
    return Training(
        trees,
        f"come from {len(trees):,} of the {len(read):,} sentences of {options.train_file} that were read, at equal "
        f"steps. {left_out:,} of the sentences that were read are longer than the model's positions and do not count",
    )


def parser_table(
    subject: Subject,
    options: Options,
    training: Training,
    dev_trees: list[treebank.Tree],
    log: Callable[[str], None],
) -> tuple[Table, list[str]]:
    """Measures UAS, the share of words with the right head, without roots and punctuation.

    All trees fit into the encoder's positions.

    Args:
        subject: Subject. The encoder.
        options: Options. Uses num_seeds and seed.
        training: Training.
        dev_trees: list of treebank.Tree. The trees to measure on.
        log: Callable. Receives progress lines.

    Returns:
        (Table, list of str): the UAS of parser and baselines, and remarks.
    """
    gold_train, gold_dev = (Arcs(trees) for trees in (training.trees, dev_trees))
    offset = max((float(np.mean(gold_train.head_offsets == by)), by) for by in range(-_FARTHEST, _FARTHEST + 1))[1]
    weights = fit(gold_train, one_hot_distances(distances(gold_train)))
    by_distance = gold_dev.right_answers(weights[_distance_classes(distances(gold_dev))])
    untrained = []
    for seed in range(options.seed, options.seed + options.num_seeds):
        right, _ = _attention_answers(encoders.untrained(subject, seed), gold_train, gold_dev, log)
        untrained.append(right)
    right, num_weights = _attention_answers(subject, gold_train, gold_dev, log)
    baselines = {
        f"fixed offset {offset:+d}": (1, gold_dev.head_offsets == offset, None),
        "distance alone": (len(weights), by_distance, None),
        "attention, untrained": (num_weights, np.mean(untrained, axis=0), float(np.std(np.mean(untrained, axis=1)))),
    }
    rows = [
        [name, count, float(np.mean(answers)), *gold_dev.interval(answers), spread]
        for name, (count, answers, spread) in (
            *baselines.items(),
            (f"attention, {subject.name}", (num_weights, right, None)),
        )
    ]
    table = Table(
        f"Parsing by attention alone: UAS of {len(gold_dev.counted):,} words",
        ("parser", "weights", "UAS", "low", "high", "spread"),
        rows,
    )
    words = []
    for name, (_, answers, _) in baselines.items():
        difference = sentence_bootstrap.difference_interval(right - answers.astype(float), gold_dev.sentences)
        words.append(f"{sentence_bootstrap.compared(difference)} {name} ({np.mean(answers):.4f})")
    return table, [
        f"Attention alone parses at {np.mean(right):.4f} ({sentence_bootstrap.written(gold_dev.interval(right))}), "
        f"{', '.join(words)}; the offset and the weights {training.remark}. The parser does not guess roots."
    ]


def _attention_answers(subject, train, dev, log):
    """Returns (bool [counted], number of weights); True for a word that gets its head."""
    config = subject.config
    weights = fit(
        train,
        _map_pairs(
            subject, train, (2 * config.num_hidden_layers * config.num_attention_heads,), lambda vectors: vectors, log
        ),
    )
    # The dev set may be large, so only the score of each pair stays in memory.
    return dev.right_answers(_map_pairs(subject, dev, (), lambda vectors: vectors @ weights, log)), len(weights)


class Arcs:
    """Pairs of a dependent and a candidate for its head, in all sentences.

    Each word that has a head forms a pair with every other word of its sentence. The pairs follow the order of the
    words.

    Attributes:
        trees: list of treebank.Tree.
        pairs: list of int64 [2, pairs], one for each tree. Dependents and candidates.
        starts: int64 [D]. The first pair of each dependent.
        sizes: int64 [D]. The number of pairs of each dependent.
        gold: int64 [D]. The right pair of each dependent.
        counted: int64. The dependents that count for UAS: all but punctuation.
        head_offsets: int64. The offset of the head of each counted dependent.
        sentences: int64. The tree of each counted dependent.
    """

    def __init__(self, trees: list[treebank.Tree]):
        self.trees, self.pairs = trees, []
        starts, gold, head_offsets, is_counted, sentences, at = [], [], [], [], [], 0
        for number, tree in enumerate(trees):
            words = np.flatnonzero(tree.heads >= 0)
            candidates = np.array(
                [[other for other in range(len(tree)) if other != word] for word in words], np.int64
            ).reshape(len(words), len(tree) - 1)
            self.pairs.append(np.stack([np.repeat(words, candidates.shape[1]), candidates.ravel()]))
            starts.append(at + np.arange(len(words)) * candidates.shape[1])
            gold.append(starts[-1] + tree.heads[words] - (tree.heads[words] > words))
            head_offsets.append(tree.heads[words] - words)
            is_counted.append(~tree.is_punctuation()[words])
            sentences.append(np.full(len(words), number))
            at += candidates.size
        self.starts, self.gold = np.concatenate(starts), np.concatenate(gold)
        self.sizes = np.diff(np.append(self.starts, at))
        self.counted = np.flatnonzero(np.concatenate(is_counted))
        self.head_offsets, self.sentences = (
            np.concatenate(values)[self.counted] for values in (head_offsets, sentences)
        )

    def log_shares(self, scores: np.ndarray) -> np.ndarray:
        """Computes the log softmax of scores over the candidates of each dependent.

        Args:
            scores: float [P].

        Returns:
            float [P].
        """
        most = np.maximum.reduceat(scores, self.starts)
        exponentials = np.exp(scores - np.repeat(most, self.sizes))
        return scores - np.repeat(most + np.log(np.add.reduceat(exponentials, self.starts)), self.sizes)

    def right_answers(self, scores: np.ndarray) -> np.ndarray:
        """Says for each counted word whether its right pair has the highest score. A tie counts as wrong.

        Args:
            scores: float [P].

        Returns:
            bool [counted].
        """
        gold = np.repeat(scores[self.gold], self.sizes)
        rivals = np.add.reduceat((scores >= gold).astype(np.int64), self.starts)
        return rivals[self.counted] == 1

    def interval(self, right: np.ndarray) -> tuple[float, float]:
        """Returns the 95 % interval of the UAS of answers.

        Args:
            right: float [counted], 0 to 1. See right_answers.

        Returns:
            (lower bound, upper bound).
        """
        return sentence_bootstrap.share_interval(right, self.sentences)


def fit(arcs: Arcs, vectors: np.ndarray) -> np.ndarray:
    """Finds the weights that maximize the likelihood of the right heads.

    The problem is convex, so the result does not depend on a seed.

    Args:
        arcs: Arcs.
        vectors: float [P, K].

    Returns:
        float32 [K].
    """
    from scipy.optimize import minimize

    def loss(weights):
        log_shares = arcs.log_shares(vectors @ weights.astype(np.float32))
        residuals = np.exp(log_shares)
        residuals[arcs.gold] -= 1
        return float(-np.mean(log_shares[arcs.gold])), (residuals @ vectors).astype(np.float64) / len(arcs.gold)

    solution = minimize(loss, np.zeros(vectors.shape[1]), jac=True, method="L-BFGS-B", options={"maxiter": 150})
    return solution.x.astype(np.float32)


def pair_vectors(encoded: encoded_sentences.Encoded, pairs: np.ndarray) -> np.ndarray:
    """Collects the attention of all heads between two words, in both directions.

    Args:
        encoded: Encoded. A sentence with attention.
        pairs: int64 [2, pairs]. Places of words.

    Returns:
        float32 [pairs, K]. The attention from pairs[0] to pairs[1], then back.
    """
    attention = encoded.word_attention()[:, :, 1:-1, 1:-1]
    attention = attention.reshape(-1, *attention.shape[2:])
    first, second = pairs
    return np.concatenate([attention[:, first, second], attention[:, second, first]]).T


def _map_pairs(subject, arcs, shape, function, log):
    """Applies a function to the pair_vectors of each sentence; float32 [P, *shape]."""
    counts = [pairs.shape[1] for pairs in arcs.pairs]
    ends = np.cumsum(counts)
    result = np.zeros((ends[-1], *shape), np.float32)
    encoded = encoded_sentences.encode(subject, [tree.words for tree in arcs.trees], with_attention=True)
    for sentence in reported(encoded, len(arcs.trees), f"sentences through {subject.name}", log):
        if counts[sentence.number]:
            result[ends[sentence.number] - counts[sentence.number] : ends[sentence.number]] = function(
                pair_vectors(sentence, arcs.pairs[sentence.number])
            )
    return result


def distances(arcs: Arcs) -> np.ndarray:
    """Computes the offset of each candidate from its dependent.

    Args:
        arcs: Arcs.

    Returns:
        int64 [P].
    """
    pairs = np.concatenate(arcs.pairs, axis=1)
    return pairs[1] - pairs[0]


def _distance_classes(values):
    """int [pairs]: 21 classes of distances. Distances beyond 10 or -10 are in the class of 10 or -10."""
    return np.clip(values, -_FARTHEST, _FARTHEST) + _FARTHEST


def one_hot_distances(values: np.ndarray) -> np.ndarray:
    """Encodes distances as one-hot vectors. Distances beyond 10 or -10 count as 10 or -10.

    Args:
        values: int [pairs].

    Returns:
        float32 [pairs, 21].
    """
    return np.eye(2 * _FARTHEST + 1, dtype=np.float32)[_distance_classes(values)]
