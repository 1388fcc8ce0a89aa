"""Search on collections: scores against trec_eval, files and their faults, BM25, and the command."""

import io
import json
import logging
import math
import shutil

import numpy as np
import pytest

from keras_bert_app.errors import UserError
from keras_bert_app.tasks import search_scores
from keras_bert_app.vectors import search_collections, word_search
from keras_bert_app.vectors.search_evaluation import compared, rankings_of_model
from keras_bert_app.vectors.text_embedder import embedder_of
from tests.cli.conftest import run  # noqa: F401  a fixture
from tests.random_models import write_random_model

WORDS = "cat dog bird stone river rain bread salt hill table".split()


def test_scores_are_those_of_trec_eval(golden):
    cases = json.loads((golden / "search_scores.json").read_text())["cases"]
    for case in cases:
        values = search_scores.of_queries({"q": case["ranking"]}, {"q": case["grades"]})
        for name, expected in case["scores"].items():
            assert values[name][0] == pytest.approx(expected, abs=1e-9), name


def test_scores_by_hand():
    grades = {"a": 2, "b": 1, "c": 0}
    assert search_scores.ndcg(["c", "b", "a"], grades, 10) == pytest.approx(
        (1 / math.log2(3) + 2 / 2) / (2 + 1 / math.log2(3))
    )
    assert search_scores.reciprocal_rank(["c", "x", "b"], grades, 2) == 0.0
    assert search_scores.average_precision(["a", "x", "b"], grades, 10) == pytest.approx((1 + 2 / 3) / 2)
    assert search_scores.of_queries({}, {"q": grades})["recall@10"].tolist() == [0.0]


def write_collection(directory, texts, queries, grades):
    (directory / "qrels").mkdir(parents=True)
    lines = "".join(json.dumps({"_id": name, "title": "", "text": text}) + "\n" for name, text in texts.items())
    (directory / "corpus.jsonl").write_text(lines)
    lines = "".join(json.dumps({"_id": name, "text": text}) + "\n" for name, text in queries.items())
    (directory / "queries.jsonl").write_text(lines)
    rows = "".join(f"{query}\t{text}\t{grade}\n" for query, text, grade in grades)
    (directory / "qrels" / "test.tsv").write_text(f"query-id\tcorpus-id\tscore\n{rows}")
    return str(directory)


def test_a_collection_has_the_queries_with_a_relevant_text(tmp_path):
    grades = [("q1", "d1", 2), ("q1", "d2", 0), ("q2", "d2", 0)]
    data = write_collection(tmp_path / "c", {"d1": "a cat", "d2": ""}, {"q1": "cat", "q2": "dog"}, grades)
    collection = search_collections.read(data)
    assert collection.queries == {"q1": "cat"} and collection.judged == {"q1": {"d1": 2, "d2": 0}}
    assert collection.ids == ["d1", "d2"] and collection.texts == ["a cat", ""]


@pytest.mark.parametrize(
    "name, content, message",
    [
        ("qrels/test.tsv", "q1\td9\t1\n", r"test.tsv:1: 'd9' is not in corpus.jsonl; expected the _id"),
        ("qrels/test.tsv", "q9\td1\t1\n", r"test.tsv:1: 'q9' is not in queries.jsonl"),
        ("qrels/test.tsv", "q1\td1\n", r"test.tsv:1: 'q1\\td1'; expected query-id, corpus-id and a whole number"),
        ("qrels/test.tsv", f"q1\td1\t{'9' * 400}\n", "test.tsv:1: .*; expected .* a whole number up to 1,000,000"),
        ("qrels/test.tsv", "q1\td1\t0\n", "no query of qrels/test.tsv has a relevant text"),
        ("corpus.jsonl", '{"_id": "d1"}\n{"_id": "d1"}\n', r"corpus.jsonl:2: _id 'd1' occurs twice"),
        ("corpus.jsonl", '{"text": "a"}\n', r"corpus.jsonl:1: .*; expected an object such as"),
        ("queries.jsonl", "no json\n", r"queries.jsonl:1: 'no json'; expected an object such as"),
    ],
)
def test_a_faulty_file_is_named_with_its_line(tmp_path, name, content, message):
    data = write_collection(tmp_path / "c", {"d1": "a cat"}, {"q1": "cat"}, [("q1", "d1", 1)])
    (tmp_path / "c" / name).write_text(content)
    with pytest.raises(UserError, match=message):
        search_collections.read(data)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(UserError, match="corpus.jsonl: there is no such file; expected a folder with corpus.jsonl"):
        search_collections.read(str(tmp_path))


def test_bm25_ranks_by_words_and_leaves_out_texts_without_them(caplog):
    caplog.set_level(logging.DEBUG)
    texts = ["the cat sat", "a dog and a cat and a bird", "stones", "猫在山上"]
    found = word_search.rankings(list("abcd"), texts, {"1": "Cat sat", "2": "nothing here", "3": "山"}, 3)
    assert found == {"1": ["a", "b"], "2": [], "3": ["d"]}
    assert not [record for record in caplog.records if record.name == "bm25s"]  # it reports each step


