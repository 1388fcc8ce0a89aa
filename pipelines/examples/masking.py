"""Dynamic masking for the masked language model: Google's create_masked_lm_predictions on batches.

Dimensions: N rows, S positions, P predictions a row, V vocabulary entries.
"""

from collections.abc import Sequence

import tensorflow as tf


def num_to_predict(lengths, max_predictions_per_seq: int, masked_lm_prob: float):
    """Computes how many tokens of each row are predicted.

    The computation uses float64 and rounds half to even, like Python's round() in Google's code.

    Args:
        lengths: int [N]. The lengths of the rows, [CLS] and [SEP] included.
        max_predictions_per_seq: the largest result.
        masked_lm_prob: the share of the tokens to predict.

    Returns:
        int32 [N].
    """
    wanted = tf.cast(tf.round(tf.cast(lengths, tf.float64) * masked_lm_prob), tf.int32)
    return tf.minimum(max_predictions_per_seq, tf.maximum(1, wanted))


def mask_tokens(
    input_word_ids,
    input_mask,
    seed,
    *,
    max_predictions_per_seq: int,
    masked_lm_prob: float,
    vocab_size: int,
    mask_id: int,
    never_masked: Sequence[int],
    begins_unit=None,
    mask_token_rate: float = 0.8,
    random_token_rate: float = 0.1,
) -> dict[str, tf.Tensor]:
    """Chooses tokens to predict and hides them: by default 80 % [MASK], 10 % kept, 10 % a random piece.

    Every choice is a pure function of (seed, rows). A random piece comes from the whole vocabulary, special pieces
    included, as in Google's code.

    Args:
        input_word_ids: int32 [N, S].
        input_mask: int32 [N, S].
        seed: int [2].
        max_predictions_per_seq: the number P of predictions of a row.
        masked_lm_prob: the share of a row's tokens to predict.
        vocab_size: the number V of vocabulary entries.
        mask_id: the id of [MASK].
        never_masked: ids that are never predicted ([CLS], [SEP]).
        begins_unit: bool [N, S]. Which tokens begin a unit that is chosen as a whole (units.py); None: each token does.
        mask_token_rate: the share of the chosen tokens that becomes [MASK]. The draws of a unit's tokens are
            independent.
        random_token_rate: the share of the chosen tokens that becomes a random piece; the rest stays.

    Returns:
        dict: input_word_ids int32 [N, S] with tokens hidden; masked_lm_positions int32 [N, P] ascending;
        masked_lm_ids int32 [N, P]; masked_lm_weights float32 [N, P]. Slots without a prediction hold 0.
    """
    num_rows = tf.shape(input_word_ids)[0]
    choice_seed, kind_seed, random_seed = tf.unstack(tf.random.experimental.stateless_split(seed, 3))
    # [N, S], then [N]
    is_candidate = input_mask > 0
    for special in never_masked:
        is_candidate &= input_word_ids != special
    wanted = num_to_predict(tf.reduce_sum(input_mask, axis=1), max_predictions_per_seq, masked_lm_prob)
    # [N, P] from here on
    positions = _choose_positions(is_candidate, begins_unit, wanted, choice_seed, max_predictions_per_seq)
    is_used = positions < input_word_ids.shape[1]
    positions = tf.where(is_used, positions, 0)
    labels = tf.where(is_used, tf.gather(input_word_ids, positions, batch_dims=1), 0)
    kind = tf.random.stateless_uniform([num_rows, max_predictions_per_seq], kind_seed)
    random_pieces = tf.random.stateless_uniform(
        [num_rows, max_predictions_per_seq], random_seed, 0, vocab_size, tf.int32
    )
    shown = tf.where(kind < mask_token_rate, mask_id, tf.where(kind < 1.0 - random_token_rate, labels, random_pieces))
    return {
        "input_word_ids": _with_pieces_at(input_word_ids, positions, is_used, shown),
        "masked_lm_positions": positions,
        "masked_lm_ids": labels,
        "masked_lm_weights": tf.cast(is_used, tf.float32),
    }


def _choose_positions(is_candidate, begins_unit, wanted, seed, max_predictions_per_seq):
    """Chooses the positions [N, P] to predict, in ascending order; a slot without a position holds S."""
    if begins_unit is None:
        return _choose_tokens(is_candidate, wanted, seed, max_predictions_per_seq)
    return _choose_units(is_candidate, begins_unit, wanted, seed, max_predictions_per_seq)


