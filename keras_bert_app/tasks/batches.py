"""Batches of Features.

The seed and the position decide the content of a batch. Rows of similar length share a batch.
"""

import functools
from collections.abc import Callable, Iterator

import numpy as np
import tensorflow as tf

from keras_bert_app.config.finetuning_config import FinetuningConfig
from keras_bert_app.tasks import lengths, scheduled_sampling
from keras_bert_app.tasks.batch_plans import Batch, epoch_plan
from keras_bert_app.tasks.features import Features

# Time of a batch in bfloat16 on a CPU without compilation, divided by the time with compiled parts
# (docs/results/speed.md).
_SLOWDOWN_WITHOUT_COMPILATION = 1.8
# The first rows are read apart if they have at most this share of the length of the others. Two products of matrices
# take more time than one of the same size, so a small difference of lengths gains nothing.
_SHORT_FIRST_ROWS = 0.75


def make_batch(
    features: Features, units: np.ndarray, batch_size: int, length: int, group_size: int | None = None
) -> dict[str, np.ndarray]:
    """Makes a batch as a dict of numpy arrays.

    Args:
        features: Features.
        units: int [at most B]. Numbers of the units. Units of weight 0 fill the rest of the batch.
        batch_size: int. B.
        length: int. S, the padded length of a row.
        group_size: int. G, the rows of a unit. The default is the number of rows of the largest unit in the batch.

    Returns:
        dict: input_word_ids, input_mask and input_type_ids, int32 [B, S], or [B, G, S] if units are groups of rows, and
        the further inputs of the features' columns;
        the labels of the features [B, ...]; their token labels [B, S], -1 for none; target_word_ids, int32 [B, S], if
        the answers are texts; example_weights, float32 [B].
    """
    ranges = [features.rows_of(unit) for unit in units]
    group_size = group_size or max(last - first for first, last in ranges)
    rows = np.full((batch_size, group_size), -1, np.int64)
    for number, (first, last) in enumerate(ranges):
        rows[number, : last - first] = np.arange(first, last)
    rows = rows.ravel()
    is_row = rows >= 0
    starts, ends = features.row_splits[rows], features.row_splits[rows + 1]
    row_lengths = np.where(is_row, ends - starts, 0)
    # [B x G, S]
    is_token = np.arange(length) < row_lengths[:, None]
    ids = np.zeros(is_token.shape, np.int32)
    spans = [slice(start, end) for start, end, is_used in zip(starts, ends, is_row, strict=True) if is_used]
    ids[is_token] = np.concatenate([features.token_ids[span] for span in spans])
    b_starts = np.where(is_row, features.b_starts[rows], 0)
    types = (is_token & (np.arange(length) >= b_starts[:, None])).astype(np.int32)
    batch = {"input_word_ids": ids, "input_mask": is_token.astype(np.int32), "input_type_ids": types}
    if features.columns is not None:
        columns = np.zeros((*is_token.shape, features.columns.shape[1]), np.int32)
        columns[is_token] = np.concatenate([features.columns[span] for span in spans])
        batch |= {name: values.numpy() for name, values in features.column_inputs(tf.constant(columns)).items()}
    for name, values in features.token_labels.items():
        batch[name] = np.full(is_token.shape, -1, values.dtype)
        batch[name][is_token] = np.concatenate([values[span] for span in spans])
    if features.unit_splits is not None:
        batch = {
            name: values.reshape(batch_size, group_size, length, *values.shape[2:]) for name, values in batch.items()
        }
    if features.target_ids is not None:
        batch["target_word_ids"] = _target_ids(features, units, batch_size, length)
    for name, values in features.labels.items():
        batch[name] = np.zeros((batch_size, *values.shape[1:]), values.dtype)
        batch[name][: len(units)] = values[units]
    batch["example_weights"] = (np.arange(batch_size) < len(units)).astype(np.float32)
    return batch


def _target_ids(features, units, batch_size, length):
    """The target texts of units, int32 [B, S], with zeros after each."""
    ids = np.zeros((batch_size, length), np.int32)
    for row, unit in enumerate(units):
        start, end = features.target_splits[unit : unit + 2]
        ids[row, : end - start] = features.target_ids[start:end]
    return ids


def training_batches(
    features: Features,
    run: FinetuningConfig,
    position: tuple[int, int] | None = None,
    length_cost: float = 0,
    step: int = 0,
    share: Callable[[], float] = lambda: 0.0,
    features_of: Callable[[int, int, int], Features] | None = None,
) -> Iterator[tuple[dict[str, tf.Tensor], tuple[int, int]]]:
    """Yields (batch of tensors, position after it) without end.

    Every epoch takes each unit once, in a new order.

    Args:
        features: Features.
        run: FinetuningConfig.
        position: (epoch, batch). Where to continue; None to begin.
        length_cost: float. The value of lengths.cost. A higher cost gives fewer different lengths in the run.
        step: int. The step of the first batch.
        share: function that returns the share of train_minutes that is over. Without train_minutes the step decides.
        features_of: function (epoch, its first batch that is taken, step) that returns the Features of an epoch. Their
            rows are no longer than those of `features`. None: all epochs have `features`.
    """
    epoch, first = position or (0, 0)
    plan = epoch_plan(features, run, 0)  # the batches of all epochs have about the same lengths
    epochs = max(1.0, run.num_train_steps / len(plan))
    batch_lengths = _fitted(features, run, plan, length_cost / epochs)
    while True:
        features = features_of(epoch, first, step) if features_of else features
        # Some units get fewer mined negatives. Without equal groups each number of them would need its own program.
        tensors = _maker(features, run, batch_lengths, has_equal_groups=bool(run.mine_negatives))
        batches = epoch_plan(features, run, epoch)
        for number in range(first, len(batches)):
            after = (epoch, number + 1) if number + 1 < len(batches) else (epoch + 1, 0)
            batch = tensors(batches[number])
            if run.teacher_forcing < 1.0:
                rows, places = batch["target_word_ids"].shape
                progress = share() if run.train_minutes else step / run.num_train_steps
                reads = scheduled_sampling.reads_target((rows, places - 1), run, (epoch, number), progress)
                batch["reads_target"] = tf.constant(reads)
            yield batch, after
            step += 1
        epoch, first = epoch + 1, 0


