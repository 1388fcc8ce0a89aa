"""Maps of vectors: measures by hand, neighbours and clusters, pairs and their faults, the page, and the command."""

import json
import re

import numpy as np
import pytest

from keras_bert_app.config.finetuning_config import FinetuningConfig
from keras_bert_app.drawing import planes
from keras_bert_app.drawing.vector_map_page import draw_vector_map, vector_map_page
from keras_bert_app.errors import UserError
from keras_bert_app.interop import own_layout
from keras_bert_app.vectors import judged_pairs, vector_maps
from keras_bert_app.vectors.text_embedder import load_embedder
from keras_bert_app.vectors.vector_maps import ModelVectors
from tests.cli.conftest import run  # noqa: F401  a fixture
from tests.cli.test_commands import assert_refused
from tests.export.small_model import WEIGHTS

RUN = FinetuningConfig(task="similarity")


def unit(vectors):
    return (vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)).astype(np.float32)


def test_alignment_and_uniformity_by_hand(monkeypatch):
    right, up, left = np.array([[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0]], np.float32)
    # Squared distances: 2 of right and up, 4 of right and left, 2 of up and left.
    assert vector_maps.alignment(np.array([right, right]), np.array([up, left])) == pytest.approx((2 + 4) / 2)
    expected = np.log((2 * np.exp(-4) + np.exp(-8)) / 3)
    for rows in (1024, 1, 2):
        monkeypatch.setattr(vector_maps, "_ROWS_AT_A_TIME", rows)
        assert vector_maps.uniformity(np.array([right, up, left])) == pytest.approx(expected, abs=1e-6)
    assert vector_maps.uniformity(np.array([up, up])) == pytest.approx(0.0, abs=1e-6)


def test_neighbours_are_those_of_a_full_sort_without_the_vector_itself():
    vectors = unit(np.random.default_rng(0).normal(size=(41, 7)))
    vectors[20:] = vectors[20]  # 21 equal vectors, more than are found
    cosines, rows = vector_maps.neighbours(vectors, 10)
    products = np.round(vectors @ vectors.T, 6)
    np.fill_diagonal(products, -np.inf)
    expected = np.sort(products, axis=1)[:, :-11:-1]
    np.testing.assert_allclose(cosines, expected, atol=2e-6)
    np.testing.assert_allclose(np.take_along_axis(products, rows, axis=1), expected, atol=2e-6)
    assert all(len(set(row)) == 10 and number not in row for number, row in enumerate(rows.tolist()))
    assert vector_maps.neighbours(vectors[:2])[1].tolist() == [[1], [0]]


def test_vectors_get_length_1_and_a_number_that_is_not_finite_is_named():
    vectors = vector_maps.of_length_1(np.array([[3e30, 4e30], [0, 0]], np.float32), [1, 2], "x.npy")
    np.testing.assert_allclose(vectors, [[0.6, 0.8], [0, 0]], rtol=1e-6)
    with pytest.raises(UserError, match="x.npy: vector 1,007 holds numbers that are not finite"):
        vector_maps.of_length_1(np.array([[1.0, 2.0], [np.nan, 1.0]]), [5, 1007], "x.npy")


def test_clusters_are_the_groups_of_the_vectors_and_have_typical_words():
    generator = np.random.default_rng(0)
    kinds = np.array([1] * 11 + [0] * 13)
    vectors = unit(np.eye(5)[kinds] + 0.05 * generator.normal(size=(24, 5)))
    labels = vector_maps.clusters(vectors)
    assert labels.tolist() == [1] * 11 + [0] * 13
    words = [{"the", "cat"} if kind else {"the", "stone", "an"} for kind in kinds]
    typical, middles = planes.described_clusters(words, vectors, labels)
    assert [row[0] for row in typical] == ["stone", "cat"] and [kinds[row] for row in middles] == [0, 1]
    assert vector_maps.clusters(np.ones((50, 3), np.float32)).tolist() == [0] * 50


@pytest.mark.parametrize("place", [planes.t_sne, planes.principal_plane])
@pytest.mark.parametrize("vectors", [np.eye(2, 3), np.ones((4, 3)), np.array([[1.0], [-1.0], [1.0]]), np.eye(5, 4)])
def test_few_equal_or_short_vectors_have_places(place, vectors):
    points = np.array(place(vectors))
    assert points.shape == (len(vectors), 2) and np.isfinite(points).all()


