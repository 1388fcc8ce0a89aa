"""Attention of a decoder to the states of an encoder."""

import keras

from keras_bert_app.config.bert_config import BertConfig
from keras_bert_app.modeling import backend
from keras_bert_app.modeling.attention import attend, attend_from_one_place, heads_of_one
from keras_bert_app.modeling.execution import PLAIN, Execution
from keras_bert_app.modeling.keras_contract import Configured, registered
from keras_bert_app.modeling.layers import Dense, Dropout, initializer


@registered
class CrossAttention(Configured, keras.layers.Layer):
    """Attention of a decoder's places to an encoder's states (Vaswani et al. 2017, section 3.2.3).

    The equation is that of SelfAttention, but key and value are projections of the encoder's states. The decoder layer
    applies the output projection. The kernel of key and value is [H, 2 x N x D], with the columns K | V.

    Args:
        config: BertConfig. The configuration of the decoder.
        seed: int or str. The seed of the initial weights.
        dropout_place: int. The number of this layer's dropout.

    Call arguments:
        x: [B, T, H]. The vectors of the decoder.
        keys_and_values: the result of project.
        mask_scores: [B, 1, 1, S]. 0 for a visible state, MASKED_SCORE for a masked state.
        dropout_stem: backend.stem of the step's seed, or None for inference.
        execution: Execution. How ops are executed.

    Returns:
        (context [B, T, N x D], attention probabilities [B, N, T, S] before dropout).
    """

    CONFIGURED = ("config", "seed", "dropout_place")

    def __init__(self, config: BertConfig, seed: int | str, dropout_place: int, **kwargs):
        super().__init__(**kwargs)
        self.config, self.seed, self.dropout_place = config, seed, dropout_place
        self.num_heads, self.head_size = config.num_attention_heads, config.head_size
        self.width = self.num_heads * self.head_size

        def dense(name, input_size, output_size):
            weights = initializer(config, seed, f"{self.name}/{name}")
            return Dense(input_size, output_size, weights, dtype=self.dtype_policy, name=name)

        self.query = dense("query", config.hidden_size, self.width)
        self.key_value = dense("key_value", config.hidden_size, 2 * self.width)
        self.output_projection = dense("output", self.width, config.hidden_size)
        self.dropout = Dropout(config.attention_probs_dropout_prob, dropout_place)

    def build(self, input_shape=None):
        for part in (self.query, self.key_value, self.output_projection):
            part.build()

    def project(self, states, execution: Execution = PLAIN):
        """Computes key and value of each state. A decoder does this once for all its places.

        Args:
            states: [B, S, H]. The states of the encoder.
            execution: Execution. How ops are executed.

        Returns:
            (keys, values), [B, N, S, D] each. See Execution.is_heads_first.
        """
        ops, shape = keras.ops, keras.ops.shape(states)
        product = ops.reshape(self.key_value.product(states, execution), (*shape[:2], 2 * self.width))
        bias = backend.tensor(self.key_value.bias)
        return tuple(
            execution.fused(heads_of_one, part, part_bias, num_heads=self.num_heads, scale=1.0)
            for part, part_bias in zip(ops.split(product, 2, axis=-1), ops.split(bias, 2), strict=True)
        )

    def call(self, x, keys_and_values, mask_scores, dropout_stem=None, execution: Execution = PLAIN):
        ops, shape = keras.ops, keras.ops.shape(x)
        query = self._query(x, execution)
        seed = self.dropout.seed(dropout_stem)
        context, probabilities = attend(query, *keys_and_values, mask_scores, seed, self.dropout.rate, execution)
        if execution.is_heads_first:
            # [B, N, T, D] -> [B, T, N, D]
            context = ops.transpose(context, (0, 2, 1, 3))
        return ops.reshape(context, (*shape[:2], self.width)), probabilities

    def step(self, x, keys_and_values, is_hidden, execution: Execution = PLAIN):
        """Attends from one place to the encoder's states.

        The K beams of a text attend together, like K places. So the keys and values exist once for all beams.

        Args:
            x: [B x K, 1, H]. The vectors of the place, text by text.
            keys_and_values: the result of project.
            is_hidden: bool [B, 1, 1, S]. Whether a state is masked.
            execution: Execution. How ops are executed.

        Returns:
            (context [B x K, 1, N x D], attention probabilities [B x K, N, 1, S]).
        """
        ops = keras.ops
        query = self._query(ops.reshape(x, (ops.shape(is_hidden)[0], -1, x.shape[-1])), execution)
        context, probabilities = attend_from_one_place(query, *keys_and_values, is_hidden, execution)
        if execution.is_heads_first:
            # [B, N, K, D] -> [B, K, N, D]
            context = ops.transpose(context, (0, 2, 1, 3))
        probabilities = ops.reshape(
            ops.transpose(probabilities, (0, 2, 1, 3)), (-1, self.num_heads, 1, ops.shape(is_hidden)[-1])
        )
        return ops.reshape(context, (-1, 1, self.width)), probabilities

    def _query(self, x, execution):
        product = keras.ops.reshape(self.query.product(x, execution), (*keras.ops.shape(x)[:2], self.width))
        return execution.fused(
            heads_of_one, product, self.query.bias, num_heads=self.num_heads, scale=self.head_size**-0.5
        )
