"""The small parts that every sub-layer of BERT is made of."""

import functools
import zlib

import keras

from keras_bert_app.modeling import backend


def _gelu_exact(x):
    return keras.ops.gelu(x, approximate=False)


def _gelu_tanh(x):
    return keras.ops.gelu(x, approximate=True)


_GELU_FORMS = {"gelu_exact": _gelu_exact, "gelu_tanh": _gelu_tanh}


def activation(name):
    """The function of a config's hidden_act; keras.ops and keras.activations disagree on what plain gelu is."""
    return _GELU_FORMS.get(name) or keras.activations.get(name)


def initializer(config, seed, name):
    """Truncated normal of the config's range; each weight's own draws, the same for the same (seed, name)."""
    return keras.initializers.TruncatedNormal(
        stddev=config.initializer_range, seed=zlib.crc32(f"{seed}/{name}".encode())
    )


class Dropout:
    """Dropout whose masks follow from one seed for the whole step: each place of the model folds its own number into backend.stem's.

    Args:
        rate: share of values that is dropped.
        place: a number that no other dropout of the model has.
    """

    def __init__(self, rate, place):
        self.rate = rate
        self.place = place

    def seed(self, stem):
        """This place's seed, int [2], from the stem of the step's; None where nothing is dropped: for inference (None) or at a rate of 0."""
        return None if stem is None or self.rate == 0.0 else backend.with_number(stem, self.place)

    def __call__(self, values, stem):
        """Values as they are where nothing is dropped."""
        return backend.fused(dropped, values, self.seed(stem), rate=self.rate)


def dropped(values, seed, *, rate):
    """Values with a share of them zeroed; as they are when seed is None. Args: seed: int [2] of the place."""
    return values if seed is None else backend.dropout(values, rate, seed)


def layer_norm(x, gamma, beta, *, epsilon):
    """Layer normalization (Ba et al. 2016) over the last axis, in float32, given back in the type of x."""
    return keras.ops.cast(_layer_norm(epsilon)(keras.ops.cast(x, "float32"), gamma, beta), x.dtype)


@functools.cache
def _layer_norm(epsilon):
    """The function of (x, gamma, beta), float32, with a gradient that takes the fewest passes over x."""
    ops = keras.ops

    @backend.own_gradient
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
            return of_x, _sum_over_rows(upstream * standard), _sum_over_rows(upstream)

        return centered * (deviation * gamma) + beta, gradient

    return normalized


def _sum_over_rows(x):
    """[..., H] -> [H]. A product with ones: on a CPU TensorFlow's sum over rows takes up to 5 times as long, XLA's 10 times."""
    if backend.compiles_all():
        return keras.ops.sum(x, axis=tuple(range(len(x.shape) - 1)))
    rows = keras.ops.reshape(x, (-1, x.shape[-1]))
    # A vector of less than 16 KB times a matrix XLA merges with what makes the matrix, which it then computes column by column:
    # gelu's gradient of 2,048 x 512 in bfloat16 took 26 ms in place of 1.6. Of two vectors it does not.
    if backend.is_kernel():
        return keras.ops.matmul(keras.ops.ones((2, keras.ops.shape(rows)[0]), x.dtype), rows)[0]
    return keras.ops.squeeze(keras.ops.matmul(keras.ops.ones((1, keras.ops.shape(rows)[0]), x.dtype), rows), 0)


def residual_layer_norm(x, values, bias, gamma, beta, seed, *, rate, epsilon):
    """What ends each half of a Transformer layer: LayerNorm(x + dropout(values + bias)). Args: x, values: [..., H]."""
    wide = backend.widened(x) + dropped(with_bias(backend.widened(values), bias), seed, rate=rate)
    return keras.ops.cast(layer_norm(wide, gamma, beta, epsilon=epsilon), x.dtype)


def with_bias(x, bias):
    """x + bias over the last axis, in the type of x. Args: x: [..., H]. bias: [H]."""
    return _sum_with_bias(x, keras.ops.cast(bias, x.dtype))


@backend.own_gradient
def _sum_with_bias(x, bias):
    return x + bias, lambda upstream: (upstream, _sum_over_rows(upstream))


def activated(x, bias, *, activation):
    """activation(x + bias), in the type of x."""
    return keras.ops.cast(activation(with_bias(backend.widened(x), bias)), x.dtype)


def rows_at(x, positions):
    """The rows [B, P, H] of x [B, S, H] at positions int32 [B, P], which must be from 0 to S - 1: others are of other rows."""
    ops = keras.ops
    batch_size, length = ops.shape(x)[0], ops.shape(x)[1]
    row_start = ops.arange(batch_size, dtype="int32")[:, None] * length
    # Of rows in one axis: an index into two would be gathered, and its gradient scattered, pair by pair.
    rows = backend.rows(ops.reshape(x, (-1, x.shape[-1])), ops.reshape(ops.cast(positions, "int32") + row_start, (-1,)))
    return ops.reshape(rows, (batch_size, ops.shape(positions)[1], x.shape[-1]))


class LayerNorm(keras.layers.Layer):
    """Layer normalization over the last axis, computed in float32 whatever the compute type.

    Call arguments:
        x: [..., H].

    Returns:
        [..., H] in the type of x.
    """

    def __init__(self, hidden_size, epsilon, **kwargs):
        super().__init__(**kwargs)
        self.hidden_size = hidden_size
        self.epsilon = epsilon

    def build(self, input_shape=None):
        self.gamma = self.add_weight(shape=(self.hidden_size,), initializer="ones", name="gamma", autocast=False)
        self.beta = self.add_weight(shape=(self.hidden_size,), initializer="zeros", name="beta", autocast=False)

    def call(self, x):
        return backend.fused(layer_norm, x, self.gamma, self.beta, epsilon=self.epsilon)

    def of_residual(self, x, product, bias, dropout, dropout_stem):
        """LayerNorm(x + dropout(product + bias)). Args: x: [..., H]. product: of backend.product. dropout: Dropout."""
        shape = keras.ops.shape(x)
        x = keras.ops.reshape(x, keras.ops.shape(product))
        x = backend.fused(
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


class Dense(keras.layers.Layer):
    """activation(x @ kernel + bias) over the last axis.

    Args:
        activation: a function of tensors, or None.

    Call arguments:
        x: [..., input_size].

    Returns:
        [..., output_size].
    """

    def __init__(self, input_size, output_size, kernel_initializer, activation=None, **kwargs):
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

    def product(self, x):
        """backend.product with the kernel; whoever asks for it adds the bias, with what else is done to each element."""
        return backend.product(x, self.kernel)

    def call(self, x):
        result = self.product(x)
        if self.activation is None:
            result = backend.fused(with_bias, result, self.bias)
        else:
            result = backend.fused(activated, result, self.bias, activation=self.activation)
        return keras.ops.reshape(result, (*keras.ops.shape(x)[:-1], self.output_size))
