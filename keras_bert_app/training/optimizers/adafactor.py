"""Adafactor (Shazeer and Stern 2018): second moments kept as means of rows and columns, which take next to no memory."""

import tensorflow as tf

from keras_bert_app.training.optimizers.optimizer_base import Optimizer, matrices_shape, move, new_slot, num_matrices

# The paper's proposed hyperparameters, algorithm 6.
EPSILON_1 = 1e-30  # added to squared gradients
EPSILON_2 = 1e-3  # the least root mean square that a variable is taken to have
CLIP_THRESHOLD = 1.0  # of the root mean square of an update, before the learning rate
DECAY_EXPONENT = 0.8  # beta_2 at step t is 1 - t ** -this


class Adafactor(Optimizer):
    """Algorithms 4 (matrices) and 5 (vectors) of the paper, with decoupled weight decay and no first moment.

    change = max(EPSILON_2, RMS(variable)) * clipped(gradient / sqrt(v)) + weight_decay_rate * variable;
    variable -= learning_rate * change. The learning rate is a share of what the weights measure (rho in the paper, where
    it is min(1e-2, 1 / sqrt(step)); here the schedule's). Query, key and value are three matrices.

    keras.optimizers.Adafactor has the same update as long as the rate is below 1 / sqrt(step), its ceiling. It cannot
    stand here: it keeps v whole beside its factors, sums the gradients over replicas once more, counts its steps itself,
    and under tf.distribute leaves no way to call an update off.
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
        """beta_2 at the update after `step` others; 0 at the first."""
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
            # v = rows x columns / mean of rows, in parts, since their product may be too small for float32.
            rows /= tf.reduce_mean(rows, axis=0, keepdims=True)
            update = gradient * tf.math.rsqrt(rows) * tf.math.rsqrt(columns)
        update /= tf.maximum(1.0, _root_mean_square(update) / CLIP_THRESHOLD)
        update *= tf.maximum(EPSILON_2, _root_mean_square(weights))
        change = learning_rate * (update + traits.decay * weights)
        # Kept for people to watch: it cannot be worked out from the slots.
        slots["adafactor_update_norm"].assign(tf.norm(change))
        variable.assign_sub(tf.reshape(change, variable.shape))

    def update_norms(self, learning_rate, step):
        return list(self.slots["adafactor_update_norm"].values())


def _root_mean_square(values):
    """Of each matrix: [1, M, 1]."""
    return tf.sqrt(tf.reduce_mean(tf.square(values), axis=(0, 2), keepdims=True))
