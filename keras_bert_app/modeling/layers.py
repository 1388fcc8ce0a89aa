"""Small layers and functions of BERT: Dense, LayerNorm, Dropout, activations and initializers."""

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


# The tanh form of gelu is x sigmoid(2 c (x + a x^3)). Hendrycks and Gimpel 2016 give c and a.
_GELU_CUBIC, _GELU_SLOPE = 0.044715, 2.0 * math.sqrt(2.0 / math.pi)


def _gelu_tanh_and_slope(x):
    """Computes gelu's tanh form and its derivative. On a GPU the sigmoid takes half the time of tanh."""
    square = x * x
    share = keras.ops.sigmoid(_GELU_SLOPE * (x + _GELU_CUBIC * x * square))
    slope = share + x * share * (1.0 - share) * (_GELU_SLOPE * (1.0 + 3.0 * _GELU_CUBIC * square))
    return x * share, slope


_GELU_FORMS = {"gelu_exact": _gelu_exact, "gelu_tanh": _gelu_tanh}


def activation(name: str) -> Callable:
    """Returns the function of a config's hidden_act.

    keras.ops and keras.activations disagree on the meaning of plain "gelu", so this package has its own two names.

    Args:
        name: str. "gelu_exact", "gelu_tanh" or the name of a Keras activation.

    Returns:
        function of a tensor.
    """
    return _GELU_FORMS.get(name) or keras.activations.get(name)


def initializer(config: BertConfig, seed: int | str, name: str) -> keras.initializers.Initializer:
    """Makes the truncated normal initializer of a weight.

    Args:
        config: BertConfig. Its initializer_range is the standard deviation.
        seed: int or str. The seed of the model's initial weights.
        name: str. The name of the weight. Seed and name together decide its values.

    Returns:
        keras.initializers.Initializer.
    """
    return keras.initializers.TruncatedNormal(stddev=config.initializer_range, seed=_seed_of(seed, name))


def uniform_initializer(limit: float, seed: int | str, name: str) -> keras.initializers.Initializer:
    """Makes an initializer of uniform values from -limit to limit.

    Args:
        limit: float.
        seed: int or str. The seed of the model's initial weights.
        name: str. The name of the weight. Seed and name together decide its values.

    Returns:
        keras.initializers.Initializer.
    """
    return keras.initializers.RandomUniform(-limit, limit, seed=_seed_of(seed, name))


def _seed_of(seed, name):
    return zlib.crc32(f"{seed}/{name}".encode())


class Dropout:
    """Dropout that derives its masks from one seed for the whole step.

    Each dropout of a model combines its own number with this seed.

    Args:
        rate: float. The share of values that is dropped.
        place: int. A number that no other dropout of the model has.
    """

    def __init__(self, rate: float, place: int):
        self.rate = rate
        self.place = place

    def seed(self, stem: Any) -> Any:
        """Makes the seed of this dropout.

        Args:
            stem: backend.stem of the step's seed, or None for inference.

        Returns:
            int [2]. None for inference and for a rate of 0.
        """
        return None if stem is None or self.rate == 0.0 else backend.with_number(stem, self.place)

    def __call__(self, values: Any, stem: Any, execution: Execution = PLAIN) -> Any:
        """Applies dropout to values. For inference the values stay unchanged.

        Args:
            values: tensor of any shape.
            stem: backend.stem of the step's seed, or None for inference.
            execution: Execution. How ops are executed.

        Returns:
            tensor of the same shape.
        """
        return execution.fused(dropped, values, self.seed(stem), rate=self.rate)


def dropped(values, seed, rate: float, execution: Execution):
    """Applies dropout to values. Without a seed the values stay unchanged.

    Args:
        values: tensor of any shape.
        seed: int [2]. The seed of this dropout, or None.
        rate: float. The share of values that is dropped.
        execution: Execution. How ops are executed.

    Returns:
        tensor of the same shape.
    """
    return values if seed is None else execution.dropout(values, rate, seed)


def layer_norm(x, gamma, beta, *, epsilon: float, execution: Execution):
    """Normalizes the last axis in float32 (layer normalization, Ba et al. 2016).

    Args:
        x: [..., H].
        gamma: [H].
        beta: [H].
        epsilon: float. Added to the variance.
        execution: Execution. How ops are executed.

    Returns:
        [..., H] in the type of x.
    """
    return keras.ops.cast(_layer_norm(epsilon, execution)(keras.ops.cast(x, "float32"), gamma, beta), x.dtype)


@functools.cache
def _layer_norm(epsilon, execution):
    """Makes the function of (x, gamma, beta), float32, whose gradient needs the fewest passes over x."""
    ops = keras.ops

    def normalized(x, gamma, beta):
        centered = x - ops.mean(x, axis=-1, keepdims=True)
        deviation = ops.rsqrt(ops.mean(ops.square(centered), axis=-1, keepdims=True) + epsilon)

        def gradient(upstream):
            standard = centered * deviation
            scaled = upstream * gamma
            x_gradient = deviation * (
                scaled
                - ops.mean(scaled, axis=-1, keepdims=True)
                - standard * ops.mean(scaled * standard, axis=-1, keepdims=True)
            )
            return x_gradient, execution.sum_over_rows(upstream * standard), execution.sum_over_rows(upstream)

        return centered * (deviation * gamma) + beta, gradient

    return execution.own_gradient(normalized)