def test_the_plane_of_principal_components_keeps_distances_of_flat_vectors():
    flat = np.array([[0, 0], [3, 0], [0, 1], [5, 5.0]])
    turned = flat @ np.linalg.qr(np.random.default_rng(0).normal(size=(7, 7)))[0][:2]
    points = np.array(planes.principal_plane(turned))
    for one, other in ((0, 1), (1, 2), (2, 3)):
        distance = np.linalg.norm(points[one] - points[other])
        assert distance == pytest.approx(np.linalg.norm(flat[one] - flat[other]), abs=1e-3)


def test_a_sample_is_drawn_without_replacement_and_always_the_same():
    rows = vector_maps.sampled_rows(1000, 30)
    assert len(set(rows.tolist())) == 30 and (np.diff(rows) > 0).all()
    np.testing.assert_array_equal(rows, vector_maps.sampled_rows(1000, 30))
    assert vector_maps.sampled_rows(3, 30).tolist() == [0, 1, 2]


def write_table(tmp_path, *lines):
    (tmp_path / "my pairs.tsv").write_text("".join(f"{line}\n" for line in lines))
    return str(tmp_path / "my pairs.tsv")


def test_random_pairs_are_no_positives_and_no_text_with_itself(tmp_path):
    rows = [("a", "b"), ("B", "c"), ("a", "c"), ("d", "a")]
    path = write_table(tmp_path, "anchor\tpositive\tnegative", *("\t".join((*row, "")) for row in rows), "e\tf\tx y")
    pairs = judged_pairs.read_pairs(path, RUN, None, 5000)
    series = {name: {tuple(pairs.texts[at] for at in row) for row in rows} for name, rows in pairs.series.items()}
    assert series["positives"] == {*rows, ("e", "f")} and series["negatives"] == {("e", "x y")}
    # With these pairs, ("B", "b") is a text with itself, and ("a", "a") too. ("B", "a") is ("a", "b") in other order.
    forbidden = {*rows, ("e", "f"), ("B", "b"), ("a", "a"), ("B", "a")}
    assert series["random pairs"] and not series["random pairs"] & forbidden
    assert series["random pairs"] <= {(one, other) for one in "aBde" for other in "bcaf"}


def test_random_pairs_of_a_sample_are_no_pairs_of_the_whole_table(tmp_path):
    rows = [f"a{one}\tb{other}\t" for one in range(6) for other in range(6) if one != other]
    path = write_table(tmp_path, "anchor\tpositive\tnegative", *rows, "a0\tc\tb0")
    pairs = judged_pairs.read_pairs(path, RUN, None, 12)
    found = {tuple(pairs.texts[at] for at in row) for row in pairs.series["random pairs"]}
    # The table has all pairs of an a and a b but those of one number, and its negative is a0 and b0.
    assert found and found <= {(f"a{number}", f"b{number}") for number in range(1, 6)} | {
        (f"a{number}", "c") for number in range(1, 6)
    }


def test_a_score_splits_the_pairs(tmp_path):
    path = write_table(tmp_path, "sentence1\tsentence2\tscore", "a\tb\t5", "c\td\t4", "e\tf\t3.9", "\tx\t5")
    pairs = judged_pairs.read_pairs(path, RUN, 4.0, 5000)
    assert [pairs.texts[at] for at in pairs.series["positives"].ravel()] == ["a", "b", "c", "d"]
    assert [pairs.texts[at] for at in pairs.series["scores below 4"].ravel()] == ["e", "f"]
    assert pairs.remarks == ["1 rows with an empty text were left out"]
    assert judged_pairs.read_pairs(path, RUN, 3.0, 2).remarks[-1] == "a sample of 2 of its 3 rows is used"


def test_a_sample_without_positive_pairs_is_not_called_a_table_without_them(tmp_path):
    rows = [f"a{number}\tb{number}\t{5 if number == 300 else 0}" for number in range(301)]
    path = write_table(tmp_path, "sentence1\tsentence2\tscore", *rows)
    with pytest.raises(UserError, match="a sample of 2 of its 301 rows has no pair with a score of 4 or more; give a"):
        judged_pairs.read_pairs(path, RUN, 4.0, 2)


@pytest.mark.parametrize(
    "lines, score, message",
    [
        (["sentence1\tsentence2\tscore", "a\tb\t5"], None, "has two texts and a score in each row; give --positive_sc"),
        (["sentence1\tsentence2\tscore", "a\tb\t3"], 4.0, "no pair with a score of 4 or more; give a lower --positive"),
        (["sentence1\tsentence2\tscore", "a\tb\tx"], 4.0, ":2: score 'x'; expected a number"),
        (["anchor\tpositive", "a\tb"], 4.0, "--positive_score=4: .* has no scores; leave it out"),
        (["anchor\tpositive", "a\tb"], None, "give two or more pairs of different texts"),
        (["text\tlabel", "a\tb", "c\td"], None, "has texts with labels, which say no pairs"),
        (["text", "a", "c"], None, "has texts alone, which say no pairs"),
        (["anchor\tpositive"], None, "has no row with two texts"),
        (["one\tother", "a\tb"], None, "--text_columns is missing; the columns are one, other"),
    ],
)
def test_a_table_without_positive_pairs_is_refused(tmp_path, lines, score, message):
    path = write_table(tmp_path, *lines)
    with pytest.raises(UserError, match=message):
        judged_pairs.read_pairs(path, RUN, score, 5000)


