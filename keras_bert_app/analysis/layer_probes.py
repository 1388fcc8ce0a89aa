"""Structural probes of every layer of an encoder.

One half of the sentences serves to choose the layer. The reported scores come from the second half.

Dimensions: L layers, S reported sentences, M sentences of one length, W words.
"""

import dataclasses
import functools
from collections.abc import Callable, Sequence

import numpy as np

from keras_bert_app.analysis import control_tasks, sentence_bootstrap, tree_probe, tree_scores, treebank
from keras_bert_app.analysis.encoders import Subject
from keras_bert_app.analysis.word_vectors import word_vectors
from keras_bert_app.tasks.intervals import FEWEST_SOURCES
from keras_bert_app.terminal.progress import reported


@dataclasses.dataclass(frozen=True)
class Scores:
    """The scores of one encoder's probes on the reported sentences.

    Attributes:
        name: str. The name of the encoder.
        layer: int. The layer with the best UUAS on the half that is not reported.
        values: float64 [L + 1, seeds, measures, S]. See tree_scores.sentence_values.
        sentences: tree_scores.Sentences.
    """

    name: str
    layer: int
    values: np.ndarray
    sentences: tree_scores.Sentences

    def mean(self, layer: int) -> np.ndarray:
        """Returns float64 [measures, S]: the mean over seeds of a layer.

        Args:
            layer: int.
        """
        return self.values[layer].mean(axis=0)

    @functools.cached_property
    def by_seed(self) -> np.ndarray:
        """float64 [L + 1, seeds, measures]: the scores; NaN for a measure without anything to count."""
        return np.array([[tree_scores.measured(values, self.sentences) for values in layer] for layer in self.values])

    @functools.cached_property
    def intervals(self) -> np.ndarray:
        """float64 [L + 1, 2, measures]: the 95 % intervals of the means over seeds."""
        return np.stack([self._interval(self.mean(layer)) for layer in range(len(self.values))])

    def _interval(self, values):
        return sentence_bootstrap.interval(
            lambda counts: tree_scores.measured(values, self.sentences, counts), values.shape[1]
        )


def uuas_difference(scores: Scores, layer: int, other: Scores, other_layer: int) -> tuple[float, float]:
    """Computes the 95 % interval of the difference between the UUAS of two layers.

    Args:
        scores: Scores.
        layer: int. A layer of scores.
        other: Scores on the same sentences.
        other_layer: int. A layer of other.

    Returns:
        (lower bound, upper bound). (-1, 1), which excludes nothing, if there are too few sentences.
    """
    values, other_values = scores.mean(layer), other.mean(other_layer)
    if values.shape[1] < FEWEST_SOURCES:
        return -1.0, 1.0
    low, high = sentence_bootstrap.interval(
        lambda counts: (
            tree_scores.measured(values, scores.sentences, counts)[:, 0]
            - tree_scores.measured(other_values, other.sentences, counts)[:, 0]
        ),
        values.shape[1],
    )
    return float(low), float(high)


