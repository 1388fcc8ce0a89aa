"""Sentence vectors: what the columns of a table mean, what vectors answer, and a whole run with its export."""

import dataclasses
import json
import shutil
import types

import numpy as np
import pytest

from keras_bert_app.config.bert_config import PARTS
from keras_bert_app.config.finetuning_config import FinetuningConfig
from keras_bert_app.errors import UserError
from keras_bert_app.export.sentence_vectors import Pooling, embedding_module
from keras_bert_app.interop import load
from keras_bert_app.interop.weights import Weights
from keras_bert_app.modeling.task_models import make_task_model
from keras_bert_app.modeling.vector_model import VectorHead
from keras_bert_app.runs.shared_tokenizer import tokenizer_of
from keras_bert_app.tasks import batch_plans, finetuning_start, labelled_data, registry
from keras_bert_app.tasks.families import text_vectors, vector_answers
from keras_bert_app.tasks.families.text_vectors import Example
from keras_bert_app.tasks.scoring import FinetunedRun
from keras_bert_app.tasks.task import Examples
from keras_bert_app.vectors.embedding import Embedder, embedder_of_module, for_role
from tests.cli.conftest import run as run_command  # noqa: F401  a fixture
from tests.tasks.conftest import BAD, CONFIG, FILLERS, GOOD, VOCABULARY, launched, newest, run_on, weights_of
from tests.training.conftest import two_replicas

TASK = registry.find("similarity")

PAIRS = [(f"{a} {b}", f"{b} {c} {a}") for a in GOOD for b in FILLERS[:4] for c in FILLERS[4:7]]


def write(directory, **files):
    for name, lines in files.items():
        (directory / f"{name}.tsv").write_text("".join(f"{line}\n" for line in lines))
    return str(directory)


def settled(directory, **settings):
    return TASK.settled(FinetuningConfig(task="similarity", data_dir=directory, **settings))


@pytest.mark.parametrize(
    "head, row, loss, metric",
    [
        ("anchor\tpositive\tnegative", "a\tb\tc", "contrastive", "mrr"),
        ("question\tanswer", "a\tb", "contrastive", "mrr"),
        ("sentence1\tsentence2\tscore", "a\tb\t3.5", "cosent", "spearman"),
        ("text_a\ttext_b\tlabel", "a\tb\t1", "cosent", "spearman"),
        ("text\tlabel", "a\tsports", "triplet", "nearest_label"),
    ],
)
def test_the_columns_decide_the_loss_and_the_metric(tmp_path, head, row, loss, metric):
    run = settled(write(tmp_path, train=[head, row], dev=[head, row]))
    assert (run.vector_loss, run.similarity_metric) == (loss, metric)
    assert TASK.bound(run).metrics == text_vectors.METRICS[metric]
    assert settled(write(tmp_path, train=["text", "a"], dev=[head, row])).vector_loss == "simcse"
    with pytest.raises(UserError, match="--vector_loss=simcse: .*train.tsv has .* in each row; give "):
        settled(write(tmp_path, train=[head, row]), vector_loss="simcse")


def test_tables_that_cannot_be_learned_or_judged_are_refused_in_one_line(tmp_path):
    data = write(tmp_path, train=["text\tlabel", "a\tb"], dev=["text", "a"])
    with pytest.raises(UserError, match="dev.tsv: has texts alone, which no score can judge"):
        settled(data)
    with pytest.raises(
        UserError, match="--vector_loss=cosent: .*train.tsv has a text and a label in each row; give triplet"
    ):
        settled(data, vector_loss="cosent")
    write(tmp_path, train=["words\tscore", "a\t1"])
    with pytest.raises(UserError, match="--text_columns is missing; the columns are words, score"):
        settled(data)
    write(tmp_path, train=["text_a\ttext_b\tscore", "a\tb\thigh"])
    with pytest.raises(UserError, match="train.tsv:2: score 'high'; expected a number"):
        TASK.read_file(f"{data}/train.tsv", FinetuningConfig(task="similarity", data_dir=data), True)
    with pytest.raises(
        UserError, match="--label_column=scor: expected another one of the columns text_a, text_b, score"
    ):
        settled(data, label_column="scor")
    write(tmp_path, dev=["text_a\ttext_b\tscore", "a\tb\t1"])
    with pytest.raises(UserError, match="--symmetric_loss=True: has an effect only with .* --vector_loss=cosent"):
        settled(data, symmetric_loss=True)
    with pytest.raises(UserError, match="--vector_sizes=8,x: expected different whole numbers"):
        FinetuningConfig(task="similarity", vector_sizes=("8", "x"))
    with pytest.raises(UserError, match="--vector_sizes=30: the model's vectors have 22 numbers"):
        FinetuningConfig(task="similarity", vector_sizes=("30",), max_seq_length=16).checked_against(CONFIG)


