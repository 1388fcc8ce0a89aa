"""Adam without variables: probes by the dozen share one traced graph."""

import tensorflow as tf


def adam(weights, gradient, first_moment, second_moment, step, rate):
    """(weights, first moment, second moment) after a step of Kingma and Ba 2015, Algorithm 1, with its constants.

    Args:
        step: float32 scalar, how many steps were made before. rate: learning rate.
    """
    first_moment = 0.9 * first_moment + 0.1 * gradient
    second_moment = 0.999 * second_moment + 0.001 * gradient**2
    update = first_moment / (1 - 0.9 ** (step + 1)) / (tf.sqrt(second_moment / (1 - 0.999 ** (step + 1))) + 1e-8)
    return weights - rate * update, first_moment, second_moment
