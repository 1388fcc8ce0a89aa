"""What keras.ops lacks: draws that are a pure function of a seed tensor, and functions that XLA compiles within a graph.

The one file here that imports TensorFlow.
"""

import contextlib
import contextvars
import functools
import math

import keras
import tensorflow as tf
from tensorflow.compiler.tf2xla.ops import gen_xla_ops

_COMPILED = contextvars.ContextVar("compiled", default="")  # outside of any training step
_PRODUCTS_APART = contextvars.ContextVar("products_apart", default=False)


@contextlib.contextmanager
def _set(variable, value):
    """A contextvars.ContextVar's value for a block."""
    token = variable.set(value)
    try:
        yield
    finally:
        variable.reset(token)


def compiled(what):
    """Within the block models are traced for a step of which so much is compiled by XLA.

    Args:
        what: "step" (all of it, by whoever traces), "parts" (what `fused` is given, and an optimizer's updates), "none", or
            "" outside of any step.
    """
    return _set(_COMPILED, what)


def compiles_parts():
    """Whether what is traced now is to be compiled in parts."""
    return _COMPILED.get() == "parts"


def compiles_all():
    """Whether what is traced now is to be compiled as one program, in which XLA chooses how arrays lie and what is kept."""
    return _COMPILED.get() == "step"


def is_compiled():
    """Whether what is traced now is to be compiled, in parts, whole, or as one of the parts."""
    return _COMPILED.get() in ("step", "parts", "kernel")


def is_kernel():
    """Whether what is traced now is one of the parts, a kernel by itself."""
    return _COMPILED.get() == "kernel"


def products_apart():
    """Within the block what has several products of the same rows is traced with each by itself, for a runtime that holds
    constants once and for all: parts of one product would have to be cut out of it."""
    return _set(_PRODUCTS_APART, True)


def are_products_apart():
    """Whether what is traced now is within products_apart."""
    return _PRODUCTS_APART.get()


def fused(function, *tensors, **constants):
    """function(*tensors, **constants), as one kernel each way where parts are compiled.

    Element-wise work and sums over rows cost the memory's time and little else: as one kernel they read and write once what
    as TensorFlow's ops they would once an op, while matrix products stay with the library that is fastest at them. The
    gradient computes the function anew from its arguments, which alone are kept.

    Args:
        function: of this module's callers, defined at the top of a file; of tensors (None where there is none) to one tensor or
            a tuple of them. constants: hashable.
    """
    tensors = [None if tensor is None else _value(tensor) for tensor in tensors]
    if not compiles_parts():
        return function(*tensors, **constants)
    kernel = _kernel(function, tuple(tensor is not None for tensor in tensors), tuple(sorted(constants.items())))
    return kernel(*(tensor for tensor in tensors if tensor is not None))


def widened(values):
    """float32 of the values within a kernel, whose steps go through registers; as they are where each step goes through memory.

    What a CPU has of bfloat16 is products: in a kernel, to round between two steps costs more than it spares.
    """
    return tf.cast(values, tf.float32) if is_kernel() else values


def own_gradient(function):
    """A function of tensors from one that gives its result and, as tf.custom_gradient has it, the gradient.

    Outside of a training step it is the result alone: graphs that are exported stay free of what only training needs.
    """

    @tf.custom_gradient
    def with_gradient(*tensors):
        what = _COMPILED.get()
        result, gradient = function(*tensors)

        def compiled_alike(*upstream):
            with compiled(what):  # the gradient may be traced when the model's own block is over
                return gradient(*upstream)

        return result, compiled_alike

    @functools.wraps(function)
    def call(*tensors):
        tensors = [_value(tensor) for tensor in tensors]
        return with_gradient(*tensors) if _COMPILED.get() else function(*tensors)[0]

    return call


def _value(tensor):
    """A tensor of one, or of a variable: keras.ops' conversion casts that where Keras would, TensorFlow's reads it."""
    return tf.convert_to_tensor(keras.ops.convert_to_tensor(tensor))


@functools.cache
def _kernel(function, is_there, constants):
    def of_those_there(tensors):
        tensors = iter(tensors)
        with compiled("kernel"):  # the gradient may be traced when the model's own block is over
            return function(*(next(tensors) if there else None for there in is_there), **dict(constants))

    @tf.function(jit_compile=True, autograph=False)
    def forward(*tensors):
        return of_those_there(tensors)

    @tf.function(jit_compile=True, autograph=False)
    def backward(tensors, gradients):
        floats = [tensor for tensor in tensors if tensor.dtype.is_floating]
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            tape.watch(floats)
            outputs = of_those_there(tensors)
        return tape.gradient(outputs, floats, gradients, unconnected_gradients=tf.UnconnectedGradients.ZERO)

    @tf.custom_gradient
    def kernel(*tensors):
        def gradient(*gradients):
            of_floats = iter(backward(tensors, gradients if len(gradients) > 1 else gradients[0]))
            return [next(of_floats) if tensor.dtype.is_floating else None for tensor in tensors]

        return forward(*tensors), gradient

    return kernel


