"""Helpers for rows on replicas, sums over replicas, and graphs for rows of any length."""

from collections.abc import Callable
from typing import Any

import tensorflow as tf

# The arrays of a batch with one number for each token. A test of sizes is not enough, because another array may have
# the same size by chance.
_TOKEN_ARRAYS = ("token_labels", "target_word_ids", "reads_target")  # and the inputs of the encoder


def split_over_replicas(strategy: tf.distribute.Strategy, batch: dict[str, tf.Tensor], row_axis: int) -> Any:
    """Splits the rows of a global batch over the replicas of this process.

    Every process makes the same global batch, and its replicas take their own rows.

    Args:
        strategy: the devices.
        batch: dict of tensors.
        row_axis: the axis of the rows in every tensor.

    Returns:
        the distributed batch, an argument of strategy.run.
    """
    num_replicas = strategy.num_replicas_in_sync

    def rows_of(context):
        replica = context.replica_id_in_sync_group

        def take(values):
            size = values.shape[row_axis] // num_replicas
            return tf.gather(values, tf.range(replica * size, (replica + 1) * size), axis=row_axis)

        return {name: take(values) for name, values in batch.items()} if num_replicas > 1 else batch

    return strategy.experimental_distribute_values_from_function(rows_of)


def sum_over_replicas(context: tf.distribute.ReplicaContext, values: Any) -> Any:
    """Sums a structure of tensors over all replicas. Call it in replica context.

    Args:
        context: tf.distribute.ReplicaContext.
        values: structure of tensors.

    Returns:
        structure of the sums.
    """
    if context.num_replicas_in_sync == 1:
        return values
    return tf.nest.pack_sequence_as(values, context.all_reduce(tf.distribute.ReduceOp.SUM, tf.nest.flatten(values)))


def tracer(call: Callable, has_many_batch_sizes: bool, row_axis: int = 1) -> Callable[..., None]:
    """Makes a function that traces `call` once, for batches of any length.

    Without it, TensorFlow traces one graph for the first length, and a second graph for all other lengths. A batch that
    is split over several replicas still gets both graphs, because its specs cannot have open sizes.

    Args:
        call: tf.function of (batch, *others).
        has_many_batch_sizes: whether the number of rows stays open too.
        row_axis: the axis of the rows in every tensor. The later dimensions of arrays with one number a token stay
            open.

    Returns:
        function with the arguments of `call`. Call it before each use of `call`. It traces only once.
    """
    is_traced = False

    def trace(batch, *others):
        nonlocal is_traced
        if is_traced or not isinstance(batch["input_mask"], tf.Tensor):
            return
        specs = {}
        for name, values in batch.items():
            sizes = values.shape.as_list()
            if has_many_batch_sizes:
                sizes[row_axis] = None
            if name in _TOKEN_ARRAYS or name.startswith("input_"):
                # A batch of groups has rows [G, S]. A channel of vectors has a last axis of fixed size.
                num_open = batch["input_mask"].shape.rank - row_axis - 1
                sizes[row_axis + 1 : row_axis + 1 + num_open] = [None] * num_open
            specs[name] = tf.TensorSpec(sizes, values.dtype)
        call.get_concrete_function(specs, *others)
        is_traced = True

    return trace
