"""Indexes of faiss: what they find, their files, and files that are refused."""

import os
import re

import numpy as np
import pytest

from keras_bert_app.errors import UserError
from keras_bert_app.vectors import approximate_index
from keras_bert_app.vectors.approximate_index import SearchIndex
from keras_bert_app.vectors.nearest import check_vectors, nearest

faiss = pytest.importorskip("faiss", reason="pip install -r requirements-search.txt")


def clustered(count, size=23, seed=1):
    generator = np.random.default_rng(seed)
    centres = generator.normal(size=(40, size))
    rows = centres[generator.integers(40, size=count)] + 0.4 * generator.normal(size=(count, size))
    return (rows * generator.uniform(0.5, 2, size=(count, 1))).astype(np.float32)


def built(vectors, kind, path):
    index = approximate_index.new_index(vectors, kind)
    approximate_index.add(index, vectors)
    approximate_index.save(index, str(path))
    return SearchIndex(str(path))


@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.int8])
@pytest.mark.parametrize("kind", ["hnsw", "ivf"])
def test_an_index_finds_most_of_the_nearest_and_gives_their_exact_cosines(tmp_path, monkeypatch, kind, dtype):
    monkeypatch.setattr(approximate_index, "_ROWS_AT_A_TIME", 700)
    vectors = clustered(3001)
    vectors = (vectors * 20).astype(np.int8) if dtype == np.int8 else vectors.astype(dtype)
    done = []
    index = approximate_index.new_index(vectors, kind)
    approximate_index.add(index, vectors, done.append)
    assert done == [700, 700, 700, 700, 201]
    approximate_index.save(index, str(tmp_path / "x.faiss"))
    assert os.listdir(tmp_path) == ["x.faiss"]
    index, queries = SearchIndex(str(tmp_path / "x.faiss")), clustered(31, seed=2)
    assert index.shape == (3001, 23) and index.kind == kind
    expected, _ = nearest(queries, vectors, 10)
    recalls = []
    for width in (1, 2, index.width, 1000):
        index.width = width
        cosines, rows = index.search(queries, 10)
        recalls.append(float((cosines >= expected[:, -1:] - 1e-6).mean()))
        for query, numbers, values in zip(queries, rows, cosines, strict=True):
            found = numbers >= 0
            direct = vectors[numbers[found]].astype(np.float32) @ query
            direct /= np.linalg.norm(vectors[numbers[found]].astype(np.float32), axis=1) * np.linalg.norm(query)
            np.testing.assert_allclose(values[found], direct, atol=1e-5)
            assert (np.diff(values[found]) <= 0).all() and found.argmin() in (0, found.sum())
    assert recalls == sorted(recalls) and recalls[0] < 0.9 and recalls[2] > 0.95 and recalls[3] > 0.999, recalls


@pytest.mark.parametrize("kind", ["hnsw", "ivf"])
@pytest.mark.parametrize("count", [1, 2, 5])
def test_small_files_zeros_and_equal_rows_have_an_index(tmp_path, capfd, kind, count):
    vectors = np.ones((count, 3), np.float32)
    vectors[2:3] = 0
    index = built(vectors, kind, tmp_path / "x.faiss")
    cosines, rows = index.search(np.array([[2, 2, 2], [0, 0, 0]], np.float32), 9)
    assert rows.shape == (2, count) and rows[0].tolist() == [row for row in range(count) if row != 2] + [2] * (
        count > 2
    )
    np.testing.assert_allclose(cosines[0], [1] * (count - (count > 2)) + [0] * (count > 2), atol=1e-6)
    assert not cosines[1].any() and capfd.readouterr() == ("", "")


def test_a_narrow_search_of_clusters_says_what_is_missing(tmp_path):
    index = built(clustered(400), "ivf", tmp_path / "x.faiss")
    index.width = 1
    cosines, rows = index.search(clustered(3), 300)
    assert (rows[:, 0] >= 0).all() and (rows[:, -1] == -1).all() and np.isneginf(cosines[rows == -1]).all()


