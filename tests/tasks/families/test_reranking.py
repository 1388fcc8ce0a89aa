"""Rerankers: what the columns of a table mean, scores of rankings, and whole runs with their exports."""

import dataclasses
import json
import math

import numpy as np
import pytest

from keras_bert_app.config.bert_config import PARTS
from keras_bert_app.config.finetuning_config import FinetuningConfig
from keras_bert_app.errors import UserError
from keras_bert_app.interop import load
from keras_bert_app.modeling.task_head import TEXT, Head
from keras_bert_app.tasks import dev_halves, registry, transfer
from keras_bert_app.tasks.families import ranking_scores, reranking
from keras_bert_app.tasks.families.reranking import Example
from keras_bert_app.tasks.labelled_data import load_data
from keras_bert_app.tasks.readers import rerank
from keras_bert_app.tasks.scoring import FinetunedRun, best_weights
from keras_bert_app.tasks.task import Examples
from tests.tasks.conftest import BAD, CONFIG, FILLERS, GOOD, at_start, newest, run_on, weights_of
from tests.tasks.texts import rows_of, tokenizer
from tests.training.conftest import two_replicas

TASK = registry.find("rerank")
LABELLED = ["query\tdocument\tlabel", "a\tb\t1", "a\tc\t0"]
TRIPLES = ["query\tpositive\tnegative_1\tnegative_2", "a\tb\tc\td"]


def write(directory, **files):
    for name, lines in files.items():
        (directory / f"{name}.tsv").write_text("".join(f"{line}\n" for line in lines))
    return str(directory)


def settled(directory, **settings):
    return TASK.settled(FinetuningConfig(task="rerank", data_dir=str(directory), **settings))


def read(directory, split="train", **settings):
    run = settled(directory, **settings)
    return TASK.read_split(run.data_dir, split, run)


@pytest.mark.parametrize(
    "rows, loss",
    [
        (LABELLED, "binary"),
        (["text_a\ttext_b\tscore", "a\tb\t1.0", "a\tc\t0.0"], "binary"),
        (["query\tpassage\tgrade", "a\tb\t1", "a\tc\t3"], "graded"),
        (["query\tdocument\tlabel", "a\tb\t0.5", "a\tc\t0"], "graded"),
        (TRIPLES, "listwise"),
        (["anchor\tpositive\tnegative\tscore", "a\tb\tc\t0.9"], "listwise"),
    ],
)
def test_the_table_decides_the_loss(tmp_path, rows, loss):
    assert settled(write(tmp_path, train=rows)).ranking_loss == loss


def test_the_rows_of_a_query_are_one_example_of_dev_and_pairs_or_lists_of_training(tmp_path):
    rows = [*LABELLED, "a\tB \t0", "e\tb\t0", "\tx\t1", "a\td\t0"]
    data = write(tmp_path, train=rows, dev=rows)
    (first, second) = examples = read(data, "dev")
    assert (first.query, first.documents, first.labels, first.names) == (
        "a",
        ("b", "c", "d"),
        (1.0, 0.0, 0.0),
        tuple("015"),
    )
    assert (second.documents, second.labels) == (("b",), (0.0,))
    assert examples.left_out == {"rows with an empty text": 1, "documents that repeat another one of their query": 1}
    pairs = [(example.query, *example.documents, *example.labels) for example in read(data)]
    assert pairs == [("a", "b", 1.0), ("a", "c", 0.0), ("a", "d", 0.0), ("e", "b", 0.0)]
    listwise = read(data, ranking_loss="listwise")
    assert [(example.documents, example.labels) for example in listwise] == [(("b", "c", "d"), (1.0, 0.0, 0.0))]
    assert listwise.left_out["queries without a relevant document, or with only relevant ones,"] == 1
    write(tmp_path, train=[*TRIPLES, "a\te\tc\t"])
    assert [(example.documents, example.labels) for example in read(data)] == [(tuple("bcde"), (1.0, 0.0, 0.0, 1.0))]


