"""The nearest vectors equal those of a full sort, and wrong vectors are refused."""

import numpy as np
import pytest

from keras_bert_app.errors import UserError
from keras_bert_app.vectors.nearest import check_vectors, nearest
from keras_bert_app.vectors.static import exact_nearest as module


@pytest.mark.parametrize("k", [1, 5, 103])
@pytest.mark.parametrize("block_bytes", [1 << 25, 4 * 7 * 10], ids=["one block", "blocks of ten"])
def test_the_nearest_are_those_of_a_full_sort(monkeypatch, k, block_bytes):
    monkeypatch.setattr(module, "_BLOCK_BYTES", block_bytes)
    generator = np.random.default_rng(1)
    vectors, queries = (3 * generator.normal(size=(count, 7)).astype(np.float32) for count in (101, 4))
    vectors[[17, 60]] = vectors[3]  # equal vectors in different blocks
    vectors[5] = 0
    cosines, rows = nearest(queries, vectors, k)
    unit = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-30)
    expected = (queries / np.linalg.norm(queries, axis=1, keepdims=True)) @ unit.T
    order = np.argsort(-np.round(expected, 6), axis=1, kind="stable")[:, :k]
    assert cosines.shape == rows.shape == (4, min(k, 101))
    np.testing.assert_array_equal(rows, order)
    np.testing.assert_allclose(cosines, np.take_along_axis(expected, order, axis=1), atol=1e-6)


def test_numbers_that_are_not_finite_are_named_by_their_row(monkeypatch):
    monkeypatch.setattr(module, "_BLOCK_BYTES", 40)
    vectors = np.ones((12, 2), np.float32)
    vectors[8, 1] = np.nan
    with pytest.raises(UserError, match="vector 9 "):
        nearest(vectors[:1], vectors, 2)


def embed(texts):
    return np.array([[len(text), 1.0, sum(text) % 7] for text in texts], np.float32), np.zeros(len(texts), bool)


def test_vectors_of_another_corpus_or_model_are_refused():
    texts = [b"x" * number + bytes([number]) for number in range(30)]
    vectors = embed(texts)[0] * 2.5  # the length of a vector does not matter
    check_vectors(vectors, iter(texts), embed, "x.npy")
    with pytest.raises(UserError, match="has 30 vectors, but the corpus has 29 texts"):
        check_vectors(vectors, iter(texts[1:]), embed, "x.npy")
    with pytest.raises(UserError, match="vectors of 2 numbers, and the model gives 3"):
        check_vectors(vectors[:, :2], iter(texts), embed, "x.npy")
    with pytest.raises(UserError, match="vector 1 is not that of text 1 "):
        check_vectors(vectors[::-1], iter(texts), embed, "x.npy")
