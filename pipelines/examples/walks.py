"""Walks along an array by jumps, in parallel."""

import tensorflow as tf


def places_met(following):
    """The places met when an array is walked from its first place along `following`, by pointer doubling.

    Args:
        following: int32 [M], the place after each one and greater than it; M or more is the end.

    Returns:
        int32 [N] places in ascending order.
    """
    num_places = tf.size(following)
    # One place past the end, where every walk stays. The segment maximum of an empty segment is the least int32.
    met = tf.concat([[1], tf.zeros([num_places], tf.int32)], axis=0)
    jump = tf.concat([tf.minimum(following, num_places), [num_places]], axis=0)

    def double(distance, met, jump):
        met = tf.maximum(met, tf.math.unsorted_segment_max(met, jump, num_places + 1))
        return distance * 2, met, tf.gather(jump, jump)

    # All places fewer than `distance` steps from the first one are met.
    _, met, _ = tf.while_loop(lambda distance, *_: distance <= num_places, double, (1, met, jump))
    return tf.cast(tf.where(met[:-1] > 0)[:, 0], tf.int32)
