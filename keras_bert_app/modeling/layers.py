"""The small parts that every sub-layer of BERT is made of."""

import functools
import math
import zlib
from collections.abc import Callable
from typing import Any

import keras

from keras_bert_app.config.bert_config import BertConfig
from keras_bert_app.modeling import backend
from keras_bert_app.modeling.execution import PLAIN, Execution
from keras_bert_app.modeling.keras_contract import Configured, registered


@registered
def _gelu_exact(x):
    return keras.ops.gelu(x, approximate=False)


@registered
def _gelu_tanh(x):
    return keras.ops.gelu(x, approximate=True)


# gelu's tanh form is x sigmoid(2 c (x + a x^3)), with c and a of Hendrycks and Gimpel 2016.
_GELU_CUBIC, _GELU_SLOPE = 0.044715, 2.0 * math.sqrt(2.0 / math.pi)


def _gelu_tanh_and_slope(x):
    """gelu's tanh form and its derivative. On a GPU the sigmoid takes half as long as the hyperbolic tangent."""
    square = x * x
    share = keras.ops.sigmoid(_GELU_SLOPE * (x + _GELU_CUBIC * x * square))
    slope = share + x * share * (1.0 - share) * (_GELU_SLOPE * (1.0 + 3.0 * _GELU_CUBIC * square))
    return x * share, slope


_GELU_FORMS = {"gelu_exact": _gelu_exact, "gelu_tanh": _gelu_tanh}


def activation(name: str) -> Callable:
    """The function of a config's hidden_act. keras.ops and keras.activations disagree on the meaning of plain gelu."""
    return _GELU_FORMS.get(name) or keras.activations.get(name)


def initializer(config: BertConfig, seed: int | str, name: str) -> keras.initializers.Initializer:
    """Truncated normal of the config's range. The draws of a weight follow from seed and name."""
    return keras.initializers.TruncatedNormal(
        stddev=config.initializer_range, seed=zlib.crc32(f"{seed}/{name}".encode())
    )


class Dropout:
    """Dropout whose masks follow from one seed for the whole step.

    Each place of the model folds its own number into that seed.

    Args:
        rate: share of values that is dropped.
        place: a number that no other dropout of the model has.
    """

    def __init__(self, rate: float, place: int):
        self.rate = rate
        self.place = place

    def seed(self, stem: Any) -> Any:
        """This place's seed, int [2], from the stem of the step's; None for inference (no stem) and at a rate of 0."""
        return None if stem is None or self.rate == 0.0 else backend.with_number(stem, self.place)

    def __call__(self, values: Any, stem: Any, execution: Execution = PLAIN) -> Any:
        """The values after dropout; unchanged for inference."""
        return execution.fused(dropped, values, self.seed(stem), rate=self.rate)


def dropped(values, seed, rate: float, execution: Execution):
    """Values with a share of them zeroed, unchanged where seed is None.

    Args:
        values: tensor of any shape.
        seed: int [2] of the place, or None.
        rate: share that is dropped.
        execution: Execution.
    """
    return values if seed is None else execution.dropout(values, rate, seed)


def layer_norm(x, gamma, beta, *, epsilon: float, execution: Execution):
    """Layer normalization (Ba et al. 2016) over the last axis, in float32, returned in the type of x."""
    return keras.ops.cast(_layer_norm(epsilon, execution)(keras.ops.cast(x, "float32"), gamma, beta), x.dtype)


@functools.cache
def _layer_norm(epsilon, execution):
    """The function of (x, gamma, beta), float32, with a gradient that takes the fewest passes over x."""
    ops = keras.ops

    def normalized(x, gamma, beta):
        centered = x - ops.mean(x, axis=-1, keepdims=True)
        deviation = ops.rsqrt(ops.mean(ops.square(centered), axis=-1, keepdims=True) + epsilon)

        def gradient(upstream):
            standard = centered * deviation
            scaled = upstream * gamma
            of_x = deviation * (
                scaled
                - ops.mean(scaled, axis=-1, keepdims=True)
                - standard * ops.mean(scaled * standard, axis=-1, keepdims=True)
            )
            return of_x, execution.sum_over_rows(upstream * standard), execution.sum_over_rows(upstream)

        return centered * (deviation * gamma) + beta, gradient

    return execution.own_gradient(normalized)


def residual_layer_norm(x, values, bias, gamma, beta, seed, *, rate: float, epsilon: float, execution: Execution):
    """The end of each half of a Transformer layer: LayerNorm(x + dropout(values + bias)).

    Args:
        x: [..., H], the residual.
        values: [..., H], the output of the half, without its bias.
        bias: [H].
        gamma: [H].
        beta: [H].
        seed: int [2] of the dropout, or None for none.
        rate: of the dropout.
        epsilon: of the normalization.
        execution: Execution.
    """
    values = with_bias(execution.widened(values), bias, execution)
    wide = execution.widened(x) + dropped(values, seed, rate, execution)
    return keras.ops.cast(layer_norm(wide, gamma, beta, epsilon=epsilon, execution=execution), x.dtype)


def with_bias(x, bias, execution: Execution):
    """x + bias over the last axis, in the type of x.

    Args:
        x: [..., H].
        bias: [H].
        execution: Execution.
    """
    return _sum_with_bias(execution)(x, keras.ops.cast(bias, x.dtype))


@functools.cache
def _sum_with_bias(execution):
    def sum_with_bias(x, bias):
        def gradient(upstream):
            upstream = execution.written(upstream)
            return upstream, execution.sum_over_rows(upstream)

        return x + bias, gradient

    return execution.own_gradient(sum_with_bias)


