"""Rerankers over searches: the scores of runs and exports, and the commands that order texts by them."""

import json

import numpy as np
import pytest

import keras_bert_app
from keras_bert_app.config.bert_config import BertConfig
from keras_bert_app.config.weight_shapes import shapes
from keras_bert_app.errors import UserError
from keras_bert_app.export.finetuned_export import export_finetuned
from keras_bert_app.export.sentence_vectors import export_embeddings
from keras_bert_app.interop import load
from keras_bert_app.interop.weights import Weights
from keras_bert_app.tasks.families.reranking import Example
from keras_bert_app.tasks.scoring import FinetunedRun
from keras_bert_app.vectors import rerankers, search_collections, search_evaluation
from keras_bert_app.vectors.embedding import load_embedder
from keras_bert_app.vectors.nearest import nearest as nearest_rows
from pipelines.wordpiece.vocabulary import SPECIAL_PIECES
from tests.cli.conftest import run  # noqa: F401  a fixture
from tests.tasks.conftest import run_on
from tests.vectors.test_search_evaluation import WORDS, write_collection

TEXTS = [f"{a} {b}" for a, b in zip(WORDS, WORDS[1:], strict=False)]
CONFIG = BertConfig(
    vocab_size=len(SPECIAL_PIECES) + len(WORDS),
    hidden_size=16,
    num_hidden_layers=1,
    num_attention_heads=2,
    intermediate_size=24,
    max_position_embeddings=29,
    initializer_range=0.5,
)
VOCABULARY = "".join(f"{piece}\n" for piece in (*SPECIAL_PIECES, *WORDS)).encode()


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """(directory of a model of vectors, work directory of a reranker of one step, its export)."""
    directory = tmp_path_factory.mktemp("search")
    generator = np.random.default_rng(0)
    tensors = {path: generator.normal(0.0, 0.5, shape).astype(np.float32) for path, shape in shapes(CONFIG).items()}
    encoder = str(directory / "a model")
    load.write_weights(Weights(CONFIG, tensors, vocabulary=VOCABULARY, origin="a test"), "workdir", encoder)
    rows = [f"{a}\t{b}\t{c}" for a, b, c in zip(TEXTS, TEXTS[1:], TEXTS[2:], strict=False)]
    for name in ("train", "dev"):
        (directory / f"{name}.tsv").write_text("\n".join(["query\tpositive\tnegative", *rows, ""]))
    workdir = directory / "a run"
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("tests.tasks.conftest.VOCABULARY", VOCABULARY)
        run_on(workdir, str(directory), CONFIG, task="rerank", num_train_steps=1, jit_compile="none", max_seq_length=16)
    export, _ = export_finetuned(str(workdir), str(directory / "an export"))
    return encoder, str(workdir), export


def test_scores_of_a_run_and_of_its_export_are_those_of_predict(models):
    _, workdir, export = models
    texts = [*TEXTS, " ".join(WORDS), "", "cat"]
    finetuned = FinetunedRun(workdir)
    names = tuple(map(str, range(len(texts))))
    ((expected,), _) = finetuned.predictions([Example("q", "dog stone", tuple(texts), None, names, names)])
    assert np.ptp(expected["scores"]) > 0.1
    for path in (workdir, export):
        scores = rerankers.load_reranker(path, batch_size=4)(b"dog stone", [text.encode() for text in texts])
        assert scores.dtype == np.float32
        np.testing.assert_allclose(scores, expected["scores"], atol=1e-5)
        assert [rank + 1 for rank in np.argsort(rerankers.best_first(scores))] == expected["ranks"]
    reranker = keras_bert_app.load_reranker(workdir)
    np.testing.assert_array_equal(
        reranker("dog stone", texts), reranker(b"dog stone", [text.encode() for text in texts])
    )
    reranker = rerankers.load_reranker(workdir)
    assert reranker(b"dog", []).shape == (0,) and reranker.remarks() == []
    reranker(b"dog", [b"cat", b"cat " * 30])
    assert reranker.remarks()[0].startswith(f"{workdir}: 1 of 2 texts had, with their query, more tokens than the rer")
    assert rerankers.best_first(np.array([1.0, 2.0, 2.0, 3.0])) == [3, 1, 2, 0]


@pytest.mark.parametrize(
    ("query", "texts", "message"),
    [
        (1, ["a"], "query='1' is of the type int: expected a text"),
        ("a", "b", "texts='b': expected a list of texts"),
        ("a", ["b", None], r"texts\[1\]='None' is of the type NoneType: expected a text"),
        ("a", 3, "texts='3': expected a list of texts"),
    ],
)
def test_what_is_no_text_is_refused(models, query, texts, message):
    with pytest.raises(UserError, match=f"^{message}$"):
        rerankers.load_reranker(models[1])(query, texts)


def test_other_models_are_refused_in_one_line(models, tmp_path):
    encoder, workdir, export = models
    ids = export.replace("an export", "an export_ids")
    for path, message in (
        (str(tmp_path), "no SavedModel there"),
        (ids, r"is no reranker \(it takes input_mask, input_type_ids, input_word_ids\); expected a run of finetune"),
        (encoder, "no SavedModel there"),
    ):
        with pytest.raises(UserError, match=message) as error:
            rerankers.load_reranker(path)
        assert "\n" not in str(error.value)


