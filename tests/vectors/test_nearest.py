"""The nearest vectors equal those of a full sort, and wrong vectors are refused."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from keras_bert_app.errors import UserError
from keras_bert_app.vectors import compact_vectors, vector_files
from keras_bert_app.vectors.nearest import check_vectors, nearest
from keras_bert_app.vectors.static import exact_nearest as module


def stored(vectors, dtype, path):
    """The vectors as `search` sees them: written to a file, and mapped into memory."""
    rows = compact_vectors.packed(vectors, dtype)
    path.write_bytes(vector_files.npy_header(*vectors.shape, dtype) + rows.tobytes())
    return vector_files.load_vectors(str(path), vector_files.ANY)


def brute_force(queries, vectors, dtype):
    """All cosines, by loops over pairs that share nothing with the code: float32 [Q, N]."""
    cosines = np.zeros((len(queries), len(vectors)), np.float32)
    for row, query in enumerate(queries.astype(np.float64)):
        for column, vector in enumerate(vectors):
            if dtype == "binary":
                differ = sum((a > 0) != (b > 0) for a, b in zip(query, vector, strict=True))
                cosines[row, column] = 1 - 2 * differ / len(query)
                continue
            if dtype == "float16":
                vector = vector.astype(np.float16)
            if dtype == "int8" and vector.any():
                vector = np.round(127 * (vector / np.abs(vector).max()))
            vector = vector.astype(np.float64)
            norms = np.sqrt((query**2).sum()) * np.sqrt((vector**2).sum())
            cosines[row, column] = (query * vector).sum() / norms if norms else 0
    return cosines


@settings(max_examples=60, deadline=None)
@given(
    dtype=st.sampled_from(compact_vectors.DTYPES),
    num_vectors=st.sampled_from([1, 2, 13, 37, 101]),
    size=st.sampled_from([1, 2, 7, 8, 17, 67]),
    num_queries=st.sampled_from([1, 2, 3, 5]),
    k=st.sampled_from([1, 3, 11, 103]),
    rows_at_a_time=st.sampled_from([1, 10, 1000]),
    seed=st.integers(0, 1000),
)
def test_a_search_equals_brute_force_with_ties_and_zeros(
    tmp_path_factory, dtype, num_vectors, size, num_queries, k, rows_at_a_time, seed
):
    generator = np.random.default_rng(seed)
    vectors = generator.normal(size=(num_vectors, size)).astype(np.float32) * 3
    # Equal rows at many places, also within a block, and rows of zeros.
    vectors[generator.integers(num_vectors, size=num_vectors // 2)] = vectors[0]
    vectors[generator.integers(num_vectors, size=num_vectors // 9)] = 0
    queries = generator.normal(size=(num_queries, size)).astype(np.float32)
    queries[0] = vectors[0]
    file = stored(vectors, dtype, tmp_path_factory.mktemp("x") / "x.npy")
    with pytest.MonkeyPatch.context() as patch:
        widest = max(-(-size // 64), num_queries) * 8 if dtype == "binary" else max(size, num_queries) * 4
        patch.setattr(module, "BLOCK_BYTES", rows_at_a_time * widest)
        cosines, rows = nearest(queries, file, k)
    expected = brute_force(queries, vectors, dtype)
    k = min(k, num_vectors)
    assert cosines.shape == rows.shape == (num_queries, k)
    np.testing.assert_allclose(cosines, -np.sort(-expected, axis=1)[:, :k], atol=2e-7)
    np.testing.assert_allclose(cosines, np.take_along_axis(expected, rows, axis=1), atol=2e-7)
    for values, numbers in zip(cosines, rows, strict=True):
        assert len(set(numbers.tolist())) == k
        for place in range(k - 1):
            assert values[place] > values[place + 1] or numbers[place] < numbers[place + 1]
    # No earlier row that equals the last result was left out.
    for query, numbers in enumerate(rows):
        equal = [row for row in range(num_vectors) if np.array_equal(vectors[row], vectors[numbers[-1]])]
        assert equal[: len(set(equal) & set(numbers.tolist()))] == sorted(set(equal) & set(numbers.tolist())), query


@pytest.mark.parametrize("num_queries", [1, 2, 5])
@pytest.mark.parametrize("dtype", compact_vectors.DTYPES)
def test_the_first_of_many_equal_rows_wins(tmp_path, dtype, num_queries):
    """A matrix product alone fails here: it gives equal rows other last digits at other places."""
    generator = np.random.default_rng(2)
    vectors = np.tile(generator.normal(size=33).astype(np.float32), (4099, 1))
    queries = generator.normal(size=(num_queries, 33)).astype(np.float32)
    _, rows = nearest(queries, stored(vectors, dtype, tmp_path / "x.npy"), 5)
    assert rows.tolist() == [[0, 1, 2, 3, 4]] * num_queries


def test_the_size_of_a_block_follows_from_the_queries_too(monkeypatch):
    seen = []

    class Recorder(np.ndarray):
        def __getitem__(self, places):
            seen.append(places.stop - places.start)
            return np.asarray(super().__getitem__(places))

    monkeypatch.setattr(module, "BLOCK_BYTES", 4 * 1000)
    vectors = np.random.default_rng(1).normal(size=(997, 2)).astype(np.float32)
    nearest(vectors[:100], vectors.view(Recorder), 3)
    assert max(seen) == 10 and len(seen) == 100


@pytest.mark.parametrize("scale", [1e-40, 1e-22, 1e22, 1e38])
def test_vectors_of_any_length_are_compared(scale):
    vectors = np.array([[1, 0, 0], [0.5, 0.5, 0], [0, 0, 1]], np.float32)
    cosines, rows = nearest(np.float32(scale) * vectors[1:2], np.float32(scale) * vectors, 3)
    assert rows.tolist() == [[1, 0, 2]]
    np.testing.assert_allclose(cosines, [[1, np.sqrt(0.5), 0]], atol=2e-5)  # 1e-40 has few digits


def test_numbers_that_are_not_finite_are_named_by_their_row(monkeypatch):
    monkeypatch.setattr(module, "BLOCK_BYTES", 40)
    vectors = np.ones((12, 2), np.float32)
    vectors[8, 1] = np.nan
    with pytest.raises(UserError, match="vector 9 "):
        nearest(vectors[:1], vectors, 2)
    with pytest.raises(UserError, match="vector of query 9 "):
        nearest(vectors, vectors[:2], 2)
    with pytest.raises(UserError, match="vector 3 "):
        nearest(vectors[:1], np.array([[1, 1], [1, 2], [1e300, 0]]), 2)


def embed(texts):
    return np.array([[len(text), 1.0, sum(text) % 7 - 3.01] for text in texts], np.float32), np.zeros(len(texts), bool)


@pytest.mark.parametrize("dtype", compact_vectors.DTYPES)
def test_vectors_of_another_corpus_or_model_are_refused(tmp_path, dtype):
    texts = [b"x" * number + bytes([number]) for number in range(30)]
    made = embed(texts)[0] * 2.5  # the length of a vector does not matter
    made[:, 0] -= 40
    vectors = stored(made, dtype, tmp_path / "x.npy")

    def same(texts):
        made, truncated = embed(texts)
        made[:, 0] -= 16
        return made + 1e-4, truncated

    check_vectors(vectors, iter(texts), same, "x.npy")
    with pytest.raises(UserError, match="has 30 vectors, but the corpus has 29 texts"):
        check_vectors(vectors, iter(texts[1:]), same, "x.npy")
    with pytest.raises(UserError, match="vectors of 2 numbers, and the model gives 3"):
        check_vectors(stored(made[:, :2], dtype, tmp_path / "y.npy"), iter(texts), same, "x.npy")
    with pytest.raises(UserError, match="vector 1 is not that of text 1 "):
        check_vectors(vectors[::-1], iter(texts), same, "x.npy")


def test_signs_of_numbers_near_zero_may_change_but_others_may_not(tmp_path):
    vector = np.random.default_rng(3).normal(size=(1, 40)).astype(np.float32)
    vector[0, :4] = 1e-6
    vectors = stored(np.append(-vector[:, :4], vector[:, 4:], axis=1), "binary", tmp_path / "x.npy")
    check_vectors(vectors, [b"a"], lambda texts: (vector, None), "x.npy")
    vectors = stored(np.append(vector[:, :36], -vector[:, 36:], axis=1), "binary", tmp_path / "y.npy")
    with pytest.raises(UserError, match="vector 1 is not that of text 1 "):
        check_vectors(vectors, [b"a"], lambda texts: (vector, None), "x.npy")