def activated(x, bias, *, activation: Callable, execution: Execution):
    """activation(x + bias), in the type of x."""
    if execution.recomputes_activation and activation is _gelu_tanh:
        return _recomputed_gelu(execution)(x, bias)
    return keras.ops.cast(activation(with_bias(execution.widened(x), bias, execution)), x.dtype)


@functools.cache
def _recomputed_gelu(execution):
    """The function of (x, bias) that gives gelu(x + bias) and keeps only x and bias for its gradient."""
    ops = keras.ops

    def biased_gelu(x, bias):
        def gradient(upstream):
            kept, kept_bias, upstream = execution.computed_anew(x, bias, upstream)
            _, slope = _gelu_tanh_and_slope(ops.cast(kept, "float32") + kept_bias)
            of_x = execution.written(ops.cast(ops.cast(upstream, "float32") * slope, x.dtype))
            return of_x, execution.sum_over_rows(ops.cast(of_x, "float32"))

        return ops.cast(_gelu_tanh_and_slope(ops.cast(x, "float32") + bias)[0], x.dtype), gradient

    return execution.own_gradient(biased_gelu)


def rows_at(x, positions, execution: Execution = PLAIN):
    """The rows of x at some positions.

    Args:
        x: [B, S, H].
        positions: int32 [B, P], from 0 to S - 1. A position outside would be one of another row of the batch.
        execution: Execution.

    Returns:
        [B, P, H].
    """
    ops = keras.ops
    if execution.is_deterministic:
        return backend.rows_at_in_order(x, ops.cast(positions, "int32"))
    batch_size, length = ops.shape(x)[0], ops.shape(x)[1]
    row_start = ops.arange(batch_size, dtype="int32")[:, None] * length
    # With an index into two axes the gather, and the scatter of its gradient, would go pair by pair.
    rows = backend.rows(ops.reshape(x, (-1, x.shape[-1])), ops.reshape(ops.cast(positions, "int32") + row_start, (-1,)))
    return ops.reshape(rows, (batch_size, ops.shape(positions)[1], x.shape[-1]))


@registered
class LayerNorm(Configured, keras.layers.Layer):
    """Layer normalization over the last axis, computed in float32 whatever the compute type.

    Args:
        hidden_size: H.
        epsilon: added to the variance.

    Call arguments:
        x: [..., H].
        execution: Execution.

    Returns:
        [..., H] in the type of x.
    """

    CONFIGURED = ("hidden_size", "epsilon")

    def __init__(self, hidden_size: int, epsilon: float, **kwargs):
        super().__init__(**kwargs)
        self.hidden_size = hidden_size
        self.epsilon = epsilon

    def build(self, input_shape=None):
        self.gamma = self.add_weight(shape=(self.hidden_size,), initializer="ones", name="gamma", autocast=False)
        self.beta = self.add_weight(shape=(self.hidden_size,), initializer="zeros", name="beta", autocast=False)

    def call(self, x, execution: Execution = PLAIN):
        return execution.fused(layer_norm, x, self.gamma, self.beta, epsilon=self.epsilon)

    def of_residual(self, x, product, bias, dropout: Dropout, dropout_stem, execution: Execution = PLAIN):
        """LayerNorm(x + dropout(product + bias)).

        Args:
            x: [..., H].
            product: of Execution.product.
            bias: [H].
            dropout: Dropout.
            dropout_stem: backend.stem of the step's seed, or None for inference.
            execution: Execution.
        """
        shape = keras.ops.shape(x)
        x = keras.ops.reshape(x, keras.ops.shape(product))
        x = execution.fused(
            residual_layer_norm,
            x,
            product,
            bias,
            self.gamma,
            self.beta,
            dropout.seed(dropout_stem),
            rate=dropout.rate,
            epsilon=self.epsilon,
        )
        return keras.ops.reshape(x, shape)


@registered
class Dense(Configured, keras.layers.Layer):
    """activation(x @ kernel + bias) over the last axis.

    Args:
        input_size: width of the input.
        output_size: width of the output.
        kernel_initializer: Keras initializer.
        activation: a function of tensors, or None.

    Call arguments:
        x: [..., input_size].
        execution: Execution.

    Returns:
        [..., output_size].
    """

    CONFIGURED = ("input_size", "output_size", "kernel_initializer", "activation")

    def __init__(
        self,
        input_size: int,
        output_size: int,
        kernel_initializer: keras.initializers.Initializer,
        activation: Callable | None = None,
        **kwargs,
    ):
        super().__init__(**kwargs)
        self.input_size = input_size
        self.output_size = output_size
        self.kernel_initializer = kernel_initializer
        self.activation = activation

    def build(self, input_shape=None):
        self.kernel = self.add_weight(
            shape=(self.input_size, self.output_size), initializer=self.kernel_initializer, name="kernel"
        )
        self.bias = self.add_weight(shape=(self.output_size,), initializer="zeros", name="bias", autocast=False)

    def product(self, x, execution: Execution = PLAIN):
        """Execution.product with the kernel. The caller adds the bias, together with other work on each element."""
        return execution.product(x, self.kernel)

    def call(self, x, execution: Execution = PLAIN):
        result = self.product(x, execution)
        if self.activation is None:
            result = execution.fused(with_bias, result, self.bias)
        else:
            result = execution.fused(activated, result, self.bias, activation=self.activation)
        return keras.ops.reshape(result, (*keras.ops.shape(x)[:-1], self.output_size))
