"""Work on many rows a part at a time, in graph."""

import tensorflow as tf

_PLACES_AT_A_TIME = 1 << 15  # 256 rows of 128: a request of many long texts must not take all memory


def logits_of_rows(model, inputs):
    """Logits [N, S, n] of a model over rows, a part of the rows at a time.

    Args:
        model: gives {"logits": [rows, S, n]}. inputs: dict of its inputs, each [N, S].
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


def in_chunks(function, count, size, specs, nothing=None):
    """The results of function(start, end) over [0, count), one part after the other, joined along their first axis.

    Memory is that of one part and of the results.

    Args:
        function: gives a list of tensors [end - start, ...]. count, size: int32 scalars. specs: their tf.TensorSpecs,
            [None, ...]. nothing: list of the results of no rows, for specs of which further dimensions are not known.

    Returns:
        list of tensors [count, ...].
    """

    def step(start, *results):
        end = tf.minimum(start + size, count)
        return end, *(tf.concat([before, part], axis=0) for before, part in zip(results, function(start, end)))

    nothing = nothing or [tf.zeros([0, *spec.shape[1:]], spec.dtype) for spec in specs]
    return tf.while_loop(
        lambda start, *_: start < count,
        step,
        [tf.constant(0), *nothing],
        parallel_iterations=1,
        shape_invariants=[tf.TensorShape([]), *(spec.shape for spec in specs)],
    )[1:]
