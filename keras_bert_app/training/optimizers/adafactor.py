"""Adafactor (Shazeer and Stern 2018). To save memory, it keeps only means of the rows and columns of a matrix."""

import tensorflow as tf

from keras_bert_app.training.optimizers.optimizer_base import Optimizer, matrices_shape, move, new_slot, num_matrices

# Hyperparameters that the paper proposes (algorithm 6).
EPSILON_1 = 1e-30  # added to squared gradients
EPSILON_2 = 1e-3  # lower limit of a variable's root mean square
CLIP_THRESHOLD = 1.0  # upper limit of an update's root mean square, before the learning rate
DECAY_EXPONENT = 0.8  # beta_2 at step t is 1 - t ** -DECAY_EXPONENT


class Adafactor(Optimizer):
    """Adafactor without a first moment, with decoupled weight decay.

    The class implements algorithms 4 (matrices) and 5 (vectors) of the paper.

    change = max(EPSILON_2, RMS(variable)) * clipped(gradient / sqrt(v)) + weight_decay_rate * variable;
    variable -= learning_rate * change.

    The learning rate is relative to the root mean square of the weights. It follows the schedule; the paper's rho is
    min(1e-2, 1 / sqrt(step)). Query, key and value are three matrices.

    keras.optimizers.Adafactor has the same update while the rate is below its ceiling, 1 / sqrt(step). This project
    cannot use that class for four reasons. It keeps all of v besides the factors. It sums the gradients over replicas
    again. It counts its steps itself. It cannot skip an update under tf.distribute.
    """

    def make_slots(self):
        slots = {"adafactor_rows": {}, "adafactor_columns": {}, "adafactor_v": {}, "adafactor_update_norm": {}}
        for path, variable in self.variables_by_path.items():
            rows, matrices, columns = matrices_shape(variable, num_matrices(path))
            shapes = {"adafactor_update_norm": []}
            if variable.shape.rank < 2:
                shapes["adafactor_v"] = [rows, 1, 1]
            else:
                shapes |= {"adafactor_rows": [rows, matrices, 1], "adafactor_columns": [1, matrices, columns]}
            for name, shape in shapes.items():
                slots[name][path] = new_slot(shape, f"{name}/{path}")
        return slots

    def step_terms(self, step):
        """beta_2 of the update after `step` earlier updates; 0 at the first update.

        Args:
            step: int32 scalar.
        """
        return 1.0 - tf.pow(tf.cast(step + 1, tf.float32), -DECAY_EXPONENT)

    def update(self, variable, slots, gradient, learning_rate, beta_2, traits):
        # [R, M, C]
        shape = matrices_shape(variable, traits.num_matrices)
        weights, gradient = tf.reshape(variable, shape), tf.reshape(gradient, shape)
        square = tf.square(gradient)
        if "adafactor_v" in slots:
            update = gradient * tf.math.rsqrt(move(slots["adafactor_v"], square + EPSILON_1, beta_2))
        else:
            rows, columns = (
                move(slots[name], tf.reduce_mean(square, axis=axis, keepdims=True) + EPSILON_1, beta_2)
                for name, axis in (("adafactor_rows", 2), ("adafactor_columns", 0))
            )
            # v = rows * columns / mean of rows. Their product may underflow float32, so the update applies the factors
            # one by one.
            rows /= tf.reduce_mean(rows, axis=0, keepdims=True)
            update = gradient * tf.math.rsqrt(rows) * tf.math.rsqrt(columns)
        update /= tf.maximum(1.0, _root_mean_square(update) / CLIP_THRESHOLD)
        update *= tf.maximum(EPSILON_2, _root_mean_square(weights))
        change = learning_rate * (update + traits.decay * weights)
        # The log shows this norm, and the slots alone do not determine it.
        slots["adafactor_update_norm"].assign(tf.norm(change))
        variable.assign_sub(tf.reshape(change, variable.shape))

    def update_norms(self, learning_rate, step):
        return list(self.slots["adafactor_update_norm"].values())


def _root_mean_square(values):
    """The root mean square of each matrix of [R, M, C], as [1, M, 1]."""
    return tf.sqrt(tf.reduce_mean(tf.square(values), axis=(0, 2), keepdims=True))
