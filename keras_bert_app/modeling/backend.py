"""TensorFlow operations that keras.ops lacks: random draws from a seed tensor, gathers and loops."""

import math
from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf
from tensorflow.compiler.tf2xla.ops import gen_xla_ops
from tensorflow.compiler.xla import xla_data_pb2


def tensor(values: Any) -> Any:
    """Converts values to a tensor. For a variable the autocast of Keras decides the type.

    Args:
        values: tensor, variable or array.

    Returns:
        tf.Tensor.
    """
    return tf.convert_to_tensor(keras.ops.convert_to_tensor(values))


def rows(table: Any, indices: Any) -> Any:
    """Gathers rows of a table.

    keras.ops.take counts negative indices from the end. On a CPU this function refuses all indices outside the table.

    Args:
        table: [V, H].
        indices: int32 of any shape.

    Returns:
        [..., H].
    """
    return tf.gather(keras.ops.convert_to_tensor(table), indices)


# The gradient handles this many indices at a time. For BERT's vocabulary the one-hot matrix takes 1 GB in bfloat16.
_ROWS_IN_ORDER = 16_384


def rows_in_order(table: Any, indices: Any) -> Any:
    """Gathers rows of a table. The gradient adds its terms in a fixed order.

    XLA must compile the whole program. The gradient of a gather is a scatter, and a GPU adds its terms in any order.
    Here the gradient is the product of a one-hot matrix with the gradient of the rows. Three bfloat16 numbers hold
    each float32, so no digit is lost before the sum.

    Args:
        table: float32 [V, H].
        indices: int32 of a known shape.

    Returns:
        float32 [..., H].
    """
    return _rows_in_order(tensor(table), tf.reshape(indices, [-1]), tuple(indices.shape))


def _rows_in_order(table, flat, shape):
    @tf.custom_gradient
    def gathered(table):
        def gradient(upstream):
            rest, parts = tf.reshape(upstream, [-1, table.shape[1]]), []
            for _ in range(3):
                parts.append(tf.cast(rest, tf.bfloat16))
                rest -= tf.cast(parts[-1], tf.float32)
            parts, total = tf.concat(parts, axis=1), 0.0
            for start in range(0, flat.shape[0], _ROWS_IN_ORDER):
                some = slice(start, start + _ROWS_IN_ORDER)
                one_hot = tf.cast(tf.equal(tf.range(table.shape[0])[:, None], flat[None, some]), tf.bfloat16)
                total += _float32_product(one_hot, parts[some])
            return tf.add_n(tf.split(total, 3, axis=1))

        return tf.reshape(tf.gather(table, flat), [*shape, table.shape[1]]), gradient

    return gathered(table)


def rows_at_in_order(x: Any, positions: Any) -> Any:
    """Gathers rows at positions. The gradient adds its terms in a fixed order. See rows_in_order.

    Args:
        x: [B, S, H].
        positions: int32 [B, P].

    Returns:
        [B, P, H].
    """

    @tf.custom_gradient
    def gathered(x):
        def gradient(upstream):
            places = tf.range(x.shape[1])[None, :, None]
            return tf.matmul(tf.cast(tf.equal(places, positions[:, None, :]), upstream.dtype), upstream)

        return tf.gather(x, positions, batch_dims=1), gradient

    return gathered(tensor(x))


def _float32_product(x, y):
    """Computes x @ y of bfloat16 matrices. The sums and the result are float32."""
    axes = xla_data_pb2.DotDimensionNumbers(lhs_contracting_dimensions=[1], rhs_contracting_dimensions=[0])
    precision = xla_data_pb2.PrecisionConfig()
    return gen_xla_ops.xla_dot_v2(x, y, axes.SerializeToString(), precision.SerializeToString(), tf.float32)


def einsum(equation: str, *tensors: Any) -> Any:
    """Computes tf.einsum. keras.ops.einsum would add transpositions before and after a matrix product.

    Args:
        equation: str. See tf.einsum.
        *tensors: tensors or variables. The operands.

    Returns:
        tensor.
    """
    return tf.einsum(equation, *map(tensor, tensors))


def scan(step: Callable, state: tuple, length: Any, reverse: bool = False) -> list:
    """Runs a loop over places and returns the states after every step.

    keras.ops.scan takes no sequences of unknown length.

    Args:
        step: function of (tuple of states, place). Returns the next states.
        state: tuple of tensors. The states before the first step.
        length: int or int32 scalar. The number of places.
        reverse: bool. Whether the loop goes from the last place to the first.

    Returns:
        list of tensors [length, ...], one for each state, in the order of the places.
    """

    def body(number, state, lists):
        place = length - 1 - number if reverse else number
        state = step(state, place)
        return number + 1, state, tuple(each.write(place, values) for each, values in zip(lists, state, strict=True))

    lists = tuple(tf.TensorArray(each.dtype, length, element_shape=each.shape) for each in state)
    *_, lists = tf.while_loop(lambda number, *_: number < length, body, (0, state, lists), maximum_iterations=length)
    return [each.stack() for each in lists]


