"""Operations that keras.ops lacks, on TensorFlow: draws from a seed tensor, gathers and loops."""

import math
from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf
from tensorflow.compiler.tf2xla.ops import gen_xla_ops
from tensorflow.compiler.xla import xla_data_pb2


def tensor(values: Any) -> Any:
    """Converts a tensor or a variable to a tensor, cast as Keras does."""
    return tf.convert_to_tensor(keras.ops.convert_to_tensor(values))


def rows(table: Any, indices: Any) -> Any:
    """The rows of a table [V, H] at indices of any shape.

    keras.ops.take counts negative indices from the end. Here a CPU refuses them, as it refuses those behind the end.
    """
    return tf.gather(keras.ops.convert_to_tensor(table), indices)


# Rows of a one-hot matrix that exists at a time: 1 GB in bfloat16 for BERT's vocabulary.
_ROWS_IN_ORDER = 16_384


def rows_in_order(table: Any, indices: Any) -> Any:
    """rows, for a program that XLA compiles whole, with a gradient whose sums have one order.

    The gradient of a gather is a scatter, which a GPU adds up in any order. Here it is a product of a one-hot matrix
    with the gradient of the rows. Three bfloat16 numbers hold a float32, so that no digit is lost before the sum.

    Args:
        table: float32 [V, H].
        indices: int32 of a known shape.
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
    """The rows of x [B, S, H] at positions [B, P], with a gradient whose sums have one order; see rows_in_order."""

    @tf.custom_gradient
    def gathered(x):
        def gradient(upstream):
            places = tf.range(x.shape[1])[None, :, None]
            return tf.matmul(tf.cast(tf.equal(places, positions[:, None, :]), upstream.dtype), upstream)

        return tf.gather(x, positions, batch_dims=1), gradient

    return gathered(tensor(x))


def _float32_product(x, y):
    """x @ y of bfloat16 matrices, added up and returned in float32."""
    axes = xla_data_pb2.DotDimensionNumbers(lhs_contracting_dimensions=[1], rhs_contracting_dimensions=[0])
    precision = xla_data_pb2.PrecisionConfig()
    return gen_xla_ops.xla_dot_v2(x, y, axes.SerializeToString(), precision.SerializeToString(), tf.float32)


def einsum(equation: str, *tensors: Any) -> Any:
    """tf.einsum of tensors and variables. keras.ops.einsum makes a matrix product between transpositions."""
    return tf.einsum(equation, *map(tensor, tensors))


def scan(step: Callable, state: tuple, length: Any, reverse: bool = False) -> list:
    """All states of a loop, each [length, ...], by place.

    keras.ops.scan keeps its state in lists too, and takes no sequences of unknown length.

    Args:
        step: function of (tuple of states, place) that returns the next states.
        state: tuple of tensors, the first states.
        length: int or int32 scalar, the number of places.
        reverse: whether the loop goes from the last place to the first.
    """

    def body(number, state, lists):
        place = length - 1 - number if reverse else number
        state = step(state, place)
        return number + 1, state, tuple(each.write(place, values) for each, values in zip(lists, state, strict=True))

    lists = tuple(tf.TensorArray(each.dtype, length, element_shape=each.shape) for each in state)
    *_, lists = tf.while_loop(lambda number, *_: number < length, body, (0, state, lists))
    return [each.stack() for each in lists]


def fold_in(seed: Any, number: Any) -> Any:
    """A new seed, int [2], from a seed, int [2], and a number.

    Different numbers give unrelated seeds, the same ones on every device.
    """
    return tf.random.experimental.stateless_fold_in(seed, number, alg="philox")


def seed_of_replica(seed: Any) -> Any:
    """A seed of any integer type, [2], as int32 [2] that no other replica of a tf.distribute strategy gets."""
    context = tf.distribute.get_replica_context()
    number = 0 if context is None else context.replica_id_in_sync_group
    return fold_in(tf.cast(seed, tf.int32), number)


def stem(seed: Any) -> Any:
    """The part that all seeds which fold_in makes of one seed have in common, an int32 scalar; None for None.

    It is forty ops, nearly all of fold_in's cost. A model computes it once, instead of once for each dropout.
    """
    return None if seed is None else fold_in(seed, 0)[0]


def with_number(stem: Any, number: int) -> Any:
    """fold_in's seed, int [2], from the stem of a seed and a number."""
    return tf.stack([stem, number])


def uniform_bits(seed: Any, shape: list) -> Any:
    """uint32 of a shape, each a hash of its place and of the seed.

    TensorFlow's generators run ten rounds or more, for streams that must pass a statistician's tests. A mask needs
    less: the 32-bit finalizer of MurmurHash3 (A. Appleby, 2011), where a change of any input bit changes half of the
    output bits.

    Args:
        seed: int [2].
        shape: ints or int32 scalars.
    """
    words = tf.cast(tf.bitwise.bitwise_and(tf.cast(seed, tf.int64), 0xFFFFFFFF), tf.uint32)
    first = _hashed(words[0])
    return _hashed(tf.bitwise.bitwise_xor(_places(shape, first), _hashed(words[1] + first)))


def sizes(values: Any) -> list:
    """The shape of a tensor, as ints where they are known and int32 scalars otherwise."""
    return (
        values.shape.as_list() if values.shape.is_fully_defined() else tf.unstack(tf.shape(values), values.shape.rank)
    )


def _places(shape, first):
    """uint32 of a shape: `first`, and one more at each place in row-major order.

    The steps are added axis by axis to `first`, which no compiler knows. Places counted from zero would be a constant:
    TensorFlow's TPU bridge makes one as large as the mask, and a TPU then reads it for each mask.
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
