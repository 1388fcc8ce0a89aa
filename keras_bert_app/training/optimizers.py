"""Optimizers of BERT's pre-training, applied by each replica to its own copy of the weights.

Slots and updates are written over tf.Variable: Keras' optimizers clip before the sum over replicas and sum once more.
"""

import re

import tensorflow as tf

# optimization.create_optimizer of google-research/bert excludes "LayerNorm", "layer_norm" and "bias" from decay; LAMB
# excludes the same from its trust ratio. Matched against the variable's path.
NOT_DECAYED = r"layer_norm|bias"


def make_optimizer(run, variables, num_hidden_layers):
    """The optimizer that a PretrainingConfig names, over a dict path -> tf.Variable; call it under the strategy's scope."""
    factors = learning_rate_factors(variables, num_hidden_layers, run.layer_decay)
    return _KINDS[run.optimizer](
        variables, run.weight_decay_rate, run.adam_beta_1, run.adam_beta_2, run.adam_epsilon,
        bias_correction=run.bias_correction, learning_rate_factors=factors)


def learning_rate_factors(paths, num_hidden_layers, layer_decay):
    """dict path -> factor of the learning rate: 1 for the heads, layer_decay once for each layer further down.

    Layer-wise decay of the rate is that of Howard and Ruder 2018 and ELECTRA (Clark et al. 2020, appendix A).
    """
    def depth(path):
        if match := re.search(r"layer_(\d+)/", path):
            return 1 + int(match[1])
        return 0 if "embeddings" in path else num_hidden_layers + 1
    return {path: layer_decay ** (num_hidden_layers + 1 - depth(path)) for path in paths}


class AdamWeightDecay(tf.Module):
    """Adam with decoupled weight decay, as google-research/bert has it: by default without bias correction.

    update = m / (sqrt(v) + epsilon) + weight_decay_rate * variable; variable -= learning_rate * update.

    Args:
        variables: dict path -> tf.Variable, made under the strategy's scope; the slots must be made there too.
        weight_decay_rate: of variables whose path does not match NOT_DECAYED.
        bias_correction: whether m and v are divided by 1 - beta ** steps, as in Kingma and Ba 2015.
        learning_rate_factors: dict path -> factor of the rate; 1 for all by default.
    """

    def __init__(self, variables, weight_decay_rate=0.01, beta_1=0.9, beta_2=0.999, epsilon=1e-6, bias_correction=False,
                 learning_rate_factors=None):
        super().__init__(name="optimizer")
        self.variables_by_path = variables
        self.weight_decay_rate = weight_decay_rate
        self.beta_1, self.beta_2, self.epsilon = beta_1, beta_2, epsilon
        self.bias_correction = bias_correction
        self.learning_rate_factors = learning_rate_factors or dict.fromkeys(variables, 1.0)
        self.slots = {name: {path: tf.Variable(tf.zeros_like(variable), trainable=False, name=f"{name}/{path}")
                             for path, variable in variables.items()} for name in ("m", "v")}

    def apply(self, gradients, learning_rate, step=0, is_good=True):
        """One update, called in replica context with gradients that are the same on every replica.

        Args:
            gradients: dense tensors in the order of the variables. learning_rate: float32 scalar.
            step: how many updates were made before; used by bias correction.
            is_good: bool scalar; where it is False nothing changes.
        """
        tf.distribute.get_replica_context().merge_call(
            self._update_all, args=(gradients, learning_rate, self.beta_powers(step), tf.convert_to_tensor(is_good)))

    def direction(self, variable, m, v, powers, path):
        """What the learning rate is multiplied with, from the slots after an update."""
        corrected = tf.sqrt(v / (1.0 - powers[1])) + self.epsilon
        return m / (1.0 - powers[0]) / corrected + self.decay_of(path) * variable

    def beta_powers(self, step):
        """(beta_1 ** n, beta_2 ** n) at the n-th update, that after `step` others; 0 without bias correction."""
        return [tf.pow(beta, tf.cast(step + 1, tf.float32)) if self.bias_correction else tf.constant(0.0)
                for beta in (self.beta_1, self.beta_2)]

    def decay_of(self, path):
        """The weight decay of a variable."""
        return 0.0 if re.search(NOT_DECAYED, path) else self.weight_decay_rate

    def _update_all(self, strategy, gradients, learning_rate, powers, is_good):
        def update(variable, m, v, gradient, learning_rate, powers, is_good, path):
            tf.cond(is_good, lambda: self._update(variable, m, v, gradient, learning_rate, powers, path), lambda: None)

        for (path, variable), gradient in zip(self.variables_by_path.items(), gradients):
            strategy.extended.update(variable, update, group=False, args=(
                self.slots["m"][path], self.slots["v"][path], gradient, learning_rate, powers, is_good, path))

    def _update(self, variable, m, v, gradient, learning_rate, powers, path):
        learning_rate = learning_rate * self.learning_rate_factors[path]
        if decay := self.decay_of(path):
            variable.assign_sub(variable * (learning_rate * decay))
        # With beta powers of 0 the kernel makes no bias correction; it reads and writes each array once. With them it
        # corrects v outside the root's sum with epsilon, so epsilon is scaled to stand beside the corrected root.
        tf.raw_ops.ResourceApplyAdam(
            var=variable.handle, m=m.handle, v=v.handle, beta1_power=powers[0], beta2_power=powers[1], lr=learning_rate,
            beta1=self.beta_1, beta2=self.beta_2, epsilon=self.epsilon * tf.sqrt(1.0 - powers[1]), grad=gradient)


class Lamb(AdamWeightDecay):
    """Adam's update scaled for each variable by ||variable|| / ||update||: LAMB (You et al. 2020, algorithm 2).

    The ratio is 1 where either norm is 0, and for what is not decayed either. Bias correction is on in the paper.
    """

    def _update(self, variable, m, v, gradient, learning_rate, powers, path):
        m.assign(self.beta_1 * m + (1.0 - self.beta_1) * gradient)
        v.assign(self.beta_2 * v + (1.0 - self.beta_2) * tf.square(gradient))
        variable.assign_sub(learning_rate * self.learning_rate_factors[path]
                            * self.direction(variable, m, v, powers, path))

    def direction(self, variable, m, v, powers, path):
        update = super().direction(variable, m, v, powers, path)
        if re.search(NOT_DECAYED, path):
            return update
        # Query, key and value lie in one kernel [H, 3H] but are three to the algorithm: [parts] norms
        parts = 3 if path.endswith("query_key_value/kernel") else 1
        norms = [tf.norm(tf.reshape(values, [tf.size(values) // values.shape[-1], parts, -1]), axis=(0, 2))
                 for values in (variable, update)]
        ratio = tf.where((norms[0] > 0) & (norms[1] > 0), tf.math.divide_no_nan(*norms), 1.0)
        return update * tf.repeat(ratio, variable.shape[-1] // parts)


_KINDS = {"adamw": AdamWeightDecay, "lamb": Lamb}


def norms(optimizer, learning_rate, step):
    """Global norms of the weights and of the last update, for people to watch; called after `step` updates, outside of them.

    The update is worked out again from the slots, with the weights as they are after it.
    """
    powers = optimizer.beta_powers(tf.constant(step - 1))
    updates = [learning_rate * optimizer.learning_rate_factors[path] * optimizer.direction(
        variable, optimizer.slots["m"][path], optimizer.slots["v"][path], powers, path)
        for path, variable in optimizer.variables_by_path.items()]
    return {"parameter_norm": float(tf.linalg.global_norm(list(optimizer.variables_by_path.values()))),
            "update_norm": float(tf.linalg.global_norm(updates))}
