"""Scores texts with a pre-trained model, in graph: their likelihood and their order.

Dimensions: B texts, S places of the longest row, N pieces of all texts, T pieces of the longest text, V vocabulary
entries.
"""

import copy

import tensorflow as tf

from keras_bert_app.export import rows
from keras_bert_app.export.chunks import in_chunks
from keras_bert_app.export.specs import text_spec
from pipelines.ragged import row_ids
from pipelines.wordpiece import token_columns

# The size of 32 rows of 128 tokens. An encoder reaches its full speed with this batch and needs little memory.
_PLACES_AT_A_TIME = 4096
# This limit matters for short texts, because each row has V logits.
_ROWS_AT_A_TIME = 256


def tokenize_function(tokenizer, special_tokens_in_text: bool = False):
    """Makes a tf.function from string [B] to RaggedTensor int32 [B, (pieces)], see tokenize_with_columns.

    All functions that call the tf.function share its graph.

    Args:
        tokenizer: BertTokenizer. The tokenizer of the model.
        special_tokens_in_text: bool. Whether "[MASK]" in a text is the mask, not ordinary text.

    Returns:
        tf.function.
    """
    tokenizer = copy.copy(tokenizer)
    tokenizer.special_tokens_in_text = special_tokens_in_text
    return tf.function(tokenizer.tokenize_with_columns, input_signature=[text_spec()], autograph=False)


def single_rows(tokenizer, pieces, max_seq_length: int):
    """Makes the rows [CLS] text [SEP]. A longer text loses its end.

    Args:
        tokenizer: BertTokenizer. The tokenizer of the model.
        pieces: RaggedTensor int32 [B, (pieces)], or [B, (pieces), 1 + C] with columns.
        max_seq_length: int. The most tokens of a row.

    Returns:
        (inputs of the encoder, truncated bool [B]).
    """
    start, length = rows.spans(pieces)
    room = max_seq_length - 2
    return rows.pack(tokenizer, pieces.flat_values, (start, tf.minimum(length, room))), length > room


def masked_lm_logits(model, tokenizer, states, positions):
    """Computes the masked-LM logits of some places.

    Args:
        model: BertPretrainer. The model with the masked-LM head.
        tokenizer: BertTokenizer. The tokenizer of the model.
        states: [B, S, H]. The output of the encoder.
        positions: int32 [M]. Places in the flat batch, row x S + column.

    Returns:
        float32 [M, V].
    """
    flat = tf.reshape(states, [1, -1, states.shape[-1]])
    # The embedding table may have more rows than the vocabulary has entries. The additional rows are no answers.
    logits = model.masked_lm(flat, model.encoder.embeddings.word_table, positions[None])
    return logits[0, :, : tokenizer.vocab_size]