class LayerProbes:
    """Structural probes of every layer, with the trees and the settings that all of them share.

    Args:
        train_trees: list of treebank.Tree.
        dev_trees: list of treebank.Tree.
        groups: list of tree_scores.Group, of dev_trees.
        is_reported: bool [trees]. True for the half of dev_trees whose scores are reported, False for the half that
            chooses the layer.
        rank: int. The rank of the maps.
        seeds: sequence of int.
        log: Callable. Receives progress lines.
    """

    def __init__(
        self,
        train_trees: list[treebank.Tree],
        dev_trees: list[treebank.Tree],
        groups: list[tree_scores.Group],
        is_reported: np.ndarray,
        rank: int,
        seeds: Sequence[int],
        log: Callable[[str], None],
    ):
        self.train_trees, self.dev_trees, self.groups = train_trees, dev_trees, groups
        self.is_reported, self.rank, self.seeds, self.log = is_reported, rank, seeds, log
        self.batches = tree_probe.Batches(train_trees)
        self.control_groups = None  # groups of the last seed; all seeds have the same number of edges in each sentence

    def scores(
        self, subjects: list[Subject], name: str, with_control: bool = False
    ) -> tuple[Scores, Scores | None, list[np.ndarray]]:
        """Trains and scores a probe on each layer of each encoder.

        Args:
            subjects: list of Subject, one for each seed. An encoder that repeats is encoded once.
            name: str. The name of the encoders.
            with_control: bool. Whether the probes learn control trees too.

        Returns:
            (Scores, Scores at the control trees or None, list of float [M, W, W]: the distances of the first seed at
            the best layer, one for each group).
        """
        values, control_values, first_distances = [], [], []
        for at, (seed, subject) in enumerate(zip(self.seeds, subjects, strict=True)):
            if at == 0 or subject is not subjects[at - 1]:
                vectors, dev_vectors = (
                    word_vectors(subject, [tree.words for tree in trees], self.log)
                    for trees in (self.train_trees, self.dev_trees)
                )
            control_batches = self._control(subject, seed) if with_control else None
            layers, seed_values, seed_control = range(len(vectors)), [], []
            for layer in reported(layers, len(layers), f"layers of {subject.name}, probe seed {seed}", self.log):
                arrays = [array[layer].astype(np.float32) for array in (vectors, dev_vectors)]
                layer_values, distances = self._probe(*arrays, self.batches, self.groups, seed)
                seed_values.append(layer_values)
                first_distances += [distances] if at == 0 else []
                if with_control:
                    seed_control.append(self._probe(*arrays, control_batches, self.control_groups, seed)[0])
            values.append(seed_values)
            control_values.append(seed_control)
        own = self._scores(values, self.groups, name)
        control = self._scores(control_values, self.control_groups, "control") if with_control else None
        return own, control, first_distances[own.layer]

    def _control(self, subject, seed):
        train, dev = control_tasks.control_trees(self.train_trees, self.dev_trees, subject.config.do_lower_case, seed)
        self.control_groups = tree_scores.groups_of(dev, tree_probe.starts_of(dev))
        return tree_probe.Batches(train)

    def _probe(self, train, dev, batches, groups, seed):
        """(float64 [measures, trees], distances of each group) of a probe of one layer."""
        # The lengths of vectors differ between layers, but the initial range of the maps is fixed. The vectors are
        # therefore scaled to a mean square of 1.
        scale = 1 / np.sqrt(np.mean(train**2))
        maps = tree_probe.train_probe(train * scale, batches, self.rank, seed)
        predicted = tree_probe.predict(dev * scale, groups, *maps)
        return tree_scores.sentence_values(groups, *predicted), predicted[0]

    def _scores(self, values, groups, name):
        """Makes Scores from a list [seeds][layers] of the values of all trees."""
        values, sentences = np.array(values).swapaxes(0, 1), tree_scores.sentences_of(groups)
        others = sentences.part(~self.is_reported)
        uuas = [tree_scores.measured(layer.mean(axis=0)[:, ~self.is_reported], others)[0] for layer in values]
        return Scores(name, int(np.argmax(uuas)), values[..., self.is_reported], sentences.part(self.is_reported))

    def control_baseline(self) -> float:
        """Computes the UUAS of a baseline on the control trees of the last seed.

        The baseline joins all words to the first one.
        """
        joined = tree_scores.groups_of(
            [control_tasks.joined_to_first(tree) for tree in self.dev_trees], tree_probe.starts_of(self.dev_trees)
        )
        counts = [
            [edges[self.is_reported[group.numbers]].sum() for edges in tree_scores.right_edges(group, other.heads)]
            for group, other in zip(self.control_groups, joined, strict=True)
        ]
        right, edges = np.sum(counts, axis=0)
        return float(right / edges)


def chain_scores(groups: list[tree_scores.Group], is_reported: np.ndarray) -> Scores:
    """Scores a chain in which each word depends on the word before.

    Args:
        groups: list of tree_scores.Group.
        is_reported: bool [trees].

    Returns:
        Scores with one layer and one seed.
    """
    places = [np.broadcast_to(np.arange(group.heads.shape[1]), group.heads.shape) for group in groups]
    distances = [np.abs(group_places[:, :, None] - group_places[:, None]) for group_places in places]
    values = tree_scores.sentence_values(groups, distances, places)[:, is_reported]
    return Scores("neighbours", 0, values[None, None], tree_scores.sentences_of(groups).part(is_reported))
