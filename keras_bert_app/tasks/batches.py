"""Batches of Features: texts of like lengths together, padded to lengths that fit them; a pure function of seed and position."""

import numpy as np
import tensorflow as tf

from keras_bert_app.tasks import lengths

_POOL = 32  # batches whose examples are sorted by length together
# How many times as long a batch takes in bfloat16 on a CPU where nothing is compiled (BUILD.md, "Beside the peers").
_PLAIN = 1.8


def make_batch(features, units, batch_size, length, group_size=None):
    """A batch as a dict of numpy arrays.

    Args:
        units: which, at most batch_size; the rest is filled with units of weight 0. length: S. group_size: G, by
            default the rows of the largest of these units.

    Returns:
        dict: input_word_ids, input_mask, input_type_ids int32 [B, S], or [B, G, S] where units are groups of rows; the
        features' labels [B, ...] and token labels [B, S] (-1 for none); example_weights float32 [B].
    """
    ranges = [features.rows_of(unit) for unit in units]
    group_size = group_size or max(last - first for first, last in ranges)
    rows = np.full((batch_size, group_size), -1, np.int64)
    for at, (first, last) in enumerate(ranges):
        rows[at, : last - first] = np.arange(first, last)
    rows = rows.ravel()
    there = rows >= 0
    starts, ends = features.row_splits[rows], features.row_splits[rows + 1]
    lengths = np.where(there, ends - starts, 0)
    # [B x G, S]
    is_token = np.arange(length) < lengths[:, None]
    ids = np.zeros(is_token.shape, np.int32)
    spans = [slice(start, end) for start, end, is_there in zip(starts, ends, there) if is_there]
    ids[is_token] = np.concatenate([features.token_ids[span] for span in spans])
    b_starts = np.where(there, features.b_starts[rows], 0)
    types = (is_token & (np.arange(length) >= b_starts[:, None])).astype(np.int32)
    batch = {"input_word_ids": ids, "input_mask": is_token.astype(np.int32), "input_type_ids": types}
    for name, values in features.token_labels.items():
        batch[name] = np.full(is_token.shape, -1, values.dtype)
        batch[name][is_token] = np.concatenate([values[span] for span in spans])
    if features.unit_splits is not None:
        batch = {name: values.reshape(batch_size, group_size, length) for name, values in batch.items()}
    for name, values in features.labels.items():
        batch[name] = np.zeros((batch_size, *values.shape[1:]), values.dtype)
        batch[name][: len(units)] = values[units]
    batch["example_weights"] = (np.arange(batch_size) < len(units)).astype(np.float32)
    return batch


def steps_per_epoch(features, batch_size):
    """Batches of one pass over the units; the last one may be filled up with units of weight 0."""
    return -(-features.num_units // batch_size)


def training_batches(features, run, position=None, length_cost=0):
    """Endless iterator of (batch of tensors, position after it): each epoch every unit once, in a new order.

    Args:
        run: FinetuningConfig; read are seed, global_batch_size, num_train_steps, max_seq_length, length_buckets. position: (epoch, batch)
            where to go on, or None. length_cost: of lengths.cost, by which all the run's batches have as many lengths as are worth it.
    """
    epoch, at = position or (0, 0)
    plan = epoch_plan(features, run, 0)  # other epochs' batches are as long as those
    epochs = max(1.0, run.num_train_steps / len(plan))
    tensors = _maker(features, run, run.global_batch_size, _fitted(features, run, plan, length_cost / epochs))
    while True:
        batches = epoch_plan(features, run, epoch)
        for at in range(at, len(batches)):
            after = (epoch, at + 1) if at + 1 < len(batches) else (epoch + 1, 0)
            yield tensors(batches[at]), after
        epoch, at = epoch + 1, 0


def epoch_plan(features, run, epoch):
    """The units of each batch of an epoch: random, but those of like lengths together within pools of some batches."""
    generator = np.random.Generator(np.random.Philox(key=[run.seed, epoch]))
    order = generator.permutation(features.num_units)
    size = run.global_batch_size
    if not run.length_buckets:
        return [order[at : at + size] for at in range(0, len(order), size)]
    work = features.work()
    batches = []
    for at in range(0, len(order), _POOL * size):
        pool = order[at : at + _POOL * size]
        pool = pool[np.argsort(work[pool], kind="stable")]
        batches += [pool[start : start + size] for start in range(0, len(pool), size)]
    return [batches[index] for index in generator.permutation(len(batches))]


def evaluation_batches(features, run, batch_size, length_cost=0, times=1, is_any_shape=False):
    """(batch of tensors, its units) over all units once, the shortest first.

    Args:
        length_cost: of lengths.cost. times: how often all this will be taken. is_any_shape: whether whoever takes them knows no better and
            worse shapes: lengths are multiples of nothing then, and the last batch is not filled up.
    """
    plan = _evaluation_plan(features, batch_size)
    of_batches = _fitted(features, run, plan, length_cost / times, 1 if is_any_shape else lengths.MULTIPLE)
    full = _maker(features, run, batch_size, of_batches)
    for units in plan:
        is_short = is_any_shape and run.length_buckets and len(units) < batch_size
        yield (_maker(features, run, len(units), of_batches) if is_short else full)(units), units


def is_worth_compiling(features, run, batch_size, length_cost, times=1):
    """Whether a CPU makes evaluation_batches through so many times sooner in bfloat16 when it compiles the model's parts.

    Args:
        length_cost: of lengths.cost, where parts are compiled.
    """
    plan = _evaluation_plan(features, batch_size)
    longest, rows = _sizes(features, plan)

    def places(length_cost):
        found = _fitted(features, run, plan, length_cost)
        return sum(lengths.padded(size, found) * count for size, count in zip(longest, rows)) + length_cost * len(found)

    return places(length_cost / times) < _PLAIN * places(0)


def _evaluation_plan(features, batch_size):
    """The units of each batch."""
    order = np.argsort(features.work(), kind="stable")
    return [order[at : at + batch_size] for at in range(0, len(order), batch_size)]


def _sizes(features, plan):
    """(each batch's longest row, how many rows it has), int [N]."""
    longest, sizes = features.longest_rows(), features.group_sizes()
    return (
        np.array([longest[units].max() for units in plan]),
        np.array([len(units) * sizes[units].max() for units in plan]),
    )


def _fitted(features, run, plan, length_cost, multiple=lengths.MULTIPLE):
    """The lengths of a plan's batches, with room for the longest row of all."""
    if not run.length_buckets:
        return (run.max_seq_length,)
    return lengths.fitted(*_sizes(features, plan), length_cost, run.max_seq_length, multiple)


def _maker(features, run, batch_size, of_batches):
    """A function from units to their batch of tensors; without buckets all batches have one shape."""
    longest = features.longest_rows()
    group_size = None if run.length_buckets else int(features.group_sizes().max())

    def tensors(units):
        batch = make_batch(
            features, units, batch_size, lengths.padded(int(longest[units].max()), of_batches), group_size
        )
        return {name: tf.constant(values) for name, values in batch.items()}

    return tensors
