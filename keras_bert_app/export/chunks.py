"""Computation over many rows in parts, in graph."""

from collections.abc import Callable

import tensorflow as tf

# The limit is the size of 256 rows of 128 tokens. Without it a request with many long texts could take all memory.
_PLACES_AT_A_TIME = 1 << 15


def logits_of_rows(model: Callable, inputs: dict):
    """Computes the logits of rows, some rows at a time.

    Args:
        model: function of the inputs that returns {"logits": [rows, S, n]}, with a `classifier` layer.
        inputs: dict of tensors [N, S].

    Returns:
        float32 [N, S, n].
    """
    shape = tf.shape(inputs["input_word_ids"])
    rows_at_a_time = tf.maximum(1, _PLACES_AT_A_TIME // tf.maximum(1, shape[1]))

    def part(start, end):
        return [model({name: values[start:end] for name, values in inputs.items()})["logits"]]

    outputs = model.classifier.bias.shape[0]
    (logits,) = in_chunks(
        part,
        shape[0],
        rows_at_a_time,
        [tf.TensorSpec([None, None, outputs], tf.float32)],
        nothing=[tf.zeros([0, shape[1], outputs])],
    )
    return logits


def in_chunks(function: Callable, count, size, specs: list[tf.TensorSpec], nothing: list | None = None) -> list:
    """Computes a function over [0, count) in parts, and joins the results along their first axis.

    The loop needs memory for one part and for the results.

    Args:
        function: function of start and end that returns a list of tensors [end - start, ...].
        count: int32 scalar. The number of items.
        size: int32 scalar. The most items of a part.
        specs: list of tf.TensorSpec of the results, [None, ...].
        nothing: list of the results for no items. Required if a spec has further unknown dimensions.

    Returns:
        list of tensors [count, ...].
    """

    def step(start, *results):
        end = tf.minimum(start + size, count)
        return end, *(
            tf.concat([before, part], axis=0) for before, part in zip(results, function(start, end), strict=True)
        )

    nothing = nothing or [tf.zeros([0, *spec.shape[1:]], spec.dtype) for spec in specs]
    return tf.while_loop(
        lambda start, *_: start < count,
        step,
        [tf.constant(0), *nothing],
        parallel_iterations=1,
        shape_invariants=[tf.TensorShape([]), *(spec.shape for spec in specs)],
    )[1:]
