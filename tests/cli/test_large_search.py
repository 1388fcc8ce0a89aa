"""`embed --dtype`, `index_vectors` and `search` of compact files and indexes, as a user runs them."""

import json
import os
import sys

import numpy as np
import pytest

from keras_bert_app.export import sentence_vectors
from keras_bert_app.export.sentence_vectors import Pooling
from keras_bert_app.interop import own_layout
from tests.cli.test_commands import assert_refused
from tests.export.small_model import WEIGHTS

WORDS = "abcdefgh"
LINES = [" ".join(WORDS[(row * step) % 8] for step in range(1, 2 + row % 7)) for row in range(60)]


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A directory with an export, texts, and their vectors. Its name has a space."""
    directory = tmp_path_factory.mktemp("my vectors")
    own_layout.write(WEIGHTS, str(directory / "model"))
    sentence_vectors.export_embeddings(str(directory / "model"), str(directory / "export"), Pooling())
    (directory / "texts.txt").write_text("".join(f"{line}\n" for line in LINES))
    return directory


@pytest.fixture
def embed(run, place):
    def call(name, *flags):
        flags = (f"--saved_model={place}/export", f"--input_file={place}/texts.txt", "--overwrite", *flags)
        return run("embed", f"--output_file={place}/{name}", *flags)

    return call


@pytest.fixture
def search(run, place):
    return lambda *arguments: run(
        "search", f"--saved_model={place}/export", f"--corpus_file={place}/texts.txt", *arguments
    )


def found(result):
    assert result.returncode == 0, result.stderr
    return [
        [(near["text_number"], near.get("cosine", near.get("cosine_of_signs"))) for near in json.loads(line)["nearest"]]
        for line in result.stdout.splitlines()
    ]


def test_a_compact_file_is_searched_and_rescoring_gives_the_results_of_float32(embed, search, place):
    for dtype, num_bytes in (("float32", 132), ("binary", 5)):
        result = embed(f"{dtype}.npy", f"--dtype={dtype}")
        assert result.returncode == 0 and result.stderr == "", result.stderr
        assert ("33 numbers, " if dtype == "float32" else f"33 numbers ({dtype}), ") in result.stdout
        assert np.load(place / f"{dtype}.npy").nbytes == 60 * num_bytes
    common = ("--output_format=jsonl", "--top_k=4", "a b c", LINES[17])
    exact = np.array(found(search(f"--vectors={place}/float32.npy", *common)))
    binary = f"--vectors={place}/binary.npy"
    assert "cosine_of_signs" in search(binary, *common).stdout
    for rescoring in (f"--rescore_vectors={place}/float32.npy", "--rescore_count=60"):  # the last embeds texts again
        again = search(binary, rescoring, *common)
        assert "cosine_of_signs" not in again.stdout and again.stderr == ""
        np.testing.assert_allclose(np.array(found(again)), exact, atol=2e-6)
    assert search(binary, "--top_k=1", LINES[17]).stdout.splitlines()[1].split()[:3] == ["1.000", "of", "signs"]


@pytest.mark.parametrize("kind", ["hnsw", "ivf"])
def test_an_index_is_built_measured_and_searched(embed, search, run, place, kind):
    pytest.importorskip("faiss", reason="pip install -r requirements-search.txt")
    embed("x.npy")
    flags = (f"--vectors={place}/x.npy", f"--index={kind}", f"--output_file={place}/new {kind}/x.faiss")
    result = run("index_vectors", *flags)
    assert result.returncode == 0 and result.stderr == "", result.stderr
    summary, header, *rows = result.stdout.splitlines()
    assert "60 vectors of 33 numbers, 0.0 MB" in summary and "recall@10" in header
    assert [row.split()[0] for row in rows][-1] == "exact" and float(rows[1].split()[1]) == 1
    assert_refused(run("index_vectors", *flags), "x.faiss is there already; --overwrite")
    common = ("--output_format=jsonl", "--top_k=4", "a b c", LINES[17])
    exact, index = found(search(f"--vectors={place}/x.npy", *common)), f"--index={place}/new {kind}/x.faiss"
    for more in ([], ["--search_width=60", f"--rescore_vectors={place}/x.npy"]):
        result = search(index, *more, *common)
        assert result.stderr == ""
        np.testing.assert_allclose(np.array(found(result))[:, :, 1], np.array(exact)[:, :, 1], atol=2e-6)


def test_a_search_that_finds_too_little_says_so(search, embed, place, monkeypatch, run):
    faiss = pytest.importorskip("faiss", reason="pip install -r requirements-search.txt")
    embed("x.npy")
    vectors = np.load(place / "x.npy")
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    index = faiss.IndexIVFFlat(faiss.IndexFlatIP(33), 33, 12, faiss.METRIC_INNER_PRODUCT)
    index.cp.min_points_per_centroid = 1
    index.train(vectors)
    index.add(vectors)
    faiss.write_index(index, str(place / "clusters.faiss"))
    flags = (f"--index={place}/clusters.faiss", "--top_k=59", "--output_format=jsonl", "a b c")
    result = search("--search_width=1", *flags)
    assert result.returncode == 0 and 0 < len(found(result)[0]) < 59
    assert result.stderr == "1 queries found fewer than 59 texts; give a larger --search_width\n"
    assert search("--search_width=12", *flags).stderr == ""


@pytest.mark.parametrize(
    "arguments, parts",
    [
        (["--index=X.faiss", "--vectors=X.npy"], ["--index and --vectors were both given"]),
        (["--search_width=5", "--vectors=X.npy"], ["--search_width=5 goes with --index"]),
        (["--search_width=-1", "--index=X.faiss"], ["search_width"]),
        (["--rescore_vectors=X.npy"], ["--rescore_vectors goes with --vectors or --index"]),
        (["--rescore_count=9"], ["--rescore_count goes with --vectors or --index"]),
        (["--vectors=X.npy", "--rescore_count=3"], ["--rescore_count=3 is below --top_k=5"]),
        (["--vectors=PLACE/int8.npy", "--rescore_vectors=PLACE/int8.npy"], ["holds int8 vectors", "float32"]),
        (["--vectors=PLACE/int8.npy", "--rescore_vectors=PLACE/few.npy"], ["few.npy: has 5 vectors", "60 texts"]),
        (["--vectors=PLACE/random.npy"], ["random.npy: vector 1 is not that of text 1"]),
        (["--index=PLACE/texts.txt"], ["texts.txt: cannot be read as an index", "index_vectors"]),
    ],
)
def test_a_wrong_flag_of_search_gives_one_line(search, embed, place, arguments, parts):
    if arguments[0].startswith("--index") and len(arguments) == 1:
        pytest.importorskip("faiss", reason="pip install -r requirements-search.txt")
    if any("int8.npy" in argument for argument in arguments) and not (place / "int8.npy").exists():
        embed("int8.npy", "--dtype=int8")
    np.save(place / "few.npy", np.ones((5, 33), np.float32))
    random = np.random.default_rng(1).integers(256, size=(60, 5)).astype(np.uint8)
    np.save(place / "random.npy", random.view([("bits_33", "u1", (5,))])[:, 0])
    assert_refused(search("x", *(argument.replace("PLACE", str(place)) for argument in arguments)), *parts)


@pytest.mark.parametrize(
    "flags, parts",
    [
        (["--dtype=int4"], ["--dtype=int4 is not known", "int8"]),
        (["--dtype=int8", "--output_file=PLACE/x.tsv"], ["--dtype=int8 goes with .npy", "x.tsv"]),
    ],
)
def test_a_wrong_type_of_embed_gives_one_line(embed, place, flags, parts):
    assert_refused(embed("y.npy", *(flag.replace("PLACE", str(place)) for flag in flags)), *parts)


@pytest.mark.parametrize(
    "flags, parts",
    [
        (["--vectors="], ["--vectors is missing"]),
        (["--output_file="], ["--output_file is missing"]),
        (["--index=annoy"], ["--index=annoy is not known", "hnsw"]),
        (["--vectors=PLACE/none.npy"], ["none.npy: cannot be read as vectors"]),
        (["--vectors=PLACE/bits.npy"], ["bits.npy: holds binary vectors, which have no index"]),
        (["--output_file=gs://bucket/x.faiss"], ["faiss writes local files only"]),
        (["--output_file=PLACE/../PLACE_NAME/x.npy", "--overwrite"], ["is the file of --vectors"]),
        (["--output_file=PLACE/export/x.faiss"], ["is an export"]),
        (["surplus"], ["unexpected argument 'surplus'"]),
    ],
)
def test_a_wrong_flag_of_index_vectors_gives_one_line_and_leaves_no_file(run, place, flags, parts):
    pytest.importorskip("faiss", reason="pip install -r requirements-search.txt")
    np.save(place / "bits.npy", np.zeros(4, [("bits_8", "u1", (1,))]))
    before = set(os.listdir(place))
    flags = [flag.replace("PLACE_NAME", place.name).replace("PLACE", str(place)) for flag in flags]
    assert_refused(run("index_vectors", f"--vectors={place}/x.npy", f"--output_file={place}/new.faiss", *flags), *parts)
    assert set(os.listdir(place)) == before


def test_missing_faiss_is_one_line_with_its_remedy(run, search, place, monkeypatch):
    monkeypatch.setitem(sys.modules, "faiss", None)
    parts = ("the package faiss-cpu is not installed", "requirements-search.txt")
    assert_refused(run("index_vectors", f"--vectors={place}/x.npy", f"--output_file={place}/new.faiss"), *parts)
    assert_refused(search(f"--index={place}/x.faiss", "a"), *parts)
