"""The optimizers AdamW, as BERT uses it, and LAMB."""

from collections.abc import Mapping
from typing import NamedTuple

import tensorflow as tf

from keras_bert_app.training.optimizers.optimizer_base import NOT_DECAYED, Optimizer, matrices_shape, move, new_slot


class AdamTerms(NamedTuple):
    """The numbers of Adam's update that depend on the step, float32 scalars.

    Bias correction divides m by 1 - beta_1_power and v by 1 - beta_2_power. Here both divisions become one factor
    (correction), and epsilon is scaled to match. An update then writes fewer arrays.

    Attributes:
        beta_1: the optimizer's beta_1.
        beta_2: the optimizer's beta_2.
        beta_1_power: beta_1 ** n at the n-th update; 0 without bias correction.
        beta_2_power: beta_2 ** n at the n-th update; 0 without bias correction.
        epsilon: the optimizer's epsilon * sqrt(1 - beta_2_power).
        correction: sqrt(1 - beta_2_power) / (1 - beta_1_power).
    """

    beta_1: tf.Tensor
    beta_2: tf.Tensor
    beta_1_power: tf.Tensor
    beta_2_power: tf.Tensor
    epsilon: tf.Tensor
    correction: tf.Tensor


class AdamWeightDecay(Optimizer):
    """Adam with decoupled weight decay, by default without bias correction, as in google-research/bert.

    update = m / (sqrt(v) + epsilon) + weight_decay_rate * variable; variable -= learning_rate * update.

    Args:
        variables: see Optimizer.
        weight_decay_rate: see Optimizer.
        beta_1: decay of m, the mean of the gradient.
        beta_2: decay of v, the mean of the squared gradient.
        epsilon: small number that is added to sqrt(v).
        bias_correction: whether m and v are divided by 1 - beta ** steps (Kingma and Ba 2015).
        learning_rate_factors: see Optimizer.
        not_decayed: see Optimizer.
    """

    def __init__(
        self,
        variables: Mapping[str, tf.Variable],
        weight_decay_rate: float = 0.01,
        beta_1: float = 0.9,
        beta_2: float = 0.999,
        epsilon: float = 1e-6,
        bias_correction: bool = False,
        learning_rate_factors: Mapping[str, float] | None = None,
        not_decayed: str = NOT_DECAYED,
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
        """AdamTerms of the update after `step` earlier updates.

        Args:
            step: int32 scalar.
        """
        betas = tf.constant(self.beta_1), tf.constant(self.beta_2)
        powers = [
            tf.pow(beta, tf.cast(step + 1, tf.float32)) if self.bias_correction else tf.constant(0.0) for beta in betas
        ]
        root = tf.sqrt(1.0 - powers[1])
        return AdamTerms(*betas, *powers, epsilon=self.epsilon * root, correction=root / (1.0 - powers[0]))

    def direction(self, variable, slots, terms, traits):
        """The direction of the last update, before the learning rate, from the slots after the update.

        Args:
            variable: tf.Variable.
            slots: dict name -> slot of the variable.
            terms: AdamTerms.
            traits: Traits of the variable.
        """
        direction = slots["adam_m"] / (tf.sqrt(slots["adam_v"]) + terms.epsilon)
        if self.bias_correction:
            direction *= terms.correction
        return direction + traits.decay * variable if traits.decay else direction

    def update(self, variable, slots, gradient, learning_rate, terms, traits):
        if traits.decay:
            variable.assign_sub(variable * (learning_rate * traits.decay))
        # The op reads and writes each array once. With beta powers of 0 it corrects no bias. With other powers it adds
        # epsilon to the uncorrected root. The argument is therefore the scaled epsilon.
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
        """The norms of the last updates, computed from the slots and from the weights after the update.

        Args:
            learning_rate: float32 scalar, the rate of that update.
            step: int32 scalar, the number of that update.
        """
        return [self.norm_of_update(path, learning_rate, step) for path in self.variables_by_path]

    def norm_of_update(self, path: str, learning_rate, step):
        """The norm of the last update of one variable.

        Args:
            path: path of the variable.
            learning_rate: float32 scalar, the rate of that update.
            step: int32 scalar, the number of that update.
        """
        terms = self.step_terms(self.updates_of(path, step - 1))
        direction = self.direction(self.variables_by_path[path], self.slots_of(path), terms, self.traits_of(path))
        return learning_rate * self.learning_rate_factors[path] * tf.linalg.global_norm([direction])


class Lamb(AdamWeightDecay):
    """LAMB (You et al. 2020, algorithm 2): Adam's update, scaled for each matrix.

    The factor is ||variable|| / ||update||. It is 1 if either norm is 0, and for variables that are never decayed. The
    paper uses bias correction.
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
