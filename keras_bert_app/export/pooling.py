"""One vector for a text from the states of its pieces.

Dimensions: B texts, S places of the longest, H hidden size.
"""

import tensorflow as tf

from keras_bert_app.errors import UserError, nearest
from keras_bert_app.modeling.task_model import pooled

# "mean_max" and "cls_mean" are their two parts side by side, [B, 2H]; the others are [B, H].
POOLINGS = ("cls", "mean", "max", "mean_max", "cls_mean", "first_last")
# The last layer has been bent to the task of pre-training; the one below it is the better sentence vector (Xiao 2018,
# bert-as-service).
DEFAULT_LAYER = -2


def layers_read(pooling, layer, num_layers):
    """The numbers of the layers that a pooling reads, ascending: 0 is the embeddings' output, then 1 to num_layers.

    Args:
        pooling: of POOLINGS. layer: such a number, or one from the top (-1 the last layer); None for DEFAULT_LAYER, and
            for "first_last", which reads layer 1 and the last (Su et al. 2021, BERT-whitening).

    Raises:
        UserError: there is no such pooling or layer.
    """
    if pooling not in POOLINGS:
        raise UserError(f"--pooling={pooling} is not known: {nearest(pooling, POOLINGS)}")
    if pooling == "first_last":
        if layer is not None:
            raise UserError(
                f"--layer={layer} does not go with --pooling=first_last, which takes layer 1 and the last; leave "
                "one of them out"
            )
        return tuple(sorted({min(1, num_layers), num_layers}))
    layer = DEFAULT_LAYER if layer is None else layer
    if not -num_layers - 1 <= layer <= num_layers:
        raise UserError(
            f"--layer={layer}: this model has layers 1 to {num_layers}; give one of them, 0 for the "
            "embeddings, or one from the top, such as -1 for the last"
        )
    return (layer if layer >= 0 else num_layers + 1 + layer,)


def places_of_pieces(input_word_ids, input_mask, special_ids=()):
    """bool [B, S], the places that are pooled: the pieces of the text, without special ones.

    So that every row has a vector, a text of no pieces is pooled over its special ones, a row of padding over all of it.

    Args:
        special_ids: the ids of [CLS] and [SEP], or none to have them pooled too.
    """
    is_there = input_mask > 0
    is_piece = is_there
    for special_id in special_ids:
        is_piece &= input_word_ids != special_id
    for fallback in (is_there, tf.ones_like(is_there)):
        is_piece = tf.where(tf.reduce_any(is_piece, axis=1, keepdims=True), is_piece, fallback)
    return is_piece


def pool(states, is_pooled, pooling):
    """One vector for each text, float32 [B, H] or [B, 2H].

    Args:
        states: the layers of layers_read, each [B, S, H]; [B, 1, H] will do for "cls". is_pooled: bool [B, S]; "cls" and "cls_mean" read [CLS], at
            place 0, whatever it says. pooling: of POOLINGS.
    """
    if pooling == "first_last":
        return sum(pooled(layer, is_pooled, "mean") for layer in states) / len(states)
    (layer,) = states
    return tf.concat([pooled(layer, is_pooled, part) for part in pooling.split("_")], axis=1)
