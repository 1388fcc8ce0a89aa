"""Vectors of many texts: their order and their files, also after a fault."""

import numpy as np
import pytest

from keras_bert_app.errors import UserError
from keras_bert_app.vectors import embedding, text_sources, vector_files


class Recorder:
    """An Embedder whose vectors identify the texts. It records the lengths of the texts of each batch."""

    def __init__(self):
        self.batches = []

    def __call__(self, texts):
        self.batches.append([len(text) for text in texts])
        return (
            np.array([[len(text), sum(text)] for text in texts], np.float32) / np.float32(3),
            np.array([len(text) > 9 for text in texts]),
        )

    def num_tokens(self, texts):
        return np.array([len(text) for text in texts])


TEXTS = [bytes([65 + number % 26]) * (number * 7 % 13) for number in range(23)]
EXPECTED = Recorder()(TEXTS)[0]


def test_vectors_have_the_order_of_the_texts_and_a_batch_has_texts_of_similar_lengths():
    embed, done = Recorder(), []
    vectors, truncated = embedding.embed_texts(embed, TEXTS, 5, lambda count, work: done.append((count, work)))
    np.testing.assert_array_equal(vectors, EXPECTED)
    assert truncated.tolist() == [len(text) > 9 for text in TEXTS]
    lengths = sum(embed.batches, [])
    assert lengths == sorted(lengths, reverse=True) and [count for count, _ in done] == [5, 5, 5, 5, 3]
    assert (len(TEXTS), sum(work for _, work in done)) == text_sources.count_work(TEXTS)


@pytest.mark.parametrize("name", ["x.npy", "x.tsv"])
def test_a_file_holds_every_float_exactly_if_the_texts_fill_several_pools(tmp_path, monkeypatch, name):
    monkeypatch.setattr(vector_files, "_POOL_TEXTS", 7)
    path = str(tmp_path / name)
    counts = vector_files.write_vectors(Recorder(), iter(TEXTS), len(TEXTS), path, batch_size=3)
    assert counts == (23, 2, sum(len(text) > 9 for text in TEXTS))
    vectors = np.load(path) if name.endswith(".npy") else np.loadtxt(path, dtype=np.float32, delimiter="\t")
    assert vectors.dtype == np.float32
    np.testing.assert_array_equal(vectors, EXPECTED)
    assert [entry.name for entry in tmp_path.iterdir()] == [name]


def test_a_fault_leaves_no_partial_file_and_does_not_change_the_old_file(tmp_path, monkeypatch):
    monkeypatch.setattr(vector_files, "_POOL_TEXTS", 7)
    path = tmp_path / "x.npy"
    path.write_bytes(b"before")

    class Interrupted(Recorder):
        def __call__(self, texts):
            if len(self.batches) == 3:
                raise KeyboardInterrupt
            return super().__call__(texts)

    with pytest.raises(KeyboardInterrupt):
        vector_files.write_vectors(Interrupted(), iter(TEXTS), len(TEXTS), str(path), batch_size=3)
    assert path.read_bytes() == b"before" and [entry.name for entry in tmp_path.iterdir()] == ["x.npy"]
    for num_texts in (22, 24):
        with pytest.raises(UserError, match=f"{num_texts} texts when they were counted and 23"):
            vector_files.write_vectors(Recorder(), iter(TEXTS), num_texts, str(path))
    assert path.read_bytes() == b"before"


def test_a_file_without_vectors_is_refused(tmp_path):
    np.save(tmp_path / "ids.npy", np.arange(6).reshape(2, 3))
    np.save(tmp_path / "flat.npy", np.zeros(3))
    np.savez(tmp_path / "several.npz", a=np.zeros((2, 2)))
    np.save(tmp_path / "objects.npy", np.array([[{}]]), allow_pickle=True)
    (tmp_path / "text.npy").write_text("0.1\t0.2\n")
    for name in ("ids.npy", "flat.npy", "several.npz", "objects.npy", "text.npy", "missing.npy", ""):
        with pytest.raises(UserError, match="embed"):
            vector_files.load_vectors(str(tmp_path / name))
