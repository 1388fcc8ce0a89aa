"""Ways to execute a model's arithmetic: plain ops, compiled parts, or one compiled program.

An `Execution` is a value. The program chooses it once, at the start of a run, and every layer gets it as an argument.
This file has everything that differs by execution, and therefore by device, with the measured reason.
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
    """The way to execute ops.

    Args:
        mode: str. One of
            "plain": TensorFlow's ops and their gradients, for inference and exported graphs;
            "none": the same ops with the gradients of this package, for training without XLA;
            "parts": XLA compiles each function given to `fused`, and the fastest library computes matrix products;
            "step": XLA compiles the whole program, and the code that traces the program requests the compilation;
            "kernel": inside one of the kernels of "parts".
        has_separate_projections: bool. Whether query, key and value are three products. LiteRT stores the three kernels
            as constants. With one product LiteRT would have to cut each result into three parts, which takes time.
        is_for_gpu: bool. Whether the program of "step" is arranged for a GPU. A TPU needs another arrangement.
        is_deterministic: bool. Whether sums have a fixed order. A GPU's scatter, for example, adds in any order.
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
        """Whether XLA compiles the whole program.

        XLA then chooses the layouts of arrays and the arrays to keep for the gradient.
        """
        return self.mode == "step"

    @property
    def is_compiled(self) -> bool:
        """Whether XLA compiles the traced ops: as parts, as a whole program, or inside one part."""
        return self.mode in ("step", "parts", "kernel")

    @property
    def is_kernel(self) -> bool:
        """Whether the traced ops become one kernel."""
        return self.mode == "kernel"

    @property
    def has_own_gradients(self) -> bool:
        """Whether functions have the gradients of this package. Exported graphs do not have them."""
        return self.mode != "plain"

    # On heads-first arrays a weighted sum is one library call. For a TPU, XLA chooses the layout of each array for the
    # op that reads it next, so an explicit transposition in a wholly compiled program would only be a copy.
    @property
    def is_heads_first(self) -> bool:
        """Whether query, key and value are [B, N, S, D]. Otherwise they are [B, S, N, D]."""
        return self.is_for_gpu or not self.compiles_all

    @property
    def has_flat_products(self) -> bool:
        """Whether a product has one axis for all rows of a batch.

        One library call over all rows is faster than one call for each example of a batch. On a TPU, XLA chooses the
        layout of each array for the op that reads it next. XLA would have to copy the array to join its two axes of
        rows. On a GPU, XLA would transpose arrays with two axes of rows for the gradient of the kernel.
        """
        return self.is_for_gpu or not self.compiles_all

    @property
    def has_one_projection(self) -> bool:
        """Whether one product computes query, key and value of a layer."""
        return self.has_flat_products and not self.has_separate_projections

    @property
    def recomputes_activation(self) -> bool:
        """Whether the gradient computes an activation again, and keeps only its argument.

        XLA for GPUs would keep both the hyperbolic tangent of gelu and its argument, [..., I] each.
        """
        return self.is_for_gpu

    @property
    def has_update_in_program(self) -> bool:
        """Whether the optimizer's update of all variables is one compiled program.

        On a GPU the update consists of hundreds of kernels for BERT base. Their starts take more time than their work.
        """
        return self.is_for_gpu

    @property
    def recomputes_attention(self) -> bool:
        """Whether the gradient computes a head's scores again from query and key, and keeps no scores.

        Scores are the largest arrays of a layer. In a wholly compiled program XLA would keep them in float32 (Dao et
        al. 2022, FlashAttention, sections 3.1 and B.2). With separate ops the second product costs more than it saves.
        """
        return self.compiles_all

    def fused(self, function: Callable, *tensors: Any, **constants: Any) -> Any:
        """Calls function(*tensors, execution=..., **constants).

        In "parts" the forward pass is one kernel, and the gradient is another. Element-wise work and sums over rows
        cost mainly memory traffic. One kernel reads and writes each array once. Separate TensorFlow ops do so once for
        each op. The gradient keeps only the arguments, and computes the function again from them.

        Args:
            function: function of tensors (None for a missing one) and an Execution, defined at the top of a module.
            *tensors: tensors, variables or None. The arguments of the function.
            **constants: hashable values. The keyword arguments of the function.

        Returns:
            a tensor or a tuple of tensors: the result of the function.
        """
        tensors = [None if tensor is None else backend.tensor(tensor) for tensor in tensors]
        if not self.compiles_parts:
            return function(*tensors, execution=self, **constants)
        kernel = _kernel(function, tuple(tensor is not None for tensor in tensors), tuple(sorted(constants.items())))
        return kernel(*(tensor for tensor in tensors if tensor is not None))

    def own_gradient(self, function: Callable) -> Callable:
        """Turns a function with its own gradient into a function of tensors.

        Args:
            function: function that returns (result, gradient function). See tf.custom_gradient.

        Returns:
            function of tensors that returns the result. Without has_own_gradients TensorFlow derives its gradient.
        """
        with_gradient = tf.custom_gradient(function)

        @functools.wraps(function)
        def call(*tensors):
            tensors = [backend.tensor(tensor) for tensor in tensors]
            return with_gradient(*tensors) if self.has_own_gradients else function(*tensors)[0]

        return call

    def recomputed(self, *tensors: Any) -> tuple:
        """Returns tensors from which a gradient computes intermediate results again.

        In a whole program XLA finds that the forward pass computed the same results, and keeps them. XLA keeps float32
        results even if the arguments are bfloat16. XLA's optimization barrier hides the repetition, and delays the work
        until the upstream gradient is ready.

        Args:
            *tensors: tensors, or None for a missing one.

        Returns:
            tuple of the same tensors. With compiles_all they come through the barrier.
        """
        if not self.compiles_all:
            return tensors
        after_barrier = iter(gen_xla_ops.xla_optimization_barrier([tensor for tensor in tensors if tensor is not None]))
        return tuple(None if tensor is None else next(after_barrier) for tensor in tensors)

    def written(self, values: Any) -> Any:
        """Makes XLA for GPUs write an array to memory before other ops read it.

        A gradient can have two readers, such as a product and the sum for the bias. XLA would otherwise write this
        gradient in float32, or compute it twice.

        Args:
            values: tensor of any shape.

        Returns:
            the same values.
        """
        return self.recomputed(values)[0] if self.is_for_gpu else values

    def widened(self, values: Any) -> Any:
        """Casts values to float32 inside a kernel. Returns them unchanged elsewhere.

        A CPU has bfloat16 instructions for products only. Inside a kernel values stay in registers, so rounding between
        two steps costs more than it saves. Between separate ops values go through memory, and bfloat16 halves this
        traffic.

        Args:
            values: tensor of any shape.

        Returns:
            tensor of the same shape.
        """
        return tf.cast(values, tf.float32) if self.is_kernel else values

    def missing_columns(self, num_columns: int) -> int:
        """Returns the number of columns to add to a product.

        A GPU multiplies narrow types fast if rows begin at multiples of 16 bytes. BERT's vocabulary has 30,522
        entries. With so many columns most rows begin elsewhere, and XLA would copy the product's arrays to pad them.

        Args:
            num_columns: int. The columns that the product has.

        Returns:
            int from 0 to 7.
        """
        return -num_columns % 8 if self.is_for_gpu else 0

    def product(self, x: Any, kernel: Any) -> Any:
        """Computes x @ kernel over the last axis of x.

        Args:
            x: [..., F].
            kernel: [F, G].

        Returns:
            [rows, G] with has_flat_products, else [..., G].
        """
        if not self.has_flat_products:
            # The axes have names, because with an ellipsis TensorFlow computes a gradient of the kernel for each row
            # and then adds these gradients.
            axes = "abcde"[: len(x.shape) - 1]
            return backend.einsum(f"{axes}f,fg->{axes}g", x, kernel)
        return keras.ops.matmul(keras.ops.reshape(x, (-1, kernel.shape[0])), kernel)

    def sum_over_rows(self, x: Any) -> Any:
        """Sums over all axes but the last.

        Outside of "step" the sum is a product with ones. On a CPU TensorFlow's own sum over rows takes up to 5 times as
        long, and XLA's own sum takes 10 times as long.

        Args:
            x: [..., H].

        Returns:
            [H].
        """
        if self.compiles_all:
            return keras.ops.sum(x, axis=tuple(range(len(x.shape) - 1)))
        rows = keras.ops.reshape(x, (-1, x.shape[-1]))
        # XLA fuses the product of a vector below 16 KB and a matrix into the op that makes the matrix. This op then
        # runs column by column: gelu's gradient of 2,048 x 512 in bfloat16 took 26 ms instead of 1.6. With two rows of
        # ones XLA does not fuse the product.
        if self.is_kernel:
            return keras.ops.matmul(keras.ops.ones((2, keras.ops.shape(rows)[0]), x.dtype), rows)[0]
        return keras.ops.squeeze(keras.ops.matmul(keras.ops.ones((1, keras.ops.shape(rows)[0]), x.dtype), rows), 0)

    def query_key_products(self, query: Any, key: Any) -> Any:
        """Multiplies every query with every key of its head.

        Args:
            query: [B, N, P, D] or [B, P, N, D]. See is_heads_first.
            key: the same layout, with S instead of P.

        Returns:
            [B, N, P, S].
        """
        if self.is_heads_first:
            return keras.ops.matmul(query, keras.ops.transpose(key, (0, 1, 3, 2)))
        return backend.einsum("bsnd,btnd->bnst", query, key)

    def weighted_sums(self, weights: Any, value: Any) -> Any:
        """Sums the values of each head, weighted for each query.

        Args:
            weights: [B, N, P, S].
            value: [B, N, S, D] or [B, S, N, D]. See is_heads_first.

        Returns:
            the layout of the value, with P instead of S.
        """
        if self.is_heads_first:
            return keras.ops.matmul(weights, value)
        return backend.einsum("bnst,btnd->bsnd", weights, value)

    def weighted_sums_over_queries(self, weights: Any, values: Any) -> Any:
        """Sums the values of all queries, weighted for each key.

        Args:
            weights: [B, N, P, S].
            values: [B, N, P, D] or [B, P, N, D]. See is_heads_first.

        Returns:
            the layout of the values, with S instead of P.
        """
        if self.is_heads_first:
            return keras.ops.matmul(keras.ops.transpose(weights, (0, 1, 3, 2)), values)
        return backend.einsum("bnst,bsnd->btnd", weights, values)

    def dropout(self, values: Any, rate: float, seed: Any) -> Any:
        """Zeroes a share of the values and scales the rest by 1 / (1 - rate).

        The mask is a pure function of the seed. keras.layers.Dropout draws the same mask on every replica, and nobody
        can draw its mask again. In compiled code a hash draws the mask, because a hash can be part of a kernel. This
        mask differs from the mask of plain ops with the same seed. In a whole program the gradient draws the mask
        again, so nothing keeps it.

        Args:
            values: tensor of any shape.
            rate: float. The share of values that is dropped.
            seed: int [2].

        Returns:
            tensor of the same shape.
        """
        if not self.is_compiled:
            return tf.nn.experimental.stateless_dropout(values, rate, seed=seed)
        return _redrawn_dropout(rate)(values, seed) if self.compiles_all else _hashed_dropout(values, rate, seed)


PLAIN, UNCOMPILED, PARTS, STEP, _KERNEL = map(Execution, ("plain", "none", "parts", "step", "kernel"))
GPU_STEP = Execution("step", is_for_gpu=True)


@functools.cache
def _kernel(function, is_given, constants):
    """Makes a function of the given tensors that runs `function` as one XLA kernel, and its gradient as another."""

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
            float_gradients = iter(backward(tensors, gradients if len(gradients) > 1 else gradients[0]))
            return [next(float_gradients) if tensor.dtype.is_floating else None for tensor in tensors]

        return forward(*tensors), gradient

    return kernel


@functools.cache
def _redrawn_dropout(rate):
    def dropped(values, seed):
        return (
            _hashed_dropout(values, rate, seed),
            lambda upstream: (_hashed_dropout(upstream, rate, *STEP.recomputed(seed)), None),
        )

    return STEP.own_gradient(dropped)


def _hashed_dropout(values, rate, seed):
    is_kept = backend.uniform_bits(seed, backend.sizes(values)) >= tf.constant(round(rate * 2**32), tf.uint32)
    return values * (tf.cast(is_kept, values.dtype) * tf.cast(1.0 / (1.0 - rate), values.dtype))
