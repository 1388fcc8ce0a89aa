"""A dependency parser that only weighs attention heads (Clark et al. 2019, What Does BERT Look At?, section 5).

The chance that word j is the head of word i is the softmax over j of a weighted sum of all heads' attention between the
two, both ways: what two numbers for each head know of syntax. Dimensions: L layers, N heads, K = 2 L N, P pairs.
"""

import dataclasses

import numpy as np

from keras_bert_app.analysis import encoded_sentences, encoders, treebank
from keras_bert_app.analysis.findings import Table
from keras_bert_app.analysis.samples import evenly
from keras_bert_app.errors import UserError
from keras_bert_app.terminal.progress import reported

_MOST_TRAINING = 1000  # sentences; a few hundred weights need no more, and their pairs are held in memory
_FARTHEST = 10


@dataclasses.dataclass(frozen=True)
class Training:
    """Trees to learn weights from. remark: which ones of the file they are."""

    trees: list
    remark: str


def read_training(subject, options, dev_trees):
    """The Training of options.train_file, for what is to be measured on dev_trees.

    Raises:
        UserError: one of them has no word with a head to find.
    """
    read = treebank.read_trees(options.train_file, options.most_sentences())
    fitting, left_out = encoded_sentences.fitting(subject, read, options.train_file)
    trees = evenly(fitting, _MOST_TRAINING)
    for path, given in ((options.train_file, trees), (options.dev_file, dev_trees)):
        if not any(np.any((tree.heads >= 0) & ~tree.is_punctuation()) for tree in given):
            raise UserError(
                f"{path}: no word but punctuation of its {len(given):,} sentences has a head; expected sentences of "
                "two words and more"
            )
    return Training(
        trees,
        f"weights from {len(trees):,} of the {len(read):,} sentences of {options.train_file} that were read, "
        f"taken evenly; {left_out:,} of those were longer than the model's positions",
    )


def parser_table(subject, options, training, dev_trees, log):
    """(Table of UAS, its remarks). UAS: the share of words with the right head, but roots and punctuation.

    Args:
        training: Training. dev_trees: list of Tree; all of both fit into the encoder's positions.
    """
    gold_train, gold_dev = (Arcs(trees) for trees in (training.trees, dev_trees))
    offset = max((float(np.mean(gold_dev.away == by)), by) for by in range(-_FARTHEST, _FARTHEST + 1))
    rows = [[f"fixed offset {offset[1]:+d}", 1, offset[0], None]]
    weights = fit(gold_train, one_hot_distances(distances(gold_train)))
    rows.append(["distance alone", len(weights), gold_dev.uas(weights[_places_of(distances(gold_dev))]), None])
    untrained = []
    for seed in range(options.seed, options.seed + options.num_seeds):
        uas, _ = _attention_uas(encoders.untrained(subject, seed), gold_train, gold_dev, log)
        untrained.append(uas)
    uas, num_weights = _attention_uas(subject, gold_train, gold_dev, log)
    rows += [
        ["attention, untrained", num_weights, float(np.mean(untrained)), float(np.std(untrained))],
        [f"attention, {subject.name}", num_weights, uas, None],
    ]
    table = Table(
        f"Parsing by attention alone: UAS of {len(gold_dev.counted):,} words",
        ("parser", "weights", "UAS", "spread"),
        rows,
    )
    best = max(row[2] for row in rows[:3])
    verdict = "above" if uas > best else "not above"
    return table, [
        f"Attention alone parses at {uas:.1%}, {verdict} the best baseline ({best:.1%}); "
        f"{training.remark}. The root is not guessed."
    ]


def _attention_uas(subject, train, dev, log):
    """(UAS, K)."""
    config = subject.config
    weights = fit(
        train,
        _of_pairs(
            subject, train, (2 * config.num_hidden_layers * config.num_attention_heads,), lambda vectors: vectors, log
        ),
    )
    # There may be many sentences to measure on: of a pair its score alone is kept.
    return dev.uas(_of_pairs(subject, dev, (), lambda vectors: vectors @ weights, log)), len(weights)


