"""GLUE's official files: formats, known faults, and the sizes of the real files."""

import json

import pytest

from keras_bert_app.config.finetuning_config import FinetuningConfig
from keras_bert_app.errors import UserError
from keras_bert_app.tasks import registry
from keras_bert_app.tasks.families import sequences
from tests.tasks.texts import read, split, tokenizer, written

_MNLI = (
    "index\tpromptID\tpairID\tgenre\tsentence1_binary_parse\tsentence2_binary_parse\tsentence1_parse\tsentence2_parse"
)
_STS = "index\tgenre\tfilename\tyear\told_index\tsource1\tsource2\tsentence1\tsentence2"

# (task, file, header, row, expected example): headers and rows have the format of the official files.
LAYOUTS = [
    ("cola", "dev.tsv", "", "gj04\t1\t\ta b.", ("0", "a b.", None, "1")),
    ("cola", "train.tsv", "", "gj04\t0\t*\ta b.", ("0", "a b.", None, "0")),
    ("cola", "test.tsv", "index\tsentence", "7\ta b.", ("7", "a b.", None, None)),
    ("sst-2", "train.tsv", "sentence\tlabel", 'a "b \t1', ("0", 'a "b ', None, "1")),
    ("sst-2", "test.tsv", "index\tsentence", "7\ta b", ("7", "a b", None, None)),
    (
        "mrpc",
        "train.tsv",
        "\ufeffQuality\t#1 ID\t#2 ID\t#1 String\t#2 String",
        '1\t70\t71\ta "\tb',
        ("0", 'a "', "b", "1"),
    ),
    ("mrpc", "test.tsv", "index\t#1 ID\t#2 ID\t#1 String\t#2 String", "7\t70\t71\ta\tb", ("7", "a", "b", None)),
    (
        "qqp",
        "train.tsv",
        "id\tqid1\tqid2\tquestion1\tquestion2\tis_duplicate",
        "7\t1\t2\ta\tb\t0",
        ("7", "a", "b", "0"),
    ),
    ("qqp", "test.tsv", "id\tquestion1\tquestion2", "7\ta\tb", ("7", "a", "b", None)),
    ("sts-b", "dev.tsv", f"{_STS}\tscore", "7\tg\tf\t2012\t0\tnone\tnone\ta\tb\t4.750", ("7", "a", "b", 4.75)),
    (
        "mnli",
        "train.tsv",
        f"{_MNLI}\tsentence1\tsentence2\tlabel1\tgold_label",
        "7\t1\t1e\tfiction\t()\t()\t()\t()\ta\tb\tneutral\tentailment",
        ("7", "a", "b", "entailment"),
    ),
    (
        "mnli",
        "dev_matched.tsv",
        f"{_MNLI}\tsentence1\tsentence2\tlabel1\tlabel2\tlabel3\tlabel4\tlabel5\tgold_label",
        "7\t1\t1e\tfiction\t()\t()\t()\t()\ta\tb\t1\t2\t3\t4\t5\tneutral",
        ("7", "a", "b", "neutral"),
    ),
    (
        "mnli",
        "test_matched.tsv",
        f"{_MNLI}\tsentence1\tsentence2",
        "7\t1\t1e\tfiction\t()\t()\t()\t()\ta\tb",
        ("7", "a", "b", None),
    ),
    ("mnli", "AX.tsv", "index\tsentence1\tsentence2", "7\ta\tb", ("7", "a", "b", None)),
    (
        "mnli",
        "diagnostic-full.tsv",
        "Lexical Semantics\tPredicate-Argument Structure\tLogic\tKnowledge\tDomain\tPremise\tHypothesis\tLabel",
        "\tCore args\t\t\tNews\ta\tb\tneutral",
        ("0", "a", "b", "neutral"),
    ),
    (
        "snli",
        "snli_1.0_dev.jsonl",
        "",
        '{"gold_label": "neutral", "pairID": "1e", "sentence1": "a", "sentence2": "b"}',
        ("0", "a", "b", "neutral"),
    ),
    (
        "qnli",
        "dev.tsv",
        "index\tquestion\tsentence\tlabel",
        "7\ta\tb\tnot_entailment",
        ("7", "a", "b", "not_entailment"),
    ),
    ("rte", "dev.tsv", "index\tsentence1\tsentence2\tlabel", "7\ta\tb\tentailment", ("7", "a", "b", "entailment")),
    ("wnli", "dev.tsv", "index\tsentence1\tsentence2\tlabel", "7\ta\tb\t1", ("7", "a", "b", "1")),
]


