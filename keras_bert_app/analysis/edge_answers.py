"""Answers of the probes of one task of edge probing and of its control task.

One half of the dev documents serves to choose the best layer. The reported items come from the second half.

Dimensions: L layers, n reported items.
"""

import dataclasses
from collections.abc import Callable, Sequence

import numpy as np

from keras_bert_app.analysis import control_tasks, mix_probe, sentence_bootstrap, split_halves
from keras_bert_app.analysis.span_items import Items
from keras_bert_app.terminal.progress import reported


@dataclasses.dataclass(frozen=True)
class Answers:
    """The answers of all probes to the reported items of one task.

    1 stands for a right answer, 0 for a wrong one.

    Attributes:
        num_items: int. The number of all dev items.
        layer: int. The layer with the best accuracy on the half that is not reported.
        sentences: int64 [n]. The sentence of each item.
        majority: bool [n]. Whether the most frequent training label is the right answer.
        by_layer: float [L + 1, n]. The share of seeds with a right answer.
        seed_spread: float [L + 1]. The standard deviation of the seeds' accuracies.
        control: float [L + 1, n]. Like by_layer, for the control task.
        mixed: float [n]. The share of seeds whose probe of the mix of all layers is right.
        untrained: float [n]. Like mixed, for encoders with random weights.
        shares: float [seeds, L + 1]. The shares of the layers in the mix.
        seen: float. The share of items whose type occurs in training.
    """

    num_items: int
    layer: int
    sentences: np.ndarray
    majority: np.ndarray
    by_layer: np.ndarray
    seed_spread: np.ndarray
    control: np.ndarray
    mixed: np.ndarray
    untrained: np.ndarray
    shares: np.ndarray
    seen: float

    def interval(self, right: np.ndarray) -> tuple[float, float]:
        """Computes the 95 % interval of an accuracy.

        Args:
            right: float [n]. Such as mixed, or a row of by_layer.

        Returns:
            (lower bound, upper bound).
        """
        return sentence_bootstrap.share_interval(right, self.sentences)

    def difference(self, right: np.ndarray, other: np.ndarray) -> tuple[float, float]:
        """Computes the 95 % interval of the difference between two accuracies.

        Args:
            right: float [n].
            other: float [n]. Subtracted from right.

        Returns:
            (lower bound, upper bound).
        """
        return sentence_bootstrap.difference_interval(right - other, self.sentences)

    def centres(self) -> np.ndarray:
        """Returns float [seeds]: the centre of gravity of each mix, from 0 to L."""
        return self.shares @ np.arange(self.shares.shape[1])


def task_answers(
    name: str,
    train: Items,
    dev: Items,
    untrained: np.ndarray,
    seeds: Sequence[int],
    log: Callable[[str], None],
) -> Answers:
    """Trains the probes of one task and of its control task.

    Args:
        name: str. The name of the task.
        train: Items to train on.
        dev: Items to measure on, of two sentences at least.
        untrained: float [dev items]. See Answers.
        seeds: sequence of int.
        log: Callable. Receives progress lines.

    Returns:
        Answers.
    """
    num_layers = len(train.vectors)
    single, control = (np.zeros((num_layers, len(seeds), len(dev.labels)), bool) for _ in range(2))
    mixed, shares = np.zeros((len(seeds), len(dev.labels)), bool), np.zeros((len(seeds), num_layers))
    jobs = [(at, layer) for at in range(len(seeds)) for layer in [*range(num_layers), None]]
    for at, layer in reported(jobs, len(jobs), f"probes of {name} and its control task", log):
        if layer is None:
            mixed[at], shares[at] = mix_probe.right_answers(train, dev, range(num_layers), seeds[at])
            continue
        single[layer, at], _ = mix_probe.right_answers(train, dev, [layer], seeds[at])
        control[layer, at], _ = mix_probe.right_answers(*_control_items(train, dev, seeds[at]), [layer], seeds[at])
    is_reported = split_halves.reported_half(np.ones(len(dev.labels), bool), dev.documents, dev.sentences)
    labels, counts = np.unique(train.labels, return_counts=True)
    choosing_accuracy = single[:, :, ~is_reported].mean(axis=(1, 2))
    single, control, mixed = (right[..., is_reported] for right in (single, control, mixed))
    types = [name for name, is_kept in zip(dev.types, is_reported, strict=True) if is_kept]
    return Answers(
        len(dev.labels),
        int(choosing_accuracy.argmax()),
        dev.sentences[is_reported],
        np.array(dev.labels)[is_reported] == labels[counts.argmax()],
        single.mean(axis=1),
        single.mean(axis=2).std(axis=1),
        control.mean(axis=1),
        mixed.mean(axis=0),
        untrained[is_reported],
        shares,
        control_tasks.share_seen(train.types, types),
    )


def _control_items(train, dev, seed):
    """Returns both Items with labels of the control task. Each seed draws other labels."""
    labels = control_tasks.random_labels(train.types, train.labels, dev.types, seed)
    return tuple(
        dataclasses.replace(items, labels=control) for items, control in zip((train, dev), labels, strict=True)
    )
