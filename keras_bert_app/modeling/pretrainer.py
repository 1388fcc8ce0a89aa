"""BertPretrainer: the encoder with its masked-LM and next-sentence heads."""

import keras

from keras_bert_app.config.bert_config import PARTS
from keras_bert_app.modeling.encoder import BertEncoder
from keras_bert_app.modeling.heads import MaskedLMHead, NextSentenceHead


class BertPretrainer(keras.Model):
    """What BERT is pre-trained as.

    Args:
        config: BertConfig. seed: of the initial weights. dtype: "float32" or "mixed_bfloat16".
        parts: of PARTS, those that the model has. A part that was not loaded is left out, rather than there with weights
            that mean nothing; what it would compute is then not among the outputs. next_sentence needs pooler.

    Call arguments:
        inputs: the batch dict of pipelines.pretraining_dataset; read are input_word_ids, input_mask, input_type_ids
            int32 [B, S] and masked_lm_positions int32 [B, P] (without it, every position is predicted).
        dropout_seed, return_attention_scores: as for BertEncoder.
        heads_only: whether the logits alone are asked for, as in training. The last layer then computes its output at [CLS]
            and masked_lm_positions, which must be there, and of all others key and value only: the same logits and gradients (with
            dropout other draws) for 0.3 of that layer's products with 20 predictions in 128 places.

    Returns:
        the encoder's dict, plus mlm_logits float32 [B, P, V] and nsp_logits float32 [B, 2]; with heads_only these alone.
    """

    def __init__(self, config, seed=0, dtype="float32", parts=PARTS, name="bert"):
        super().__init__(name=name, dtype=dtype)
        self.config, self.has_dropout = config, config.has_dropout
        self.parts = tuple(part for part in PARTS if part in parts and (part != "next_sentence" or "pooler" in parts))
        self.encoder = BertEncoder(config, seed=seed, dtype=dtype, has_pooler="pooler" in self.parts)
        self.masked_lm = (
            MaskedLMHead(config, seed, dtype=dtype, name="masked_lm") if "masked_lm" in self.parts else None
        )
        self.next_sentence = (
            NextSentenceHead(config, seed, dtype=dtype, name="next_sentence") if "next_sentence" in self.parts else None
        )
        # Built here and not in build(), where Keras would put the model's own name before the heads' paths.
        for head in (self.masked_lm, self.next_sentence):
            if head:
                head.build()
        self.built = True

    def call(self, inputs, dropout_seed=None, return_attention_scores=False, heads_only=False):
        if heads_only:
            return self._logits(inputs, dropout_seed)
        outputs = self.encoder(inputs, dropout_seed=dropout_seed, return_attention_scores=return_attention_scores)
        if self.masked_lm:
            outputs["mlm_logits"] = self.masked_lm(
                outputs["sequence_output"], self.encoder.embeddings.word_table, inputs.get("masked_lm_positions")
            )
        if self.next_sentence:
            outputs["nsp_logits"] = self.next_sentence(outputs["pooled_output"])
        return outputs

    def _logits(self, inputs, dropout_seed):
        ops = keras.ops
        positions = ops.cast(inputs["masked_lm_positions"], "int32")
        of_cls = ops.zeros_like(ops.cast(inputs["input_mask"][:, :1], "int32"))
        positions = ops.concatenate([of_cls, positions], axis=1)
        outputs = self.encoder(inputs, dropout_seed=dropout_seed, output_positions=positions)
        logits = {}
        if self.masked_lm:
            logits["mlm_logits"] = self.masked_lm(outputs["sequence_output"][:, 1:], self.encoder.embeddings.word_table)
        if self.next_sentence:
            logits["nsp_logits"] = self.next_sentence(outputs["pooled_output"])
        return logits
