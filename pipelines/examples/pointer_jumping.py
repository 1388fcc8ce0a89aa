"""Pointer jumping: the nodes on a path through an array of successors, computed in parallel."""

import tensorflow as tf


def visited_positions(successors):
    """Finds the positions on the path that starts at position 0 and follows the successors.

    Every step doubles the length of the jumps, so the number of steps is logarithmic in M.

    Args:
        successors: int32 [M]. The next position after each position. It is greater, and M or more ends the path.

    Returns:
        int32 [N]. Positions in ascending order.
    """
    num_positions = tf.size(successors)
    # One position is added at the end, where every path stays. The maximum of an empty segment is the least int32.
    is_visited = tf.concat([[1], tf.zeros([num_positions], tf.int32)], axis=0)
    jump = tf.concat([tf.minimum(successors, num_positions), [num_positions]], axis=0)

    def double(distance, is_visited, jump):
        is_visited = tf.maximum(is_visited, tf.math.unsorted_segment_max(is_visited, jump, num_positions + 1))
        return distance * 2, is_visited, tf.gather(jump, jump)

    # Invariant: all positions less than `distance` steps from position 0 are marked as visited.
    _, is_visited, _ = tf.while_loop(lambda distance, *_: distance <= num_positions, double, (1, is_visited, jump))
    return tf.cast(tf.where(is_visited[:-1] > 0)[:, 0], tf.int32)