def test_rows_of_json_may_have_several_negatives_or_none(tmp_path):
    rows = [{"anchor": "a", "positive": "b"}, {"anchor": "a", "positive": "c", "negative": ["d", "e"], "score": 0.5}]
    (tmp_path / "train.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert read(tmp_path)[0].labels == (1.0, 1.0, 0.0, 0.0) and settled(tmp_path).ranking_loss == "listwise"


def test_a_text_that_is_relevant_in_one_row_is_relevant(tmp_path):
    data = write(tmp_path, train=[*TRIPLES, "a\td\tb\tf"])
    assert read(data)[0].labels == (1.0, 0.0, 1.0, 0.0)  # b, c, d, f


def test_files_without_labels_keep_every_row(tmp_path):
    data = write(tmp_path, test=["query\tdocument", "a\tb", "a\tb", "\tc"])
    run = FinetuningConfig(task="rerank", label_column="grade")
    examples = TASK.read_file(f"{data}/test.tsv", run, has_labels=False)
    assert [(example.query, example.documents) for example in examples] == [("a", ("b", "b")), ("", ("c",))]
    features = reranking.featurize(TASK, examples, tokenizer(), run, (), has_labels=False)
    assert len(rows_of(features)) == 3 and not features.labels


@pytest.mark.parametrize(
    "labels", [(1, 0, 0, 0, 0, 0, 0), (1,) * 9 + (0,), (3, 1, 2, 1, 1, 1, 1), (0, 0, -1, 2, 0, 1, 0)]
)
@pytest.mark.parametrize("list_size", [2, 3, 4, 16])
def test_every_document_is_in_a_list_with_better_and_worse_ones(labels, list_size):
    lists = rerank._lists(labels, list_size)
    assert {number for numbers in lists for number in numbers} == set(range(len(labels)))
    for numbers in lists:
        grades = [labels[number] for number in numbers]
        assert len(set(numbers)) == len(numbers) <= list_size
        assert min(grades) < max(grades) and max(grades) > 0


def test_lists_are_groups_of_rows_and_other_examples_are_rows(tmp_path):
    rows = ["query\tpositive\tnegative", "a\tb\tc", "a\tb\td", "e\tf g\th"]
    data = write(tmp_path, train=rows, dev=rows)
    run = settled(data, list_size=2)
    train, dev = (TASK.read_split(data, split, run) for split in ("train", "dev"))
    features = reranking.featurize(TASK, train, tokenizer(), run, ())
    assert features.unit_splits.tolist() == [0, 2, 4, 6]
    assert features.labels["labels"].tolist() == [[1.0, 0.0]] * 3
    features = reranking.featurize(TASK, dev, tokenizer(), run, ())
    assert features.unit_splits is None and features.examples.tolist() == [0, 0, 0, 1, 1]
    assert features.labels["labels"].tolist() == [1.0, 0.0, 0.0, 1.0, 0.0]
    cls, sep = tokenizer().cls_id, tokenizer().sep_id
    assert rows_of(features)[3] == [cls, 9, sep, 10, 11, sep] and features.b_starts.tolist() == [3] * 5


def test_a_batch_of_large_lists_says_how_many_rows_it_has(tmp_path):
    rows = ["query\tpositive\tnegative", "a\tb\tc", "e\tf g\th", "e\tf g\tc"]
    data = write(tmp_path, train=rows, dev=rows)
    for batch_size, notes in ((85, []), (86, ["a batch of 86 lists has up to 258 rows"])):
        run = settled(data, global_batch_size=batch_size)
        features = reranking.featurize(TASK, TASK.read_split(data, "train", run), tokenizer(), run, ())
        assert [note.partition(",")[0] for note in features.notes if "batch" in note] == notes


def test_a_query_whose_documents_are_all_relevant_has_lists_of_better_and_worse_ones():
    labels = (3, 2, 2, 1, 1, 1, 1)
    lists = rerank._lists(labels, 3)
    assert {number for numbers in lists for number in numbers} == set(range(7))
    assert all({labels[number] for number in numbers} > {1} for numbers in lists)


def test_listwise_takes_every_label_above_0_as_relevant_and_refuses_grades_that_begin_with_1(tmp_path):
    rows = ["query\tdocument\tlabel", "a\tb\t5", "a\tc\t1", "a\td\t-1"]
    run = settled(write(tmp_path, train=rows), ranking_loss="listwise", list_size=4)
    examples = TASK.read_split(run.data_dir, "train", run)
    assert reranking.label_names(TASK, examples, run) == ()
    features = reranking.featurize(TASK, examples, tokenizer(), run, ())
    assert features.labels["labels"].tolist() == [[5.0, 1.0, 0.0, 0.0]]
    write(tmp_path, train=rows[:3])
    with pytest.raises(UserError, match=r"train.tsv: no list has a document with the label 0, .* lowest label 1 says"):
        reranking.label_names(TASK, TASK.read_split(run.data_dir, "train", run), run)
    graded = settled(run.data_dir)
    assert reranking.label_names(TASK, TASK.read_split(run.data_dir, "train", graded), graded) == ()


@pytest.mark.parametrize(
    "rows, settings, message",
    [
        (["query\tpositive", "a\tb"], {}, "has no labels and no documents that do not answer their query; give a col"),
        (["query\tpositive", "a\tb"], {"ranking_loss": "listwise"}, "train.tsv:2: has no labels and no documents that"),
        (["query\tdocument\tlabel", "a\tb\t1", "c\td\t0"], {"ranking_loss": "listwise"}, "no query has a relevant doc"),
        (["query\tdocument\tlabel", "a\tb\thigh"], {}, "train.tsv:2: label 'high'; expected 0, 1 or another number"),
        (["words\tlabel", "a\t1"], {}, "--text_columns is missing; the columns are words, label"),
        (
            LABELLED,
            {"label_column": "grad"},
            "--label_column=grad: expected another one of the columns query, document",
        ),
        (
            LABELLED,
            {"text_columns": ("query",)},
            "--text_columns=query: names one column; expected a query and a docum",
        ),
        (
            LABELLED,
            {"list_size": 4},
            "--list_size=4: has an effect only with --ranking_loss=auto or listwise, but this",
        ),
        (["query\tdocument\tlabel"], {}, "holds no example of task rerank"),
        ([], {}, "holds no example of task rerank"),
    ],
)
def test_tables_and_flags_that_cannot_be_learned_are_refused_in_one_line(tmp_path, rows, settings, message):
    with pytest.raises(UserError, match=message) as error:
        read(write(tmp_path, train=rows), **settings)
    assert "\n" not in str(error.value)


def test_labels_that_do_not_fit_the_loss_and_dev_files_that_cannot_be_scored_are_refused(tmp_path):
    data = write(
        tmp_path, train=["query\tdocument\tlabel", "a\tb\t1", "a\tc\t2"], dev=["query\tdocument\tlabel", "a\tb\t1"]
    )
    run = settled(data, ranking_loss="binary")
    with pytest.raises(UserError, match=r"train.tsv:3: label 2; --ranking_loss=binary expects 0 or 1; leave it out to"):
        reranking.label_names(TASK, TASK.read_split(data, "train", run), run)
    write(tmp_path, train=["query\tdocument\tlabel", "a\tb\t1", "c\tc\t1"])
    with pytest.raises(UserError, match=r"train.tsv: every document has the label 1; expected relevant documents and"):
        reranking.label_names(TASK, TASK.read_split(data, "train", run), run)
    with pytest.raises(UserError, match=r"dev.tsv: no query has a relevant document \(label above 0\) and another one"):
        TASK.read_split(data, "dev", run)
    with pytest.raises(UserError, match="--ranking_metric=.* is not known: .*ndcg@10|--ranking_metric"):
        FinetuningConfig(task="rerank", ranking_metric="ndcg")
    with pytest.raises(UserError, match="--list_size"):
        FinetuningConfig(task="rerank", list_size=1)


def recomputed(scores, grades):
    """The three scores from the definitions, with the worst order of equal scores."""
    order = sorted(range(len(grades)), key=lambda number: (-scores[number], grades[number]))
    gains = [max(grades[number], 0) for number in order]
    discounts = [1 / math.log2(place + 2) for place in range(10)]
    dcg, best = (sum(g * d for g, d in zip(each, discounts, strict=False)) for each in (gains, sorted(gains)[::-1]))
    hits = [place + 1 for place, gain in enumerate(gains) if gain > 0]
    precisions = [(number + 1) / rank for number, rank in enumerate(hits)]
    return {"ndcg@10": dcg / best, "mrr@10": 1 / hits[0] if hits[0] <= 10 else 0.0, "map": sum(precisions) / len(hits)}


def example_of(grades, query="q"):
    names = tuple(map(str, range(len(grades))))
    return Example(query, query, names, tuple(map(float, grades)), names, ("file:2",) * len(names))


def test_scores_of_random_rankings_are_those_of_the_definitions():
    generator = np.random.default_rng(0)
    examples, predictions, expected = [], [], []
    while len(expected) < 200:
        grades = generator.integers(-1, 3, generator.integers(1, 30))
        scores = generator.integers(0, 8, len(grades)).astype(float)  # many are equal
        examples.append(example_of(grades))
        predictions.append({"scores": scores.tolist()})
        if grades.max() > 0 and grades.min() < grades.max():
            expected.append(recomputed(scores, grades))
    for name in ranking_scores.METRICS:
        values = ranking_scores.of_queries(name, examples, predictions)
        np.testing.assert_allclose(values[~np.isnan(values)], [each[name] for each in expected], atol=1e-12)
        assert ranking_scores.mean(values) == pytest.approx(np.mean([each[name] for each in expected]))
        assert ranking_scores.measure(values)(np.arange(len(values))) == pytest.approx(ranking_scores.mean(values))
    assert len(examples) > 210  # some queries have no score


def test_a_tie_and_a_score_that_is_no_number_count_against_the_model():
    example = example_of([1, 0, 0])
    for scores in ([0.5, 0.5, 0.5], [float("nan"), -9.0, -8.0]):
        assert ranking_scores.of_query("mrr@10", scores, example.labels) == pytest.approx(1 / 3)
    assert ranking_scores.of_query("mrr@10", [0.6, 0.5, 0.5], example.labels) == 1.0
    with pytest.raises(UserError, match="none of 2 queries has a relevant document .* and another one"):
        ranking_scores.mean(
            ranking_scores.of_queries(
                "map", [example_of([1, 1]), example_of([0])], [{"scores": [1, 2]}, {"scores": [1]}]
            )
        )


def test_the_parts_of_training_and_dev_share_no_query(tmp_path):
    rows = [f"q{n % 23} x\td{n}\t{int(n % 3 == 0)}" for n in range(138)]
    path = tmp_path / "rows.tsv"
    path.write_text("query\tdocument\tlabel\n" + "".join(f"{row}\n" for row in rows))
    for loss in ("binary", "listwise"):
        run = settled(path, dev_fraction=0.3, ranking_loss=loss, list_size=3 if loss == "listwise" else 16)
        train, dev = (TASK.read_split(str(path), split, run) for split in ("train", "dev"))
        names = [{example.query for example in part} for part in (train, dev)]
        assert not names[0] & names[1] and len(names[0] | names[1]) == 23
        assert {text for part in (train, dev) for example in part for text in example.documents} == {
            f"d{n}" for n in range(138)
        }
        halves = dev_halves.split(TASK, dev)
        assert not {example.query for example in halves[0]} & {example.query for example in halves[1]}


def test_each_half_of_dev_has_a_query_with_a_score():
    for number in range(40):
        examples = [example_of(grades, f"{number} {place}") for place, grades in enumerate([[1, 0], [0], [1, 0], [2]])]
        halves = dev_halves.split(TASK, Examples(examples))
        assert sorted(example.query for half in halves for example in half) == [each.query for each in examples]
        for half in halves:
            assert any(ranking_scores.has_score(example.labels) for example in half)


@pytest.mark.parametrize("name", "abcd")
def test_a_part_of_dev_without_a_score_is_refused_before_the_training(tmp_path, name):
    unscored = [f"{name}{number}\tx\t0" for number in range(3)]
    dev = ["query\tdocument\tlabel", *unscored, f"{name}\tb\t1", f"{name}\tc\t0"]
    run = settled(write(tmp_path, train=LABELLED, dev=dev))
    with pytest.raises(UserError, match=r"dev.tsv, the half of dev that .*: no query has a relevant document") as error:
        load_data(run, tokenizer())
    assert str(error.value).endswith("; give more queries with both, or --test_file") and "\n" not in str(error.value)
    tested = dataclasses.replace(run, test_file=f"{run.data_dir}/dev.tsv")
    assert load_data(tested, tokenizer()).reported_on == tested.test_file
    with pytest.raises(UserError, match=r"dev.tsv: no query .*; give more queries with both, or raise --max_eval_exam"):
        load_data(dataclasses.replace(tested, max_eval_examples=3), tokenizer())


def rare(path, grade, count=12):
    """A directory with `count` queries of three documents each, of which only the last query has a relevant one."""
    rows = [f"q{number}\td{place}\t0" for number in range(count) for place in range(3)]
    rows = ["query\tdocument\tlabel", *rows[:-1], f"q{count - 1}\td2\t{grade}"]
    return write(path, train=rows, dev=[*LABELLED, "e\tb\t1", "e\tc\t0"])


def drawn(data, **settings):
    run = settled(data, **settings)
    return run, load_data(run, tokenizer())


def test_whole_queries_are_drawn_and_the_grades_of_the_draw_are_the_units(tmp_path):
    rows = [f"q{number}\td{place}\t{place + number % 2}" for number in range(9) for place in range(1 + number % 3)]
    data = write(tmp_path, train=["query\tdocument\tlabel", *rows], dev=[*LABELLED, "e\tb\t1", "e\tc\t0"])
    for seed in range(8):
        run, found = drawn(data, max_train_examples=8, seed=seed)
        queries = [example.query for example in found.train_examples]
        assert 6 <= len(queries) <= 8
        assert all(queries.count(query) == 1 + int(query[1:]) % 3 for query in queries)
        labels = [label for example in found.train_examples for label in example.labels]
        head = transfer.in_units_of(Head(TEXT, 1), found, ranking_loss=run.ranking_loss)
        assert (head.offset, head.offset + head.scale) == (min(labels), max(labels))


def test_a_draw_without_relevant_documents_or_without_a_whole_query_is_refused(tmp_path):
    for grade, loss in ((1, "binary"), (3, "graded")):
        data = rare(tmp_path, grade)
        with pytest.raises(
            UserError, match="--max_train_examples=4: all 3 documents that --seed=0 draws have the labe"
        ):
            drawn(data, max_train_examples=4, seed=0, ranking_loss=loss)
        with pytest.raises(UserError, match="--max_train_examples=2: every query has more examples; whole quer"):
            drawn(data, max_train_examples=2)
        run, found = drawn(data)
        head = transfer.in_units_of(Head(TEXT, 1), found, ranking_loss=run.ranking_loss)
        assert (head.scale, head.offset) == (float(grade), 0.0)


def test_only_grades_are_units(tmp_path):
    run, found = drawn(rare(tmp_path, 1))
    found.train.labels["labels"][:] = 0.0
    assert transfer.in_units_of(Head(TEXT, 1), found, ranking_loss=run.ranking_loss) == Head(TEXT, 1)


def documents(generator, count):
    """A document with a word of GOOD, which is relevant, and `count` others with a word of BAD."""
    words = [GOOD, *[BAD] * count]
    return [" ".join([*generator.choice(FILLERS, 4), str(generator.choice(each))]) for each in words]


def table(kind, count, seed):
    generator, rows = np.random.default_rng(seed), []
    for number in range(count):
        query = f"{' '.join(generator.choice(FILLERS, 4))}{'.' * (number % 3)}"
        relevant, *others = documents(generator, 3)
        if kind == "listwise":
            rows.append("\t".join([query, relevant, *others]))
        else:
            labels = {"binary": (1, 0, 0, 0), "graded": (5, 2, 2, 2)}[kind]
            rows += [f"{query}\t{text}\t{label}" for text, label in zip([relevant, *others], labels, strict=True)]
    head = "query\tpositive\tnegative_1\tnegative_2\tnegative_3" if kind == "listwise" else "query\tdocument\tlabel"
    return [head, *rows]


SETTINGS = {"task": "rerank", "pooling": "mean", "num_train_steps": 60, "eval_steps": 60, "classifier_dropout": 0.0}
SETTINGS |= {"jit_compile": "none", "learning_rate": 4e-3, "num_warmup_steps": 0}
LINES = {
    "binary": "loss binary: whether a document answers its query",
    "graded": "loss graded: how well a document answers its query, from 2 to 5",
    "listwise": "loss listwise: the relevant documents (label above 0) of a query among at most 3 documents",
}


@pytest.fixture(scope="module", params=["listwise", "graded", pytest.param("binary", marks=pytest.mark.slow)])
def finished(request, tmp_path_factory):
    """(kind, work directory, results, output) of a run of each loss."""
    kind, directory = request.param, tmp_path_factory.mktemp(request.param)
    data = write(directory, train=table(kind, 64, 1), dev=table(kind, 32, 2))
    settings = {**SETTINGS, **({"list_size": 3} if kind == "listwise" else {})}
    return (kind, str(directory / "a run"), *run_on(directory / "a run", data, **settings))


@pytest.mark.parametrize("kind", ["listwise", pytest.param("graded", marks=pytest.mark.slow)])
def test_two_replicas_end_with_the_weights_of_one(kind, tmp_path):
    data = write(tmp_path, train=table(kind, 64, 1), dev=table(kind, 8, 2))
    without_dropout = CONFIG.replace(hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
    settings = {**SETTINGS, "num_train_steps": 3, "eval_steps": 3, "learning_rate": 1e-4}
    settings |= {"list_size": 3} if kind == "listwise" else {}
    for name, strategy in (("one", None), ("two", two_replicas())):
        run_on(tmp_path / name, data, without_dropout, strategy=strategy, **settings)
    one, two = (weights_of(newest(str(tmp_path / name))) for name in ("one", "two"))
    assert all(np.abs(tensor - two[path]).max() < 1e-6 for path, tensor in one.items())


def test_a_run_ranks_relevant_documents_above_the_baseline(finished):
    kind, workdir, figures, output = finished
    assert LINES[kind] in output
    assert list(figures["reported"]["metrics"]) == ["ndcg@10", "mrr@10", "map"]
    assert figures["reported"]["score"] > max(0.9, figures["baseline"]["score"] + 0.1)
    assert figures["baseline"]["what"] == "cosine of the words' TF-IDF" and not figures["no_better_than_baseline"]
    notes = json.load(open(f"{workdir}/config.json"))
    assert (notes["inputs"], notes["finetuning"]["ranking_loss"]) == (["query", "document"], kind)
    assert notes["head"]["scale"] == (3.0 if kind == "graded" else 1.0)


def test_predictions_are_ranked_and_in_the_units_of_the_file(finished, tmp_path):
    kind, workdir, *_ = finished
    rows = ["x\tthe day was so\ta very so and grim", "y\tthe day was so\ta very so and fine", "z\t\t"]
    data = write(tmp_path, some=["id\tquery\tdocument", *rows])
    run = FinetunedRun(workdir)
    count, names, _ = run.predict(f"{data}/some.tsv", str(tmp_path / "answers"))
    rows = [line.split("\t") for line in (tmp_path / "answers" / "predictions.tsv").read_text().splitlines()]
    assert count == 2 and names == ["predictions.tsv", "probabilities.jsonl"]
    assert [row[0] for row in rows] == ["index", "y", "x", "z"] and [row[4] for row in rows] == ["rank", "1", "2", "1"]
    scores = [float(row[3]) for row in rows[1:3]]
    assert scores[0] > scores[1]
    if kind == "graded":
        assert 2.0 <= scores[1] < 3.0 < scores[0] <= 5.0
    _, examples, _, predictions = run.evaluate(run.task.path(run.run.data_dir, "dev"))
    assert len(examples) == len(predictions) == 32
    lines = reranking.mistakes(run.task, examples, [{"scores": [-s for s in p["scores"]]} for p in predictions], 2)
    assert [line["rank"] for line in lines] == [4, 4] and lines[0]["ndcg@10"] < (0.8 if kind == "graded" else 0.5)


def test_a_run_begins_with_a_run_on_other_texts_or_with_another_reranker(three_seeds, tmp_path):
    rows = table("graded", 8, 1)
    data, first, other = write(tmp_path, train=rows, dev=rows), str(tmp_path / "first"), str(three_seeds / "seed-3")
    run_on(first, data, **{**SETTINGS, "num_train_steps": 1, "pooling": "cls"})
    weights, _ = load.load_weights(first, allow_missing=PARTS[1:])  # as convert reads them for other libraries
    assert (weights.task, weights.problem_type, weights.labels) == ("sequence_classification", "", ())
    wanted = {**SETTINGS, "data_dir": data, "pooling": "cls"}
    weights, output = at_start(tmp_path / "kept", {**wanted, "init_checkpoint": first})
    assert "kept: the output layer, of the same kind" in output
    for path, tensor in weights_of(best_weights(first)).items():
        np.testing.assert_allclose(weights[path], tensor, atol=1e-6)
    _check_other_programs_get_shares(first)
    weights, output = at_start(tmp_path / "new", {**wanted, "init_checkpoint": other})
    assert "left out: the output layer, of task classification" in output
    path = "encoder/embeddings/word_embeddings"
    np.testing.assert_array_equal(weights[path], weights_of(best_weights(other))[path])


def _check_other_programs_get_shares(workdir):
    """Checks that the layer of other programs has no units, because CrossEncoder takes the sigmoid of its output."""
    weights, lines = load.load_weights(workdir, allow_missing=PARTS[1:])
    trained = weights_of(best_weights(workdir))
    for path in ("classifier/kernel", "classifier/bias"):
        np.testing.assert_array_equal(weights.tensors[path], trained[path])
    assert weights.problem_type == ""  # with regression, pipelines of transformers leave out the sigmoid
    assert any(
        "left out: the units of the grades (" in line and "0 for grade 2, 1 for grade 5" in line for line in lines
    )
