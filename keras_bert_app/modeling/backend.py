"""What keras.ops lacks: randomness that is a pure function of a seed tensor. The one file here that imports TensorFlow."""

import tensorflow as tf


def fold_in(seed, number):
    """A new seed, int [2], from a seed, int [2], and a number; different numbers give unrelated seeds."""
    return tf.random.experimental.stateless_fold_in(seed, number)


def dropout(values, rate, seed):
    """Zeroes a share `rate` of the values and scales the rest by 1 / (1 - rate).

    keras.layers.Dropout draws the same mask on every replica and cannot be replayed; here the mask is a pure function
    of the seed, int [2].
    """
    return tf.nn.experimental.stateless_dropout(values, rate, seed=seed)
