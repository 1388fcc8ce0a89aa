"""Rankings in TREC's format: what is written is read, and faults have a place."""

import pytest

from keras_bert_app.errors import UserError
from keras_bert_app.vectors import ranking_files


def test_rankings_are_read_as_they_were_written(tmp_path):
    rankings = {"q1": ["d3", "d1", "d2"], "q2": ["<dbpedia:X>"], "q3": [f"d{number}" for number in range(100)]}
    path = str(tmp_path / "a b.trec")
    ranking_files.write(path, rankings, "my model")
    assert ranking_files.read(path, ["q1", "q2", "q3", "q4"]) == rankings
    assert ranking_files.read(path, ["q2"]) == {"q2": ["<dbpedia:X>"]}
    (own := tmp_path / "own.trec").write_text("q1 Q0 q1 1 2 x\nq1 Q0 d1 2 1 x\n")
    assert ranking_files.read(str(own), ["q1"]) == {"q1": ["d1"]}
    scores = [float(line.split()[4]) for line in open(path) if line.startswith("q3")]
    assert scores == sorted(set(scores), reverse=True)  # trec_eval sorts by the score, and has its own order of ties


def test_the_score_orders_the_texts_and_not_the_line(tmp_path):
    path = tmp_path / "x.trec"
    path.write_text("q Q0 low 1 0.5 s\n\nq Q0 high 2 7e1 s\nq\tQ0\ttie 3 0.5 s\n")
    assert ranking_files.read(str(path), ["q"]) == {"q": ["high", "low", "tie"]}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("q d 1 0.5\n", "x.trec:1: 'q d 1 0.5'; expected six fields"),
        ("q Q0 d 1 high s\n", "x.trec:1: 'q Q0 d 1 high s'; expected six fields"),
        ("q Q0 d 1 nan s\n", "expected six fields"),
        ("q Q0 d 1 1 s\nq Q0 d 2 0.5 s\n", "x.trec:2: the text 'd' occurs twice for query q"),
        ("other Q0 d 1 1 s\n", "x.trec: has none of the 1 queries"),
        ("", "x.trec: has none of the 1 queries"),
    ],
)
def test_faults_of_a_file_have_their_place(tmp_path, content, message):
    path = tmp_path / "x.trec"
    path.write_text(content)
    with pytest.raises(UserError) as caught:
        ranking_files.read(str(path), ["q"])
    assert message in str(caught.value)


def test_an_id_with_a_blank_is_not_written(tmp_path):
    with pytest.raises(UserError) as caught:
        ranking_files.write(str(tmp_path / "x.trec"), {"q": ["a text"]}, "m")
    assert "the id 'a text' has a blank" in str(caught.value)
    assert not (tmp_path / "x.trec").exists()


def test_files_are_named_by_their_rankings(tmp_path):
    for name in ("BM25.trec", "other.run"):
        (tmp_path / name).write_text("")
    paths = [str(tmp_path / name) for name in ("BM25.trec", "other.run")]
    assert ranking_files.named(paths) == dict(zip(("BM25", "other.run"), paths, strict=True))
    for given, message in (([*paths, paths[0]], "have the same name"), ([f"{paths[0]}x"], "there is no file")):
        with pytest.raises(UserError) as caught:
            ranking_files.named(given)
        assert message in str(caught.value)


def test_different_rankings_have_different_short_file_names():
    assert ranking_files.file_name("BM25") == "BM25.trec"
    names = ["runs/a", "runs-a", "runs/a/", "x" * 300 + "1", "x" * 300 + "2", "…", ""]
    files = [ranking_files.file_name(name) for name in names]
    assert len(set(files)) == len(names) and max(map(len, files)) < 120
    assert not any(set(file) & set("/ ") for file in files)
