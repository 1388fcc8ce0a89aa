"""Batches of Features: texts of like lengths together, padded to few lengths; a pure function of seed and position."""

import numpy as np
import tensorflow as tf

# Lengths that batches are padded to: few, so that a device that compiles for each compiles little.
BUCKETS = (8, 16, 24, 32, 48, 64, 96, 128, 160, 192, 256, 320, 384, 448, 512)
_TOKENS_TO_COMPILE = 1 << 15  # of one length, with which MiniLM's kernels spare the time that compiling them takes
_POOL = 32  # batches whose examples are sorted by length together


def padded_length(longest, max_seq_length, in_buckets=True):
    """The length that a batch whose longest row is `longest` is padded to."""
    if not in_buckets:
        return max_seq_length
    return min(next((bucket for bucket in BUCKETS if bucket >= longest), max_seq_length), max_seq_length)


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
        rows[at, :last - first] = np.arange(first, last)
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
        batch[name][:len(units)] = values[units]
    batch["example_weights"] = (np.arange(batch_size) < len(units)).astype(np.float32)
    return batch


def steps_per_epoch(features, batch_size):
    """Batches of one pass over the units; the last one may be filled up with units of weight 0."""
    return -(-features.num_units // batch_size)


def training_batches(features, run, position=None):
    """Endless iterator of (batch of tensors, position after it): each epoch every unit once, in a new order.

    Args:
        run: FinetuningConfig; read are seed, global_batch_size, max_seq_length, length_buckets. position: (epoch, batch)
            where to go on, or None.
    """
    epoch, at = position or (0, 0)
    tensors = _maker(features, run, run.global_batch_size)
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
        return [order[at:at + size] for at in range(0, len(order), size)]
    work = features.longest_rows() * features.group_sizes()
    batches = []
    for at in range(0, len(order), _POOL * size):
        pool = order[at:at + _POOL * size]
        pool = pool[np.argsort(work[pool], kind="stable")]
        batches += [pool[start:start + size] for start in range(0, len(pool), size)]
    return [batches[index] for index in generator.permutation(len(batches))]


def evaluation_batches(features, run, batch_size):
    """(batch of tensors, its units) over all units once, the shortest first."""
    tensors = _maker(features, run, batch_size)
    for units in _evaluation_plan(features, batch_size):
        yield tensors(units), units


def is_worth_compiling(features, run, batch_size, times=1):
    """Whether evaluation_batches, made so many times, have tokens enough to compile a model for each of their lengths."""
    longest, sizes = features.longest_rows(), features.group_sizes()
    tokens, lengths = 0, set()
    for units in _evaluation_plan(features, batch_size):
        length = padded_length(int(longest[units].max()), run.max_seq_length, run.length_buckets)
        tokens += times * length * int(sizes[units].sum())
        lengths.add(length)
    return tokens >= _TOKENS_TO_COMPILE * len(lengths)


def _evaluation_plan(features, batch_size):
    """The units of each batch."""
    order = np.argsort(features.longest_rows() * features.group_sizes(), kind="stable")
    return [order[at:at + batch_size] for at in range(0, len(order), batch_size)]


def _maker(features, run, batch_size):
    """A function from units to their batch of tensors; without buckets all batches have one shape."""
    longest = features.longest_rows()
    group_size = None if run.length_buckets else int(features.group_sizes().max())

    def tensors(units):
        length = padded_length(int(longest[units].max()), run.max_seq_length, run.length_buckets)
        batch = make_batch(features, units, batch_size, length, group_size)
        return {name: tf.constant(values) for name, values in batch.items()}
    return tensors