@pytest.mark.parametrize("kind", ["hnsw", "ivf"])
def test_an_index_of_another_corpus_or_model_is_refused(tmp_path, kind):
    vectors = clustered(50)
    texts = [str(row).encode() for row in range(50)]
    index = built(vectors, kind, tmp_path / "x.faiss")

    def embed(some):
        return 3 * vectors[[int(text) for text in some]], None

    check_vectors(index, texts, embed, "x.faiss")
    for other, message in (
        (texts[:-1], "x.faiss: has 50 vectors, but the corpus has 49 texts"),
        (texts[::-1], r"vector 1 is not that of text 1 \(cosine"),
    ):
        with pytest.raises(UserError, match=message):
            check_vectors(index, other, embed, "x.faiss")
    with pytest.raises(UserError, match="has vectors of 23 numbers, and the model gives 7"):
        check_vectors(index, texts, lambda some: (embed(some)[0][:, :7], None), "x.faiss")


def test_other_files_are_no_index(tmp_path):
    vectors = clustered(100)
    built(vectors, "hnsw", tmp_path / "x.faiss")
    (tmp_path / "text").write_text("no index")
    (tmp_path / "empty").touch()
    (tmp_path / "cut").write_bytes((tmp_path / "x.faiss").read_bytes()[:5000])
    (tmp_path / "folder").mkdir()
    for name, index in {
        "flat": faiss.IndexFlatIP(23),
        "l2": faiss.IndexHNSWFlat(23, 8),
        "sq": faiss.IndexHNSWSQ(23, faiss.ScalarQuantizer.QT_8bit, 8, faiss.METRIC_INNER_PRODUCT),
    }.items():
        index.train(vectors)
        index.add(vectors)
        faiss.write_index(index, str(tmp_path / name))
    for name, message in (
        ("text", "text: cannot be read as an index"),
        ("empty", "empty: cannot be read as an index"),
        ("cut", "cut: cannot be read as an index"),
        ("folder", "folder: no such file; give an index that index_vectors wrote"),
        ("none", "none: no such file"),
        ("flat", "flat: is a IndexFlat.* of faiss; expected IndexHNSWFlat or IndexIVFFlat with inner products"),
        ("l2", "l2: .* expected IndexHNSWFlat"),
        ("sq", "sq: is a IndexHNSWSQ of faiss"),
    ):
        with pytest.raises(UserError, match=message) as caught:
            SearchIndex(str(tmp_path / name))
        assert "\n" not in str(caught.value)
    with pytest.raises(UserError, match="gs://b/x.faiss: faiss reads local files only; copy"):
        SearchIndex("gs://b/x.faiss")


def test_a_fault_of_the_disk_leaves_no_index(tmp_path, monkeypatch):
    index = approximate_index.new_index(clustered(5), "hnsw")

    def fail(index, path):
        with open(path, "w") as file:
            file.write("half")
        raise RuntimeError("Error in fwrite at io.cpp:105: Error: failed: write error (No space left on device)")

    monkeypatch.setattr(faiss, "write_index", fail)
    with pytest.raises(
        UserError, match=r"x.faiss: cannot be written \(write error \(No space left on device\)\); free"
    ):
        approximate_index.save(index, str(tmp_path / "x.faiss"))
    assert not list(tmp_path.iterdir())


def test_numbers_that_are_not_finite_are_named_by_their_row(tmp_path, monkeypatch):
    monkeypatch.setattr(approximate_index, "_ROWS_AT_A_TIME", 20)
    vectors = clustered(60)
    index = built(vectors, "hnsw", tmp_path / "x.faiss")
    vectors[50, 3] = np.nan
    with pytest.raises(UserError, match="vector 51 holds numbers that are not finite"):
        approximate_index.add(approximate_index.new_index(vectors, "hnsw"), vectors)
    with pytest.raises(UserError, match="vector 51 holds numbers that are not finite"):
        approximate_index.new_index(vectors, "ivf")
    with pytest.raises(UserError, match="the vector of query 51 holds numbers that are not finite"):
        index.search(vectors, 3)


def test_the_measurement_counts_equal_vectors_the_same(tmp_path):
    vectors = np.repeat(clustered(30), 20, axis=0)  # twenty equal rows: the exact result has some, the index others
    index = built(vectors, "ivf", tmp_path / "x.faiss")
    header, *rows = approximate_index.measure(index, vectors)
    assert re.match(r"search_width  recall@10 +ms a query \(100 rows", header) and len(rows) == 4
    assert [row.split()[0] for row in rows] == ["8", "32", "128", "exact"]
    assert float(rows[2].split()[1]) == 1 == float(rows[3].split()[1]) and index.width == 32
