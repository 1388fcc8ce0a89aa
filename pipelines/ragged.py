"""Helpers for ragged tensors that need memory only in proportion to the number of values.

tf.repeat, RaggedTensor.value_rowids and tf.ragged.boolean_mask need memory in proportion to rows x longest row. A batch
with one very long row then takes gigabytes.
"""

import tensorflow as tf


def row_ids(row_splits, dtype=tf.int32):
    """Computes the row of each value of a ragged tensor.

    Args:
        row_splits: int [rows + 1]. The row splits of the ragged tensor.
        dtype: integer type of the result.

    Returns:
        `dtype` [values], the row of each value.
    """
    num_values = row_splits[-1]
    # Each row start adds one, so that the running sum counts rows. An empty row starts where the next row starts.
    row_starts = tf.scatter_nd(row_splits[1:-1, None], tf.ones_like(row_splits[1:-1], dtype), [num_values + 1])
    return tf.cumsum(row_starts)[:-1]


def keep(ragged, mask):
    """Keeps the values of a ragged tensor for which a mask is true.

    Args:
        ragged: RaggedTensor [B, (values)].
        mask: bool [values]. One entry for each flat value.

    Returns:
        RaggedTensor [B, (kept values)]. All B rows stay; some of them may be empty.
    """
    kept_before = tf.concat([[0], tf.cumsum(tf.cast(mask, ragged.row_splits.dtype))], axis=0)
    return tf.RaggedTensor.from_row_splits(
        tf.boolean_mask(ragged.values, mask), tf.gather(kept_before, ragged.row_splits), validate=False
    )