@pytest.mark.parametrize(
    "task, name, header, row, expected", LAYOUTS, ids=[f"{task} {name}" for task, name, *_ in LAYOUTS]
)
def test_an_official_file_is_read(tmp_path, task, name, header, row, expected):
    path = written(tmp_path, name, f"{header}\n{row}\n" if header else f"{row}\n")
    (example,) = read(task, path, has_labels=expected[3] is not None)
    assert (example.guid, example.text_a, example.text_b, example.label) == expected
    assert example.place == f"{path}:{1 + bool(header)}"


def test_the_layouts_cover_every_task():
    assert {task for task, *_ in LAYOUTS} == {task.name for task in registry.glue.TASKS}


def test_labels_have_the_order_of_googles_processors():
    labels = {
        name: sequences.label_names(registry.find(name), [], None) for name in ("cola", "mnli", "snli", "qnli", "rte")
    }
    assert labels == {
        "cola": ("0", "1"),
        "mnli": ("contradiction", "entailment", "neutral"),
        "snli": ("contradiction", "entailment", "neutral"),
        "qnli": ("entailment", "not_entailment"),
        "rte": ("entailment", "not_entailment"),
    }


def test_rows_of_inference_without_a_gold_label_are_left_out_and_a_note_counts_them(tmp_path):
    header = f"{_MNLI}\tsentence1\tsentence2\tgold_label\n"
    labels = ("neutral", "-", "entailment", "")
    rows = [f"{number}\t1\t1e\tf\t()\t()\t()\t()\ta\tb\t{label}\n" for number, label in enumerate(labels)]
    path = written(tmp_path, "dev_matched.tsv", header + "".join(rows))
    examples = split("mnli", tmp_path, "dev")
    assert [example.guid for example in examples] == ["0", "2"]
    assert examples.notes() == ["2 rows without a gold label were left out"]
    task = registry.find("mnli")
    features = task.family.featurize(task, examples, tokenizer(), FinetuningConfig(), task.labels)
    assert features.notes == examples.notes() and features.labels["labels"].tolist() == [2, 1]
    assert len(read("mnli", path, has_labels=False)) == 4
    # Rows of SNLI have no number, so their position in the file is their name.
    rows = "".join(
        json.dumps({"sentence1": "a", "sentence2": "b", "gold_label": label}) + "\n"
        for label in ("neutral", "-", "neutral")
    )
    assert [example.guid for example in read("snli", written(tmp_path, "snli_1.0_dev.jsonl", rows))] == ["0", "2"]


def test_broken_rows_of_qqp_are_left_out_of_training_and_refused_in_a_file_to_answer(tmp_path):
    header = "id\tqid1\tqid2\tquestion1\tquestion2\tis_duplicate\n"
    path = written(tmp_path, "train.tsv", f'{header}0\t1\t2\ta\tb\t0\n1\t1\t2\t"a\n"\tb\t0\n2\t1\t2\tc\td\t1\n')
    examples = split("qqp", tmp_path, "train")
    assert [(example.guid, example.label) for example in examples] == [("0", "0"), ("2", "1")]
    assert examples.notes() == ["2 rows with more or fewer fields than columns (the first: line 3) were left out"]
    with pytest.raises(UserError, match="train.tsv:3: has 4 fields; expected 6"):
        read("qqp", path, has_labels=False)


