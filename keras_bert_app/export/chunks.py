"""Work on many rows a part at a time, in graph."""

import tensorflow as tf


def in_chunks(function, count, size, specs):
    """The results of function(start, end) over [0, count), one part after the other, joined along their first axis.

    Memory is that of one part and of the results.

    Args:
        function: gives a list of tensors [end - start, ...]. count, size: int32 scalars. specs: their tf.TensorSpecs,
            [None, ...].

    Returns:
        list of tensors [count, ...].
    """
    def step(start, *results):
        end = tf.minimum(start + size, count)
        return end, *(tf.concat([before, part], axis=0) for before, part in zip(results, function(start, end)))

    nothing = [tf.zeros([0, *spec.shape[1:]], spec.dtype) for spec in specs]
    return tf.while_loop(lambda start, *_: start < count, step, [tf.constant(0), *nothing], parallel_iterations=1,
                         shape_invariants=[tf.TensorShape([]), *(spec.shape for spec in specs)])[1:]
