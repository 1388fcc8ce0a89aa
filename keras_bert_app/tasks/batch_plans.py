"""The plan of an epoch: which units share a batch, and in which order the batches come.

The seed and the number of the epoch decide the plan. Units of similar length share a batch.
"""

from typing import NamedTuple

import numpy as np

from keras_bert_app.config.finetuning_config import FinetuningConfig
from keras_bert_app.config.text_to_text_options import ROWS_MULTIPLE
from keras_bert_app.tasks import lengths
from keras_bert_app.tasks.features import Features

_POOL = 32  # number of batches whose examples are sorted by length together
_MOST_OPEN = 64  # batches that wait for units with other texts
_LABEL_GROUP = 4  # examples of one label that stand together in a batch of triplets
_GROWTH = 1.25  # between two lengths of batches that have a number of tokens


class Batch(NamedTuple):
    """A batch of a plan.

    Attributes:
        units: int array [at most num_rows]. Numbers of the units.
        num_rows: int. B, the rows of the batch. Rows of weight 0 follow those of the units.
        length: int. S, the padded length. 0: the length follows from the rows.
    """

    units: np.ndarray
    num_rows: int
    length: int = 0


def epoch_plan(features: Features, run: FinetuningConfig, epoch: int) -> list[Batch]:
    """The batches of an epoch, in random order. Together they have every unit once.

    With length buckets, the function sorts the units of _POOL batches by length before it divides them into batches.
    Then it shuffles the batches. Units of triplets are not sorted, because batches need several labels, and several
    units of each: groups of units of one label stand together, in random order.

    Args:
        features: Features.
        run: FinetuningConfig. The function reads seed, global_batch_size, batch_tokens, longest_row and length_buckets.
        epoch: int. Number of the epoch, from 0.
    """
    generator = np.random.Generator(np.random.Philox(key=[run.seed, epoch]))
    order = generator.permutation(features.num_units)
    size = run.global_batch_size
    if features.text_numbers is not None:
        batches = _without_repeats(features, size, order, features.work() if run.length_buckets else None)
    elif run.batch_tokens:
        batches = _by_tokens(features, run, order)
    elif run.vector_loss == "triplet":
        groups = _groups_of_labels(features.labels["labels"], order, generator)
        batches = _consecutive(groups, size)
    elif not run.length_buckets:
        return _consecutive([order], size)
    else:
        batches = _by_rows(features.work(), size, order)
    return [batches[index] for index in generator.permutation(len(batches))]


def num_batches(features: Features, run: FinetuningConfig) -> int:
    """The number of batches of an epoch.

    With batch_tokens, and where texts must not meet, other epochs may have a few more or fewer.

    Args:
        features: Features.
        run: FinetuningConfig. See epoch_plan.
    """
    if run.batch_tokens or features.text_numbers is not None:
        return len(epoch_plan(features, run, 0))
    return -(-features.num_units // run.global_batch_size)


def _by_rows(work, size, order):
    """Batches of `size` units from the units in `order`, from the work of each unit."""
    batches = []
    for pool_start in range(0, len(order), _POOL * size):
        pool = order[pool_start : pool_start + _POOL * size]
        pool = pool[np.argsort(work[pool], kind="stable")]
        batches += [Batch(pool[start : start + size], size) for start in range(0, len(pool), size)]
    return batches


def _consecutive(groups, size):
    """Batches of `size` units from groups of units, in the order of the groups."""
    order = np.concatenate(groups)
    return [Batch(order[start : start + size], size) for start in range(0, len(order), size)]


def _groups_of_labels(labels, order, generator):
    """The units in groups of _LABEL_GROUP of one label, in random order. The rest of a label is a smaller group."""
    of_label = {}
    for unit in order:
        of_label.setdefault(labels[unit], []).append(unit)
    groups = [
        units[start : start + _LABEL_GROUP]
        for units in of_label.values()
        for start in range(0, len(units), _LABEL_GROUP)
    ]
    return [np.array(groups[number]) for number in generator.permutation(len(groups))]


def _without_repeats(features, size, order, work):
    """Batches of `size` units in which no text_numbers occur in two units.

    A unit goes into the first open batch that has none of its texts. If texts repeat so often that many batches stay
    open, the fullest one ends early. A unit that is alone in the end gets another one from a batch of three or more,
    if their texts differ. With `work`, units of similar work are neighbours, as in _by_rows.
    """
    if work is not None:
        pools = [order[start : start + _POOL * size] for start in range(0, len(order), _POOL * size)]
        order = np.concatenate([pool[np.argsort(work[pool], kind="stable")] for pool in pools])
    is_open, done = [], []  # [(units, their texts)]
    for unit in order:
        texts = set(features.text_numbers[unit].tolist())
        place = next((number for number, (_, known) in enumerate(is_open) if not known & texts), len(is_open))
        if place == _MOST_OPEN:
            done.append(is_open.pop(max(range(_MOST_OPEN), key=lambda number: len(is_open[number][0])))[0])
            place -= 1
        if place == len(is_open):
            is_open.append(([], set()))
        units, known = is_open[place]
        units.append(unit)
        known |= texts
        if len(units) == size:
            done.append(is_open.pop(place)[0])
    batches = [*done, *(units for units, _ in is_open)]
    _share(batches, features.text_numbers)
    return [Batch(np.array(units), size) for units in batches]


def _share(batches, text_numbers):
    """Gives each unit that is alone in its batch another unit. Changes the lists of units in place."""
    bigger = [units for units in batches if len(units) > 2]
    for alone in (units for units in batches if len(units) == 1):
        if not bigger:
            return
        units = bigger[-1]
        # A unit has two texts, and a text occurs in one unit of a batch. So one of three units has other texts.
        is_other = ~np.isin(text_numbers[units], text_numbers[alone[0]]).any(axis=1)
        alone.append(units.pop(np.flatnonzero(is_other)[-1]))
        if len(units) == 2:
            bigger.pop()


def _by_tokens(features, run, order):
    """Batches of at most run.batch_tokens tokens from the units in `order`. Batches of one length have one shape."""
    steps = _lengths(run.longest_row)
    padded = np.array([lengths.padded(length, steps) for length in features.longest_rows()])
    units_per_pool = max(1, round(_POOL * run.batch_tokens / padded.mean()))
    batches = []
    for pool_start in range(0, len(order), units_per_pool):
        pool = order[pool_start : pool_start + units_per_pool]
        pool = pool[np.argsort(-padded[pool], kind="stable")]
        start = 0
        while start < len(pool):
            length = int(padded[pool[start]])  # the longest of the batch
            num_rows = run.batch_tokens // length // ROWS_MULTIPLE * ROWS_MULTIPLE
            batches.append(Batch(pool[start : start + num_rows], num_rows, length))
            start += num_rows
    return batches


def _lengths(longest):
    """The padded lengths of batches that have a number of tokens, ascending. They do not depend on the device."""
    found = [2 * lengths.MULTIPLE]
    while found[-1] < longest:
        found.append(lengths.rounded(int(np.ceil(found[-1] * _GROWTH)), longest, 2 * lengths.MULTIPLE))
    return tuple(found)