def evaluation_batches(
    features: Features,
    run: FinetuningConfig,
    batch_size: int,
    length_cost: float = 0,
    times: int = 1,
    is_any_shape: bool = False,
) -> Iterator[tuple[dict[str, tf.Tensor], np.ndarray]]:
    """Yields (batch of tensors, its units) over all units once, the shortest units first.

    Args:
        features: Features.
        run: FinetuningConfig. The function reads longest_row and length_buckets.
        batch_size: int. B.
        length_cost: float. The value of lengths.cost.
        times: int. How often the caller takes all batches.
        is_any_shape: bool. Whether the device computes all shapes equally well. If so, lengths need not be multiples of
            lengths.MULTIPLE, and with length buckets the last batch may have fewer than B units.
    """
    plan = _evaluation_plan(features, batch_size)
    batch_lengths = _fitted(features, run, plan, length_cost / times, 1 if is_any_shape else lengths.MULTIPLE)
    tensors = _maker(features, run, batch_lengths)
    for batch in plan:
        if is_any_shape and run.length_buckets:
            batch = batch._replace(num_rows=len(batch.units))
        yield tensors(batch), batch.units


def is_worth_compiling(
    features: Features, run: FinetuningConfig, batch_size: int, length_cost: float, times: int = 1
) -> bool:
    """Whether compiling the parts of the model saves time in an evaluation in bfloat16 on a CPU.

    Args:
        features: Features.
        run: FinetuningConfig.
        batch_size: int. B.
        length_cost: float. The value of lengths.cost for compiled parts.
        times: int. How often the caller takes all batches.
    """
    plan = _evaluation_plan(features, batch_size)
    longest, rows = _sizes(features, plan)

    def places(length_cost):
        chosen = _fitted(features, run, plan, length_cost)
        num_places = sum(lengths.padded(size, chosen) * count for size, count in zip(longest, rows, strict=True))
        return num_places + length_cost * len(chosen)

    return places(length_cost / times) < _SLOWDOWN_WITHOUT_COMPILATION * places(0)


def _evaluation_plan(features, batch_size):
    """The batches of an evaluation, the shortest units first."""
    order = np.argsort(features.work(), kind="stable")
    return [Batch(order[start : start + batch_size], batch_size) for start in range(0, len(order), batch_size)]


def _sizes(features, plan):
    """(longest row of each batch, number of rows of each batch), int [N] each."""
    longest, sizes = features.longest_rows(), features.group_sizes()
    return (
        np.array([batch.length or longest[batch.units].max() for batch in plan]),
        np.array([len(batch.units) * sizes[batch.units].max() for batch in plan]),
    )


def _fitted(features, run, plan, length_cost, multiple=lengths.MULTIPLE):
    """The lengths for the batches of a plan. The longest row fits into the last length."""
    if not run.length_buckets:
        return (run.longest_row,)
    return lengths.fitted(*_sizes(features, plan), length_cost, run.longest_row, multiple)


def _maker(features, run, batch_lengths, has_equal_groups=False):
    """A function from a batch of a plan to its tensors. Without length buckets all batches have one shape."""
    longest = features.longest_rows()
    group_size = int(features.group_sizes().max()) if has_equal_groups or not run.length_buckets else None

    @functools.cache
    def first_length(length):
        """The length of first rows in batches of a length. None: the same length.

        It is the same in all epochs, so that all batches of a length have one shape.
        """
        if not features.has_first_apart:
            return None
        # Mined texts change the longest row of a unit from epoch to epoch, but never its first row.
        is_possible = has_equal_groups | (longest <= length)
        first_rows = features.row_lengths()[features.unit_splits[:-1]]
        most = lengths.rounded(first_rows[is_possible].max(), length)
        return most if most <= _SHORT_FIRST_ROWS * length else None

    def tensors(batch):
        length = batch.length or lengths.padded(int(longest[batch.units].max()), batch_lengths)
        arrays = make_batch(features, batch.units, batch.num_rows, length, group_size)
        if most := first_length(length):  # an input of modeling.vector_model
            arrays["input_first_places"] = np.zeros((batch.num_rows, 1, most), np.int32)
        return {name: tf.constant(values) for name, values in arrays.items()}

    return tensors
