"""Packed rows equal rows written by hand."""

import tensorflow as tf

from pipelines.examples import packing
from pipelines.examples.pairs import SegmentPairs

CLS, SEP = 101, 102


def test_two_pairs_are_laid_out_as_cls_a_sep_b_sep():
    tokens = tf.range(20, 40)
    pairs = SegmentPairs(*(tf.constant(values) for values in ([0, 10], [3, 1], [5, 2], [2, 5], [0, 1])))
    ids, mask, types, source = packing.pack_pairs(tokens, pairs, 10, CLS, SEP)
    assert ids.numpy().tolist() == [
        [CLS, 20, 21, 22, SEP, 25, 26, SEP, 0, 0],
        [CLS, 30, SEP, 22, 23, 24, 25, 26, SEP, 0],
    ]
    assert mask.numpy().tolist() == [[1] * 8 + [0] * 2, [1] * 9 + [0]]
    assert types.numpy().tolist() == [[0] * 5 + [1] * 3 + [0] * 2, [0] * 3 + [1] * 6 + [0]]
    assert source.numpy().tolist() == [[-1, 0, 1, 2, -1, 5, 6, -1, -1, -1], [-1, 10, -1, 2, 3, 4, 5, 6, -1, -1]]


def test_one_segment_is_laid_out_as_cls_a_sep():
    pairs = SegmentPairs(*(tf.constant(values) for values in ([0, 4], [4, 1], [0, 0], [0, 0], [0, 0])))
    ids, mask, types, source = packing.pack_pairs(tf.range(20, 40), pairs, 6, CLS, SEP, has_b=False)
    assert ids.numpy().tolist() == [[CLS, 20, 21, 22, 23, SEP], [CLS, 24, SEP, 0, 0, 0]]
    assert mask.numpy().tolist() == [[1] * 6, [1] * 3 + [0] * 3]
    assert not types.numpy().any()
    assert source.numpy().tolist() == [[-1, 0, 1, 2, 3, -1], [-1, 4, -1, -1, -1, -1]]
