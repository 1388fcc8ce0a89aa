"""BERT's AdamW, and LAMB."""

from typing import NamedTuple

import tensorflow as tf

from keras_bert_app.training.optimizers.optimizer_base import NOT_DECAYED, Optimizer, matrices_shape, move, new_slot


class AdamTerms(NamedTuple):
    """What Adam's updates need of the step, float32 scalars.

    Both corrections are one factor of the direction, and epsilon is scaled to stand beside the corrected root: fewer arrays
    are written.

    Attributes:
        beta_1, beta_2: as the optimizer has them. beta_1_power, beta_2_power: beta ** n at the n-th update; 0 without bias
            correction.
        epsilon: epsilon * sqrt(1 - beta_2_power). correction: sqrt(1 - beta_2_power) / (1 - beta_1_power).
    """

    beta_1: tf.Tensor
    beta_2: tf.Tensor
    beta_1_power: tf.Tensor
    beta_2_power: tf.Tensor
    epsilon: tf.Tensor
    correction: tf.Tensor


class AdamWeightDecay(Optimizer):
    """Adam with decoupled weight decay, as google-research/bert has it: by default without bias correction.

    update = m / (sqrt(v) + epsilon) + weight_decay_rate * variable; variable -= learning_rate * update.

    Args:
        variables, weight_decay_rate, learning_rate_factors, not_decayed: as of Optimizer.
        bias_correction: whether m and v are divided by 1 - beta ** steps, as in Kingma and Ba 2015.
    """

    def __init__(
        self,
        variables,
        weight_decay_rate=0.01,
        beta_1=0.9,
        beta_2=0.999,
        epsilon=1e-6,
        bias_correction=False,
        learning_rate_factors=None,
        not_decayed=NOT_DECAYED,
    ):
        super().__init__(variables, weight_decay_rate, learning_rate_factors, not_decayed)
        self.beta_1, self.beta_2, self.epsilon = beta_1, beta_2, epsilon
        self.bias_correction = bias_correction

    def make_slots(self):
        return {
            name: {
                path: new_slot(variable.shape, f"{name}/{path}") for path, variable in self.variables_by_path.items()
            }
            for name in ("adam_m", "adam_v")
        }

    def step_terms(self, step):
        """AdamTerms at the n-th update, the one after `step` others."""
        betas = tf.constant(self.beta_1), tf.constant(self.beta_2)
        powers = [
            tf.pow(beta, tf.cast(step + 1, tf.float32)) if self.bias_correction else tf.constant(0.0) for beta in betas
        ]
        root = tf.sqrt(1.0 - powers[1])
        return AdamTerms(*betas, *powers, epsilon=self.epsilon * root, correction=root / (1.0 - powers[0]))

    def direction(self, variable, slots, terms, traits):
        """What the learning rate is multiplied with, from the slots after an update."""
        direction = slots["adam_m"] / (tf.sqrt(slots["adam_v"]) + terms.epsilon)
        if self.bias_correction:
            direction *= terms.correction
        return direction + traits.decay * variable if traits.decay else direction

    def update(self, variable, slots, gradient, learning_rate, terms, traits):
        if traits.decay:
            variable.assign_sub(variable * (learning_rate * traits.decay))
        # With beta powers of 0 the op makes no bias correction; it reads and writes each array once. With them it
        # corrects v outside the root's sum with epsilon, so that it takes the scaled one too.
        tf.raw_ops.ResourceApplyAdam(
            var=variable.handle,
            m=slots["adam_m"].handle,
            v=slots["adam_v"].handle,
            beta1_power=terms.beta_1_power,
            beta2_power=terms.beta_2_power,
            lr=learning_rate,
            beta1=terms.beta_1,
            beta2=terms.beta_2,
            epsilon=terms.epsilon,
            grad=gradient,
        )

    def update_norms(self, learning_rate, step):
        """Worked out again from the slots, with the weights as they are after the update."""
        return [self.norm_of_update(path, learning_rate, step) for path in self.variables_by_path]

    def norm_of_update(self, path, learning_rate, step):
        """The norm of one variable's last update."""
        terms = self.step_terms(self.updates_of(path, step - 1))
        direction = self.direction(self.variables_by_path[path], self.slots_of(path), terms, self.traits_of(path))
        return learning_rate * self.learning_rate_factors[path] * tf.linalg.global_norm([direction])


class Lamb(AdamWeightDecay):
    """Adam's update scaled for each matrix by ||variable|| / ||update||: LAMB (You et al. 2020, algorithm 2).

    The ratio is 1 where either norm is 0, and for what is not decayed either. Bias correction is on in the paper.
    """

    def update(self, variable, slots, gradient, learning_rate, terms, traits):
        move(slots["adam_m"], gradient, self.beta_1)
        move(slots["adam_v"], tf.square(gradient), self.beta_2)
        variable.assign_sub(learning_rate * self.direction(variable, slots, terms, traits))

    def direction(self, variable, slots, terms, traits):
        update = super().direction(variable, slots, terms, traits)
        if traits.is_excepted:
            return update
        shape = matrices_shape(variable, traits.num_matrices)
        norms = [tf.norm(tf.reshape(values, shape), axis=(0, 2), keepdims=True) for values in (variable, update)]
        ratio = tf.where((norms[0] > 0) & (norms[1] > 0), tf.math.divide_no_nan(*norms), 1.0)
        return tf.reshape(tf.reshape(update, shape) * ratio, variable.shape)
