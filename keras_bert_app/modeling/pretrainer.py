"""BertPretrainer: the encoder with its masked-LM and next-sentence heads."""

import keras

from keras_bert_app.config.bert_config import PARTS, BertConfig
from keras_bert_app.modeling.encoder import BertEncoder
from keras_bert_app.modeling.execution import PLAIN, Execution
from keras_bert_app.modeling.heads import MaskedLMHead, NextSentenceHead
from keras_bert_app.modeling.keras_contract import Configured, dropout_counter, registered, seed_of_call


@registered
class BertPretrainer(Configured, keras.Model):
    """A BERT for pre-training: encoder, masked-LM head and next-sentence head.

    Args:
        config: BertConfig. The configuration of the model.
        seed: int. The seed of the initial weights.
        dtype: str. Keras type policy, "float32" or "mixed_bfloat16".
        parts: tuple of str. The names in PARTS that the model has. Omit a part whose weights are missing, so that no
            output comes from random weights. Without pooler the model omits next_sentence, too.
        name: str. The name of the Keras model.

    Call arguments:
        inputs: dict, a batch of pipelines.pretraining_dataset. The model reads input_word_ids, input_mask,
            input_type_ids, int32 [B, S], and masked_lm_positions, int32 [B, P]. Without positions it predicts every
            place.
        dropout_seed: int [2] for training with dropout, or None for inference.
        return_attention_scores: bool. Whether to return the attention probabilities too.
        heads_only: bool. Whether to return only the logits, as in training. inputs must then have masked_lm_positions.
            The last layer computes its output at [CLS] and at these positions, and elsewhere key and value only. The
            logits and gradients stay the same, but dropout draws other masks. With 20 predictions in 128 places the
            last layer does 30 % of its matrix multiplications.
        execution: Execution. How ops are executed.
        training: bool or None. If True and dropout_seed is None, the model draws a dropout seed from its own counter.
            Keras passes True in fit, and False in evaluate and predict.

    Returns:
        dict: the outputs of the encoder, mlm_logits float32 [B, P, V] and nsp_logits float32 [B, 2]. With heads_only
        only the logits.
    """

    CONFIGURED = ("config", "seed", "parts")

    def __init__(
        self,
        config: BertConfig,
        seed: int = 0,
        dtype: str = "float32",
        parts: tuple[str, ...] = PARTS,
        name: str = "bert",
    ):
        super().__init__(name=name, dtype=dtype)
        self.config, self.seed, self.has_dropout = config, seed, config.has_dropout
        self.dropout_counter = dropout_counter(seed) if self.has_dropout else None
        self.parts = tuple(
            part for part in config.parts if part in parts and (part != "next_sentence" or "pooler" in parts)
        )
        self.encoder = BertEncoder(config, seed=seed, dtype=dtype, has_pooler="pooler" in self.parts)
        self.masked_lm = (
            MaskedLMHead(config, seed, dtype=dtype, name="masked_lm") if "masked_lm" in self.parts else None
        )
        self.next_sentence = (
            NextSentenceHead(config, seed, dtype=dtype, name="next_sentence") if "next_sentence" in self.parts else None
        )
        # The constructor builds the heads, because in build() Keras would put the model's name before their paths.
        for head in (self.masked_lm, self.next_sentence):
            if head:
                head.build()
        self.built = True

    def call(
        self,
        inputs,
        dropout_seed=None,
        return_attention_scores: bool = False,
        heads_only: bool = False,
        execution: Execution = PLAIN,
        training: bool | None = None,
    ):
        dropout_seed = seed_of_call(dropout_seed, training, self.dropout_counter)
        if heads_only:
            return self._logits(inputs, dropout_seed, execution)
        outputs = self.encoder(
            inputs,
            dropout_seed=dropout_seed,
            return_attention_scores=return_attention_scores,
            execution=execution,
        )
        positions = inputs.get("masked_lm_positions")
        return {**outputs, **self._heads(outputs["sequence_output"], positions, outputs, execution)}

    def _logits(self, inputs, dropout_seed, execution):
        ops = keras.ops
        positions = ops.cast(inputs["masked_lm_positions"], "int32")
        cls_position = ops.zeros_like(ops.cast(inputs["input_mask"][:, :1], "int32"))
        positions = ops.concatenate([cls_position, positions], axis=1)
        outputs = self.encoder(inputs, dropout_seed=dropout_seed, output_positions=positions, execution=execution)
        return self._heads(outputs["sequence_output"][:, 1:], None, outputs, execution)

    def _heads(self, states, positions, outputs, execution):
        logits = {}
        if self.masked_lm:
            table = self.encoder.embeddings.word_table
            logits["mlm_logits"] = self.masked_lm(states, table, positions, execution=execution)
        if self.next_sentence:
            logits["nsp_logits"] = self.next_sentence(outputs["pooled_output"], execution=execution)
        return logits
