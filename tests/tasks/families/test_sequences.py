"""Classes, numbers and label sets for texts: labels, features, decoding, scores, files."""

import dataclasses
import json
import os
import types

import numpy as np
import pytest

from keras_bert_app.config.finetuning_config import FinetuningConfig
from keras_bert_app.errors import UserError
from keras_bert_app.tasks import registry
from keras_bert_app.tasks.families import sequence_report, sequences
from keras_bert_app.tasks.families.sequences import Example
from keras_bert_app.tasks.task import Examples
from tests.tasks.texts import pieces, rows_of, tokenizer

CLASSES, NUMBERS, SETS = (registry.find(name) for name in ("classification", "regression", "multi_label"))
RUN = FinetuningConfig(max_seq_length=13)


def examples_of(labels, groups=None, text_b=None):
    return [
        Example(f"q{number}", "a b", text_b, label, f"dir/dev.tsv:{number + 2}", groups[number] if groups else "")
        for number, label in enumerate(labels)
    ]


def classes(*labels, sure=0.75):
    """Predictions of the classes "no" and "yes"."""
    return [
        {"label": label, "probabilities": {name: sure if name == label else 1 - sure for name in ("no", "yes")}}
        for label in labels
    ]


def test_labels_are_in_alphabetical_order_and_numbers_by_their_size():
    assert sequences.label_names(CLASSES, examples_of(["b", "a", "b"]), RUN) == ("a", "b")
    assert sequences.label_names(CLASSES, examples_of(["10", "9", "1"]), RUN) == ("1", "9", "10")
    # These labels are equal as numbers. Their order must not depend on a set, whose order varies between processes.
    assert sequences.label_names(CLASSES, examples_of([f"{'0' * zeros}1" for zeros in range(9)]), RUN) == tuple(
        f"{'0' * zeros}1" for zeros in range(8, -1, -1)
    )
    assert sequences.label_names(SETS, examples_of([("b",), (), ("a", "c")]), RUN) == ("a", "b", "c")
    with_columns = dataclasses.replace(RUN, label_column="c,a, b")
    # The column of "b" is 0 in all rows.
    assert sequences.label_names(SETS, examples_of([("c",), (), ("a", "c")]), with_columns) == ("a", "b", "c")
    assert sequences.label_names(NUMBERS, examples_of([1.0]), RUN) == ()
    labels = ("contradiction", "entailment", "neutral")
    assert sequences.label_names(registry.find("mnli"), examples_of(["neutral"]), RUN) == labels


@pytest.mark.parametrize(
    "task, labels, message",
    [
        (
            CLASSES,
            ["a", "a"],
            "dir/dev.tsv: 2 training examples with the one label 'a'; a task needs labels to tell apart",
        ),
        (SETS, [(), ()], "dir/dev.tsv: 2 training examples with no label; a task needs labels to tell apart"),
    ],
)
def test_training_examples_with_one_label_or_none_are_refused(task, labels, message):
    with pytest.raises(UserError) as error:
        sequences.label_names(task, examples_of(labels), RUN)
    assert str(error.value) == message


def test_pairs_are_cut_to_the_row_and_a_note_counts_them():
    examples = Examples(
        [Example("0", "a b c d e f g h", "i j k", "1", "x:2"), Example("1", "a", "", "0", "x:3")], {"odd rows": 1200}
    )
    features = sequences.featurize(CLASSES, examples, tokenizer(), RUN, ("0", "1"))
    assert rows_of(features) == [[2, *pieces("a b c d e f g"), 3, *pieces("i j k"), 3], [2, *pieces("a"), 3, 3]]
    assert features.labels["labels"].tolist() == [1, 0] and features.labels["labels"].dtype == np.int32
    assert features.notes == [
        "1,200 odd rows were left out",
        "1 of 2 have a text without a word piece, the first x:3",
        "1 of 2 texts are longer than 13 tokens and were cut",
    ]


