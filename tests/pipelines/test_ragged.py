"""The ragged helpers give the results of TensorFlow's functions, with less memory."""

import tensorflow as tf

from pipelines import ragged

ROWS = tf.ragged.constant([[], [3, 1], [], [4], [1, 5, 9], [], []], dtype=tf.int32)


def test_row_ids_are_those_of_tensorflow_with_empty_rows_anywhere():
    for rows in (ROWS, ROWS[:1], ROWS[3:4], tf.ragged.constant([[], []], dtype=tf.int32)):
        assert ragged.row_ids(rows.row_splits).numpy().tolist() == rows.value_rowids().numpy().tolist()


def test_values_are_kept_in_their_rows():
    mask = ROWS.flat_values > 2
    assert ragged.keep(ROWS, mask).to_list() == tf.ragged.boolean_mask(ROWS, ROWS.with_flat_values(mask)).to_list()


def test_one_long_row_among_many_does_not_pad_the_others():
    # TensorFlow's own functions would make 100,000 x 1,000,000 entries.
    splits = tf.concat([tf.range(100_000, dtype=tf.int64), [1_100_000]], axis=0)
    ids = ragged.row_ids(splits)
    assert ids.shape == [1_100_000] and ids[99_998] == 99_998 and ids[-1] == 99_999
    kept = ragged.keep(tf.RaggedTensor.from_row_splits(ids, splits), ids % 2 == 1)
    assert kept.nrows() == 100_000 and kept.flat_values.shape == [50_000 - 1 + 1_000_001]
