"""BERT's optimizer and learning-rate schedule, as google-research/bert optimization.py has them."""

import re

import tensorflow as tf

# optimization.create_optimizer excludes "LayerNorm", "layer_norm" and "bias"; matched against the variable's path.
NOT_DECAYED = r"layer_norm|bias"


def warmup_linear_decay(step, learning_rate, num_warmup_steps, num_train_steps):
    """The learning rate of a step counted from 0, float32.

    It rises from 0 over num_warmup_steps; the decay to 0 at num_train_steps counts from step 0 all the while.
    """
    step = tf.cast(step, tf.float32)
    decayed = learning_rate * (1.0 - tf.minimum(step, num_train_steps) / num_train_steps)
    warming = learning_rate * step / max(num_warmup_steps, 1)
    return tf.where(step < num_warmup_steps, warming, decayed)


class AdamWeightDecay(tf.Module):
    """Adam without bias correction, with decoupled weight decay.

    update = m / (sqrt(v) + epsilon) + weight_decay_rate * variable; variable -= learning_rate * update.

    Args:
        variables: dict path -> tf.Variable, made under the strategy's scope; the slots must be made there too.
        weight_decay_rate: of variables whose path does not match NOT_DECAYED.
    """

    def __init__(self, variables, weight_decay_rate=0.01, beta_1=0.9, beta_2=0.999, epsilon=1e-6):
        super().__init__(name="adam_weight_decay")
        self.variables_by_path = variables
        self.weight_decay_rate = weight_decay_rate
        self.beta_1, self.beta_2, self.epsilon = beta_1, beta_2, epsilon
        self.slots = {name: {path: tf.Variable(tf.zeros_like(variable), trainable=False, name=f"{name}/{path}")
                             for path, variable in variables.items()} for name in ("m", "v")}

    def apply(self, gradients, learning_rate):
        """One update, called in replica context with gradients that are the same on every replica.

        Args:
            gradients: dense tensors in the order of the variables. learning_rate: float32 scalar.
        """
        tf.distribute.get_replica_context().merge_call(self._update_all, args=(gradients, learning_rate))

    def _update_all(self, strategy, gradients, learning_rate):
        for (path, variable), gradient in zip(self.variables_by_path.items(), gradients):
            decay = 0.0 if re.search(NOT_DECAYED, path) else self.weight_decay_rate
            strategy.extended.update(variable, self._update, group=False, args=(
                self.slots["m"][path], self.slots["v"][path], gradient, learning_rate, decay))

    def _update(self, variable, m, v, gradient, learning_rate, decay):
        if decay:
            variable.assign_sub(variable * (learning_rate * decay))
        # With beta powers of 0 the kernel makes no bias correction; it reads and writes each array once.
        tf.raw_ops.ResourceApplyAdam(
            var=variable.handle, m=m.handle, v=v.handle, beta1_power=0.0, beta2_power=0.0, lr=learning_rate,
            beta1=self.beta_1, beta2=self.beta_2, epsilon=self.epsilon, grad=gradient)