def test_labels_are_numbers_or_rows_of_zeros_and_ones():
    def labels(task, values, names):
        return sequences.featurize(task, examples_of(values), tokenizer(), RUN, names).labels["labels"]

    assert labels(NUMBERS, [1.5, -2.0], ()).tolist() == [1.5, -2.0]
    assert labels(SETS, [("c", "a"), ()], ("a", "b", "c")).tolist() == [[1.0, 0.0, 1.0], [0.0] * 3]
    assert sequences.featurize(SETS, examples_of([None]), tokenizer(), RUN, ("a",), has_labels=False).labels == {}


@pytest.mark.parametrize("task, label", [(CLASSES, "perhaps"), (SETS, ("yes", "perhaps"))])
def test_a_label_that_training_never_saw_is_named_by_file_and_line(task, label):
    with pytest.raises(UserError) as error:
        examples = examples_of(["yes" if task is CLASSES else ("yes",), label])
        sequences.featurize(task, examples, tokenizer(), RUN, ("no", "yes"))
    assert str(error.value) == "dir/dev.tsv:3: label 'perhaps' is none of no, yes"


@pytest.mark.parametrize("mode", ["head_tail", "windows", "hierarchical"])
def test_modes_for_long_documents_refuse_pairs_even_if_the_pairs_fit(mode):
    run = FinetuningConfig(max_seq_length=13, long_documents=mode)
    with pytest.raises(UserError, match=f"dir/dev.tsv:2: --long_documents={mode} is for single texts; for pairs"):
        sequences.featurize(CLASSES, examples_of(["no"], text_b="c"), tokenizer(), run, ("no", "yes"))


def test_heads_follow_from_the_labels_and_the_run():
    run = FinetuningConfig(long_documents="windows", pooling="mean")
    head = sequences.make_head(CLASSES, run, ("a", "b", "c"))
    assert (head.num_outputs, head.windows, head.pooling) == (3, "logits", "mean")
    assert sequences.make_head(NUMBERS, RUN, ()).num_outputs == 1


def test_logits_become_labels_with_probabilities():
    logits = np.log(np.array([[0.2, 0.8], [0.9, 0.1]], np.float32)) + 700
    answers = sequences.decode(CLASSES, None, None, logits, RUN, ("no", "yes"))
    assert [one["label"] for one in answers] == ["yes", "no"]
    assert answers[0]["probabilities"] == {"no": pytest.approx(0.2, abs=1e-4), "yes": pytest.approx(0.8, abs=1e-4)}
    answers = sequences.decode(SETS, None, None, np.array([[-2.0, 0.1, 3.0]], np.float32), RUN, ("a", "b", "c"))
    assert answers[0]["labels"] == ["b", "c"] and answers[0]["probabilities"]["a"] == pytest.approx(1 / (1 + np.exp(2)))
    assert sequences.decode(NUMBERS, None, None, np.array([[2.5]], np.float32), RUN, ()) == [{"value": 2.5}]
    json.dumps(answers)


def test_top_k_scores_are_left_out_if_the_task_has_no_more_than_k_classes():
    scores = sequences.score(CLASSES, examples_of(["no", "yes", "yes"]), classes("no", "no", "yes"), ("no", "yes"))
    assert scores == {"accuracy": pytest.approx(2 / 3), "macro_f1": pytest.approx(2 / 3)}
    labels = tuple("abcd")
    predictions = [{"label": "a", "probabilities": dict(zip(labels, (0.4, 0.3, 0.2, 0.1), strict=True))}] * 4
    scores = sequences.score(CLASSES, examples_of(list(labels)), predictions, labels)
    assert scores["accuracy"] == 0.25 and scores["top_3"] == 0.75 and "top_5" not in scores


def test_examples_of_several_groups_are_scored_together_and_each_group_by_itself():
    examples = examples_of(["yes", "no", "yes"], groups=["de", "de", "zh"])
    scores = sequences.score(registry.find("xnli"), examples, classes("yes", "yes", "yes"), ("no", "yes"))
    assert scores == {"accuracy": pytest.approx(2 / 3), "accuracy_de": 0.5, "accuracy_zh": 1.0}
    assert set(sequences.score(registry.find("xnli"), examples[:2], classes("yes", "yes"), ("no", "yes"))) == {
        "accuracy"
    }


