"""Pooling against numbers computed by hand, and the layers that a pooling reads."""

import numpy as np
import pytest
import tensorflow as tf

from keras_bert_app.errors import UserError
from keras_bert_app.export import pooling

CLS, SEP, PAD = 2, 3, 0
IDS = tf.constant([[CLS, 7, 8, SEP, PAD], [CLS, SEP, PAD, PAD, PAD], [PAD] * 5, [CLS, 7, SEP, 9, SEP]])
MASK = tf.constant([[1, 1, 1, 1, 0], [1, 1, 0, 0, 0], [0] * 5, [1] * 5])
# [B, S, 2]. The values at padding must have no effect.
STATES = tf.constant(
    [
        [[5, 1], [1, -4], [3, -2], [9, 9], [99, 99]],
        [[5, 1], [3, 2], [99, 99], [99, 99], [99, 99]],
        [[1, 2], [3, 4], [5, 6], [7, 8], [9, 10]],
        [[5, 1], [1, 1], [9, 9], [2, 3], [9, 9]],
    ],
    tf.float32,
)
BY_HAND = {
    "cls": [[5, 1], [5, 1], [1, 2], [5, 1]],
    "mean": [[2, -3], [4, 1.5], [5, 6], [1.5, 2]],
    "max": [[3, -2], [5, 2], [9, 10], [2, 3]],
    "mean_max": [[2, -3, 3, -2], [4, 1.5, 5, 2], [5, 6, 9, 10], [1.5, 2, 2, 3]],
    "cls_mean": [[5, 1, 2, -3], [5, 1, 4, 1.5], [1, 2, 5, 6], [5, 1, 1.5, 2]],
}


@pytest.mark.parametrize("name", BY_HAND)
def test_special_pieces_are_not_pooled_unless_a_row_has_nothing_else(name):
    vectors = pooling.pool([STATES], pooling.places_of_pieces(IDS, MASK, (CLS, SEP)), name)
    np.testing.assert_allclose(vectors, BY_HAND[name])


def test_first_last_is_the_mean_of_the_means_of_two_layers():
    places = pooling.places_of_pieces(IDS, MASK, (CLS, SEP))
    vectors = pooling.pool([STATES, STATES * 3 + 1], places, "first_last")
    np.testing.assert_allclose(vectors, np.array(BY_HAND["mean"]) * 2 + 0.5)


def test_special_pieces_are_pooled_when_asked_for_and_padding_never():
    vectors = pooling.pool([STATES], pooling.places_of_pieces(IDS, MASK), "mean")
    np.testing.assert_allclose(vectors[:2], [[4.5, 1], [4, 1.5]])


def test_layers_are_counted_from_the_embeddings_up_and_from_the_top_down():
    assert pooling.layers_read("mean", None, 12) == (11,)
    assert pooling.layers_read("mean", None, 1) == (0,) and pooling.layers_read("mean", None, 0) == (0,)
    assert [pooling.layers_read("max", layer, 3) for layer in (0, 1, 3, -1, -4)] == [(0,), (1,), (3,), (3,), (0,)]
    assert pooling.layers_read("first_last", None, 12) == (1, 12) and pooling.layers_read("first_last", None, 1) == (1,)


@pytest.mark.parametrize(
    "name, layer, message",
    [
        ("mean", 4, "layers 1 to 3"),
        ("mean", -5, "--layer=-5"),
        ("first_last", 2, "leave one of them out"),
        ("meen", None, "did you mean 'mean'"),
        ("sum", None, "first_last"),
    ],
)
def test_an_unknown_pooling_or_a_missing_layer_is_refused(name, layer, message):
    with pytest.raises(UserError, match=message):
        pooling.layers_read(name, layer, 3)


def test_a_model_without_layers_has_only_its_embeddings():
    with pytest.raises(UserError, match="--layer=1: this model has only embeddings; give --layer=0"):
        pooling.layers_read("mean", 1, 0)
