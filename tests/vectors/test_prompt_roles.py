"""Mining and maps read anchors with the prompt of queries, and other texts with that of documents."""

import io

import numpy as np
import pytest

from keras_bert_app.config.prompts import DOCUMENT, QUERY
from keras_bert_app.tasks.hard_negatives import MiningOptions, pair_texts
from keras_bert_app.vectors import mined_rows
from keras_bert_app.vectors.embedding import for_role
from keras_bert_app.vectors.text_embedder import embedder_of
from tests.cli.conftest import run  # noqa: F401  a fixture
from tests.conftest import GOLDEN

PAIRS = [("a b", "b a"), ("the cat", "a dog"), ("c d", "d e f")]


@pytest.fixture(scope="module")
def embed():
    """The Embedder of a folder whose roles have different prompts."""
    return embedder_of(str(GOLDEN / "sentence_transformers" / "new"))


def cosines(embed, roles):
    one, other = (
        for_role(embed, role)([pair[side].encode() for pair in PAIRS])[0].astype(np.float64)
        for side, role in enumerate(roles)
    )
    return (one * other).sum(axis=1) / np.linalg.norm(one, axis=1) / np.linalg.norm(other, axis=1)


def test_mining_embeds_anchors_as_queries_and_candidates_as_documents(embed):
    expected, swapped = cosines(embed, (QUERY, DOCUMENT)), cosines(embed, (DOCUMENT, QUERY))
    assert np.abs(expected - swapped).min() > 1e-3
    found, _ = mined_rows.mined(embed, pair_texts(PAIRS), MiningOptions(1, 0, 9, -2.0), io.StringIO())
    np.testing.assert_allclose(found.positive_cosines, expected, atol=1e-6)


def test_a_map_embeds_first_texts_as_queries_and_the_corpus_as_documents(embed, tmp_path, run):  # noqa: F811
    (tmp_path / "texts.txt").write_text("".join(f"{text}\n" for pair in PAIRS for text in pair))
    (tmp_path / "pairs.tsv").write_text("anchor\tpositive\n" + "".join(f"{a}\t{b}\n" for a, b in PAIRS))
    model = GOLDEN / "sentence_transformers" / "new"
    flags = [f"--saved_model={model}", f"--corpus_file={tmp_path}/texts.txt", f"--pairs_file={tmp_path}/pairs.tsv"]
    done = run("map_vectors", *flags, f"--output_file={tmp_path}/map.html")
    assert done.returncode == 0, done.stderr
    row = next(line for line in done.stdout.splitlines() if line.startswith(str(model)))
    alignment = (2 - 2 * cosines(embed, (QUERY, DOCUMENT))).mean()
    units = for_role(embed, DOCUMENT)([text.encode() for pair in PAIRS for text in pair])[0].astype(np.float64)
    units /= np.linalg.norm(units, axis=1, keepdims=True)
    values = np.exp(-2 * ((units[:, None] - units) ** 2).sum(axis=-1))[np.triu_indices(len(units), 1)]
    assert f"{alignment:.4f}" in row and f"{np.log(values.mean()):.4f}" in row
