"""What training steps, evaluations and predictions share: rows given out to replicas, sums over them, graphs for any length."""

import tensorflow as tf

# What of a batch has a number for each token. Of others a size may happen to be that of the rows.
_OF_TOKENS = ("input_word_ids", "input_mask", "input_type_ids", "token_labels")


def split_over_replicas(strategy, batch, row_axis):
    """The rows of a global batch given out to this process's replicas, each its own share.

    Every process makes the same global batch; worker w's replicas take their rows of it.
    """
    num_replicas = strategy.num_replicas_in_sync

    def rows_of(context):
        replica = context.replica_id_in_sync_group

        def take(values):
            size = values.shape[row_axis] // num_replicas
            return tf.gather(values, tf.range(replica * size, (replica + 1) * size), axis=row_axis)

        return {name: take(values) for name, values in batch.items()} if num_replicas > 1 else batch

    return strategy.experimental_distribute_values_from_function(rows_of)


def sum_over_replicas(context, values):
    if context.num_replicas_in_sync == 1:
        return values
    return tf.nest.pack_sequence_as(values, context.all_reduce(tf.distribute.ReduceOp.SUM, tf.nest.flatten(values)))


def tracer(call, num_fixed):
    """A function of what `call`, a tf.function, is to be called with; its first use traces call for a batch of any length.

    By itself TensorFlow traces for the first length alone, and for any at the second. So it still does where a batch is given out to
    several replicas: that has no specs that could be left open. num_fixed: dimensions of input_mask that all batches share, of
    which those of rows may be.
    """
    is_traced = False

    def trace(batch, *others):
        nonlocal is_traced
        if is_traced or not isinstance(batch["input_mask"], tf.Tensor):
            return
        rows = batch["input_mask"].shape
        open_rows = [*rows[:num_fixed], *[None] * (rows.rank - num_fixed)]
        call.get_concrete_function(
            {
                name: tf.TensorSpec(open_rows if name in _OF_TOKENS else values.shape, values.dtype)
                for name, values in batch.items()
            },
            *others,
        )
        is_traced = True

    return trace
