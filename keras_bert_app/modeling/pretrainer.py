"""BertPretrainer: the encoder with its masked-LM and next-sentence heads."""

import keras

from keras_bert_app.modeling.encoder import BertEncoder
from keras_bert_app.modeling.heads import MaskedLMHead, NextSentenceHead


class BertPretrainer(keras.Model):
    """What BERT is pre-trained as.

    Args:
        config: BertConfig. seed: of the initial weights. dtype: "float32" or "mixed_bfloat16".

    Call arguments:
        inputs: the batch dict of pipelines.pretraining_dataset; read are input_word_ids, input_mask, input_type_ids
            int32 [B, S] and masked_lm_positions int32 [B, P] (without it, every position is predicted).
        dropout_seed, return_attention_scores: as for BertEncoder.

    Returns:
        the encoder's dict, plus mlm_logits float32 [B, P, V] and nsp_logits float32 [B, 2].
    """

    def __init__(self, config, seed=0, dtype="float32", name="bert"):
        super().__init__(name=name, dtype=dtype)
        self.config = config
        self.encoder = BertEncoder(config, seed=seed, dtype=dtype)
        self.masked_lm = MaskedLMHead(config, seed, dtype=dtype, name="masked_lm")
        self.next_sentence = NextSentenceHead(config, seed, dtype=dtype, name="next_sentence")
        self.build()

    def build(self, input_shape=None):
        if not self.built:
            self.masked_lm.build()
            self.next_sentence.build()
            self.built = True

    def call(self, inputs, dropout_seed=None, return_attention_scores=False):
        outputs = self.encoder(inputs, dropout_seed=dropout_seed,
                               return_attention_scores=return_attention_scores)
        mlm_logits = self.masked_lm(outputs["sequence_output"], self.encoder.embeddings.word_table,
                                    inputs.get("masked_lm_positions"))
        return {**outputs, "mlm_logits": mlm_logits, "nsp_logits": self.next_sentence(outputs["pooled_output"])}
