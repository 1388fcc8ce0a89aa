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
    return functools.partial(backend.fused, _GELU_FORMS.get(name) or keras.activations.get(name))


def initializer(config, seed, name):
    """Truncated normal of the config's range; each weight's own draws, the same for the same (seed, name)."""
    return keras.initializers.TruncatedNormal(
        stddev=config.initializer_range, seed=zlib.crc32(f"{seed}/{name}".encode()))


class Dropout:
    """Dropout whose masks follow from one seed for the whole step: each place of the model folds in its own number.

    Args:
        rate: share of values that is dropped.
        place: a number that no other dropout of the model has.
    """

    def __init__(self, rate, place):
        self.rate = rate
        self.place = place

    def seed(self, seed):
        """This place's seed, int [2], from the step's; None where nothing is dropped: for inference (None) or at a rate of 0."""
        return None if seed is None or self.rate == 0.0 else backend.fold_in(seed, self.place)

    def __call__(self, values, seed):
        """Values as they are where nothing is dropped."""
        return backend.fused(dropped, values, self.seed(seed), rate=self.rate)


def dropped(values, seed, *, rate):
    """Values with a share of them zeroed; as they are when seed is None. Args: seed: int [2] of the place."""
    return values if seed is None else backend.dropout(values, rate, seed)


def layer_norm(x, gamma, beta, *, epsilon):
    """Layer normalization (Ba et al. 2016) over the last axis, in float32, given back in the type of x."""
    values = keras.ops.cast(x, "float32")
    centered = values - keras.ops.mean(values, axis=-1, keepdims=True)
    variance = keras.ops.mean(keras.ops.square(centered), axis=-1, keepdims=True)
    values = centered * (keras.ops.rsqrt(variance + epsilon) * gamma) + beta
    return keras.ops.cast(values, x.dtype)


def residual_layer_norm(x, values, gamma, beta, seed, *, rate, epsilon):
    """What ends each half of a Transformer layer: LayerNorm(x + dropout(values)). Args: x, values: [..., H]."""
    return layer_norm(x + dropped(values, seed, rate=rate), gamma, beta, epsilon=epsilon)


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

    def of_residual(self, x, values, dropout, dropout_seed):
        """LayerNorm(x + dropout(values)). Args: x, values: [..., H]. dropout: Dropout. dropout_seed: of the step, or None."""
        return backend.fused(residual_layer_norm, x, values, self.gamma, self.beta, dropout.seed(dropout_seed),
                             rate=dropout.rate, epsilon=self.epsilon)


class Dense(keras.layers.Layer):
    """x @ kernel + bias over the last axis.

    Call arguments:
        x: [..., input_size].

    Returns:
        [..., output_size].
    """

    def __init__(self, input_size, output_size, kernel_initializer, **kwargs):
        super().__init__(**kwargs)
        self.input_size = input_size
        self.output_size = output_size
        self.kernel_initializer = kernel_initializer

    def build(self, input_shape=None):
        self.kernel = self.add_weight(shape=(self.input_size, self.output_size),
                                      initializer=self.kernel_initializer, name="kernel")
        self.bias = self.add_weight(shape=(self.output_size,), initializer="zeros", name="bias")

    def call(self, x):
        # One matrix product over all rows: faster than a batch of products that share their kernel.
        leading = keras.ops.shape(x)[:-1]
        flat = keras.ops.reshape(x, (-1, self.input_size))
        flat = keras.ops.matmul(flat, self.kernel) + self.bias
        return keras.ops.reshape(flat, (*leading, self.output_size))