def described_of(texts, series, seeds=(0,)):
    """The description of random vectors, whose pairs are of the same texts, and the models."""
    models = []
    for seed in seeds:
        vectors = unit(np.random.default_rng(seed).normal(size=(len(texts), 4)))
        models.append(ModelVectors(f"model {seed}", vectors, vectors))
    measured = vector_maps.measures(models, series)
    numbers = range(1, len(texts) + 1)
    return vector_maps.described(texts, numbers, models, measured, "pca"), measured, models


def test_the_description_has_the_measures_and_histograms_of_each_model():
    series = {"positives": np.array([[0, 1], [2, 3]]), "random pairs": np.array([[0, 3], [1, 2], [1, 3]])}
    described, measured, models = described_of([f"text {n}" for n in range(8)], series, (0, 1))
    for number, model in enumerate(models):
        cosines = [float(model.texts[one] @ model.texts[other]) for one, other in series["positives"]]
        assert measured[number]["alignment"] == pytest.approx(np.mean([2 - 2 * cosine for cosine in cosines]), abs=1e-6)
        assert described["measures"][number]["means"]["positives"] == pytest.approx(np.mean(cosines), abs=1e-4)
        shares = described["histograms"]["models"][number]
        edges = described["histograms"]["edges"]
        assert all(sum(values) == pytest.approx(1, abs=1e-4) and len(values) == 40 for values in shares.values())
        assert edges[0] <= min(cosines) and max(cosines) <= edges[-1]
    lines = vector_maps.table(measured)
    assert lines[0].split() == ["uniformity", "alignment", "positives", "random", "pairs"]
    assert lines[2].split()[:4] == ["model", "1", *(f"{measured[1][name]:.4f}" for name in ("uniformity", "alignment"))]
    assert draw_vector_map(described, "a title").startswith(b"\x89PNG")


def data_of(html):
    return json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', html, re.S)[1])


def test_the_page_holds_every_text_safely_and_loads_nothing():
    texts = ["</script><script>alert(1)</script>", "line\u2028end\u2029", "", "long " * 300, "<!-- <b>", "\u0000 ü 猫"]
    described, *_ = described_of(texts, {})
    html = vector_map_page(described, "a </title> & title", ["A note."])
    data = data_of(html)
    assert data["texts"][:3] == texts[:3] and data["texts"][4:] == texts[4:]
    assert data["texts"][3] == texts[3][:500] + "…"
    assert data["histograms"] is None and data["measures"][0]["alignment"] is None
    assert html.count("</script>") == 2 and "alert(1)</script>" not in html
    assert not re.search(
        r"""(src|href)\s*=|@import|url\(|https?://(?!www\.w3\.org/2000/svg)""", html.replace("\\u", "")
    )
    described["measures"][0]["uniformity"] = float("nan")
    with pytest.raises(ValueError, match="not JSON compliant"):
        vector_map_page(described, "a title", [])


