"""Muon (Jordan et al. 2024): momentum with nearly equal singular values, for hidden matrices."""

import tensorflow as tf

from keras_bert_app.config.training_config import MUON_ITERATIONS, is_hidden_matrix
from keras_bert_app.training.optimizers.adam import AdamWeightDecay
from keras_bert_app.training.optimizers.optimizer_base import matrices_shape, new_slot

MOMENTUM = 0.95
# The quintic a x + b x^3 + c x^5 of the reference implementation, whose slope at 0 is steep. After five iterations
# every singular value above about 0.0015 of the matrix's Frobenius norm is between 0.68 and 1.2.
_COEFFICIENTS = (3.4445, -4.7750, 2.0315)
# Root mean square of an update. It is about that of AdamW, so that both share a learning rate and a weight decay.
_ROOT_MEAN_SQUARE = 0.2


class Muon(AdamWeightDecay):
    """Muon for the matrices of the encoder's layers, AdamW for embeddings, biases, norms and heads.

    momentum = 0.95 * momentum + gradient;
    update = orthogonal(gradient + 0.95 * momentum) * 0.2 * sqrt(max(rows, columns)) + weight_decay_rate * variable;
    variable -= learning_rate * update.

    The scale comes from Liu et al. 2025 (Muon is scalable for LLM training, arXiv:2502.16982). Query, key and value are
    three matrices. keras.optimizers.Muon has the same update. The docstring of Adafactor gives the reasons against
    Keras' optimizers.

    Args:
        args: positional arguments of AdamWeightDecay.
        compute_dtype: type of the products that make a matrix orthogonal; bfloat16 in the reference implementation.
        kwargs: keyword arguments of AdamWeightDecay.
    """

    def __init__(self, *args, compute_dtype: str = "float32", **kwargs):
        super().__init__(*args, **kwargs)
        self.compute_dtype = compute_dtype

    def make_slots(self):
        slots = {"adam_m": {}, "adam_v": {}, "muon_momentum": {}, "muon_update_norm": {}}
        for path, variable in self.variables_by_path.items():
            shapes = {"adam_m": variable.shape, "adam_v": variable.shape}
            if is_hidden_matrix(path, variable.shape):
                shapes = {"muon_momentum": variable.shape, "muon_update_norm": []}
            for name, shape in shapes.items():
                slots[name][path] = new_slot(shape, f"{name}/{path}")
        return slots

    def update(self, variable, slots, gradient, learning_rate, terms, traits):
        if "muon_momentum" not in slots:
            super().update(variable, slots, gradient, learning_rate, terms, traits)
            return
        momentum = MOMENTUM * slots["muon_momentum"] + gradient
        slots["muon_momentum"].assign(momentum)
        rows, matrices, columns = shape = matrices_shape(variable, traits.num_matrices)
        # [M, R, C]
        direction = tf.transpose(tf.reshape(gradient + MOMENTUM * momentum, shape), [1, 0, 2])
        direction = orthogonalized(direction, self.compute_dtype) * (_ROOT_MEAN_SQUARE * max(rows, columns) ** 0.5)
        direction = tf.reshape(tf.transpose(direction, [1, 0, 2]), variable.shape)
        change = learning_rate * (direction + traits.decay * variable)
        # The log shows this norm, and the slots alone do not determine it.
        slots["muon_update_norm"].assign(tf.norm(change))
        variable.assign_sub(change)

    def is_worth_compiling(self, path):
        return path not in self.slots["muon_momentum"]

    def update_norms(self, learning_rate, step):
        norms = self.slots["muon_update_norm"]
        return [
            norms[path] if path in norms else self.norm_of_update(path, learning_rate, step)
            for path in self.variables_by_path
        ]


def orthogonalized(matrices, compute_dtype: str = "float32"):
    """Brings the singular values of matrices near 1.

    Args:
        matrices: float32 [M, R, C].
        compute_dtype: type of the matrix products.

    Returns:
        float32 [M, R, C].
    """
    is_tall = matrices.shape[-2] > matrices.shape[-1]
    x = tf.linalg.matrix_transpose(matrices) if is_tall else matrices
    x = tf.cast(x / (tf.norm(x, axis=(-2, -1), keepdims=True) + 1e-7), compute_dtype)
    a, b, c = _COEFFICIENTS
    for _ in range(MUON_ITERATIONS):
        gram = tf.matmul(x, x, transpose_b=True)
        x = a * x + tf.matmul(b * gram + c * tf.matmul(gram, gram), x)
    x = tf.cast(x, tf.float32)
    return tf.linalg.matrix_transpose(x) if is_tall else x
