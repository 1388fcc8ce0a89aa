"""Adam as a pure function without variables, so that dozens of probes share one traced graph."""

import tensorflow as tf


def adam(weights, gradient, first_moment, second_moment, step, rate):
    """Makes one step of Adam (Kingma and Ba 2015, Algorithm 1, with its default constants).

    Args:
        weights: float32 tensor.
        gradient: float32 tensor. The gradient of the loss with respect to the weights.
        first_moment: float32 tensor. The running mean of the gradient.
        second_moment: float32 tensor. The running mean of the squared gradient.
        step: float32 scalar. The number of earlier steps.
        rate: float or scalar. The learning rate.

    Returns:
        (weights, first moment, second moment) after the step.
    """
    first_moment = 0.9 * first_moment + 0.1 * gradient
    second_moment = 0.999 * second_moment + 0.001 * gradient**2
    update = first_moment / (1 - 0.9 ** (step + 1)) / (tf.sqrt(second_moment / (1 - 0.999 ** (step + 1))) + 1e-8)
    return weights - rate * update, first_moment, second_moment