def test_the_first_texts_of_a_ranking_have_the_order_of_the_scores(tmp_path):
    data = write_collection(tmp_path / "c", dict(zip("abcd", "wxyz", strict=True)), {"q": "x"}, [("q", "a", 1)])

    def reranker(query, texts):
        assert query == b"x"
        return np.array([ord(text) for text in texts], np.float32)

    collection = search_collections.read(data)
    rankings = {"q": ["b", "a", "c", "d"]}
    with open(tmp_path / "progress", "w") as stream:
        found = search_evaluation.reranked(reranker, collection, rankings, 3, stream)
        assert found == {"q": ["c", "b", "a", "d"]}
        assert search_evaluation.reranked(lambda *_: np.zeros(0), collection, {"q": []}, 3, stream) == {"q": []}


def test_search_shows_texts_in_the_order_of_the_reranker(models, tmp_path, run):  # noqa: F811
    encoder, workdir, _ = models
    corpus, vectors = tmp_path / "my texts.txt", str(tmp_path / "vectors")
    corpus.write_text("".join(f"{text}\n" for text in TEXTS))
    export_embeddings(encoder, vectors)
    flags = (f"--saved_model={vectors}", f"--corpus_file={corpus}", f"--rerank={workdir}", "--top_k=3")
    done = run("search", *flags, "--rerank_count=5", "--output_format=jsonl", "cat dog")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)["nearest"]
    embed = load_embedder(vectors)
    cosines, rows = nearest_rows(embed([b"cat dog"])[0], embed([text.encode() for text in TEXTS])[0], 5)
    nearest = dict(zip((rows[0] + 1).tolist(), cosines[0].tolist(), strict=True))
    scores = rerankers.load_reranker(workdir)(b"cat dog", [TEXTS[number - 1].encode() for number in nearest])
    best = [list(nearest)[place] for place in rerankers.best_first(scores)[:3]]
    assert [each["text_number"] for each in found] == best != list(nearest)[:3]
    assert [each["score"] for each in found] == pytest.approx(sorted(scores, reverse=True)[:3], abs=1e-5)
    assert all(nearest[each["text_number"]] == pytest.approx(each["cosine"], abs=1e-5) for each in found)
    lines = run("search", *flags, "--rerank_count=5", "cat dog").stdout.splitlines()
    assert [line.split()[:3] for line in lines[1:]] == [
        [f"{each['score']:.3f}", f"{each['cosine']:.3f}", str(each["text_number"])] for each in found
    ]
    for more, message in (
        (("--rerank_count=2",), "--rerank_count=2: is less than --top_k=3, the texts to show; give 3 or more"),
        (("--rerank=", "--rerank_count=9"), "--rerank_count=9: has an effect only with --rerank; leave it out"),
    ):
        done = run("search", *flags, *more, "cat dog")
        assert done.returncode == 2 and message in done.stderr and len(done.stderr.splitlines()) == 1


def test_evaluate_search_has_a_row_of_the_reranker_over_bm25(models, tmp_path, run):  # noqa: F811
    _, workdir, export = models
    texts = {f"d{number}": text for number, text in enumerate(TEXTS)}
    queries = {f"q{number}": f"{text} {text}" for number, text in enumerate(TEXTS)}
    data = write_collection(tmp_path / "c", texts, queries, [(f"q{n}", f"d{n}", 1) for n in range(len(TEXTS))])
    output = tmp_path / "scores.json"
    done = run("evaluate_search", f"--data_dir={data}", f"--rerank={workdir}", f"--output_file={output}")
    assert done.returncode == 0, done.stderr
    name = f"BM25, reranked by {workdir}"
    assert f"ndcg@10 of {name} minus that of BM25: " in done.stdout
    scores = json.loads(output.read_text())["scores"]
    assert list(scores) == ["BM25", name] and scores[name]["recall@100"]["mean"] == scores["BM25"]["recall@100"]["mean"]
    collection = search_collections.read(data)
    with open(tmp_path / "progress", "w") as stream:
        found = search_evaluation.rankings_of_words(collection, 100)
        expected = search_evaluation.reranked(rerankers.load_reranker(export), collection, found, 100, stream)
    ranks = [1 / (1 + expected[query].index(query.replace("q", "d"))) for query in queries]
    assert scores[name]["mrr@10"]["mean"] == pytest.approx(np.mean(ranks), abs=1e-6)
    done = run("evaluate_search", f"--data_dir={data}", f"--rerank={workdir}", "--nobm25")
    assert done.returncode == 2 and "--saved_model is missing; its help: " in done.stderr


@pytest.mark.slow
def test_evaluate_search_has_a_row_of_the_reranker_over_a_model(models, tmp_path, run):  # noqa: F811
    encoder, _, export = models
    data = write_collection(tmp_path / "c", {"d": "cat dog", "e": "bird"}, {"q": "cat"}, [("q", "d", 1)])
    done = run("evaluate_search", f"--data_dir={data}", f"--rerank={export}", f"--saved_model={encoder}", "--nobm25")
    assert done.returncode == 0 and f"{encoder}, reranked by {export}  " in done.stdout, done.stderr