class Arcs:
    """For each word that has a head (D of them) all other words of its sentence: P pairs, word after word.

    Attributes:
        trees: list of Tree. pairs: for each tree int64 [2, its pairs]: dependents and candidates. starts: int64 [D],
            the first pair of each dependent. sizes: int64 [D], how many it has. gold: int64 [D], the right one.
        counted: int64, which of the D words count for UAS: all but punctuation; away: how far their heads stand.
    """

    def __init__(self, trees):
        self.trees, self.pairs = trees, []
        starts, gold, away, is_counted, at = [], [], [], [], 0
        for tree in trees:
            words = np.flatnonzero(tree.heads >= 0)
            candidates = np.array(
                [[other for other in range(len(tree)) if other != word] for word in words], np.int64
            ).reshape(len(words), len(tree) - 1)
            self.pairs.append(np.stack([np.repeat(words, candidates.shape[1]), candidates.ravel()]))
            starts.append(at + np.arange(len(words)) * candidates.shape[1])
            gold.append(starts[-1] + tree.heads[words] - (tree.heads[words] > words))
            away.append(tree.heads[words] - words)
            is_counted.append(~tree.is_punctuation()[words])
            at += candidates.size
        self.starts, self.gold = np.concatenate(starts), np.concatenate(gold)
        self.sizes = np.diff(np.append(self.starts, at))
        self.counted = np.flatnonzero(np.concatenate(is_counted))
        self.away = np.concatenate(away)[self.counted]

    def log_shares(self, scores):
        """Scores [P] less the logarithm of their sum of exponentials over each dependent's candidates."""
        most = np.maximum.reduceat(scores, self.starts)
        exponentials = np.exp(scores - np.repeat(most, self.sizes))
        return scores - np.repeat(most + np.log(np.add.reduceat(exponentials, self.starts)), self.sizes)

    def uas(self, scores):
        """Share of the counted words whose right pair has the highest of scores [P]; a tie counts as wrong."""
        gold = np.repeat(scores[self.gold], self.sizes)
        rivals = np.add.reduceat((scores >= gold).astype(np.int64), self.starts)
        return float(np.mean(rivals[self.counted] == 1))


def fit(arcs, vectors):
    """float32 [K]: weights that make the right heads of vectors [P, K] likeliest; a convex problem without chance."""
    from scipy.optimize import minimize

    def loss(weights):
        log_shares = arcs.log_shares(vectors @ weights.astype(np.float32))
        wrong = np.exp(log_shares)
        wrong[arcs.gold] -= 1
        return float(-np.mean(log_shares[arcs.gold])), (wrong @ vectors).astype(np.float64) / len(arcs.gold)

    found = minimize(loss, np.zeros(vectors.shape[1]), jac=True, method="L-BFGS-B", options={"maxiter": 150})
    return found.x.astype(np.float32)


def pair_vectors(one, pairs):
    """float32 [pairs, K]: of an Encoded with attention, all heads' weights from pairs[0] to pairs[1], then back.

    Args:
        pairs: int64 [2, pairs], places of words.
    """
    attention = one.word_attention()[:, :, 1:-1, 1:-1]
    attention = attention.reshape(-1, *attention.shape[2:])
    first, second = pairs
    return np.concatenate([attention[:, first, second], attention[:, second, first]]).T


def _of_pairs(subject, arcs, shape, function, log):
    """float32 [P, *shape]: what a function makes of the pair_vectors of each sentence."""
    counts = [pairs.shape[1] for pairs in arcs.pairs]
    ends = np.cumsum(counts)
    result = np.zeros((ends[-1], *shape), np.float32)
    encoded = encoded_sentences.encode(subject, [tree.words for tree in arcs.trees], with_attention=True)
    for one in reported(encoded, len(arcs.trees), f"sentences through {subject.name}", log):
        if counts[one.number]:
            result[ends[one.number] - counts[one.number] : ends[one.number]] = function(
                pair_vectors(one, arcs.pairs[one.number])
            )
    return result


def distances(arcs):
    """int64 [P]: how far the candidate stands from the dependent."""
    pairs = np.concatenate(arcs.pairs, axis=1)
    return pairs[1] - pairs[0]


def _places_of(values):
    """int [pairs]: places of distances among 2 * 10 + 1, farther ones together."""
    return np.clip(values, -_FARTHEST, _FARTHEST) + _FARTHEST


def one_hot_distances(values):
    """float32 [pairs, 2 * 10 + 1] of int [pairs]."""
    return np.eye(2 * _FARTHEST + 1, dtype=np.float32)[_places_of(values)]