def while_loop(condition: Callable, body: Callable, state: tuple) -> tuple:
    """Runs body on a state while condition is true.

    keras.ops.while_loop compares the shapes before and after a step, and refuses a size that TensorFlow knows only
    before or only after it.

    Args:
        condition: function of the parts of the state. Returns a bool scalar.
        body: function of the parts of the state. Returns a tuple of the same structure, with the same shapes.
        state: tuple of tensors, or of nested tuples and lists of tensors. The first state.

    Returns:
        tuple: the last state.
    """
    shapes = tf.nest.map_structure(lambda part: part.shape, state)

    def body_of_shapes(*parts):
        return tf.nest.map_structure(tf.ensure_shape, body(*parts), shapes)

    return tf.while_loop(condition, body_of_shapes, state, shape_invariants=shapes)


def with_place(values: Any, new: Any, place: Any, axis: int, is_for_xla: bool = False) -> Any:
    """Writes one place of an axis. In a loop this changes the memory of `values`, which then is not copied.

    XLA cannot compile the op that does so, because it needs a place that is known before.

    Args:
        values: [..., T, ...], with T places on the axis. T and the sizes after it are static.
        new: [..., 1, ...]. What the place gets.
        place: int32 scalar.
        axis: int. The number of the axis, from 0.
        is_for_xla: bool. Whether XLA compiles the loop.

    Returns:
        The shape of values.
    """
    if is_for_xla:
        is_here = tf.range(values.shape[axis]) == place
        return tf.where(tf.reshape(is_here, [-1] + [1] * (len(values.shape) - 1 - axis)), new, values)
    length, width = values.shape[axis], math.prod(values.shape[axis + 1 :])
    # TensorFlow writes a slice of two axes faster than one of four.
    written = tf.raw_ops.TensorStridedSliceUpdate(
        input=tf.reshape(values, (-1, length * width)),
        begin=tf.stack([0, place * width]),
        end=tf.stack([0, (place + 1) * width]),
        strides=[1, 1],
        value=tf.reshape(new, (-1, width)),
        begin_mask=1,  # all rows
        end_mask=1,
    )
    return tf.reshape(written, [-1 if size is None else size for size in values.shape])


def argmax(values: Any) -> Any:
    """Finds the place of the largest number of each row; the first one of equal numbers.

    keras.ops.argmax makes three more passes over the numbers, to order -0.0 before 0.0.

    Args:
        values: float [..., N].

    Returns:
        int32 [...].
    """
    return tf.argmax(values, axis=-1, output_type=tf.int32)