def _with_pieces_at(input_word_ids, positions, is_used, pieces):
    """Writes the pieces [N, P] of used slots into the rows [N, S]."""
    slots = tf.where(is_used)
    index = tf.stack([tf.cast(slots[:, 0], tf.int32), tf.gather_nd(positions, slots)], axis=1)
    return tf.tensor_scatter_nd_update(input_word_ids, index, tf.gather_nd(pieces, slots))


def _choose_tokens(is_candidate, wanted, seed, max_predictions_per_seq):
    """Chooses `wanted` random candidates of each row; returns positions as _choose_positions does."""
    draws = tf.where(is_candidate, tf.random.stateless_uniform(tf.shape(is_candidate), seed), -1.0)
    _, positions = tf.math.top_k(draws, k=max_predictions_per_seq)
    wanted = tf.minimum(wanted, tf.reduce_sum(tf.cast(is_candidate, tf.int32), axis=1))
    is_used = tf.range(max_predictions_per_seq) < wanted[:, None]
    return tf.sort(tf.where(is_used, positions, is_candidate.shape[1]), axis=1)


def _choose_units(is_candidate, begins_unit, wanted, seed, max_predictions_per_seq):
    """Chooses units in random order.

    Returns [N, P] ascending positions of the tokens of these units, and S in slots without a token.

    A unit with more tokens than are still wanted is skipped, as in Google's whole-word masking. A unit ends at a token
    that is no candidate.
    """
    seq_length = is_candidate.shape[1]
    num_rows = tf.shape(is_candidate)[0]
    follows_candidate = tf.pad(is_candidate[:, :-1], [[0, 0], [1, 0]])
    begins_unit = is_candidate & (begins_unit | ~follows_candidate)
    # [N * S] the unit of each token, numbered over all rows. A token that is no candidate belongs to the unit before
    # it, or to none; it does not add to the size of the unit.
    unit = tf.reshape(
        tf.cumsum(tf.cast(begins_unit, tf.int32), axis=1) - 1 + tf.range(num_rows)[:, None] * seq_length, [-1]
    )
    size = tf.math.unsorted_segment_sum(tf.reshape(tf.cast(is_candidate, tf.int32), [-1]), unit, num_rows * seq_length)
    draws = tf.reshape(tf.random.stateless_uniform([num_rows * seq_length], seed), [-1])
    # [N, S] the size and the draw of each token's unit
    size, draws = (
        tf.reshape(tf.gather(values, tf.maximum(unit, 0)), tf.shape(is_candidate)) for values in (size, draws)
    )
    # The loop visits tokens unit by unit, then the rest; tokens of equal draws keep the order of their positions.
    _, order = tf.math.top_k(tf.where(is_candidate, draws, -1.0), k=seq_length)
    # [S, N], in the order of the loop
    begins, size, is_candidate = (
        tf.transpose(tf.gather(values, order, batch_dims=1)) for values in (begins_unit, size, is_candidate)
    )

    def visit(index, room, is_taken, taken):
        room = tf.where(is_candidate[index], room, 0)
        fits = size[index] <= room
        is_taken = is_candidate[index] & tf.where(begins[index], fits, is_taken)
        room -= tf.where(begins[index] & is_taken, size[index], 0)
        return index + 1, room, is_taken, taken.write(index, is_taken)

    def has_room(index, room, is_taken, taken):
        # The loop runs at least once, because TensorArray.stack needs an element even if there are no rows.
        return (index < seq_length) & ((index == 0) | tf.reduce_any((room > 0) | is_taken))

    nothing = tf.zeros([num_rows], tf.bool)
    last, _, _, taken = tf.while_loop(
        has_room, visit, (0, wanted, nothing, tf.TensorArray(tf.bool, size=0, dynamic_size=True, element_shape=[None]))
    )
    # [N, last]
    taken = tf.transpose(tf.reshape(taken.stack(), [last, num_rows]))
    positions = tf.sort(tf.where(taken, order[:, :last], seq_length), axis=1)
    missing = tf.maximum(max_predictions_per_seq - last, 0)
    positions = tf.pad(positions, [[0, 0], [0, missing]], constant_values=seq_length)[:, :max_predictions_per_seq]
    return tf.ensure_shape(positions, [None, max_predictions_per_seq])
