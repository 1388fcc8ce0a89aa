"""LstmLanguageModel: LSTMs with the output layer that predicts the next piece, and the piece before."""

import math

import keras

from keras_bert_app.modeling.execution import PLAIN, Execution
from keras_bert_app.modeling.keras_contract import registered, seed_of_call
from keras_bert_app.modeling.language_model import LanguageModel, LanguageModelHead
from keras_bert_app.modeling.layers import uniform_initializer
from keras_bert_app.modeling.lstm_encoder import LstmEncoder


@registered
class LstmHead(LanguageModelHead):
    """A product with a table of pieces plus a bias. Both directions share it (Peters et al. 2018, section 3.1).

    Arguments and results are those of LanguageModelHead.
    """

    def build(self, input_shape=None):
        super().build(input_shape)
        self.output_bias = self.add_weight(
            shape=(self.config.vocab_size,), name="output_bias", initializer="zeros", autocast=False
        )

    def table_initializer(self, name: str) -> keras.initializers.Initializer:
        # The code of ELMo has this deviation, 1 / sqrt(width).
        return uniform_initializer(math.sqrt(3.0 / self.config.direction_size), self.seed, name)

    def call(self, states, embedding_table, execution: Execution = PLAIN, columns=None):
        return super().call(states, embedding_table, execution, columns) + self.output_bias


@registered
class LstmLanguageModel(LanguageModel):
    """A model that predicts each piece from the pieces before it, and with two directions also from those after it.

    Constructor arguments, methods and parts are those of LanguageModel, with an LstmConfig.

    Attributes:
        carried_states: tf.Variable float32 [places, width] of modeling.carried_states, or None. Training sets it, and
            checkpoints of a run contain it. It is no weight of the model.

    Call arguments:
        As those of LanguageModel. return_attention_scores must be False. states: see LstmEncoder.

    Returns:
        dict: the outputs of the encoder; lm_logits float32 [B, S, V], those of the piece at the next place; and with
        two directions backward_logits float32 [B, S, V], those of the piece at the place before. With heads_only
        lm_logits [B, S - 1, V] without the last place, backward_logits [B, S - 2, V] without the first two places,
        penalty float32 [B, S - 1] or None, and forward_states.
    """

    ENCODER, HEAD = LstmEncoder, LstmHead
    carried_states = None

    def call(
        self,
        inputs,
        dropout_seed=None,
        return_attention_scores: bool = False,
        heads_only: bool = False,
        states=None,
        execution: Execution = PLAIN,
        training: bool | None = None,
    ):
        outputs = self.encoder(
            inputs,
            dropout_seed=seed_of_call(dropout_seed, training, self.dropout_counter),
            return_attention_scores=return_attention_scores,
            states=states,
            execution=execution,
        )
        if self.language_model is None:
            return outputs
        dropped = outputs["dropped_output"]
        forward, *backward = keras.ops.split(dropped, self.config.num_directions, axis=-1)
        logits = {"lm_logits": self._logits(forward[:, :-1] if heads_only else forward, execution)}
        if backward:
            logits["backward_logits"] = self._logits(backward[0][:, 2:] if heads_only else backward[0], execution)
        if not heads_only:
            return {**outputs, **logits}
        penalty = self._penalty(dropped, outputs["sequence_output"])
        return {**logits, "penalty": penalty, "forward_states": outputs["forward_states"]}

    def _logits(self, states, execution):
        return self.language_model(states, self.word_table(), execution=execution)

    def _penalty(self, dropped, output):
        """The penalties of each place but the last (Merity et al. 2017, section 4.6), or None."""
        ops, config = keras.ops, self.config
        if not config.activation_penalty and not config.temporal_penalty:
            return None
        dropped, output = ops.cast(dropped, "float32"), ops.cast(output, "float32")
        activations = ops.mean(ops.square(dropped[:, :-1]), axis=-1)
        changes = ops.mean(ops.square(output[:, 1:] - output[:, :-1]), axis=-1)
        return config.activation_penalty * activations + config.temporal_penalty * changes