def top_k(values: Any, k: int) -> tuple[Any, Any]:
    """Finds the largest numbers of each row. The result is that of tf.math.top_k: the first of equal numbers wins.

    tf.math.top_k compares every number with the k largest so far. This function first takes the largest number of each
    block of a row. The k largest numbers are in the k blocks with the largest such numbers.

    Args:
        values: float [B, N], with a static N.
        k: int. At most N.

    Returns:
        (numbers [B, k], descending; their places int32 [B, k]).
    """
    num_values = values.shape[-1]
    block = _block_size(num_values, k)
    if not block:
        return tf.math.top_k(values, k)
    blocks = tf.reshape(values, (-1, num_values // block, block))
    _, numbers = tf.math.top_k(tf.reduce_max(blocks, axis=-1), k)
    numbers = tf.sort(numbers, axis=-1)  # so that the first of equal numbers stays the first
    best, places = tf.math.top_k(tf.reshape(tf.gather(blocks, numbers, batch_dims=1), (-1, k * block)), k)
    return best, tf.gather(numbers, places // block, batch_dims=1) * block + places % block


def _block_size(num_values, k):
    """The divisor of num_values for which top_k has the fewest numbers to sort, or 0 if blocks do not help."""
    divisors = [size for size in range(2, num_values // (4 * k) + 1) if num_values % size == 0]
    best = min(divisors, key=lambda size: num_values // size + k * size, default=0)
    return best if best and num_values // best + k * best < num_values // 4 else 0


def rows_of_groups(values: Any, indices: Any) -> Any:
    """Gathers entries of each group.

    Args:
        values: [B, K, ...].
        indices: int32 [B, M], from 0 to K - 1.

    Returns:
        [B, M, ...].
    """
    return tf.gather(values, indices, batch_dims=1)


def has_occurred(ids: Any, size: int) -> Any:
    """Marks the numbers that occur in each row.

    Args:
        ids: int32 [B, T], from 0 to size - 1.
        size: int. V.

    Returns:
        bool [B, V].
    """
    shape = tf.stack([tf.shape(ids)[0], size])
    rows = tf.broadcast_to(tf.range(shape[0])[:, None], tf.shape(ids))
    return tf.scatter_nd(tf.stack([rows, ids], axis=-1), tf.ones_like(ids), shape) > 0


def gumbel_noise(seeds: Any, number: Any, size: int) -> Any:
    """Draws Gumbel noise with a seed for each row.

    A row's noise does not depend on the other rows. The argmax of logits + noise is a draw by the probabilities
    softmax(logits) (Gumbel 1954).

    Args:
        seeds: int32 [B]. The seed of each row.
        number: int32 scalar. Different numbers give unrelated noise.
        size: int. V.

    Returns:
        float32 [B, V].
    """
    start = _hashed(_hashed(tf.cast(seeds, tf.uint32)) + tf.cast(number, tf.uint32))
    places = tf.range(size, dtype=tf.int32)
    bits = _hashed(_hashed(start[:, None] + tf.cast(places, tf.uint32)[None, :]))
    # 24 bits fit exactly into a float32. The half keeps the draw above 0 and below 1.
    uniform = (tf.cast(tf.bitwise.right_shift(bits, tf.constant(8, tf.uint32)), tf.float32) + 0.5) * 2.0**-24
    return -tf.math.log(-tf.math.log(uniform))


def seeds_of_texts(ids: Any, mask: Any, seed: int) -> Any:
    """Makes a seed for each text, from its pieces. It does not depend on the other texts, and not on padding.

    Args:
        ids: int32 [B, S].
        mask: int32 [B, S]. 1 for a piece, 0 for padding.
        seed: int. Different numbers give unrelated seeds.

    Returns:
        int32 [B].
    """
    places = _hashed(tf.cast(tf.range(tf.shape(ids)[1]), tf.uint32))
    words = tf.cast(_hashed(tf.cast(ids, tf.uint32) + places), tf.int64) * tf.cast(mask, tf.int64)
    total = tf.cast(tf.bitwise.bitwise_and(tf.reduce_sum(words, axis=1), 0xFFFFFFFF), tf.uint32)
    return tf.cast(_hashed(total + tf.constant(seed & 0xFFFFFFFF, tf.uint32)), tf.int32)


def fold_in(seed: Any, number: Any) -> Any:
    """Makes a new seed from a seed and a number.

    Different numbers give unrelated seeds. Every device makes the same seed.

    Args:
        seed: int [2].
        number: int or int scalar.

    Returns:
        int [2].
    """
    return tf.random.experimental.stateless_fold_in(seed, number, alg="philox")


def seed_of_replica(seed: Any) -> Any:
    """Makes a seed that no other replica of a tf.distribute strategy gets.

    Args:
        seed: [2], of any integer type.

    Returns:
        int32 [2].
    """
    context = tf.distribute.get_replica_context()
    number = 0 if context is None else context.replica_id_in_sync_group
    return fold_in(tf.cast(seed, tf.int32), number)


def stem(seed: Any) -> Any:
    """Computes the part that is equal in all seeds that fold_in makes from one seed.

    This part takes forty ops, nearly all of fold_in's cost. A model computes it once, instead of once for each dropout.

    Args:
        seed: int [2], or None.

    Returns:
        int32 scalar. None if the seed is None.
    """
    return None if seed is None else fold_in(seed, 0)[0]


def with_number(stem: Any, number: int) -> Any:
    """Makes the same seed as fold_in, from the stem of a seed and a number.

    Args:
        stem: int32 scalar. See `stem`.
        number: int.

    Returns:
        int32 [2].
    """
    return tf.stack([stem, number])


def uniform_bits(seed: Any, shape: list) -> Any:
    """Draws random integers. Each is a hash of its place and of the seed.

    TensorFlow's generators run ten rounds or more, because their streams must pass statistical tests. For a dropout
    mask the 32-bit finalizer of MurmurHash3 (A. Appleby, 2011) is enough. In this hash a change of any input bit
    changes half of the output bits.

    Args:
        seed: int [2].
        shape: list of ints or int32 scalars.

    Returns:
        uint32 of the shape.
    """
    words = tf.cast(tf.bitwise.bitwise_and(tf.cast(seed, tf.int64), 0xFFFFFFFF), tf.uint32)
    first = _hashed(words[0])
    return _hashed(tf.bitwise.bitwise_xor(_places(shape, first), _hashed(words[1] + first)))


def sizes(values: Any) -> list:
    """Returns the shape of a tensor.

    Args:
        values: tensor of a known rank.

    Returns:
        list of ints if all sizes are known, else of int32 scalars.
    """
    return (
        values.shape.as_list() if values.shape.is_fully_defined() else tf.unstack(tf.shape(values), values.shape.rank)
    )


def _places(shape, first):
    """Numbers the places of a shape in row-major order, from `first` on. Returns uint32 of the shape.

    The code adds the steps axis by axis to `first`, whose value no compiler knows. Numbers from zero would be a
    constant. TensorFlow's TPU bridge makes this constant as large as the mask, and a TPU then reads it for each mask.
    """
    places = first
    for axis, size in enumerate(shape):
        steps = tf.cast(tf.range(size) * math.prod(shape[axis + 1 :]), tf.uint32)
        places += tf.reshape(steps, [-1] + [1] * (len(shape) - 1 - axis))
    return places


def _hashed(bits):
    bits = _shifted_xor(bits, 16) * tf.constant(0x85EBCA6B, tf.uint32)
    bits = _shifted_xor(bits, 13) * tf.constant(0xC2B2AE35, tf.uint32)
    return _shifted_xor(bits, 16)


def _shifted_xor(bits, shift):
    return tf.bitwise.bitwise_xor(bits, tf.bitwise.right_shift(bits, tf.constant(shift, tf.uint32)))
