"""The signatures of an exported GPT or LSTM: continuations and scores of raw texts, and outputs for rows of ids."""

import tensorflow as tf

from keras_bert_app.export import masked_lm_scoring, rows
from keras_bert_app.export.chunks import in_chunks
from keras_bert_app.export.continuation import Continuation
from keras_bert_app.export.specs import About, checked_ids, ids_specs, takes_rows, text_spec, variables
from keras_bert_app.modeling.text_generation import Sampling
from pipelines.ragged import row_ids

MAX_NEW_TOKENS, TEMPERATURE, TOP_K, TOP_P, REPETITION_PENALTY = 64, 0.8, 0, 0.95, 1.1
_PREDICTIONS_AT_A_TIME = 512  # 62 MB of float32 logits with BERT's vocabulary of 30,522
_EXAMPLE = "The history of the city begins"


class GenerationModule(tf.Module):
    """Signatures that continue raw texts, score them, or read rows of ids.

    Args:
        model: LanguageModel or LstmLanguageModel of one direction. The model that answers.
        tokenizer: BertTokenizer. The tokenizer of the model.
    """

    def __init__(self, model, tokenizer):
        super().__init__(name="generation")
        self.model_variables = variables(model)
        max_seq_length, vocabulary = model.config.max_position_embeddings, tf.constant(tokenizer.vocabulary)
        continuation = Continuation(model, tokenizer, max_seq_length)
        continued = _continued_function(continuation)

        @tf.function(autograph=False, input_signature=[text_spec()])
        def serve(text):
            def all_rows(value):
                return tf.fill(tf.shape(text), value)

            sampling = Sampling(*map(all_rows, (0, TEMPERATURE, TOP_K, TOP_P, REPETITION_PENALTY)))
            return continued(text, all_rows(MAX_NEW_TOKENS), sampling)

        @tf.function(autograph=False, input_signature=[text_spec()])
        def log_likelihood(text):
            return _log_likelihood(model, tokenizer, vocabulary, continuation.tokenize(text), max_seq_length)

        @takes_rows(ids_specs(model.config))
        def ids(*inputs):
            inputs = checked_ids(model.config, inputs)
            return {"sequence_output": model.encoder(inputs)["sequence_output"]}

        self.exported = {
            "serving_default": serve,
            "generate": _generate_function(continued, max_seq_length),
            "log_likelihood": log_likelihood,
            "ids": ids,
        }
        self.about = About("generation", _examples(tokenizer), max_seq_length=max_seq_length)


def _continued_function(continuation):
    """Makes the function (text, max_new_tokens int32 [B], Sampling) -> outputs.

    Both signatures call it. As a function of TensorFlow it is traced once and is in the export once.
    """

    @tf.function(autograph=False)
    def continued(text, max_new_tokens, sampling):
        ids, lengths, truncated = continuation.prompts(text, max_new_tokens)
        limits = lengths + max_new_tokens
        last_place = tf.reduce_max(tf.concat([limits, [1]], axis=0)) - 1
        state = continuation.advance(continuation.begin(ids, lengths), lengths, limits, last_place, sampling)
        return {"continuation": continuation.texts(state.ids, lengths), "truncated": truncated}

    return continued


def _generate_function(continued, max_seq_length):
    """Makes the signature that takes the numbers of a request."""
    numbers = {
        "max_new_tokens": tf.int32,
        "seed": tf.int32,
        "temperature": tf.float32,
        "top_k": tf.int32,
        "top_p": tf.float32,
        "repetition_penalty": tf.float32,
    }

    @tf.function(
        autograph=False,
        input_signature=[text_spec(), *(tf.TensorSpec([None], dtype, name) for name, dtype in numbers.items())],
    )
    def generate(text, max_new_tokens, seed, temperature, top_k, top_p, repetition_penalty):
        is_inside = (
            (max_new_tokens >= 0)
            & (temperature >= 0.0)
            & (temperature <= 100.0)
            & (top_k >= 0)
            & (top_p > 0.0)
            & (top_p <= 1.0)
            & (repetition_penalty > 0.0)
            & (repetition_penalty <= 100.0)
        )
        check = tf.debugging.Assert(
            tf.reduce_all(is_inside),
            [
                "expected max_new_tokens of 0 or more, temperature from 0 to 100, top_k of 0 or more, 0 < top_p <= 1, "
                "and 0 < repetition_penalty <= 100"
            ],
        )
        with tf.control_dependencies([check]):
            max_new_tokens = tf.minimum(max_new_tokens, max_seq_length)
        return continued(text, max_new_tokens, Sampling(seed, temperature, top_k, top_p, repetition_penalty))

    return generate


def _examples(tokenizer):
    """Makes a small valid batch for every signature."""
    text, row = {"text": [_EXAMPLE]}, [tokenizer.cls_id, tokenizer.unk_id]
    numbers = {
        "max_new_tokens": [MAX_NEW_TOKENS],
        "seed": [0],
        "temperature": [TEMPERATURE],
        "top_k": [TOP_K],
        "top_p": [TOP_P],
        "repetition_penalty": [REPETITION_PENALTY],
    }
    return {
        "serving_default": text,
        "generate": {**text, **numbers},
        "log_likelihood": text,
        "ids": {"input_word_ids": [row], "input_mask": [[1, 1]], "input_type_ids": [[0, 0]]},
    }


def _log_likelihood(model, tokenizer, vocabulary, pieces, max_seq_length):
    """Sums log p(piece | pieces before it) over the pieces of each text.

    Args:
        model: LanguageModel.
        tokenizer: BertTokenizer.
        vocabulary: string [V].
        pieces: RaggedTensor int32 [B, (pieces)].
        max_seq_length: int. The most tokens of a row.

    Returns:
        dict, see masked_lm_scoring.scores_of_pieces.
    """
    truncated = pieces.row_lengths() > max_seq_length - 2
    pieces = pieces[:, : max_seq_length - 2]
    start, length = rows.spans(pieces)
    states = model.encoder(rows.pack(tokenizer, pieces.flat_values, (start, length)))["sequence_output"]
    row = row_ids(pieces.row_splits)
    # The state before each piece, in the flat batch. [CLS] is before the first piece of a text.
    before = row * tf.shape(states)[1] + tf.range(tf.size(row)) - tf.gather(start, row)
    flat = tf.reshape(states, [-1, states.shape[-1]])

    def log_probabilities(first, last):
        logits = model.language_model(tf.gather(flat, before[first:last])[None], model.word_table())
        log_p = tf.nn.log_softmax(logits[0, :, : tokenizer.vocab_size])
        return [tf.gather(log_p, pieces.flat_values[first:last], batch_dims=1)]

    specs = [tf.TensorSpec([None], tf.float32)]
    (log_p,) = in_chunks(log_probabilities, tf.size(row), _PREDICTIONS_AT_A_TIME, specs)
    return masked_lm_scoring.scores_of_pieces(pieces, log_p, vocabulary, truncated)
