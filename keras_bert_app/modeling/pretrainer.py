"""BertPretrainer: the encoder with its masked-LM and next-sentence heads."""

import keras

from keras_bert_app.config.bert_config import PARTS, BertConfig
from keras_bert_app.modeling.encoder import BertEncoder
from keras_bert_app.modeling.execution import PLAIN, Execution
from keras_bert_app.modeling.heads import MaskedLMHead, NextSentenceHead
from keras_bert_app.modeling.keras_contract import Configured, dropout_counter, registered, seed_of_call


@registered
class BertPretrainer(Configured, keras.Model):
    """A BERT as it is pre-trained: encoder, masked-LM head and next-sentence head.

    Args:
        config: BertConfig.
        seed: of the initial weights.
        dtype: Keras type policy, "float32" or "mixed_bfloat16".
        parts: names of PARTS that the model has. A part without loaded weights is left out together with its outputs,
            so that nobody takes random numbers for answers. next_sentence needs pooler.
        name: of the Keras model.

    Call arguments:
        inputs: the batch dict of pipelines.pretraining_dataset. The model reads input_word_ids, input_mask,
            input_type_ids, int32 [B, S], and masked_lm_positions, int32 [B, P]. Without positions it predicts every
            place.
        dropout_seed: int [2] for training with dropout, or None for inference.
        return_attention_scores: whether to return the attention probabilities too.
        heads_only: whether the logits alone are wanted, as in training. The last layer then computes its output at
            [CLS] and at masked_lm_positions, which must be given. For all other places it computes key and value only.
            The logits and gradients are the same (with dropout the draws differ), for 0.3 of that layer's products
            with 20 predictions in 128 places.
        execution: Execution.
        training: whether to draw a dropout seed from the model's own counter where dropout_seed is None. Keras' fit
            says True, evaluate and predict say False.

    Returns:
        the encoder's dict, with mlm_logits float32 [B, P, V] and nsp_logits float32 [B, 2]; with heads_only these
        alone.
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
        self.parts = tuple(part for part in PARTS if part in parts and (part != "next_sentence" or "pooler" in parts))
        self.encoder = BertEncoder(config, seed=seed, dtype=dtype, has_pooler="pooler" in self.parts)
        self.masked_lm = (
            MaskedLMHead(config, seed, dtype=dtype, name="masked_lm") if "masked_lm" in self.parts else None
        )
        self.next_sentence = (
            NextSentenceHead(config, seed, dtype=dtype, name="next_sentence") if "next_sentence" in self.parts else None
        )
        # In build() Keras would put the model's own name before the paths of the heads.
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
