"""Vectors of pieces that also come from outside of the text: from a graph of groups, or from a given matrix.

Dimensions: V vocabulary entries, H hidden size, G groups, A the most groups of a piece, D the size of given vectors.
"""

import keras

from keras_bert_app.config.bert_config import BertConfig
from keras_bert_app.modeling import backend
from keras_bert_app.modeling.keras_contract import Configured, registered
from keras_bert_app.modeling.layers import initializer


@registered
class TokenVectors(Configured, keras.layers.Layer):
    """Makes the table of pieces from the learned table and from vectors from outside.

    config.token_vectors decides where the outside vectors come from:

    groups: outside = sum of a_j e_j over the piece itself and its groups, such as the ancestors of a code in a tree.
        e_j is the learned vector of the piece or of a group, and a = softmax(u^T tanh(W [e_piece; e_j] + b)).
        Source: Choi et al. 2017, GRAM, equations 1 to 3. G-BERT (Shang et al. 2019) attends over the same tree.
    given: outside = P m, with the piece's row m of a given matrix and a learned projection P. The rows stay as they are
        unless config.train_token_vectors is true.

    config.token_fusion decides how both become one vector:

    replace: outside.
    add: word + outside.
    gate: g * word + (1 - g) * outside, with g = sigmoid(W [word; outside] + b).

    A piece without groups, or with a given row of zeros, has its learned vector alone.

    Args:
        config: BertConfig. The configuration of the model.
        seed: int. The seed of the initial weights.

    Call arguments:
        words: [V, H]. The learned table.

    Returns:
        float32 [V, H].
    """

    CONFIGURED = ("config", "seed")

    def __init__(self, config: BertConfig, seed: int, **kwargs):
        super().__init__(**kwargs)
        self.config, self.seed = config, seed

    def build(self, input_shape=None):
        config, hidden = self.config, self.config.hidden_size

        def kernel(name, *shape, trainable=True):
            return self.add_weight(
                shape=shape,
                name=name,
                initializer=initializer(config, self.seed, f"token_vectors/{name}"),
                trainable=trainable,
                autocast=False,
            )

        def zeros(name, *shape, trainable=True):
            return self.add_weight(shape=shape, name=name, initializer="zeros", trainable=trainable, autocast=False)

        if config.token_vectors == "groups":
            num_groups, longest = config.token_vectors_shape
            # The numbers of a piece's groups from 1 on, 0 for none. They are weights, so that they travel with the
            # model, but no run trains them.
            self.groups_of_pieces = zeros("groups_of_pieces", config.vocab_size, longest, trainable=False)
            self.groups = kernel("groups", num_groups, hidden)
            self.query, self.key = (kernel(name, hidden, hidden) for name in ("query", "key"))
            self.attention_bias, self.score = zeros("attention_bias", hidden), kernel("score", hidden, 1)
        else:
            (size,) = config.token_vectors_shape
            self.given = zeros("given", config.vocab_size, size, trainable=config.train_token_vectors)
            self.projection = kernel("projection", size, hidden)
        if config.token_fusion == "gate":
            self.gate_kernel, self.gate_bias = kernel("gate_kernel", 2 * hidden, hidden), zeros("gate_bias", hidden)

    def call(self, words):
        ops = keras.ops
        words = ops.cast(backend.tensor(words), "float32")
        outside, has_outside = self._of_groups(words) if self.config.token_vectors == "groups" else self._given()
        if self.config.token_fusion == "add":
            fused = words + outside
        elif self.config.token_fusion == "gate":
            both = ops.concatenate([words, outside], axis=-1)
            gate = ops.sigmoid(ops.matmul(both, self.gate_kernel) + self.gate_bias)
            fused = gate * words + (1.0 - gate) * outside
        else:
            fused = outside
        return ops.where(has_outside, fused, words)

    def _given(self):
        """(outside [V, H], bool [V, 1] whether a piece has a given vector)."""
        given = backend.tensor(self.given)
        return keras.ops.matmul(given, self.projection), keras.ops.any(given != 0, axis=-1, keepdims=True)

    def _of_groups(self, words):
        """(outside [V, H], bool [V, 1] whether a piece has a group)."""
        ops, hidden = keras.ops, self.config.hidden_size
        numbers = ops.cast(self.groups_of_pieces, "int32")
        # [V, A] -> [V, A, H]. Row 0 stands for no group.
        vectors = ops.pad(backend.tensor(self.groups), [[1, 0], [0, 0]])
        keys = ops.pad(ops.matmul(self.groups, self.key), [[1, 0], [0, 0]])
        # The piece comes first: [V, 1 + A, H]. W [e_piece; e_j] is query e_piece + key e_j.
        candidates = ops.concatenate([ops.expand_dims(words, 1), backend.rows(vectors, numbers)], axis=1)
        own_key = ops.expand_dims(ops.matmul(words, self.key), 1)
        keys = ops.concatenate([own_key, backend.rows(keys, numbers)], axis=1)
        queries = ops.expand_dims(ops.matmul(words, self.query) + self.attention_bias, 1)
        scores = ops.matmul(ops.reshape(ops.tanh(queries + keys), (-1, hidden)), self.score)
        is_there = ops.pad(numbers > 0, [[0, 0], [1, 0]], constant_values=True)
        scores = ops.where(is_there, ops.reshape(scores, ops.shape(is_there)), -1e9)
        weights = ops.expand_dims(ops.softmax(scores, axis=-1), -1)
        return ops.sum(weights * candidates, axis=1), ops.any(numbers > 0, axis=-1, keepdims=True)