def test_sets_and_numbers_have_scores_of_their_own():
    predictions = [{"labels": ["a"], "probabilities": {}}, {"labels": [], "probabilities": {}}]
    scores = sequences.score(SETS, examples_of([("a", "b"), ()]), predictions, ("a", "b"))
    assert scores == {"micro_f1": pytest.approx(2 / 3), "macro_f1": 0.5, "exact_match": 0.5}
    scores = sequences.score(NUMBERS, examples_of([1.0, 2.0, 4.0]), [{"value": value} for value in (1.0, 3.0, 2.0)], ())
    assert scores["spearman"] == pytest.approx(0.5) and scores["negative_rmse"] == pytest.approx(-np.sqrt(5 / 3))


def test_the_baseline_is_the_most_frequent_answer_of_training():
    training = examples_of(["yes", "no", "yes"])
    what, answers = sequences.baseline(CLASSES, training, examples_of(["no", "no"]), ("no", "yes"))
    assert (
        what == "always yes"
        and answers
        == [{"label": "yes", "probabilities": {"no": pytest.approx(1 / 3), "yes": pytest.approx(2 / 3)}}] * 2
    )
    assert sequences.baseline(CLASSES, training[:2], training, ("no", "yes"))[0] == "always no"
    what, answers = sequences.baseline(
        SETS, examples_of([("a", "b"), ("a", "b"), ("c",)]), training[:1], ("a", "b", "c")
    )
    assert what == "always a, b" and answers == [
        {"labels": ["a", "b"], "probabilities": {"a": 1.0, "b": 1.0, "c": 0.0}}
    ]
    what, answers = sequences.baseline(NUMBERS, examples_of([1.0, 4.0]), training[:1], ())
    assert what == "mean of the training values" and answers == [{"value": 2.5}]


def test_the_top_answers_of_the_baseline_are_the_most_frequent_classes():
    training, labels = examples_of(list("aggggggffffeee")), ("a", "e", "f", "g")
    scores = sequences.score(CLASSES, training, sequences.baseline(CLASSES, training, training, labels)[1], labels)
    assert scores["accuracy"] == pytest.approx(6 / 14) and scores["top_3"] == pytest.approx(13 / 14)


def test_the_baseline_is_computed_for_30_000_different_answers():
    training = examples_of([(f"a{number}",) for number in range(30_000)])
    assert sequences.baseline(SETS, training, [], ("a0",))[0] == "always a0"


@pytest.mark.parametrize(
    "task, predictions, lines",
    [
        (CLASSES, classes("yes", "no"), ["q0\tyes\ta b", "q1\tno\ta b"]),
        (NUMBERS, [{"value": 0.000234567891}, {"value": -1.0}], ["q0\t0.0002345679\ta b", "q1\t-1\ta b"]),
        (registry.find("sts-b"), [{"value": 2.34567}, {"value": 5.2}], ["q0\t2.346\ta b", "q1\t5.000\ta b"]),
        (SETS, [{"labels": ["a", "b"]}, {"labels": []}], ["q0\ta,b\ta b", "q1\t\ta b"]),
    ],
)
def test_predictions_are_written_as_index_answer_and_text(tmp_path, task, predictions, lines):
    sequences.write_predictions(task, str(tmp_path), examples_of([None, None]), predictions)
    written = (tmp_path / "predictions.tsv").read_text(encoding="utf-8")
    assert written.split("\n") == ["index\tprediction\ttext", *lines, ""]


def test_predictions_of_pairs_have_both_texts_on_one_line_and_predictions_for_the_server_of_glue_have_none(tmp_path):
    pairs = examples_of([None], text_b="c\td\ne")
    sequences.write_predictions(CLASSES, str(tmp_path), pairs, classes("yes"))
    assert (tmp_path / "predictions.tsv").read_text(encoding="utf-8").splitlines() == [
        "index\tprediction\ttext_a\ttext_b",
        "q0\tyes\ta b\tc d e",
    ]
    pairs = [dataclasses.replace(one, place="test.tsv:2") for one in pairs]
    sequences.write_predictions(registry.find("rte"), str(tmp_path), pairs, classes("yes"))
    assert (tmp_path / "RTE.tsv").read_text(encoding="utf-8") == "index\tprediction\nq0\tyes\n"


