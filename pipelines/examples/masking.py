"""Dynamic masking for the masked language model: google-research/bert create_masked_lm_predictions on batches.

Dimensions: N rows, S positions, P predictions a row, V vocabulary entries.
"""

import tensorflow as tf


def num_to_predict(lengths, max_predictions_per_seq, masked_lm_prob):
    """[N] how many tokens of each row are predicted, [CLS] and [SEP] counted in its length.

    float64 and rounding half to even, so that it is Python's round() that Google's code calls.
    """
    wanted = tf.cast(tf.round(tf.cast(lengths, tf.float64) * masked_lm_prob), tf.int32)
    return tf.minimum(max_predictions_per_seq, tf.maximum(1, wanted))


def mask_tokens(
    input_word_ids,
    input_mask,
    seed,
    *,
    max_predictions_per_seq,
    masked_lm_prob,
    vocab_size,
    mask_id,
    never_masked,
    begins_unit=None,
    mask_token_rate=0.8,
    random_token_rate=0.1,
):
    """Chooses tokens to predict and hides them: 80 % [MASK], 10 % kept, 10 % a random piece.

    Every choice is a pure function of (seed, rows). A random piece comes from the whole vocabulary, specials
    included, as in Google's code.

    Args:
        input_word_ids: int32 [N, S]. input_mask: int32 [N, S]. seed: int [2].
        max_predictions_per_seq: P. masked_lm_prob: share of a row's tokens to predict.
        vocab_size: V. mask_id: id of [MASK]. never_masked: ids that are no candidates ([CLS], [SEP]).
        begins_unit: bool [N, S], which tokens begin a unit that is chosen as a whole (pipelines.examples.units); None: each does.
        mask_token_rate, random_token_rate: shares of the chosen tokens that become [MASK] or a random piece; drawn for each
            token, also of a unit; the rest stays.

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
    wanted = num_to_predict(tf.reduce_sum(input_mask, axis=1), max_predictions_per_seq, masked_lm_prob)
    if begins_unit is None:
        positions = _choose_tokens(is_candidate, wanted, choice_seed, max_predictions_per_seq)
    else:
        positions = _choose_units(is_candidate, begins_unit, wanted, choice_seed, max_predictions_per_seq)

    # [N, P] what stands at each
    is_used = positions < input_word_ids.shape[1]
    positions = tf.where(is_used, positions, 0)
    labels = tf.where(is_used, tf.gather(input_word_ids, positions, batch_dims=1), 0)
    # [N, P] and in its place
    kind = tf.random.stateless_uniform([num_rows, max_predictions_per_seq], kind_seed)
    random_pieces = tf.random.stateless_uniform(
        [num_rows, max_predictions_per_seq], random_seed, 0, vocab_size, tf.int32
    )
    shown = tf.where(kind < mask_token_rate, mask_id, tf.where(kind < 1.0 - random_token_rate, labels, random_pieces))
    where = tf.where(is_used)
    index = tf.stack([tf.cast(where[:, 0], tf.int32), tf.gather_nd(positions, where)], axis=1)
    return {
        "input_word_ids": tf.tensor_scatter_nd_update(input_word_ids, index, tf.gather_nd(shown, where)),
        "masked_lm_positions": positions,
        "masked_lm_ids": labels,
        "masked_lm_weights": tf.cast(is_used, tf.float32),
    }


def _choose_tokens(is_candidate, wanted, seed, max_predictions_per_seq):
    """[N, P] ascending positions of `wanted` candidates of each row, S in slots without one."""
    draws = tf.where(is_candidate, tf.random.stateless_uniform(tf.shape(is_candidate), seed), -1.0)
    _, positions = tf.math.top_k(draws, k=max_predictions_per_seq)
    wanted = tf.minimum(wanted, tf.reduce_sum(tf.cast(is_candidate, tf.int32), axis=1))
    is_used = tf.range(max_predictions_per_seq) < wanted[:, None]
    return tf.sort(tf.where(is_used, positions, is_candidate.shape[1]), axis=1)


def _choose_units(is_candidate, begins_unit, wanted, seed, max_predictions_per_seq):
    """[N, P] ascending positions of the tokens of units taken in random order, S in slots without one.

    A unit that does not fit into what is still wanted is passed over, as in Google's whole-word masking. No unit spans a
    token that is no candidate.
    """
    seq_length = is_candidate.shape[1]
    num_rows = tf.shape(is_candidate)[0]
    follows_candidate = tf.pad(is_candidate[:, :-1], [[0, 0], [1, 0]])
    begins_unit = is_candidate & (begins_unit | ~follows_candidate)
    # [N * S] unit of each token among those of all rows; a token that is no candidate belongs to the last one before it,
    # or to none, and counts for nothing there.
    unit = tf.reshape(
        tf.cumsum(tf.cast(begins_unit, tf.int32), axis=1) - 1 + tf.range(num_rows)[:, None] * seq_length, [-1]
    )
    size = tf.math.unsorted_segment_sum(tf.reshape(tf.cast(is_candidate, tf.int32), [-1]), unit, num_rows * seq_length)
    draws = tf.reshape(tf.random.stateless_uniform([num_rows * seq_length], seed), [-1])
    # [N, S] size and draw of each token's unit
    size, draws = (
        tf.reshape(tf.gather(values, tf.maximum(unit, 0)), tf.shape(is_candidate)) for values in (size, draws)
    )
    # The order in which tokens are looked at: unit by unit (equal draws keep the order of positions), then the rest.
    _, order = tf.math.top_k(tf.where(is_candidate, draws, -1.0), k=seq_length)
    # [S, N]
    begins, size, is_candidate = (
        tf.transpose(tf.gather(values, order, batch_dims=1)) for values in (begins_unit, size, is_candidate)
    )

    def look(index, room, is_taken, taken):
        room = tf.where(is_candidate[index], room, 0)
        fits = size[index] <= room
        is_taken = is_candidate[index] & tf.where(begins[index], fits, is_taken)
        room -= tf.where(begins[index] & is_taken, size[index], 0)
        return index + 1, room, is_taken, taken.write(index, is_taken)

    def goes_on(index, room, is_taken, taken):
        # Once at least, so that there is something to stack when there are no rows.
        return (index < seq_length) & ((index == 0) | tf.reduce_any((room > 0) | is_taken))

    nothing = tf.zeros([num_rows], tf.bool)
    last, _, _, taken = tf.while_loop(
        goes_on, look, (0, wanted, nothing, tf.TensorArray(tf.bool, size=0, dynamic_size=True, element_shape=[None]))
    )
    # [N, last]
    taken = tf.transpose(tf.reshape(taken.stack(), [last, num_rows]))
    positions = tf.sort(tf.where(taken, order[:, :last], seq_length), axis=1)
    missing = tf.maximum(max_predictions_per_seq - last, 0)
    positions = tf.pad(positions, [[0, 0], [0, missing]], constant_values=seq_length)[:, :max_predictions_per_seq]
    return tf.ensure_shape(positions, [None, max_predictions_per_seq])