def computed_anew(*tensors):
    """The tensors (None where there is none), for a gradient that computes anew what followed from them.

    In a program that is compiled whole XLA would find that it has computed the same before, and keep that, in float32 where
    its arguments are bfloat16. All wait for each other, so that nothing is computed before the gradient is at hand.
    """
    if not compiles_all():
        return tensors
    held = iter(gen_xla_ops.xla_optimization_barrier([tensor for tensor in tensors if tensor is not None]))
    return tuple(None if tensor is None else next(held) for tensor in tensors)


def rows(table, indices):
    """The rows of a table [V, H] at indices of any shape.

    keras.ops.take counts negative ones from the end; here they are refused on a CPU, as those behind the end are.
    """
    return tf.gather(keras.ops.convert_to_tensor(table), indices)


def einsum(equation, *tensors):
    """tf.einsum, of tensors and variables: keras.ops' makes a product of matrices of it, with transpositions around it."""
    return tf.einsum(equation, *map(_value, tensors))


def product(x, kernel):
    """x @ kernel over the last axis of x [..., F], [rows, G]; compiled whole, [..., G].

    Library calls are faster over all rows at once than row by row of a batch. XLA, however, lays arrays out for whoever reads
    them next, and rows that were made one axis tie its hands: it copies them.
    """
    if compiles_all():
        # Axes by name: of an ellipsis TensorFlow's gradient of the kernel is made for each row, and added up then.
        axes = "abcde"[: len(x.shape) - 1]
        return einsum(f"{axes}f,fg->{axes}g", x, kernel)
    return keras.ops.matmul(keras.ops.reshape(x, (-1, kernel.shape[0])), kernel)


def scan(step, state, length, reverse=False):
    """What each state of a loop was, [length, ...] each, by place.

    keras.ops.scan keeps its state in lists too, and takes no sequences of unknown length.

    Args:
        step: of (tuple of states, place), gives the next states. state: tuple of tensors, the first. reverse: whether the
            places are taken from last to first.
    """

    def body(number, state, lists):
        place = length - 1 - number if reverse else number
        state = step(state, place)
        return number + 1, state, tuple(each.write(place, values) for each, values in zip(lists, state, strict=True))

    lists = tuple(tf.TensorArray(each.dtype, length, element_shape=each.shape) for each in state)
    *_, lists = tf.while_loop(lambda number, *_: number < length, body, (0, state, lists))
    return [each.stack() for each in lists]


def fold_in(seed, number):
    """A new seed, int [2], from a seed, int [2], and a number; different numbers give unrelated seeds, on all devices the same."""
    return tf.random.experimental.stateless_fold_in(seed, number, alg="philox")


def stem(seed):
    """What the seeds that fold_in makes of a seed, int [2], and int32 numbers have in common, an int32 scalar; None of None.

    It is nearly all of their cost, forty ops and more for each: a model has it once, not once a dropout.
    """
    return None if seed is None else fold_in(seed, 0)[0]


def with_number(stem, number):
    """fold_in's seed, int [2], from the stem of a seed and an int32 number."""
    return tf.stack([stem, number])


def dropout(values, rate, seed):
    """Zeroes a share `rate` of the values and scales the rest by 1 / (1 - rate).

    keras.layers.Dropout draws the same mask on every replica and cannot be replayed; here the mask is a pure function
    of the seed, int [2]. Where XLA compiles it, of the same seed another mask is drawn, by a hash that takes part in the kernel.
    In a program that is compiled whole no mask is kept for the gradient, which draws it once more.
    """
    if not is_compiled():
        return tf.nn.experimental.stateless_dropout(values, rate, seed=seed)
    return _dropout_anew(rate)(values, seed) if compiles_all() else _hashed_dropout(values, rate, seed)


def _hashed_dropout(values, rate, seed):
    is_kept = uniform_bits(seed, _sizes(values)) >= tf.constant(round(rate * 2**32), tf.uint32)
    return values * (tf.cast(is_kept, values.dtype) * tf.cast(1.0 / (1.0 - rate), values.dtype))


@functools.cache
def _dropout_anew(rate):
    @own_gradient
    def dropped(values, seed):
        return (
            _hashed_dropout(values, rate, seed),
            lambda upstream: (_hashed_dropout(upstream, rate, *computed_anew(seed)), None),
        )

    return dropped


def uniform_bits(seed, shape):
    """uint32 of the shape, a list of ints or scalars, each a hash of its place and of the seed, int [2].

    TensorFlow's generators run ten rounds or more, for streams that must pass for random to a statistician; a mask is content
    with the 32-bit finalizer of MurmurHash3 (A. Appleby, 2011), which changes half of the bits of what it gives for any one bit
    of what it is given.
    """
    words = tf.cast(tf.bitwise.bitwise_and(tf.cast(seed, tf.int64), 0xFFFFFFFF), tf.uint32)
    first = _hashed(words[0])
    return _hashed(tf.bitwise.bitwise_xor(_places(shape, first), _hashed(words[1] + first)))


def _sizes(values):
    return (
        values.shape.as_list() if values.shape.is_fully_defined() else tf.unstack(tf.shape(values), values.shape.rank)
    )


def _places(shape, first):
    """uint32 of the shape, a list: `first`, and from there on one more each in row-major order.

    Axis by axis, each added to `first`, which no compiler knows: the places from zero on are a constant, and TensorFlow's TPU
    bridge makes one of them, as large as the mask, which a TPU then reads for each mask.
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