@pytest.mark.parametrize(
    "name, path, file",
    [
        ("sst-2", "glue/SST-2/test.tsv", "SST-2.tsv"),
        ("sst-2", "glue/SST-2/dev.tsv", "predictions.tsv"),
        ("rte", "test.tsv", "RTE.tsv"),
        ("mnli", "test_matched.tsv", "MNLI-m.tsv"),
        ("mnli", "test_mismatched.tsv", "MNLI-mm.tsv"),
        ("mnli", "AX.tsv", "AX.tsv"),
        ("classification", "test.tsv", "predictions.tsv"),
    ],
)
def test_answers_to_the_test_files_of_glue_have_the_file_names_of_its_server(tmp_path, name, path, file):
    examples = [
        dataclasses.replace(one, place=f"{path}:{number}") for number, one in enumerate(examples_of([None]), start=2)
    ]
    sequences.write_predictions(registry.find(name), str(tmp_path), examples, classes("yes"))
    assert os.listdir(tmp_path) == [file]


def test_answers_to_sts_b_are_from_0_to_5(tmp_path):
    examples = [dataclasses.replace(one, place="test.tsv:2") for one in examples_of([None] * 3)]
    sequences.write_predictions(
        registry.find("sts-b"), str(tmp_path), examples, [{"value": value} for value in (-0.2, 2.5, 5.3)]
    )
    assert (tmp_path / "STS-B.tsv").read_text(encoding="utf-8").split("\n")[1:4] == [
        "q0\t0.000",
        "q1\t2.500",
        "q2\t5.000",
    ]


def test_mistakes_are_the_wrong_answers_and_begin_with_the_surest_or_the_largest_error():
    predictions = [*classes("no", "yes", sure=0.6), *classes("no", "no", sure=0.9)]
    mistakes = sequences.mistakes(CLASSES, examples_of(["yes", "yes", "no", "yes"]), predictions, 50)
    assert [(one["place"], one["sure"], one["predicted"], one["right"]) for one in mistakes] == [
        ("dir/dev.tsv:5", 0.9, "no", "yes"),
        ("dir/dev.tsv:2", 0.6, "no", "yes"),
    ]
    assert len(sequences.mistakes(CLASSES, examples_of(["yes", "yes", "no", "yes"]), predictions, 1)) == 1
    (one,) = sequences.mistakes(
        SETS, examples_of([("b",)]), [{"labels": ["a"], "probabilities": {"a": 0.7, "b": 0.1}}], 9
    )
    assert (one["sure"], one["predicted"], one["right"]) == (0.9, "a", "b")
    (first, _) = sequences.mistakes(NUMBERS, examples_of([1.0, 2.0]), [{"value": 1.5}, {"value": 4.0}], 9)
    assert (first["error"], first["predicted"], first["right"]) == (2.0, "4", "2") and "sure" not in first


def test_the_picture_of_label_sets_pairs_each_label_with_itself_or_none():
    predictions = [{"labels": ["a"]}, {"labels": ["b", "c"]}]
    gold, predicted, names = sequences.answers(SETS, examples_of([("a", "b"), ("c",)]), predictions, ("a", "b", "c"))
    assert names == ("a", "b", "c", "none")
    assert list(zip(gold, predicted, strict=True)) == [(0, 0), (1, 3), (3, 1), (2, 2)]


def test_every_family_has_the_public_functions_of_sequences():
    modules = (sequences.__name__, sequence_report.__name__)
    wanted = {
        name
        for name, value in vars(sequences).items()
        if isinstance(value, types.FunctionType) and value.__module__ in modules and not name.startswith("_")
    }
    assert wanted >= {
        "label_names",
        "featurize",
        "make_head",
        "make_objective",
        "decode",
        "score",
        "baseline",
        "answers",
        "write_predictions",
        "mistakes",
    }
    for task in registry.TASKS.values():
        assert wanted <= set(dir(task.family)), task.name
