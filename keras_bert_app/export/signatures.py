"""What an exported model answers: tf.Modules whose functions become the signatures of a SavedModel."""

import tensorflow as tf

from pipelines import packing

TOP_K = 5

_IDS = {name: tf.TensorSpec([None, None], tf.int32, name=name)
        for name in ("input_word_ids", "input_mask", "input_type_ids")}


def _variables(model):
    # The variables alone: a Keras object would drag its Python side into the SavedModel.
    return [variable.value for variable in model.weights]


def _there(outputs, *names):
    """Those outputs that the model has: a part that was never trained or loaded is not in it."""
    return {name: outputs[name] for name in names if name in outputs}


class FillMaskModule(tf.Module):
    """Raw text with [MASK]s to the likeliest pieces, and the same model over ids.

    Args:
        model: BertPretrainer.
        tokenizer: BertTokenizer with special_tokens_in_text, so that "[MASK]" in a text is the mask.
    """

    def __init__(self, model, tokenizer):
        super().__init__(name="fill_mask")
        self.model_variables = _variables(model)
        self.vocabulary = tf.constant(tokenizer.vocabulary)
        max_seq_length = model.config.max_position_embeddings

        @tf.function(input_signature=[tf.TensorSpec([None], tf.string, name="text")])
        def fill_mask(text):
            ids, input_mask, input_type_ids, truncated = packing.pack_single(
                tokenizer.tokenize(text), max_seq_length, tokenizer.cls_id, tokenizer.sep_id, tokenizer.pad_id)
            # [B, M] where the masks stand, M the most in any text
            is_mask = ids == tokenizer.mask_id
            columns = tf.broadcast_to(tf.range(tf.shape(ids)[1]), tf.shape(ids))
            positions = tf.ragged.boolean_mask(columns, is_mask)
            is_used = tf.sequence_mask(positions.row_lengths())
            outputs = model({"input_word_ids": ids, "input_mask": input_mask, "input_type_ids": input_type_ids,
                             "masked_lm_positions": positions.to_tensor()})
            # [B, M, k]
            # The table may have more rows than the vocabulary has entries; those are no answers.
            logits = outputs["mlm_logits"][:, :, :tokenizer.vocab_size]
            probabilities, pieces = tf.math.top_k(tf.nn.softmax(logits), TOP_K)
            return {"tokens": tf.where(is_used[..., None], tf.gather(self.vocabulary, pieces), ""),
                    "probabilities": tf.where(is_used[..., None], probabilities, 0.0),
                    "truncated": truncated}

        @tf.function(input_signature=[*_IDS.values()])
        def encode_ids(input_word_ids, input_mask, input_type_ids):
            outputs = model({"input_word_ids": input_word_ids, "input_mask": input_mask,
                             "input_type_ids": input_type_ids,
                             "masked_lm_positions": tf.zeros_like(input_word_ids[:, :1])})
            return _there(outputs, "sequence_output", "pooled_output", "nsp_logits")

        @tf.function(input_signature=[*_IDS.values(),
                                      tf.TensorSpec([None, None], tf.int32, name="masked_lm_positions")])
        def masked_lm(input_word_ids, input_mask, input_type_ids, masked_lm_positions):
            outputs = model({"input_word_ids": input_word_ids, "input_mask": input_mask,
                             "input_type_ids": input_type_ids, "masked_lm_positions": masked_lm_positions})
            return _there(outputs, "mlm_logits", "nsp_logits")

        self.exported = {"serving_default": fill_mask, "ids": encode_ids, "masked_lm": masked_lm}


class EncoderModule(tf.Module):
    """The encoder over ids, in core TensorFlow ops only: it loads where tensorflow-text's kernels are missing.

    Args:
        encoder: BertEncoder.
    """

    def __init__(self, encoder):
        super().__init__(name="encoder_ids")
        self.model_variables = _variables(encoder)

        @tf.function(input_signature=[*_IDS.values()])
        def encode(input_word_ids, input_mask, input_type_ids):
            outputs = encoder({"input_word_ids": input_word_ids, "input_mask": input_mask,
                               "input_type_ids": input_type_ids})
            layers = {f"encoder_outputs_{i}": layer for i, layer in enumerate(outputs["encoder_outputs"])}
            return {**_there(outputs, "sequence_output", "pooled_output"), **layers}

        self.exported = {"serving_default": encode}
