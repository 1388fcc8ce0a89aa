"""The exact gradient of a loss over all vectors of a batch, whose rows go through the model in parts (GradCache).

Gao et al. 2021, "Scaling Deep Contrastive Learning Batch Size under Memory Limited Setup": the model first makes the
vectors of all parts. The loss gives the gradient of each vector. Then each part goes through the model again, with the
same dropout, and passes its gradients on to the weights.
"""

from collections.abc import Callable
from typing import Any

import tensorflow as tf


def forward_backward_in_parts(
    vectors_of: Callable[[dict, Any], Any],
    gradients_of: Callable[[dict, Any, Any], list],
    loss_of: Callable[[Any, dict], tuple[Any, Any]],
    num_parts: int,
) -> Callable[[dict], tuple[list, Any]]:
    """Makes a function that computes the gradients of a loss over the vectors of all parts.

    Args:
        vectors_of: function (rows of a part, number of the part) -> vectors [B / num_parts, ...]. It must give the same
            vectors each time.
        gradients_of: function (rows of a part, number of the part, gradient of its vectors) -> list of gradients.
        loss_of: function (vectors [B, ...], batch) -> (loss, sums).
        num_parts: number of equal parts.

    Returns:
        function of a batch -> (gradients, sums).
    """

    def rows_of(batch, index):
        if num_parts == 1:
            return batch
        rows = {}
        for name, values in batch.items():
            sizes = [tf.shape(values)[axis] if size is None else size for axis, size in enumerate(values.shape)]
            rows[name] = tf.reshape(values, [num_parts, sizes[0] // num_parts, *sizes[1:]])[index]
        return rows

    def forward_backward(batch):
        first = vectors_of(rows_of(batch, 0), 0)
        parts = tf.TensorArray(first.dtype, num_parts, element_shape=first.shape).write(0, first)
        _, parts = tf.while_loop(
            lambda index, _: index < num_parts,
            lambda index, parts: (index + 1, parts.write(index, vectors_of(rows_of(batch, index), index))),
            (1, parts),
            parallel_iterations=1,
        )
        vectors = parts.concat()
        with tf.GradientTape() as tape:
            tape.watch(vectors)
            loss, sums = loss_of(vectors, batch)
        of_vectors = tape.gradient(loss, vectors)
        of_parts = tf.reshape(of_vectors, tf.concat([[num_parts, -1], tf.shape(of_vectors)[1:]], axis=0))

        def part(index):
            return gradients_of(rows_of(batch, index), index, of_parts[index])

        _, *gradients = tf.while_loop(
            lambda index, *_: index < num_parts,
            lambda index, *totals: (index + 1, *(a + b for a, b in zip(totals, part(index), strict=True))),
            (1, *part(0)),
            parallel_iterations=1,
        )
        return gradients, sums

    return forward_backward
