"""How a model's arithmetic is executed: as plain ops, with compiled parts, or as one compiled program.

An `Execution` is a value. The start of a run decides on it once, and every layer gets it as an argument. Everything
that differs by execution, and so by device, is in this file with the measured reason.
"""

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf
from tensorflow.compiler.tf2xla.ops import gen_xla_ops

from keras_bert_app.modeling import backend


@dataclasses.dataclass(frozen=True)
class Execution:
    """How ops are executed.

    Args:
        mode: str. One of
            "plain": TensorFlow's ops and their gradients, for inference and exported graphs;
            "none": the same ops with the gradients of this package, for training without XLA;
            "parts": functions given to `fused` are XLA kernels, matrix products stay with the library that is fastest;
            "step": XLA compiles the whole program, and whoever traces it asks for that;
            "kernel": inside one of the kernels of "parts".
        has_separate_projections: bool. Whether query, key and value are three products. A LiteRT runtime holds
            constants for good, and the parts of one product would have to be cut out of it.
        is_for_gpu: bool. Whether the program of "step" is arranged for a GPU. A TPU's is arranged otherwise.
        is_deterministic: bool. Whether sums with an open order, such as a GPU's scatter, are replaced by sums with one
            order.
    """

    mode: str = "plain"
    has_separate_projections: bool = False
    is_for_gpu: bool = False
    is_deterministic: bool = False

    @property
    def compiles_parts(self) -> bool:
        """Whether functions given to `fused` become kernels."""
        return self.mode == "parts"

    @property
    def compiles_all(self) -> bool:
        """Whether XLA compiles the whole program, chooses the layout of arrays and what is kept for the gradient."""
        return self.mode == "step"

    @property
    def is_compiled(self) -> bool:
        """Whether XLA compiles what is traced: in parts, whole, or as one of the parts."""
        return self.mode in ("step", "parts", "kernel")

    @property
    def is_kernel(self) -> bool:
        """Whether what is traced is one kernel."""
        return self.mode == "kernel"

    @property
    def has_own_gradients(self) -> bool:
        """Whether functions have the gradients written in this package. Exported graphs stay free of them."""
        return self.mode != "plain"

    # Sums over heads-first arrays are one library call. For a TPU, XLA lays arrays out for their next reader, so in a
    # program that is compiled whole an explicit transposition would only be a copy.
    @property
    def is_heads_first(self) -> bool:
        """Whether query, key and value are [B, N, S, D]; they are [B, S, N, D] otherwise."""
        return self.is_for_gpu or not self.compiles_all

    @property
    def has_flat_products(self) -> bool:
        """Whether the rows of a batch are one axis of a product.

        A library call is faster over all rows at once than row by row of a batch. On a TPU, XLA lays arrays out for
        their next reader, and would copy rows that were made one axis. On a GPU it would transpose arrays with two axes
        of rows for the gradient of the kernel.
        """
        return self.is_for_gpu or not self.compiles_all

    @property
    def has_one_projection(self) -> bool:
        """Whether query, key and value of a layer come out of one product."""
        return self.has_flat_products and not self.has_separate_projections

    @property
    def recomputes_activation(self) -> bool:
        """Whether the gradient computes an activation anew from its argument, instead of keeping what led to it.

        XLA for GPUs would keep the hyperbolic tangent of gelu beside its argument, both [.., 4H].
        """
        return self.is_for_gpu

    @property
    def has_update_in_program(self) -> bool:
        """Whether the optimizer's update of all variables is one compiled program.

        On a GPU the update's own kernels, hundreds for BERT base, cost more time in their starts than in their work.
        """
        return self.is_for_gpu

    @property
    def recomputes_attention(self) -> bool:
        """Whether the gradient computes a head's scores anew from query and key, instead of keeping them.

        Scores are the largest arrays of a layer. Compiled whole, XLA would keep them in float32 (Dao et al. 2022,
        FlashAttention, sections 3.1 and B.2). As separate ops the second product would cost more than it saves.
        """
        return self.compiles_all

    def fused(self, function: Callable, *tensors: Any, **constants: Any) -> Any:
        """function(*tensors, execution=..., **constants), as one kernel each way where parts are compiled.

        Element-wise work and sums over rows cost memory traffic and little else. As one kernel they read and write each
        array once, where TensorFlow's ops do so once an op. The gradient computes the function anew from its arguments,
        and only those are kept.

        Args:
            function: a function at the top of a module, of tensors (None for a missing one) and an Execution.
            tensors: its tensors.
            constants: hashable keyword arguments.

        Returns:
            what the function returns, a tensor or a tuple of tensors.
        """
        tensors = [None if tensor is None else backend.tensor(tensor) for tensor in tensors]
        if not self.compiles_parts:
            return function(*tensors, execution=self, **constants)
        kernel = _kernel(function, tuple(tensor is not None for tensor in tensors), tuple(sorted(constants.items())))
        return kernel(*(tensor for tensor in tensors if tensor is not None))

    def own_gradient(self, function: Callable) -> Callable:
        """A function of tensors from one that returns (result, gradient function), as tf.custom_gradient takes it."""
        with_gradient = tf.custom_gradient(function)

        @functools.wraps(function)
        def call(*tensors):
            tensors = [backend.tensor(tensor) for tensor in tensors]
            return with_gradient(*tensors) if self.has_own_gradients else function(*tensors)[0]

        return call

    def computed_anew(self, *tensors: Any) -> tuple:
        """The tensors (None for a missing one), for a gradient that computes anew what followed from them.

        XLA finds in a whole program that it has computed the same values before, and keeps those, in float32 where the
        arguments are bfloat16. The barrier hides that, and makes all tensors wait until the gradient is at hand.
        """
        if not self.compiles_all:
            return tensors
        held = iter(gen_xla_ops.xla_optimization_barrier([tensor for tensor in tensors if tensor is not None]))
        return tuple(None if tensor is None else next(held) for tensor in tensors)

    def written(self, values: Any) -> Any:
        """The values, as an array in memory before anything else reads them.

        XLA for GPUs otherwise writes a gradient that has two readers, such as a product and the sum for the bias, in
        float32, or computes it twice.
        """
        return self.computed_anew(values)[0] if self.is_for_gpu else values

    def widened(self, values: Any) -> Any:
        """Values as float32 inside a kernel, unchanged elsewhere.

        A CPU has bfloat16 products only. Inside a kernel the steps go through registers, so that rounding between two
        steps costs more than it saves. Between separate ops values go through memory, where bfloat16 is half the
        traffic.
        """
        return tf.cast(values, tf.float32) if self.is_kernel else values

    def missing_columns(self, num_columns: int) -> int:
        """The number of columns that a product should have beside `num_columns`.

        A GPU multiplies narrow types fast where rows begin at multiples of 16 bytes. BERT's vocabulary of 30,522 has no
        such number of columns, and XLA would copy the product's arrays to fill them up.
        """
        return -num_columns % 8 if self.is_for_gpu else 0

    def product(self, x: Any, kernel: Any) -> Any:
        """x @ kernel over the last axis of x [..., F]: [rows, G] with has_flat_products, [..., G] without."""
        if not self.has_flat_products:
            # Named axes: for an ellipsis TensorFlow's gradient of the kernel is made for each row, then added up.
            axes = "abcde"[: len(x.shape) - 1]
            return backend.einsum(f"{axes}f,fg->{axes}g", x, kernel)
        return keras.ops.matmul(keras.ops.reshape(x, (-1, kernel.shape[0])), kernel)

    def sum_over_rows(self, x: Any) -> Any:
        """[..., H] -> [H].

        A product with ones: on a CPU TensorFlow's sum over rows takes up to 5 times as long, XLA's 10 times.
        """
        if self.compiles_all:
            return keras.ops.sum(x, axis=tuple(range(len(x.shape) - 1)))
        rows = keras.ops.reshape(x, (-1, x.shape[-1]))
        # XLA fuses a vector of less than 16 KB times a matrix into the op that makes the matrix, which then runs column
        # by column: gelu's gradient of 2,048 x 512 in bfloat16 took 26 ms instead of 1.6. It does not fuse two rows.
        if self.is_kernel:
            return keras.ops.matmul(keras.ops.ones((2, keras.ops.shape(rows)[0]), x.dtype), rows)[0]
        return keras.ops.squeeze(keras.ops.matmul(keras.ops.ones((1, keras.ops.shape(rows)[0]), x.dtype), rows), 0)

    def query_key_products(self, query: Any, key: Any) -> Any:
        """The product of every query with every key of its head, [B, N, P, S]; layouts as of is_heads_first."""
        if self.is_heads_first:
            return keras.ops.matmul(query, keras.ops.transpose(key, (0, 1, 3, 2)))
        return backend.einsum("bsnd,btnd->bnst", query, key)

    def weighted_sums(self, weights: Any, value: Any) -> Any:
        """Sums of a head's values [.. S ..] by weights [B, N, P, S]; layouts as of is_heads_first."""
        if self.is_heads_first:
            return keras.ops.matmul(weights, value)
        return backend.einsum("bnst,btnd->bsnd", weights, value)

    def weighted_sums_over_queries(self, weights: Any, values: Any) -> Any:
        """For every key the sum of [.. P ..] values by weights [B, N, P, S]; layouts as of is_heads_first."""
        if self.is_heads_first:
            return keras.ops.matmul(keras.ops.transpose(weights, (0, 1, 3, 2)), values)
        return backend.einsum("bnst,bsnd->btnd", weights, values)

    def dropout(self, values: Any, rate: float, seed: Any) -> Any:
        """Zeroes a share of the values and scales the rest by 1 / (1 - rate).

        The mask is a pure function of the seed. keras.layers.Dropout draws the same mask on every replica and cannot be
        replayed. Where XLA compiles, a hash draws another mask from the same seed, since a hash can be part of a
        kernel. In a whole program no mask is kept for the gradient, which draws it again.

        Args:
            values: tensor of any shape.
            rate: share that is dropped.
            seed: int [2].
        """
        if not self.is_compiled:
            return tf.nn.experimental.stateless_dropout(values, rate, seed=seed)
        return _redrawn_dropout(rate)(values, seed) if self.compiles_all else _hashed_dropout(values, rate, seed)


