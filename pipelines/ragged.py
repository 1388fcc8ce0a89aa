"""Ragged helpers whose memory is that of their values.

tf.repeat, RaggedTensor.value_rowids and tf.ragged.boolean_mask take memory in proportion to rows x longest row: gigabytes
when one row of a batch is very long.
"""

import tensorflow as tf


def row_ids(row_splits, dtype=tf.int32):
    """The row of each value: int32 [values] from row_splits [rows + 1]."""
    num_values = row_splits[-1]
    # One is added where a row begins, so that the running sum counts rows; empty rows begin where the next one does.
    begins = tf.scatter_nd(row_splits[1:-1, None], tf.ones_like(row_splits[1:-1], dtype), [num_values + 1])
    return tf.cumsum(begins)[:-1]


def keep(ragged, mask):
    """The values of a RaggedTensor [B, (values)] where the flat bool mask [values] holds; B rows stay, some of them empty."""
    kept_before = tf.concat([[0], tf.cumsum(tf.cast(mask, ragged.row_splits.dtype))], axis=0)
    return tf.RaggedTensor.from_row_splits(
        tf.boolean_mask(ragged.values, mask), tf.gather(kept_before, ragged.row_splits), validate=False
    )