LINES = ["a b c", "", "d e f", "ab. h", "a b c", "c b a " * 20, "h d", "e f"]


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A directory with two models, texts, their vectors, and pairs. Its name has a space."""
    directory = tmp_path_factory.mktemp("my maps")
    for name in ("model", "start"):
        own_layout.write(WEIGHTS, str(directory / name))
    (directory / "texts.txt").write_text("".join(f"{line}\n" for line in LINES))
    np.save(directory / "texts.npy", load_embedder(str(directory / "model"))(LINES))
    (directory / "pairs.tsv").write_text("anchor\tpositive\na b\tab\nd\td e\n")
    (directory / "scored.tsv").write_text("text_a\ttext_b\tscore\na b\tab\t5\nd\td e\t1\n")
    (directory / "labels.tsv").write_text("text\tlabel\na b\t1\nd\t0\n")
    return directory


@pytest.fixture
def draw(run, place):  # noqa: F811
    return lambda *flags: run(
        "map_vectors",
        f"--saved_model={place}/model",
        f"--corpus_file={place}/texts.txt",
        f"--output_file={place}/map.html",
        *flags,
    )


def test_the_command_draws_two_models_and_prints_their_measures(draw, place):
    flags = ("--overwrite", f"--baseline={place}/start", f"--pairs_file={place}/pairs.tsv")
    done = draw(*flags)
    assert done.returncode == 0, done.stderr
    assert "pairs.tsv: 2 positives, 2 random pairs" in done.stdout
    assert "8 of 8 texts in 1 cluster;" in done.stdout
    assert "1 texts had more tokens than the model reads; their ends were left out" in done.stderr
    data = data_of((place / "map.html").read_text(encoding="utf-8"))
    assert data["texts"][:4] == LINES[:4] and [view["name"] for view in data["views"]] == [
        f"{place}/start",
        f"{place}/model",
    ]
    first, second = data["measures"]  # both directories hold the same weights
    assert first["means"] == second["means"] and first["uniformity"] == second["uniformity"] < 0
    assert data["views"][1]["nearest"][0][0] == 4 and data["views"][1]["cosines"][0][0] == 1.0
    row = next(line for line in done.stdout.splitlines() if line.startswith(f"{place}/model"))
    assert f"{second['uniformity']:.4f}" in row and f"{second['alignment']:.4f}" in row
    assert (place / "map.png").read_bytes().startswith(b"\x89PNG")
    again = draw("--overwrite", f"--vectors={place}/texts.npy", "--max_points=5", "--projection=pca")
    assert again.returncode == 0 and "5 of 8 texts" in again.stdout, again.stderr
    data = data_of((place / "map.html").read_text(encoding="utf-8"))
    assert data["texts"] == [LINES[number - 1] for number in data["numbers"]] and len(data["texts"]) == 5
    assert any("a sample of 5 of 8 texts" in note for note in data["notes"])


@pytest.mark.parametrize(
    "flags, parts",
    [
        (["--corpus_file=PLACE/empty.txt"], ["empty.txt: has no text; a map needs two or more"]),
        (["--corpus_file=PLACE/one.txt"], ["one.txt: has one text alone; a map needs two or more"]),
        (["--corpus_file=PLACE/none.txt"], ["none.txt", "o such file"]),
        (["--corpus_file=/dev/null"], ["cannot be read several times"]),
        (["--output_file=PLACE/new.png"], ["new.png: give a name that ends in .html"]),
        (["--output_file=PLACE/t.html", "--corpus_file=PLACE/t.html"], ["would replace the --corpus_file"]),
        (["--output_file=PLACE/old.html"], ["old.png is there already; --overwrite replaces it"]),
        (["--baseline=PLACE/../PLACE_NAME/model"], ["is also --saved_model; give another model"]),
        (["--baseline=PLACE/nothing"], ["PLACE/nothing"]),
        (["--vectors=PLACE/few.npy"], ["has 5 vectors, but the corpus has 8 texts"]),
        (["--vectors=PLACE/small.npy"], ["vectors of 3 numbers, and the model gives 33"]),
        (["--vectors=PLACE/nan.npy"], ["nan.npy: vector 2 holds numbers that are not finite"]),
        (["--pairs_file=PLACE/none.tsv"], ["none.tsv", "o such file"]),
        (["--pairs_file=PLACE/scored.tsv"], ["scored.tsv: has two texts and a score", "--positive_score=N"]),
        (["--pairs_file=PLACE/labels.tsv"], ["labels.tsv: has texts with labels, which say no pairs"]),
        (["--positive_score=4"], ["--positive_score goes with --pairs_file"]),
        (["--projection=umap"], ["--projection=umap", "tsne|pca"]),
        (["--max_points=1"], ["max_points"]),
        (["surplus"], ["unexpected argument 'surplus'"]),
    ],
)
def test_a_wrong_flag_gives_one_line_and_leaves_no_file(draw, place, flags, parts):
    (place / "empty.txt").touch()
    (place / "one.txt").write_text("a\n")
    (place / "t.html").write_text("a\nb\n")
    (place / "old.png").touch()
    (place / "map.html").unlink(missing_ok=True)
    (place / "map.png").unlink(missing_ok=True)
    np.save(place / "few.npy", np.ones((5, 33), np.float32))
    np.save(place / "small.npy", np.ones((8, 3), np.float32))
    vectors = np.load(place / "texts.npy")
    vectors[1] = np.nan
    np.save(place / "nan.npy", vectors)
    result = draw(*(flag.replace("PLACE_NAME", place.name).replace("PLACE", str(place)) for flag in flags))
    assert_refused(result, *(part.replace("PLACE", str(place)) for part in parts))
    assert not (place / "map.html").exists() and (place / "t.html").read_text() == "a\nb\n"