def pseudo_log_likelihood(model, tokenizer, vocabulary, pieces, max_seq_length: int) -> dict:
    """Sums log p(piece | all others) over the pieces of each text, with one piece masked at a time.

    Source: Salazar et al. 2020, Masked Language Model Scoring.

    Args:
        model: BertPretrainer. The model with the masked-LM head.
        tokenizer: BertTokenizer. The tokenizer of the model.
        vocabulary: string [V].
        pieces: RaggedTensor int32 [B, (pieces)], or [B, (pieces), 1 + C] with columns.
        max_seq_length: int. The most tokens of a row.

    Returns:
        dict with
            score: float32 [B]. Natural logarithm; 0 for a text without pieces.
            num_tokens: int32 [B]. The number of scored pieces.
            tokens: string [B, T], padded with "".
            token_log_probabilities: float32 [B, T], padded with 0.
            truncated: bool [B]. Whether only the beginning was scored.
    """
    truncated = pieces.row_lengths() > max_seq_length - 2
    pieces = pieces[:, : max_seq_length - 2]
    start, length = rows.spans(pieces)
    inputs = rows.pack(tokenizer, pieces.flat_values, (start, length))
    pieces = pieces.with_flat_values(token_columns.split_columns(pieces.flat_values)[0])
    # int32 [N]: the row of each piece, and its column in this row. Column 0 is [CLS].
    row = row_ids(pieces.row_splits)
    column = tf.range(tf.size(row)) - tf.gather(start, row) + 1

    def log_probabilities(first, last):
        """Returns [float32 [rows]]. Each row masks one piece of a text."""
        masked_row, masked_column = row[first:last], column[first:last]
        # The pieces of a text are neighbours, so the rows of a part mostly have similar lengths.
        longest = tf.reduce_max(tf.gather(length, masked_row)) + 2
        part = {name: tf.gather(values[:, :longest], masked_row) for name, values in inputs.items()}
        is_masked = tf.range(longest) == masked_column[:, None]
        part["input_word_ids"] = tf.where(is_masked, tokenizer.mask_id, part["input_word_ids"])
        if tokenizer.columns is not None:
            part = tokenizer.columns.hidden_at_masks(part)
        states = model.encoder(part, output_positions=masked_column[:, None])["sequence_output"]
        logits = masked_lm_logits(model, tokenizer, states, tf.range(last - first))
        return [tf.gather(tf.nn.log_softmax(logits), pieces.flat_values[first:last], batch_dims=1)]

    size = tf.clip_by_value(_PLACES_AT_A_TIME // tf.shape(inputs["input_mask"])[1], 1, _ROWS_AT_A_TIME)
    (log_p,) = in_chunks(log_probabilities, tf.size(row), size, [tf.TensorSpec([None], tf.float32)])
    return scores_of_pieces(pieces, log_p, vocabulary, truncated)


def scores_of_pieces(pieces, log_probabilities, vocabulary, truncated) -> dict:
    """Makes the outputs of a signature that scores texts.

    Args:
        pieces: RaggedTensor int32 [B, (pieces)].
        log_probabilities: float32 [N]. The logarithm of each piece's probability, text by text.
        vocabulary: string [V].
        truncated: bool [B]. Whether only the beginning was scored.

    Returns:
        dict, see pseudo_log_likelihood.
    """
    log_probabilities = pieces.with_flat_values(log_probabilities)
    return {
        "score": tf.reduce_sum(log_probabilities, axis=1),
        "num_tokens": tf.cast(pieces.row_lengths(), tf.int32),
        "tokens": pieces.with_flat_values(tf.gather(vocabulary, pieces.flat_values)).to_tensor(),
        "token_log_probabilities": log_probabilities.to_tensor(),
        "truncated": truncated,
    }


def next_sentence(model, tokenizer, pieces_a, pieces_b, max_seq_length: int) -> dict:
    """Computes the probability that text b follows text a.

    If a pair is too long, the longer text loses its end.

    Args:
        model: BertPretrainer. The model with the next-sentence head.
        tokenizer: BertTokenizer. The tokenizer of the model.
        pieces_a: RaggedTensor int32 [B, (pieces)], or [B, (pieces), 1 + C] with columns.
        pieces_b: RaggedTensor, as pieces_a.
        max_seq_length: int. The most tokens of a row.

    Returns:
        dict with is_next_probability, float32 [B], and truncated, bool [B].
    """
    (a_start, a_length), (b_start, b_length) = rows.spans(pieces_a), rows.spans(pieces_b)
    room = tf.fill(tf.shape(a_length), max_seq_length - 3)
    a_kept, b_kept = rows.kept_lengths([a_length, b_length], room)
    tokens = tf.concat([pieces_a.flat_values, pieces_b.flat_values], axis=0)
    b_start += tf.shape(pieces_a.flat_values)[0]
    logits = model(
        {
            **rows.pack(tokenizer, tokens, (a_start, a_kept), (b_start, b_kept)),
            "masked_lm_positions": tf.zeros([tf.size(a_length), 1], tf.int32),
        },
        heads_only=True,
    )["nsp_logits"]
    return {"is_next_probability": tf.nn.softmax(logits)[:, 0], "truncated": a_kept + b_kept < a_length + b_length}
