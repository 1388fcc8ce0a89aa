"""Candidates of a compact file, compared again by vectors with all their digits."""

import numpy as np
import pytest

from keras_bert_app.errors import UserError
from keras_bert_app.vectors import rescoring
from keras_bert_app.vectors.nearest import nearest
from tests.vectors.test_nearest import stored


def clustered(count, seed=1):
    generator = np.random.default_rng(seed)
    centres = np.random.default_rng(0).normal(size=(40, 23))
    return (centres[generator.integers(40, size=count)] + 0.4 * generator.normal(size=(count, 23))).astype(np.float32)


@pytest.mark.parametrize("dtype", ["int8", "binary"])
def test_rescoring_gives_the_exact_order(tmp_path, dtype):
    vectors, queries = clustered(501), clustered(7, seed=3)
    vectors[400] = vectors[20]
    queries[0] = vectors[20]
    compact = stored(vectors, dtype, tmp_path / "x.npy")
    expected, rows = nearest(queries, vectors, 5)
    _, candidates = nearest(queries, compact, 501)
    cosines, found = rescoring.rescored(queries, candidates, vectors.__getitem__, 5)
    np.testing.assert_array_equal(found, rows)
    np.testing.assert_array_equal(cosines, expected)
    _, few = nearest(queries, compact, 5)
    cosines, found = rescoring.rescored(queries, few, vectors.__getitem__, 5)
    assert np.array_equal(np.sort(found), np.sort(few)) and (np.diff(cosines) <= 0).all()
    assert not np.array_equal(found, few) or dtype == "int8"
    few[2, 1:] = -1
    cosines, found = rescoring.rescored(queries, few, vectors.__getitem__, 5)
    assert found[2].tolist() == [few[2, 0], -1, -1, -1, -1] and np.isneginf(cosines[2, 1:]).all()


def test_candidates_are_embedded_again_in_one_reading():
    vectors, readings = clustered(60), []

    def texts():
        readings.append(1)
        yield from (str(row).encode() for row in range(60))

    class Embed:
        def __call__(self, some):
            return vectors[[int(text) for text in some]], np.zeros(len(some), bool)

        def num_tokens(self, some):
            return np.array([len(text) for text in some])

    queries, rows = clustered(2, seed=4), np.array([[50, 3, 7], [7, 59, -1]])
    cosines, found = rescoring.rescored(queries, rows, rescoring.embedded_again(Embed(), texts(), rows), 2)
    expected, best = rescoring.rescored(queries, rows, vectors.__getitem__, 2)
    assert len(readings) == 1 and found.tolist() == best.tolist()
    np.testing.assert_array_equal(cosines, expected)


def test_a_vector_that_is_not_finite_is_named_by_its_row():
    vectors = clustered(20)
    vectors[7, 1] = np.nan
    with pytest.raises(UserError) as caught:
        rescoring.rescored(clustered(1), np.array([[3, 7]]), vectors.__getitem__, 1)
    assert "vector 8 holds numbers that are not finite" in str(caught.value)


def test_without_candidates_nothing_is_embedded():
    read = rescoring.embedded_again(None, iter([b"a"]), np.full((2, 3), -1))
    cosines, rows = rescoring.rescored(clustered(2), np.full((2, 3), -1), read, 2)
    assert (rows == -1).all() and np.isneginf(cosines).all()


def test_the_default_is_a_multiple_of_the_results():
    assert [rescoring.default_count(top_k) for top_k in (1, 25, 26, 1000)] == [100, 100, 104, 4000]
