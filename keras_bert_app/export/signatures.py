"""What an exported pre-trained model answers: the signatures of its SavedModel over raw text, and over ids."""

import tensorflow as tf

from keras_bert_app.export import masked_lm_scoring
from keras_bert_app.export.chunks import in_chunks
from keras_bert_app.export.specs import FROM_IDS, About, text_spec, variables

TOP_K = 5
_MASKS_AT_A_TIME = 256  # 31 MB of float32 logits with BERT's vocabulary of 30,522

_TEXTS = {"text": "The [MASK] sat on the mat.", "text_a": "The cat sat down.", "text_b": "It was tired."}


def there(outputs, *names):
    """Those outputs that the model has: a part that was never trained or loaded is not in it."""
    return {name: outputs[name] for name in names if name in outputs}


class FillMaskModule(tf.Module):
    """Raw text with [MASK]s to the likeliest pieces; how likely a text is; whether one text follows another; and the
    same model over ids.

    Args:
        model: BertPretrainer.
        tokenizer: BertTokenizer; "[MASK]" in a text that is to be filled in is the mask, whatever it says.
        top_k: how many pieces each [MASK] gets.
    """

    def __init__(self, model, tokenizer, top_k=TOP_K):
        super().__init__(name="fill_mask")
        self.model_variables = variables(model)
        self.vocabulary = tf.constant(tokenizer.vocabulary)
        max_seq_length = model.config.max_position_embeddings
        tokenize = masked_lm_scoring.tokenize_function(tokenizer, special_tokens_in_text=True)
        # What is scored is as in training: there a literal "[MASK]" is ordinary text.
        tokenize_plain = masked_lm_scoring.tokenize_function(tokenizer)

        @tf.function(autograph=False, input_signature=[text_spec()])
        def fill_mask(text):
            inputs, truncated = masked_lm_scoring.single_rows(tokenizer, tokenize(text), max_seq_length)
            tokens, probabilities = _likeliest(model, tokenizer, inputs, top_k)
            # [B, M, k], M the most masks in any text
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

        @tf.function(autograph=False, input_signature=FROM_IDS)
        def encode_ids(input_word_ids, input_mask, input_type_ids):
            outputs = model(
                {
                    "input_word_ids": input_word_ids,
                    "input_mask": input_mask,
                    "input_type_ids": input_type_ids,
                    "masked_lm_positions": tf.zeros_like(input_word_ids[:, :1]),
                }
            )
            return there(outputs, "sequence_output", "pooled_output", "nsp_logits")

        @tf.function(
            autograph=False,
            input_signature=[*FROM_IDS, tf.TensorSpec([None, None], tf.int32, name="masked_lm_positions")],
        )
        def masked_lm(input_word_ids, input_mask, input_type_ids, masked_lm_positions):
            outputs = model(
                {
                    "input_word_ids": input_word_ids,
                    "input_mask": input_mask,
                    "input_type_ids": input_type_ids,
                    "masked_lm_positions": _inside(masked_lm_positions, tf.shape(input_word_ids)[1]),
                },
                heads_only=True,
            )
            return there(outputs, "mlm_logits", "nsp_logits")

        self.exported = {
            "serving_default": fill_mask,
            "ids": encode_ids,
            "masked_lm": masked_lm,
            "pseudo_log_likelihood": pseudo_log_likelihood,
        }
        if model.next_sentence:
            self.exported["next_sentence"] = next_sentence
        self.about = About("fill_mask", _examples(self.exported, tokenizer), max_seq_length=max_seq_length)


def _inside(positions, length):
    """Positions, once they are known to be in their rows: others would read another row, be it of another client's request."""
    check = tf.debugging.Assert(
        tf.reduce_all((positions >= 0) & (positions < length)),
        ["masked_lm_positions: expected numbers from 0 to the row's length less 1; the rows have", length],
    )
    with tf.control_dependencies([check]):
        return tf.identity(positions)


def _likeliest(model, tokenizer, inputs, top_k):
    """(pieces int32, probabilities float32), RaggedTensors [B, (masks), k] of every [MASK], likeliest first."""
    states = model.encoder(inputs)["sequence_output"]
    is_mask = inputs["input_word_ids"] == tokenizer.mask_id
    # [M] in the flat batch
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


def _examples(exported, tokenizer):
    """For every signature a small batch that works as it stands."""
    ids = [tokenizer.cls_id, tokenizer.mask_id, tokenizer.unk_id, tokenizer.sep_id]
    values = {
        **{name: [text] for name, text in _TEXTS.items()},
        "input_word_ids": [ids],
        "input_mask": [[1] * len(ids)],
        "input_type_ids": [[0] * len(ids)],
        "masked_lm_positions": [[1]],
    }
    return {
        name: {spec.name: values[spec.name] for spec in function.input_signature} for name, function in exported.items()
    }