def test_bm25_is_lucenes_formula():
    texts = ["x y", "x x z w", "y"]
    found = word_search.rankings(["0", "1", "2"], texts, {"q": "x"}, 3)["q"]
    idf, mean = math.log(1 + (3 - 2 + 0.5) / (2 + 0.5)), 7 / 3

    def score(count, length):
        return idf * count / (count + 0.9 * (1 - 0.4 + 0.4 * length / mean))

    assert found == sorted("01", key=lambda name: -score(*((1, 2) if name == "0" else (2, 4))))


def test_texts_and_queries_that_lose_their_ends_are_counted(tmp_path):
    model = write_random_model(tmp_path / "a model", WORDS, max_position_embeddings=8)
    texts = {"d1": " ".join(WORDS[:3] * 9), "d2": WORDS[0], "d3": " ".join(WORDS[:2] * 9)}
    data = write_collection(tmp_path / "c", texts, {"q1": " ".join(WORDS[:3] * 9)}, [("q1", "d1", 1)])
    collection, said = search_collections.read(data), io.StringIO()
    rankings_of_model(embedder_of(str(model)), collection, str(tmp_path), 3, said)
    assert "2 texts had more tokens than the model reads; their ends were left out\n" in said.getvalue()
    assert "1 queries had more tokens than the model reads; their ends were left out\n" in said.getvalue()


def test_gains_have_intervals_over_queries():
    better = {"ndcg@10": np.array([0.9, 0.8, 1.0, 0.7, 0.9, 0.8, 0.9])}
    worse = {"ndcg@10": np.array([0.1, 0.3, 0.2, 0.1, 0.4, 0.2, 0.3])}
    results = compared({"BM25": worse, "model": better})
    low, high = results["BM25"]["ndcg@10"]["gain_interval"]
    assert 0.4 < low < results["BM25"]["ndcg@10"]["gain_of_last"] < high < 0.8
    assert "gain_of_last" not in results["model"]["ndcg@10"]


def test_the_command_scores_a_model_beside_bm25_and_another_model(tmp_path, run):  # noqa: F811
    model = write_random_model(tmp_path / "a model", WORDS)
    texts = {f"d{n}": f"{a} {b}" for n, (a, b) in enumerate(zip(WORDS, WORDS[1:], strict=False))}
    queries = {name.replace("d", "q"): text for name, text in texts.items()} | {"d0": "cat dog"}
    grades = [(query, query.replace("q", "d") if query != "d0" else "d1", 1) for query in queries]
    data = write_collection(tmp_path / "my collection", texts, queries, grades)
    output = tmp_path / "scores.json"
    shutil.copytree(model, f"{model} 2")
    own = [f"--data_dir={data}", f"--saved_model={model}"]
    kept = tmp_path / "my rankings"
    flags = (*own, f"--baseline={model} 2", f"--output_file={output}", f"--save_rankings={kept}")
    done = run("evaluate_search", *flags)
    assert done.returncode == 0, done.stderr
    assert "their ends were left out" not in done.stderr
    assert "9 texts, 10 queries of test" in done.stdout
    assert f"ndcg@10 of {model} minus that of BM25: " in done.stdout
    scores = json.loads(output.read_text())["scores"]
    # Each query q is a text of the collection, so its own vector is the nearest. The query d0 does not find itself.
    assert 0.9 < scores[model]["mrr@10"]["mean"] < 1.0
    assert scores[f"{model} 2"]["ndcg@10"]["gain_of_last"] == 0.0
    of_words = kept / "BM25.trec"
    done = run(
        "evaluate_search", *own, "--nobm25", f"--rankings={of_words}", f"--output_file={tmp_path / 'again.json'}"
    )
    assert done.returncode == 0, done.stderr
    assert json.loads((tmp_path / "again.json").read_text())["scores"]["BM25"] == scores["BM25"]
    done = run("evaluate_search", *own, f"--save_rankings={kept}")
    assert done.returncode == 2 and "BM25.trec is there already; --overwrite replaces it" in done.stderr
    done = run("evaluate_search", *own, f"--baseline={model}")
    assert done.returncode == 2 and "is also --saved_model; give another model, or leave it out" in done.stderr
    small = tmp_path / "small.json"
    done = run("evaluate_search", *own, "--nobm25", "--dtypes=int8,binary", f"--output_file={small}")
    scores_of_kinds = json.loads(small.read_text())["scores"]
    assert list(scores_of_kinds) == [f"{model}{kind}" for kind in (" int8", " binary", " binary rescored", "")]
    means = [figures["ndcg@10"]["mean"] for figures in scores_of_kinds.values()]
    assert means[1] < min(means[0], means[2]) and means[2] == means[3] == scores[model]["ndcg@10"]["mean"]
    for wrong in ("int4", "float32"):
        done = run("evaluate_search", *own, f"--dtypes={wrong}")
        assert done.returncode == 2 and f"--dtypes={wrong}: '{wrong}' is not known" in done.stderr
    again = run("evaluate_search", *flags)
    assert again.returncode == 2 and "scores.json is there already; --overwrite replaces it" in again.stderr
