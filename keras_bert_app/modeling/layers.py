"""The small parts that every sub-layer of BERT is made of."""

import zlib

import keras

from keras_bert_app.modeling import backend

_GELU_FORMS = {"gelu_exact": False, "gelu_tanh": True}


def activation(name):
    """The function of a config's hidden_act; keras.ops and keras.activations disagree on what plain gelu is."""
    if name in _GELU_FORMS:
        return lambda x: keras.ops.gelu(x, approximate=_GELU_FORMS[name])
    return keras.activations.get(name)


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

    def __call__(self, values, seed):
        """Values as they are when seed is None (inference) or the rate is 0."""
        if seed is None or self.rate == 0.0:
            return values
        return backend.dropout(values, self.rate, backend.fold_in(seed, self.place))


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
        values = keras.ops.cast(x, "float32")
        centered = values - keras.ops.mean(values, axis=-1, keepdims=True)
        variance = keras.ops.mean(keras.ops.square(centered), axis=-1, keepdims=True)
        values = centered * (keras.ops.rsqrt(variance + self.epsilon) * self.gamma) + self.beta
        return keras.ops.cast(values, x.dtype)


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
