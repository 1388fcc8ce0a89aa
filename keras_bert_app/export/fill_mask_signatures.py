"""The signatures of an exported pre-trained model: answers for raw text, and outputs for rows of ids."""

import tensorflow as tf

from keras_bert_app.export import masked_lm_scoring
from keras_bert_app.export.chunks import in_chunks
from keras_bert_app.export.specs import (
    About,
    available_outputs,
    checked_ids,
    example_row,
    ids_specs,
    inside,
    takes_rows,
    text_spec,
    variables,
)

TOP_K = 5
_MASKS_AT_A_TIME = 256  # 31 MB of float32 logits with BERT's vocabulary of 30,522

_TEXTS = {"text": "The [MASK] sat on the mat.", "text_a": "The cat sat down.", "text_b": "It was tired."}


class FillMaskModule(tf.Module):
    """Signatures that fill the [MASK]s of raw texts, score texts and pairs, or read rows of ids.

    Args:
        model: BertPretrainer. The model that answers.
        tokenizer: BertTokenizer. In fill_mask, "[MASK]" is the mask even if the tokenizer reads it as text.
        top_k: int. The number of pieces for each [MASK].
    """

    def __init__(self, model, tokenizer, top_k: int = TOP_K):
        super().__init__(name="fill_mask")
        self.model_variables = variables(model)
        self.vocabulary = tf.constant(tokenizer.vocabulary)
        max_seq_length = model.config.max_position_embeddings
        tokenize = masked_lm_scoring.tokenize_function(tokenizer, special_tokens_in_text=True)
        # The tokenizer cuts a text to score as in training: a literal "[MASK]" is ordinary text.
        tokenize_plain = masked_lm_scoring.tokenize_function(tokenizer)

        @tf.function(autograph=False, input_signature=[text_spec()])
        def fill_mask(text):
            inputs, truncated = masked_lm_scoring.single_rows(tokenizer, tokenize(text), max_seq_length)
            tokens, probabilities = _likeliest(model, tokenizer, inputs, top_k)
            # [B, M, k], where M is the largest number of masks in a text.
            is_used = tf.sequence_mask(tokens.row_lengths())[:, :, None]
            return {
                "tokens": tf.where(is_used, tf.gather(self.vocabulary, tokens.to_tensor()), ""),
                "probabilities": probabilities.to_tensor(),
                "truncated": truncated,
            }

        @tf.function(autograph=False, input_signature=[text_spec()])
        def pseudo_log_likelihood(text):
            pieces = tokenize_plain(text)
            return masked_lm_scoring.pseudo_log_likelihood(model, tokenizer, self.vocabulary, pieces, max_seq_length)

        @tf.function(autograph=False, input_signature=[text_spec("text_a"), text_spec("text_b")])
        def next_sentence(text_a, text_b):
            pieces = tokenize_plain(text_a), tokenize_plain(text_b)
            return masked_lm_scoring.next_sentence(model, tokenizer, *pieces, max_seq_length)

        self.exported = {
            "serving_default": fill_mask,
            "ids": _encode_function(model),
            "masked_lm": _masked_lm_function(model),
            "pseudo_log_likelihood": pseudo_log_likelihood,
        }
        if model.next_sentence:
            self.exported["next_sentence"] = next_sentence
        examples = _examples(self.exported, tokenizer, model.config)
        self.about = About("fill_mask", examples, max_seq_length=max_seq_length)


def _encode_function(model):
    @takes_rows(ids_specs(model.config))
    def encode_ids(*rows):
        inputs = checked_ids(model.config, rows)
        outputs = model({**inputs, "masked_lm_positions": tf.zeros_like(inputs["input_word_ids"][:, :1])})
        return available_outputs(outputs, "sequence_output", "pooled_output", "nsp_logits")

    return encode_ids


def _masked_lm_function(model):
    positions_spec = tf.TensorSpec([None, None], tf.int32, name="masked_lm_positions")

    @takes_rows([*ids_specs(model.config), positions_spec])
    def masked_lm(*rows_and_positions):
        *rows, positions = rows_and_positions
        inputs = checked_ids(model.config, rows)
        positions = _inside(positions, tf.shape(inputs["input_word_ids"])[1])
        outputs = model({**inputs, "masked_lm_positions": positions}, heads_only=True)
        return available_outputs(outputs, "mlm_logits", "nsp_logits")

    return masked_lm


def _inside(positions, length):
    """Checks that positions lie inside their rows, at most one for each token. Returns the positions.

    A position outside its row would read another row, which may belong to the request of another client. The model
    computes one logit for each position and each vocabulary entry, so a short request could otherwise fill the memory.
    """
    count = tf.shape(positions)[1]
    is_few = tf.debugging.Assert(
        count <= length, ["masked_lm_positions: expected at most one for each token; a row has", count, "for", length]
    )
    with tf.control_dependencies([is_few, inside("masked_lm_positions", positions, length)]):
        return tf.identity(positions)


def _likeliest(model, tokenizer, inputs, top_k):
    """Finds the likeliest pieces for every [MASK].

    Args:
        model: BertPretrainer. The model that answers.
        tokenizer: BertTokenizer. The tokenizer of the model.
        inputs: dict of int32 [B, S]. The inputs of the encoder.
        top_k: int. The number of pieces for each [MASK].

    Returns:
        [pieces int32, probabilities float32], RaggedTensors [B, (masks), k], likeliest first.
    """
    states = model.encoder(inputs)["sequence_output"]
    is_mask = inputs["input_word_ids"] == tokenizer.mask_id
    # [M] The places of the masks in the flat batch.
    positions = tf.cast(tf.where(tf.reshape(is_mask, [-1]))[:, 0], tf.int32)

    def best(start, end):
        logits = masked_lm_scoring.masked_lm_logits(model, tokenizer, states, positions[start:end])
        probabilities, pieces = tf.math.top_k(tf.nn.softmax(logits), top_k)
        return pieces, probabilities

    specs = [tf.TensorSpec([None, top_k], dtype) for dtype in (tf.int32, tf.float32)]
    counts = tf.math.count_nonzero(is_mask, axis=1)
    return [
        tf.RaggedTensor.from_row_lengths(values, counts)
        for values in in_chunks(best, tf.size(positions), _MASKS_AT_A_TIME, specs)
    ]


def _examples(exported, tokenizer, config):
    """Makes a small valid batch for every signature."""
    ids = [tokenizer.cls_id, tokenizer.mask_id, tokenizer.unk_id, tokenizer.sep_id]
    values = {
        **{name: [text] for name, text in _TEXTS.items()},
        **example_row(config, ids),
        "masked_lm_positions": [[1]],
    }
    return {
        name: {spec.name: values[spec.name] for spec in function.input_signature} for name, function in exported.items()
    }
