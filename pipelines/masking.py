"""Dynamic masking for the masked language model: google-research/bert create_masked_lm_predictions on batches.

Dimensions: N rows, S positions, P predictions a row, V vocabulary entries.
"""

import tensorflow as tf

MASK_SHARE, KEEP_SHARE = 0.8, 0.1  # the rest, 0.1, becomes a random piece


def num_to_predict(lengths, max_predictions_per_seq, masked_lm_prob):
    """[N] how many tokens of each row are predicted, [CLS] and [SEP] counted in its length.

    float64 and rounding half to even, so that it is Python's round() that Google's code calls.
    """
    wanted = tf.cast(tf.round(tf.cast(lengths, tf.float64) * masked_lm_prob), tf.int32)
    return tf.minimum(max_predictions_per_seq, tf.maximum(1, wanted))


def mask_tokens(input_word_ids, input_mask, seed, *, max_predictions_per_seq, masked_lm_prob, vocab_size,
                mask_id, never_masked):
    """Chooses tokens to predict and hides them: 80 % [MASK], 10 % kept, 10 % a random piece.

    Every choice is a pure function of (seed, rows). A random piece comes from the whole vocabulary, specials
    included, as in Google's code.

    Args:
        input_word_ids: int32 [N, S]. input_mask: int32 [N, S]. seed: int [2].
        max_predictions_per_seq: P. masked_lm_prob: share of a row's tokens to predict.
        vocab_size: V. mask_id: id of [MASK]. never_masked: ids that are no candidates ([CLS], [SEP]).

    Returns:
        dict: input_word_ids int32 [N, S] with tokens hidden; masked_lm_positions int32 [N, P] ascending;
        masked_lm_ids int32 [N, P]; masked_lm_weights float32 [N, P]. Slots without a prediction hold 0.
    """
    num_rows = tf.shape(input_word_ids)[0]
    choice_seed, kind_seed, random_seed = tf.unstack(tf.random.experimental.stateless_split(seed, 3))

    # [N, S]
    is_candidate = input_mask > 0
    for special in never_masked:
        is_candidate &= input_word_ids != special
    draws = tf.random.stateless_uniform(tf.shape(input_word_ids), choice_seed)
    draws = tf.where(is_candidate, draws, -1.0)

    # [N, P] the positions of the highest draws, then those that count in ascending order.
    _, positions = tf.math.top_k(draws, k=max_predictions_per_seq)
    wanted = num_to_predict(tf.reduce_sum(input_mask, axis=1), max_predictions_per_seq, masked_lm_prob)
    wanted = tf.minimum(wanted, tf.reduce_sum(tf.cast(is_candidate, tf.int32), axis=1))
    is_used = tf.range(max_predictions_per_seq) < wanted[:, None]
    past_the_end = input_word_ids.shape[1]
    positions = tf.sort(tf.where(is_used, positions, past_the_end), axis=1)
    positions = tf.where(is_used, positions, 0)
    labels = tf.where(is_used, tf.gather(input_word_ids, positions, batch_dims=1), 0)

    # [N, P] what stands in the place of each
    kind = tf.random.stateless_uniform([num_rows, max_predictions_per_seq], kind_seed)
    random_pieces = tf.random.stateless_uniform(
        [num_rows, max_predictions_per_seq], random_seed, 0, vocab_size, tf.int32)
    shown = tf.where(kind < MASK_SHARE, mask_id,
                     tf.where(kind < MASK_SHARE + KEEP_SHARE, labels, random_pieces))
    where = tf.where(is_used)
    index = tf.stack([tf.cast(where[:, 0], tf.int32), tf.gather_nd(positions, where)], axis=1)
    return {
        "input_word_ids": tf.tensor_scatter_nd_update(input_word_ids, index, tf.gather_nd(shown, where)),
        "masked_lm_positions": positions,
        "masked_lm_ids": labels,
        "masked_lm_weights": tf.cast(is_used, tf.float32),
    }