def test_a_model_or_pooling_that_cannot_learn_is_refused(tmp_path, pretrained):
    data = write(tmp_path, train=["text", *GOOD], dev=["text_a\ttext_b", "fine day\tday", "cold day\tday"])
    wanted = {"task": "similarity", "data_dir": data, "init_checkpoint": pretrained, "max_seq_length": 16}
    with pytest.raises(UserError, match="--pooling=concat: a text has one vector; give --pooling=mean, max or cls"):
        launched(tmp_path / "one", {**wanted, "pooling": "concat"})
    with pytest.raises(UserError, match="--freeze_layers=-1: would train nothing"):
        launched(tmp_path / "two", {**wanted, "freeze_layers": -1})
    without = CONFIG.replace(hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
    with pytest.raises(UserError, match="--vector_loss=simcse: .* by dropout alone, .* give --encoder_dropout=0.1, or"):
        run_on(tmp_path / "three", data, without, task="similarity", max_seq_length=16, pooling="mean")


@pytest.mark.parametrize(
    "metric, rows, message",
    [
        ("nearest_label", ["text_a\ttext_b", "a\tb"], "needs a text and a label in each row"),
        ("mrr", ["text\tlabel", "a\tb"], "needs an anchor and its positive in each row"),
        ("spearman", ["text_a\ttext_b", "a\tb"], "needs two texts and a score in each row"),
        ("spearman", ["text_a\ttext_b\tscore", "a\tb\t3", "b\ta\t3"], "all scores are 3; expected different ones"),
        ("nearest_label", ["text\tlabel", "a\tb"], "the nearest other text needs two examples"),
    ],
)
def test_files_that_the_score_cannot_judge_are_refused(tmp_path, metric, rows, message):
    data = write(tmp_path, dev=rows)
    run = FinetuningConfig(task="similarity", data_dir=data, similarity_metric=metric)
    with pytest.raises(UserError, match=f"dev.tsv:2: .*{message}"):
        TASK.read_split(data, "dev", run)


@pytest.mark.parametrize(
    "metric, labels, message",
    [
        ("spearman", [1.0, *[0.0] * 30], "t.tsv, the half of dev that .* weights: all scores are 0; .*--test_file"),
        ("nearest_label", ["x", "y"], "t.tsv, the half of dev .*: the nearest other text needs two .*--test_file"),
    ],
)
def test_a_half_of_dev_that_cannot_be_judged_is_refused_before_the_training(metric, labels, message):
    texts = ("a", "b") if metric == "spearman" else ("a",)
    examples = [Example("", (f"a{n}", *texts[1:]), label, f"t.tsv:{n}") for n, label in enumerate(labels)]
    run = FinetuningConfig(task="similarity", similarity_metric=metric)
    with pytest.raises(UserError, match=message):
        labelled_data.choosing_and_reported(run, TASK, Examples(examples))


def test_single_texts_have_no_cosine_to_predict():
    examples, run = [Example("", ("a",), None, "t.tsv:2")], FinetuningConfig(similarity_metric="spearman")
    with pytest.raises(UserError, match="t.tsv:2: expected two texts in each row, whose cosine is predicted"):
        text_vectors.decode(TASK, examples, None, [np.ones((1, 4))], run, ())


def test_losses_that_cannot_learn_from_a_table_are_refused():
    def refused(loss, labels, message, texts=("a", "b"), **settings):
        examples = [Example("", texts, label, f"t.tsv:{n}") for n, label in enumerate(labels)]
        with pytest.raises(UserError, match=message):
            text_vectors.label_names(TASK, examples, FinetuningConfig(vector_loss=loss, **settings))

    refused("triplet", "xyz", "t.tsv: has 3 labels, with at most 1 text each; expected two labels, and")
    refused(
        "triplet", "xxy", "--global_batch_size=4: a batch would have texts of one label; give 8", global_batch_size=4
    )
    alone = "--global_batch_size=1: an example alone in its batch has no other one to be compared with; give 2"
    refused("contrastive", [None] * 9, alone, global_batch_size=1)
    refused("simcse", [None] * 9, alone, ("a",), global_batch_size=1)
    refused("cosent", [1.0, 2.0], alone, global_batch_size=1)
    refused("contrastive", [None], "t.tsv: has one example, which has no other one to be compared with; give two")
    refused("cosent", [3.0] * 4, "t.tsv: all scores are 3; expected different ones, because the loss learns their or")
    # A negative of its own is enough company.
    with_negative = [Example("", ("a", "b", "c"), None, "t.tsv:1")]
    assert text_vectors.label_names(TASK, with_negative, FinetuningConfig(vector_loss="contrastive")) == ()
    refused("cosine", [0.5, 3.0], "t.tsv:1: score 3; --vector_loss=cosine expects -1 to 1; divide the scores")


def test_negatives_of_json_lines_may_be_absent_null_or_a_list(tmp_path):
    negatives = [{"negative": ["c", "d"]}, {"negative": None}, {}, {"negative_2": "e"}]
    rows = [{"anchor": "a", "positive": "b"} | more for more in negatives]
    (tmp_path / "train.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    run = FinetuningConfig(task="similarity", data_dir=str(tmp_path))
    examples = TASK.read_file(str(tmp_path / "train.jsonl"), run, True)
    assert [example.texts[2:] for example in examples] == [("c", "d"), (), (), ("e",)]


def test_rows_with_an_empty_text_are_counted_and_empty_negatives_are_left_out(tmp_path):
    write(tmp_path, train=["anchor\tpositive\tnegative_1\tnegative_2", "a\tb\t\tc", "a\t \tc\td", "a\tb\tc\td"])
    run = FinetuningConfig(task="similarity", data_dir=str(tmp_path))
    examples = TASK.read_file(str(tmp_path / "train.tsv"), run, True)
    assert [example.texts for example in examples] == [("a", "b", "c"), ("a", "b", "c", "d")]
    assert examples.notes() == ["1 rows with an empty text were left out"]


def test_a_column_without_texts_is_refused_with_the_number_of_rows(tmp_path):
    data = write(tmp_path, train=["anchor\tpositive", "a\t", "b\t "], dev=["anchor\tpositive", "a\tb"])
    message = "train.tsv: holds no example of task similarity; left out: 2 rows with an empty text"
    with pytest.raises(UserError, match=message):
        TASK.read_split(data, "train", FinetuningConfig(task="similarity", data_dir=data, vector_loss="contrastive"))


def test_pairs_of_two_roles_cannot_be_swapped():
    examples = Examples([Example("", ("a", "b"), None, "t.tsv:1")])
    with pytest.raises(UserError, match="--swap_pairs: task similarity has no pairs of equal roles; leave it out"):
        labelled_data.with_swapped_pairs(examples, TASK)


def test_ranks_leave_out_other_own_texts_of_the_same_text():
    examples = [
        Example("0", ("q", "x", "n"), None, ""),
        Example("1", ("q", "y"), None, ""),
        Example("2", ("r", "z"), None, ""),
    ]
    vectors = [
        np.array([[1.0, 0.0], [0.6, 0.8], [0.8, 0.6]]),  # its negative and z are nearer than its positive
        np.array([[1.0, 0.0], [0.9, 0.1]]),  # z is nearer; x does not count
        np.array([[0.0, 1.0], [1.0, 0.0]]),  # both other positives are nearer
    ]
    found = vector_answers.predictions(examples, vectors, "mrr")
    assert [prediction["rank"] for prediction in found] == [3, 2, 3]
    assert vector_answers.SCORES["mrr"](examples, found) == pytest.approx((1 / 3 + 1 / 2 + 1 / 3) / 3)
    broken = [np.full_like(rows, np.nan) for rows in vectors]
    assert min(prediction["rank"] for prediction in vector_answers.predictions(examples, broken, "mrr")) > 2
    labelled = [Example("", ("a",), label, "") for label in "xyx"]
    found = vector_answers.predictions(labelled, [row[:1] for row in vectors], "nearest_label")
    assert [prediction["label"] for prediction in found] == ["y", "x", "x"]


def test_a_few_repeated_texts_do_not_slow_down_the_plan():
    examples = [Example("", (f"q{n}", f"a{n % 20}"), None, "") for n in range(5000)]
    run = FinetuningConfig(task="similarity", vector_loss="contrastive", global_batch_size=32, max_seq_length=8)
    features = text_vectors.featurize(TASK, examples, tokenizer_of_words(), run, ())
    plan = batch_plans.epoch_plan(features, run, 0)
    assert sorted(np.concatenate([batch.units for batch in plan])) == list(range(5000))
    assert len(plan) < 1.3 * 5000 / 20
    data = types.SimpleNamespace(train=features, train_examples=examples)
    (line,) = finetuning_start._small_batches(data, run, len(plan))
    assert "examples in the mean, and not 32, because texts repeat" in line
    assert line.endswith("; 250 examples have the text 'a0'")


def warnings_of(pairs, **settings):
    """(number of examples of each batch of the first epoch, warnings about them) of pairs of texts."""
    examples = [Example("", pair, None, f"t.tsv:{number}") for number, pair in enumerate(pairs, 1)]
    run = FinetuningConfig(
        **{"task": "similarity", "vector_loss": "contrastive", "global_batch_size": 32, "max_seq_length": 8, **settings}
    )
    features = text_vectors.featurize(TASK, examples, tokenizer_of_words(), run, ())
    sizes = [len(batch.units) for batch in batch_plans.epoch_plan(features, run, 0)]
    data = types.SimpleNamespace(train=features, train_examples=examples)
    return sorted(sizes), finetuning_start._small_batches(data, run, len(sizes))


def test_the_rest_of_a_division_is_no_warning_and_no_example_is_left_alone():
    assert warnings_of([(f"q{n}", f"a{n}") for n in range(33)]) == ([2, 31], [])
    assert warnings_of([(f"q{n}", f"a{n}") for n in range(97)]) == ([2, 31, 32, 32], [])
    sizes, (line,) = warnings_of([*((f"q{n}", f"a{n}") for n in range(4)), ("q", "a0"), ("q", "a0")])
    assert sizes == [2, 2, 2] and line.endswith("; 3 examples have the text 'a0'")


def test_examples_that_are_all_alone_are_refused_if_the_loss_compares_them():
    with pytest.raises(
        UserError, match="^t.tsv: any two examples have a text in common.* is alone and teaches nothing"
    ):
        warnings_of([("cat", "dog")] * 30)
    sizes, (line,) = warnings_of([("cat", "dog", "bird")] * 30)  # its own negative
    assert sizes == [1] * 30 and "30 examples have the text 'cat'" in line


def test_examples_of_a_label_stand_together_in_a_batch():
    labelled = [Example("", ("a " * (1 + n % 4 + n % 3),), "wxyz"[n % 4], "") for n in range(256)]
    run = FinetuningConfig(task="similarity", vector_loss="triplet", global_batch_size=8, max_seq_length=8)
    features = text_vectors.featurize(TASK, labelled, tokenizer_of_words(), run, ())
    for buckets in (True, False):
        run = dataclasses.replace(run, length_buckets=buckets)
        plan = batch_plans.epoch_plan(features, run, 0)
        assert sorted(unit for batch in plan for unit in batch.units) == list(range(256))
        batches = [[labelled[unit].label for unit in batch.units] for batch in plan]
        assert all(labels.count(label) >= 4 for labels in batches for label in labels)
        # Longer texts have other labels. Sorted by length, half of the batches or more would have one label.
        assert sum(len(set(labels)) == 1 for labels in batches) < len(batches) / 2


def tokenizer_of_words():

    return tokenizer_of(VOCABULARY, CONFIG)


def test_the_first_text_gets_the_prompt_of_queries_and_the_others_that_of_documents():
    tokenizer, prompts = tokenizer_of_words(), {"query_prompt": "so ", "document_prompt": "very a "}
    examples = [Example("", ("day", "fine", "grim"), None, "t.tsv:1"), Example("", ("warm", "", ""), None, "t.tsv:2")]
    run = FinetuningConfig(task="similarity", vector_loss="contrastive", max_seq_length=8, **prompts)
    written = [["so day", "very a fine", "very a grim"], ["so warm", "very a", "very a"]]
    for has_labels in (True, False):
        features = text_vectors.featurize(TASK, examples, tokenizer, run, (), has_labels)
        assert rows_of(features) == [ids for texts in written for ids in tokenizer.tokenize(texts).to_list()]
    assert features.notes == ["1 of 2 have a text without a word piece, the first t.tsv:2"]
    alone = [Example("", ("day",), label, "t.tsv:1") for label in (None, "x")]  # SimCSE has its text twice
    run = dataclasses.replace(run, vector_loss="simcse")
    features = text_vectors.featurize(TASK, alone, tokenizer, run, ())
    assert rows_of(features) == tokenizer.tokenize(["very a day"] * 3).to_list()
    run = dataclasses.replace(run, document_prompt="a " * 6)
    with pytest.raises(
        UserError, match="--document_prompt: has 6 tokens, which leaves no room for a text in --max_seq"
    ):
        text_vectors.featurize(TASK, alone, tokenizer, run, ())


def test_a_start_with_prompts_is_named_if_the_run_has_none(golden, finished):
    folder = str(golden / "sentence_transformers" / "new")
    for path, words in ((folder, "query 'query: '"), (finished[0], "query 'so ', document 'very a '")):
        run = FinetuningConfig(task="similarity", init_checkpoint=path)
        (line,) = finetuning_start._left_prompts(run)
        assert f"warning: {path} has prompts " in line and words in line and "give --query_prompt and" in line
        assert finetuning_start._left_prompts(dataclasses.replace(run, document_prompt="a ")) == []
    assert finetuning_start._left_prompts(FinetuningConfig(task="cola", init_checkpoint=folder)) == []
    path = str(golden / "huggingface_files" / "encoder")
    assert finetuning_start._left_prompts(FinetuningConfig(task="similarity", init_checkpoint=path)) == []


def test_other_tasks_refuse_prompts():
    run = FinetuningConfig(task="cola", query_prompt="a ")
    with pytest.raises(UserError, match="--query_prompt=a : task cola does not read it; leave it out"):
        registry.find("cola").check_options(run)


def rows_of(features):
    """The pieces of each row, without special pieces."""
    return [ids.tolist()[1:-1] for ids in np.split(features.token_ids, features.row_splits[1:-1])]


@pytest.fixture(scope="module")
def pretrained(tmp_path_factory):
    """The directory of a model with random weights."""
    generator = np.random.default_rng(0)
    model = make_task_model(CONFIG, VectorHead())
    tensors = {w.path: generator.normal(0.0, 0.2, w.shape).astype(np.float32) for w in model.weights}
    directory = str(tmp_path_factory.mktemp("vectors") / "model")
    load.write_weights(Weights(CONFIG, tensors, vocabulary=VOCABULARY, origin="a test"), "workdir", directory)
    return directory


@pytest.fixture(scope="module")
def finished(tmp_path_factory, pretrained):
    """(work directory, results, output) of a run on pairs, in two parts a step."""
    directory = tmp_path_factory.mktemp("pairs")
    # The anchors are so short that the model reads them in shorter rows.
    rows = [f"{a}\t{b} {b}\t{c}" for (a, b), c in zip(PAIRS, BAD * 12, strict=True)]
    data = write(
        directory,
        train=["anchor\tpositive\tnegative", *rows[::2]],
        dev=["anchor\tpositive", *("\t".join(p) for p in PAIRS[1::2])],
    )
    wanted = {
        "task": "similarity",
        "data_dir": data,
        "init_checkpoint": pretrained,
        "max_seq_length": 16,
        "num_train_steps": 32,
        "eval_steps": 16,
        "save_checkpoints_steps": 16,
        "keep_checkpoints": 9,
        "gradient_accumulation_steps": 2,
        "vector_sizes": ("8", "22"),
        "query_prompt": "so ",
        "document_prompt": "very a ",
        "bias_correction": True,
        "learning_rate": 1e-2,
        "jit_compile": "none",
    }
    workdir = str(directory / "run")
    return (workdir, *launched(workdir, wanted), wanted)


def test_a_run_learns_pairs_and_reports_ranks_beside_tf_idf(finished):
    workdir, figures, output, _ = finished
    losses = [row["loss"] for row in map(json.loads, open(f"{workdir}/metrics.jsonl")) if "loss" in row]
    assert losses[-1] < losses[0] - 0.1
    assert set(figures["reported"]["metrics"]) == {"mrr", "accuracy_at_1", "recall_at_10"}
    assert figures["baseline"]["what"] == "cosine of the words' TF-IDF" and "nearest 0." in output
    line = (
        "loss contrastive: each anchor finds its positive among all texts of the batch, temperature 0.05, also for the"
    )
    assert f"{line} first 22, 8 numbers\n" in output


def test_a_run_that_was_cut_off_ends_bit_for_bit_the_same(finished, tmp_path):

    workdir, _, _, wanted = finished
    part = str(tmp_path / "part")
    shutil.copytree(workdir, part)
    shutil.rmtree(newest(part))
    launched(part, wanted)
    whole, again = weights_of(newest(workdir)), weights_of(newest(part))
    assert all(np.array_equal(whole[path], again[path]) for path in whole)


def test_the_vectors_of_an_export_are_those_of_the_run(finished):
    workdir, *_ = finished
    run = FinetunedRun(workdir)
    examples = [Example(str(n), pair, None, "") for n, pair in enumerate(PAIRS[:5])]
    expected = np.concatenate(run.logits(examples))
    lines = []
    module, _ = embedding_module(workdir, log=lines.append)
    embed = embedder_of_module(module)
    for place, role in enumerate(("query", "document")):
        vectors, _ = for_role(embed, role)([pair[place].encode() for pair in PAIRS[:5]])
        np.testing.assert_allclose(vectors, expected[place::2], atol=1e-6)
        texts = [{"query": "so ", "document": "very a "}[role] + pair[place] for pair in PAIRS[:5]]
        np.testing.assert_allclose(embed([text.encode() for text in texts])[0], vectors, atol=1e-6)
    assert np.abs(embed([PAIRS[0][0].encode()])[0] - expected[0]).max() > 0.01
    assert any("of length 1" in line and "as config.json say" in line for line in lines)
    module, _ = embedding_module(workdir, Pooling(vector_size=8))
    shorter, _ = for_role(embedder_of_module(module), "query")([PAIRS[0][0].encode()])
    cut = expected[0, :8] / np.linalg.norm(expected[0, :8])
    np.testing.assert_allclose(shorter[0], cut, atol=1e-6)
    with pytest.raises(UserError, match="--vector_size=23: the vectors of .* have 22 numbers; give 1 to 22"):
        embedding_module(workdir, Pooling(vector_size=23))


@pytest.mark.slow
@pytest.mark.parametrize(
    "head, rows",
    [
        ("text_a\ttext_b\tscore", [f"{a}\t{b}\t{n % 5}" for n, (a, b) in enumerate(PAIRS)]),
        ("text\tlabel", [f"{a}\t{'xy'[n % 2]}" for n, (a, _) in enumerate(PAIRS)]),
        ("text", [a for a, _ in PAIRS]),
    ],
    ids=["scores", "labels", "texts alone"],
)
def test_every_kind_of_table_is_learned(tmp_path, pretrained, head, rows):
    scored = ["text_a\ttext_b\tscore", *(f"{a}\t{b}\t{n % 5}" for n, (a, b) in enumerate(PAIRS[:20]))]
    dev = [head, *rows[:24]] if "\t" in head else scored
    wanted = {"task": "similarity", "init_checkpoint": pretrained, "max_seq_length": 16, "num_train_steps": 4}
    figures, _ = launched(tmp_path / "run", {**wanted, "data_dir": write(tmp_path, train=[head, *rows], dev=dev)})
    assert np.isfinite(figures["reported"]["score"])
    start, _ = load.load_weights(pretrained, allow_missing=PARTS[1:])
    learned, _ = load.load_weights(str(tmp_path / "run"), allow_missing=PARTS[1:])
    path = "encoder/embeddings/word_embeddings"
    assert np.abs(learned.tensors[path] - start.tensors[path]).max() > 1e-5


def test_two_replicas_with_negatives_of_both_end_with_the_weights_of_one(tmp_path, pretrained):
    # The anchors are so short that the model reads them in shorter rows.
    rows = [f"{a}\t{' '.join([b] * 3)}\t{c}" for (a, b), c in zip(PAIRS, BAD * 12, strict=True)]
    rows = ["anchor\tpositive\tnegative", *rows]
    data = write(tmp_path, train=rows, dev=rows[:9])
    without_dropout = CONFIG.replace(hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
    settings = {"task": "similarity", "vector_loss": "contrastive", "similarity_metric": "mrr", "pooling": "mean"}
    settings |= {"num_train_steps": 3, "learning_rate": 1e-4, "max_seq_length": 16, "symmetric_loss": True}
    for name, strategy in (("one", None), ("two", two_replicas())):
        run_on(tmp_path / name, data, without_dropout, strategy=strategy, **settings)
    one, two = (weights_of(newest(str(tmp_path / name))) for name in ("one", "two"))
    assert all(np.abs(tensor - two[path]).max() < 1e-6 for path, tensor in one.items())


def test_a_folder_of_sentence_transformers_gives_the_vectors_of_the_run(finished, pretrained, tmp_path, run_command):  # noqa: F811
    output = str(tmp_path / "a folder")
    done = run_command("convert", f"--input={finished[0]}", "--to=sentence_transformers", f"--output={output}")
    assert done.returncode == 0, done.stderr
    assert "modules.json: mean of the last layer, of length 1; prompts query 'so ', document 'very a '" in done.stdout
    texts = [text.encode() for pair in PAIRS[:4] for text in pair]
    (expected, _), (vectors, _) = (
        Embedder(embedding_module(path)[0].exported)(texts) for path in (finished[0], output)
    )
    np.testing.assert_allclose(vectors, expected, atol=1e-6)
    read = run_command("convert", f"--input={output}")  # it has no pooler, which no vector reads
    assert read.returncode == 0 and "pooler" in read.stdout, read.stderr
    assert embedding_module(output)[0].about.how == embedding_module(finished[0])[0].about.how
    done = run_command("convert", f"--input={pretrained}", "--to=sentence_transformers", f"--output={output} 2")
    assert done.returncode == 2 and "does not say how a text gets its vector; give a run of finetune" in done.stderr