PLAIN, UNCOMPILED, PARTS, STEP, _KERNEL = map(Execution, ("plain", "none", "parts", "step", "kernel"))
GPU_STEP = Execution("step", is_for_gpu=True)


@functools.cache
def _kernel(function, is_given, constants):
    """A function of the given tensors that runs `function` forward, and its gradient, as one XLA kernel each."""

    def call(tensors):
        tensors = iter(tensors)
        return function(*(next(tensors) if given else None for given in is_given), execution=_KERNEL, **dict(constants))

    @tf.function(jit_compile=True, autograph=False)
    def forward(*tensors):
        return call(tensors)

    @tf.function(jit_compile=True, autograph=False)
    def backward(tensors, gradients):
        floats = [tensor for tensor in tensors if tensor.dtype.is_floating]
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            tape.watch(floats)
            outputs = call(tensors)
        return tape.gradient(outputs, floats, gradients, unconnected_gradients=tf.UnconnectedGradients.ZERO)

    @tf.custom_gradient
    def kernel(*tensors):
        def gradient(*gradients):
            of_floats = iter(backward(tensors, gradients if len(gradients) > 1 else gradients[0]))
            return [next(of_floats) if tensor.dtype.is_floating else None for tensor in tensors]

        return forward(*tensors), gradient

    return kernel


@functools.cache
def _redrawn_dropout(rate):
    def dropped(values, seed):
        return (
            _hashed_dropout(values, rate, seed),
            lambda upstream: (_hashed_dropout(upstream, rate, *STEP.computed_anew(seed)), None),
        )

    return STEP.own_gradient(dropped)


def _hashed_dropout(values, rate, seed):
    is_kept = backend.uniform_bits(seed, backend.sizes(values)) >= tf.constant(round(rate * 2**32), tf.uint32)
    return values * (tf.cast(is_kept, values.dtype) * tf.cast(1.0 / (1.0 - rate), values.dtype))
