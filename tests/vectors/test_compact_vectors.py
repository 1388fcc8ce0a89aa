"""Vectors in fewer bytes: their values, their files, and what no type can hold."""

import numpy as np
import pytest

from keras_bert_app.errors import UserError
from keras_bert_app.vectors import compact_vectors, vector_files
from tests.vectors.test_embedding import TEXTS, Recorder


def test_rows_are_those_computed_by_hand():
    vectors = np.array([[0.5, -0.25, 0.1, 0], [0, 0, 0, 0], [-3e38, 1e38, 2, 0]], np.float32)
    assert compact_vectors.packed(vectors, "int8").tolist() == [[127, -64, 25, 0], [0] * 4, [-127, 42, 0, 0]]
    assert compact_vectors.packed(vectors, "binary").tolist() == [[0b10100000], [0], [0b01100000]]
    assert compact_vectors.packed(vectors[:2], "float16").tolist() == np.float16(vectors[:2]).tolist()
    assert compact_vectors.packed(vectors[:, :0], "int8").shape == (3, 0)


@pytest.mark.parametrize("dtype, num_bytes", [("float32", 52), ("float16", 26), ("int8", 13), ("binary", 2)])
def test_numpy_reads_each_file_and_the_file_remembers_its_type_and_size(tmp_path, monkeypatch, dtype, num_bytes):
    monkeypatch.setattr(vector_files, "_POOL_TEXTS", 7)
    generator = np.random.default_rng(5)
    made = {text: generator.normal(size=13).astype(np.float32) for text in TEXTS}

    class Embed(Recorder):
        def __call__(self, texts):
            return np.stack([made[text] for text in texts]), np.zeros(len(texts), bool)

    path = tmp_path / "x.npy"
    counts = vector_files.write_vectors(Embed(), TEXTS, len(TEXTS), str(path), batch_size=3, dtype=dtype)
    assert counts == (len(TEXTS), 13, 0)
    vectors, expected = np.load(path), np.stack([made[text] for text in TEXTS])
    assert vectors.nbytes == len(TEXTS) * num_bytes and path.stat().st_size == 128 + vectors.nbytes
    if dtype == "binary":
        assert vectors["bits_13"].shape == (23, 2)
        assert np.unpackbits(vectors["bits_13"], axis=1)[:, :13].tolist() == (expected > 0).astype(int).tolist()
    else:
        assert vectors.shape == (23, 13) and vectors.dtype == dtype
        error = {"float32": 0, "float16": 1e-3, "int8": 1 / 254}[dtype]
        scale = np.abs(expected).max(axis=1, keepdims=True) if dtype == "int8" else 1
        restored = vectors.astype(np.float32) * (scale / 127 if dtype == "int8" else 1)
        assert np.abs(restored - expected).max() <= error * np.max(scale * np.abs(expected).max()) + 1e-6
    loaded = vector_files.load_vectors(str(path), vector_files.ANY)
    assert (compact_vectors.dtype_of(loaded), compact_vectors.size_of(loaded), len(loaded)) == (dtype, 13, 23)
    np.testing.assert_array_equal(np.sign(compact_vectors.as_floats(loaded))[:, 0], np.sign(expected[:, 0]))
    if dtype in ("int8", "binary"):
        with pytest.raises(UserError, match=rf"x.npy: holds {dtype} vectors; expected float16, float32 or float64"):
            vector_files.load_vectors(str(path))


@pytest.mark.parametrize("dtype", compact_vectors.DTYPES)
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_numbers_that_are_not_finite_are_refused_by_their_text(tmp_path, monkeypatch, dtype, bad):
    monkeypatch.setattr(vector_files, "_POOL_TEXTS", 7)

    class Embed(Recorder):
        def __call__(self, texts):
            vectors, truncated = super().__call__(texts)
            vectors[[text == TEXTS[10] for text in texts], 1] = bad
            return vectors, truncated

    with pytest.raises(UserError, match="gives text 11 a vector with infinite numbers or NaN; take another"):
        vector_files.write_vectors(Embed(), TEXTS, len(TEXTS), str(tmp_path / "x.npy"), dtype=dtype)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("number, shown", [(70000, "7e.04"), (-65520, "6.55e.04"), (1e-6, "1e-06")])
def test_float16_refuses_what_it_cannot_hold(number, shown):
    vectors = np.ones((5, 3), np.float32)
    vectors[3] = [0, number, 0]
    with pytest.raises(UserError, match=rf"text 104 has {shown} as its largest number; float16 holds"):
        compact_vectors.packed(vectors, "float16", 101)
    vectors[3] = [0, 65504, 1e-9]
    assert compact_vectors.packed(vectors, "float16")[3].tolist() == [0, 65504, 0]


@pytest.mark.parametrize(
    "array",
    [
        np.zeros(3, [("bits_17", "u1", (2,))]),  # 17 bits need three bytes
        np.zeros(3, [("bits_0", "u1", (0,))]),
        np.zeros(3, [("bits_8", "i1", (1,))]),
        np.zeros(3, [("x", "u1", (1,))]),
        np.zeros(3, [("bits_8", "u1", (1,)), ("more", "u1")]),
        np.zeros((3, 2), np.uint8),
        np.zeros((3, 2), np.int16),
        np.zeros((3, 0), np.int8),
        np.zeros((0, 3), np.float32),
        np.zeros(0, [("bits_8", "u1", (1,))]),
        np.zeros((3, 2), np.complex64),
    ],
    ids=str,
)
def test_other_arrays_are_no_vectors(tmp_path, array):
    np.save(tmp_path / "x.npy", array)
    with pytest.raises(UserError, match="x.npy: .* `embed`"):
        vector_files.load_vectors(str(tmp_path / "x.npy"), vector_files.ANY)
