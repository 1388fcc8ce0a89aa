"""The scores that attention adds for keys that a query must not see."""

import keras

# Attention adds this score for a masked key, as google-research/bert does in modeling.attention_layer. The score is
# finite, so a row of padding gives no NaN.
MASKED_SCORE = -10000.0


def mask_scores(mask, is_causal: bool = False, positions=None):
    """Computes the scores that attention adds for a mask.

    Args:
        mask: int [B, S]. 1 for a visible key, 0 for a masked key.
        is_causal: bool. Whether a query sees only keys at its own place and before it.
        positions: int [B, P]. The places of the queries of a causal model; None for all places.

    Returns:
        float32 [B, 1, 1, S]. For a causal model [B, 1, S, S], or [B, 1, P, S] with positions.
    """
    ops = keras.ops
    mask = ops.cast(mask, "float32")
    # LiteRT has no kernel that slices at this rank, so the code expands dimensions.
    scores = ops.expand_dims((1.0 - mask) * MASKED_SCORE, (1, 2))
    if not is_causal:
        return scores
    places = ops.arange(ops.shape(mask)[1], dtype="int32")
    # Below, [S, S] or [B, 1, P, S] says whether the query (row) comes before the key (column). Such a query must not
    # attend to the key.
    row_places = (
        ops.expand_dims(places, 1) if positions is None else ops.expand_dims(ops.cast(positions, "int32"), (1, 3))
    )
    return scores + ops.cast(row_places < places, "float32") * MASKED_SCORE