def residual_layer_norm(x, values, bias, gamma, beta, seed, *, rate: float, epsilon: float, execution: Execution):
    """Ends each half of a Transformer layer: LayerNorm(x + dropout(values + bias)).

    Args:
        x: [..., H]. The residual.
        values: [..., H]. The output of the half, without its bias.
        bias: [H].
        gamma: [H].
        beta: [H].
        seed: int [2]. The seed of the dropout, or None for no dropout.
        rate: float. The share of values that is dropped.
        epsilon: float. Added to the variance.
        execution: Execution. How ops are executed.

    Returns:
        [..., H] in the type of x.
    """
    values = with_bias(execution.widened(values), bias, execution)
    wide = execution.widened(x) + dropped(values, seed, rate, execution)
    return keras.ops.cast(layer_norm(wide, gamma, beta, epsilon=epsilon, execution=execution), x.dtype)


def with_bias(x, bias, execution: Execution):
    """Adds a bias over the last axis, in the type of x.

    Args:
        x: [..., H].
        bias: [H].
        execution: Execution. How ops are executed.

    Returns:
        [..., H].
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
    """Computes activation(x + bias).

    Args:
        x: [..., H].
        bias: [H].
        activation: function of a tensor.
        execution: Execution. How ops are executed.

    Returns:
        [..., H] in the type of x.
    """
    if execution.recomputes_activation and activation is _gelu_tanh:
        return _recomputed_gelu(execution)(x, bias)
    return keras.ops.cast(activation(with_bias(execution.widened(x), bias, execution)), x.dtype)


@functools.cache
def _recomputed_gelu(execution):
    """Makes the function of (x, bias) that computes gelu(x + bias) and keeps only x and bias for its gradient."""
    ops = keras.ops

    def biased_gelu(x, bias):
        def gradient(upstream):
            kept, kept_bias, upstream = execution.recomputed(x, bias, upstream)
            _, slope = _gelu_tanh_and_slope(ops.cast(kept, "float32") + kept_bias)
            x_gradient = execution.written(ops.cast(ops.cast(upstream, "float32") * slope, x.dtype))
            return x_gradient, execution.sum_over_rows(ops.cast(x_gradient, "float32"))

        return ops.cast(_gelu_tanh_and_slope(ops.cast(x, "float32") + bias)[0], x.dtype), gradient

    return execution.own_gradient(biased_gelu)


def rows_at(x, positions, execution: Execution = PLAIN):
    """Gathers the vectors of x at some positions of each row.

    Args:
        x: [B, S, H].
        positions: int32 [B, P], from 0 to S - 1. A position outside this range would read another row of the batch.
        execution: Execution. How ops are executed.

    Returns:
        [B, P, H].
    """
    ops = keras.ops
    if execution.is_deterministic:
        return backend.rows_at_in_order(x, ops.cast(positions, "int32"))
    batch_size, length = ops.shape(x)[0], ops.shape(x)[1]
    row_start = ops.arange(batch_size, dtype="int32")[:, None] * length
    # With an index into two axes the gather and the scatter of its gradient would process one pair at a time.
    rows = backend.rows(ops.reshape(x, (-1, x.shape[-1])), ops.reshape(ops.cast(positions, "int32") + row_start, (-1,)))
    return ops.reshape(rows, (batch_size, ops.shape(positions)[1], x.shape[-1]))


@registered
class LayerNorm(Configured, keras.layers.Layer):
    """Layer normalization over the last axis, always in float32.

    Args:
        hidden_size: int. H.
        epsilon: float. Added to the variance.

    Call arguments:
        x: [..., H].
        execution: Execution. How ops are executed.

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

    def normalized_residual(self, x, product, bias, dropout: Dropout, dropout_stem, execution: Execution = PLAIN):
        """Computes LayerNorm(x + dropout(product + bias)).

        Args:
            x: [..., H]. The residual.
            product: result of Execution.product.
            bias: [H].
            dropout: Dropout.
            dropout_stem: backend.stem of the step's seed, or None for inference.
            execution: Execution. How ops are executed.

        Returns:
            [..., H] in the type of x.
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
    """Computes activation(x @ kernel + bias) over the last axis.

    Args:
        input_size: int. The width of the input.
        output_size: int. The width of the output.
        kernel_initializer: Keras initializer.
        activation: function of a tensor, or None.

    Call arguments:
        x: [..., input_size].
        execution: Execution. How ops are executed.

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
        """Computes Execution.product with the kernel.

        The caller adds the bias together with other element-wise work.

        Args:
            x: [..., input_size].
            execution: Execution. How ops are executed.

        Returns:
            [rows, output_size] or [..., output_size]. See Execution.product.
        """
        return execution.product(x, self.kernel)

    def call(self, x, execution: Execution = PLAIN):
        result = self.product(x, execution)
        if self.activation is None:
            result = execution.fused(with_bias, result, self.bias)
        else:
            result = execution.fused(activated, result, self.bias, activation=self.activation)
        return keras.ops.reshape(result, (*keras.ops.shape(x)[:-1], self.output_size))
