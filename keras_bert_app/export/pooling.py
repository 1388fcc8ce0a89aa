"""Pools the states of a text's pieces to one vector.

Dimensions: B texts, S places of the longest text, H hidden size.
"""

from collections.abc import Sequence

import tensorflow as tf

from keras_bert_app.errors import UserError, nearest
from keras_bert_app.modeling.task_model import pooled

# "mean_max" and "cls_mean" concatenate two vectors, [B, 2H]. The others give [B, H].
POOLINGS = ("cls", "mean", "max", "mean_max", "cls_mean", "first_last")
# Pre-training adapts the last layer to its task. The layer below gives better sentence vectors (Xiao 2018,
# bert-as-service).
DEFAULT_LAYER = -2


def layers_read(pooling: str, layer: int | None, num_layers: int) -> tuple[int, ...]:
    """Finds the numbers of the layers that a pooling reads.

    Layer 0 is the output of the embeddings; then come the layers 1 to num_layers.

    Args:
        pooling: str. One of POOLINGS.
        layer: int. A number of a layer, or a negative number that counts from the top (-1 is the last layer). None for
            DEFAULT_LAYER, or for the embeddings of a model without layers. "first_last" takes None only: it reads layer
            1 and the last (Su et al. 2021, BERT-whitening).
        num_layers: int. The number of layers of the model.

    Returns:
        tuple of int, ascending.

    Raises:
        UserError: the pooling or the layer does not exist.
    """
    if pooling not in POOLINGS:
        raise UserError(f"--pooling={pooling} is not known: {nearest(pooling, POOLINGS)}")
    if pooling == "first_last":
        if layer is not None:
            raise UserError(
                f"--layer={layer} does not go with --pooling=first_last, which always reads layer 1 and the last "
                "layer; leave one of them out"
            )
        return tuple(sorted({min(1, num_layers), num_layers}))
    layer = max(DEFAULT_LAYER, -num_layers - 1) if layer is None else layer
    if not -num_layers - 1 <= layer <= num_layers:
        expected = (
            f"has layers 1 to {num_layers}; give one of them, 0 for the embeddings, or a negative number that counts "
            "from the top, such as -1 for the last layer"
        )
        raise UserError(
            f"--layer={layer}: this model {expected if num_layers else 'has only embeddings; give --layer=0'}"
        )
    return (layer if layer >= 0 else num_layers + 1 + layer,)


def places_of_pieces(input_word_ids, input_mask, special_ids: Sequence[int] = ()):
    """Finds the places to pool: the pieces of a text without the special pieces.

    Every row gets a vector. If a text has no pieces, the special pieces are pooled. If a row has only padding, all
    its places are pooled.

    Args:
        input_word_ids: int32 [B, S].
        input_mask: int32 [B, S].
        special_ids: sequence of int. The ids of [CLS] and [SEP], or () to pool them too.

    Returns:
        bool [B, S].
    """
    is_token = input_mask > 0
    is_piece = is_token
    for special_id in special_ids:
        is_piece &= input_word_ids != special_id
    for fallback in (is_token, tf.ones_like(is_token)):
        is_piece = tf.where(tf.reduce_any(is_piece, axis=1, keepdims=True), is_piece, fallback)
    return is_piece


def pool(states: Sequence, is_pooled, pooling: str):
    """Pools the states of each text to one vector.

    Args:
        states: sequence of [B, S, H]. The layers of layers_read. For "cls", [B, 1, H] is enough.
        is_pooled: bool [B, S]. The places to pool. "cls" and "cls_mean" always read [CLS] at place 0.
        pooling: str. One of POOLINGS.

    Returns:
        float32 [B, H] or [B, 2H].
    """
    if pooling == "first_last":
        return sum(pooled(layer, is_pooled, "mean") for layer in states) / len(states)
    (layer,) = states
    return tf.concat([pooled(layer, is_pooled, part) for part in pooling.split("_")], axis=1)
