"""What a pre-trained model says of whole texts, in graph: how likely they are, and whether one follows another.

Dimensions: B texts, S places of the longest row, N pieces of all texts, T of the longest, V vocabulary entries.
"""

import copy

import tensorflow as tf

from keras_bert_app.export import rows
from keras_bert_app.export.chunks import in_chunks
from keras_bert_app.export.specs import text_spec
from pipelines.ragged import row_ids

_PLACES_AT_A_TIME = 4096  # a batch of 32 rows of 128: what an encoder works on at full speed, and in little memory
_ROWS_AT_A_TIME = 256  # of short texts; each row has V logits


def tokenize_function(tokenizer, special_tokens_in_text=False):
    """tf.function from string [B] to RaggedTensor int32 [B, (pieces)]; functions that call it share its graph.

    Args:
        special_tokens_in_text: whether "[MASK]" in a text is the mask, and not ordinary text.
    """
    tokenizer = copy.copy(tokenizer)
    tokenizer.special_tokens_in_text = special_tokens_in_text
    return tf.function(tokenizer.tokenize, input_signature=[text_spec()], autograph=False)


def single_rows(tokenizer, pieces, max_seq_length):
    """(inputs of the encoder for rows [CLS] text [SEP], truncated bool [B]); a longer text loses its end.

    Args:
        pieces: RaggedTensor int32 [B, (pieces)].
    """
    start, length = rows.spans(pieces)
    room = max_seq_length - 2
    return rows.pack(tokenizer, pieces.flat_values, (start, tf.minimum(length, room))), length > room


def masked_lm_logits(model, tokenizer, states, positions):
    """float32 [M, V] of some places.

    Args:
        states: [B, S, H]. positions: int32 [M], places in the flat batch, row x S + column.
    """
    flat = tf.reshape(states, [1, -1, states.shape[-1]])
    # The table may have more rows than the vocabulary has entries; those are no answers.
    logits = model.masked_lm(flat, model.encoder.embeddings.word_table, positions[None])
    return logits[0, :, : tokenizer.vocab_size]


def pseudo_log_likelihood(model, tokenizer, vocabulary, pieces, max_seq_length):
    """The sum of log p(piece | all others) over the pieces of a text, each masked in turn (Salazar et al. 2020, Masked
    Language Model Scoring).

    Args:
        vocabulary: string [V]. pieces: RaggedTensor int32 [B, (pieces)].

    Returns:
        dict: score float32 [B], natural logarithms, 0 for a text of no pieces; num_tokens int32 [B]; tokens string and
        token_log_probabilities float32 [B, T], padded with "" and 0; truncated bool [B]: only the beginning was scored.
    """
    truncated = pieces.row_lengths() > max_seq_length - 2
    pieces = pieces[:, : max_seq_length - 2]
    start, length = rows.spans(pieces)
    inputs = rows.pack(tokenizer, pieces.flat_values, (start, length))
    # int32 [N]: the row of each piece, and its column, after [CLS]
    row = row_ids(pieces.row_splits)
    column = tf.range(tf.size(row)) - tf.gather(start, row) + 1

    def log_probabilities(first, last):
        """float32 [rows]: each row a text with one of its pieces masked."""
        of_row, at = row[first:last], column[first:last]
        # Texts come one after the other, so that most parts hold rows of like lengths.
        longest = tf.reduce_max(tf.gather(length, of_row)) + 2
        part = {name: tf.gather(values[:, :longest], of_row) for name, values in inputs.items()}
        is_asked = tf.range(longest) == at[:, None]
        part["input_word_ids"] = tf.where(is_asked, tokenizer.mask_id, part["input_word_ids"])
        states = model.encoder(part, output_positions=at[:, None])["sequence_output"]
        logits = masked_lm_logits(model, tokenizer, states, tf.range(last - first))
        return [tf.gather(tf.nn.log_softmax(logits), pieces.flat_values[first:last], batch_dims=1)]

    size = tf.clip_by_value(_PLACES_AT_A_TIME // tf.shape(inputs["input_mask"])[1], 1, _ROWS_AT_A_TIME)
    (found,) = in_chunks(log_probabilities, tf.size(row), size, [tf.TensorSpec([None], tf.float32)])
    return {
        "score": tf.math.unsorted_segment_sum(found, row, tf.size(length)),
        "num_tokens": length,
        "tokens": pieces.with_flat_values(tf.gather(vocabulary, pieces.flat_values)).to_tensor(),
        "token_log_probabilities": pieces.with_flat_values(found).to_tensor(),
        "truncated": truncated,
    }


def next_sentence(model, tokenizer, pieces_a, pieces_b, max_seq_length):
    """dict: is_next_probability float32 [B], that text b follows text a; truncated bool [B].

    Of a pair that is too long the longer text loses its end.

    Args:
        pieces_a, pieces_b: RaggedTensors int32 [B, (pieces)].
    """
    (a_start, a_length), (b_start, b_length) = rows.spans(pieces_a), rows.spans(pieces_b)
    room = tf.fill(tf.shape(a_length), max_seq_length - 3)
    a_kept, b_kept = rows.kept_lengths([a_length, b_length], room)
    tokens = tf.concat([pieces_a.flat_values, pieces_b.flat_values], axis=0)
    b_start += tf.size(pieces_a.flat_values)
    logits = model(
        {
            **rows.pack(tokenizer, tokens, (a_start, a_kept), (b_start, b_kept)),
            "masked_lm_positions": tf.zeros([tf.size(a_length), 1], tf.int32),
        },
        heads_only=True,
    )["nsp_logits"]
    return {"is_next_probability": tf.nn.softmax(logits)[:, 0], "truncated": a_kept + b_kept < a_length + b_length}