def test_each_of_several_files_gets_its_own_file_of_answers(tmp_path):
    header, rows = f"{_MNLI}\tsentence1\tsentence2\n", "0\t1\t1e\tf\t()\t()\t()\t()\ta\tb\n"
    for name in ("test_matched", "test_mismatched"):
        written(tmp_path, f"{name}.tsv", header + rows)
    task = registry.find("mnli")
    examples = task.read_file(str(tmp_path / "test_*.tsv"), FinetuningConfig(), has_labels=False)
    (tmp_path / "answers").mkdir()
    task.family.write_predictions(
        task, str(tmp_path / "answers"), examples, [{"label": "neutral"}, {"label": "entailment"}]
    )
    assert (tmp_path / "answers" / "MNLI-m.tsv").read_text() == "index\tprediction\n0\tneutral\n"
    assert (tmp_path / "answers" / "MNLI-mm.tsv").read_text() == "index\tprediction\n0\tentailment\n"


@pytest.mark.parametrize("value", ["5.1", "-0.1", "nan", "", "high"])
def test_a_score_of_sts_b_out_of_its_range_is_named_by_file_and_line(tmp_path, value):
    path = written(tmp_path, "dev.tsv", f"sentence1\tsentence2\tscore\na\tb\t{value}\n")
    with pytest.raises(UserError) as error:
        read("sts-b", path)
    assert str(error.value) == f"{path}:2: score {value!r}; expected a number from 0 to 5"


def test_a_test_file_without_labels_is_refused_where_answers_are_needed(tmp_path):
    written(tmp_path, "test.tsv", "index\tsentence\n0\ta\n")
    with pytest.raises(
        UserError, match=r"test.tsv:2: has no column 'label' with the answers \(columns: index, sentence\)"
    ):
        split("sst-2", tmp_path, "test")


def test_a_label_of_another_task_is_named_by_file_and_line(tmp_path):
    path = written(tmp_path, "dev.tsv", "index\tsentence1\tsentence2\tlabel\n0\ta\tb\tneutral\n")
    task = registry.find("rte")
    with pytest.raises(UserError) as error:
        sequences.featurize(task, read("rte", path), tokenizer(), FinetuningConfig(), task.labels)
    assert str(error.value) == f"{path}:2: label 'neutral' is none of entailment, not_entailment"


def test_the_error_about_a_missing_file_names_the_existing_files(tmp_path):
    written(tmp_path, "dev.csv", "")
    with pytest.raises(UserError, match=r"task sst-2 expects dev.tsv there \(found: dev.csv\)"):
        split("sst-2", tmp_path, "dev")
    with pytest.raises(UserError, match="--split=dve: task sst-2 has train, dev, test"):
        split("sst-2", tmp_path, "dve")


# task -> (directory, number of rows in train, dev and test). ../shared/README.md lists most of them.
COUNTS = {
    "cola": ("CoLA", 8551, 1043, 1063),
    "sst-2": ("SST-2", 67349, 872, 1821),
    "mrpc": ("MRPC", 3668, 408, 1725),
    "sts-b": ("STS-B", 5749, 1500, 1379),
    "rte": ("RTE", 2490, 277, 3000),
    "wnli": ("WNLI", 635, 71, 146),
}


@pytest.mark.parametrize("name", COUNTS)
def test_the_real_files_of_glue_have_the_published_counts(shared, name):
    directory, *counts = COUNTS[name]
    task, run = registry.find(name), FinetuningConfig()
    for which, count in zip(("train", "dev", "test"), counts, strict=True):
        examples = task.read_split(str(shared / "data" / "tasks" / "glue" / directory), which, run, which != "test")
        assert len(examples) == count and examples.notes() == []
        if which != "test":
            sequences._label_values(task, examples, task.labels)
        else:
            assert [example.guid for example in examples] == [str(number) for number in range(count)]
