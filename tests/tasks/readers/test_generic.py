"""Tasks over tables of the user."""

import pytest

from keras_bert_app.config.finetuning_config import FinetuningConfig
from keras_bert_app.errors import UserError
from keras_bert_app.tasks import registry
from keras_bert_app.tasks.families import sequences
from keras_bert_app.tasks.families.sequences import Example
from tests.tasks.texts import read, split, tokenizer, written


def refusal(tmp_path, task, name, content, **settings):
    with pytest.raises(UserError) as error:
        read(task, written(tmp_path, name, content), **settings)
    return str(error.value).removeprefix(f"{tmp_path}/")


@pytest.mark.parametrize(
    "header, columns, texts",
    [
        ("label\ttext_a", (), ("x", None)),  # ChnSentiCorp
        ("label\tsentence1\tsentence2", (), ("x", "y")),
        ("label\ttext_a\ttext_b", (), ("x", "y")),
        ("label\tsubject\tbody", ("body", "subject"), ("y", "x")),
    ],
)
def test_the_texts_are_in_the_columns_that_are_named_or_usual(tmp_path, header, columns, texts):
    path = written(tmp_path, "a.tsv", f"{header}\n1\tx{chr(9) + 'y' if header.count(chr(9)) == 2 else ''}\n")
    (example,) = read("classification", path, text_columns=columns)
    assert (example.text_a, example.text_b, example.label) == (*texts, "1")
    assert example.place == f"{path}:2" and example.guid == "0"


def test_columns_that_were_guessed_in_the_training_examples_are_those_of_every_file(tmp_path):
    task = registry.find("classification")
    written(tmp_path, "train.tsv", "text_a\ttext_b\tlabel\nx\ty\t1\n")
    run = task.settled(FinetuningConfig(task="classification", data_dir=str(tmp_path)))
    assert run.text_columns == ("text_a", "text_b") and task.settled(run) == run
    (example,) = task.read_file(written(tmp_path, "test.tsv", "text\ttext_a\ttext_b\nz\tx\ty\n"), run, has_labels=False)
    assert (example.text_a, example.text_b) == ("x", "y")
    with pytest.raises(UserError, match=r"some.tsv:2: has no column 'text_b'"):
        task.read_file(written(tmp_path, "some.tsv", "text_a\nx\n"), run, has_labels=False)
    named = FinetuningConfig(data_dir=str(tmp_path), text_columns=("text_b",))
    assert task.settled(named) == named


def test_json_lines_in_a_txt_are_read_as_scibert_has_them(tmp_path):
    for name, label in (("train", "INHIBITOR"), ("dev", "AGONIST"), ("test", "INHIBITOR")):
        written(tmp_path, f"{name}.txt", f'{{"text": "a << b >>", "label": "{label}", "metadata": []}}\n')
        (example,) = split("classification", tmp_path, name)
        assert (example.text_a, example.label) == ("a << b >>", label)


def test_other_names_of_files_and_csv_are_found(tmp_path):
    written(tmp_path, "validation.csv", 'text,label\n"a, b",x\n')
    assert split("classification", tmp_path, "dev")[0].text_a == "a, b"
    with pytest.raises(
        UserError, match=r"task classification expects train.tsv or train.csv .*\(found: validation.csv\)"
    ):
        split("classification", tmp_path, "train")


def test_empty_sentences_are_examples_too(tmp_path):
    path = written(tmp_path, "a.tsv", "text\tlabel\n\t1\na\t0\n")
    examples = read("classification", path)
    assert [example.text_a for example in examples] == ["", "a"]
    task = registry.find("classification")
    features = task.family.featurize(task, examples, tokenizer(), FinetuningConfig(), ("0", "1"))
    assert features.row_lengths().tolist() == [2, 3]
    assert features.notes == [f"1 of 2 have a text of which no token is left, the first {path}:2"]


def test_a_file_without_labels_is_read_for_predictions_and_refused_for_training(tmp_path):
    path = written(tmp_path, "test.tsv", "id\ttext\nq7\ta\n")
    (example,) = read("classification", path, has_labels=False)
    assert example.label is None and example.guid == "q7"
    with pytest.raises(
        UserError,
        match=r"test.tsv:2: has no column 'label' with the answers \(columns: id, text\); tasks "
        "over tables take another by --label_column",
    ):
        read("classification", path)


def test_labels_are_names_without_white_space_around_them_or_whole_numbers(tmp_path):
    path = written(tmp_path, "a.jsonl", '{"text": "a", "label": 3}\n{"text": "a", "label": " very\\tgood "}\n')
    assert [example.label for example in read("classification", path)] == ["3", "very good"]


def test_sets_of_labels_are_lists_or_joined_by_commas_in_any_order(tmp_path):
    path = written(
        tmp_path,
        "a.jsonl",
        '{"text": "a", "label": ["b", "a", "b"]}\n{"text": "a", "label": "b, a,"}\n'
        '{"text": "a", "label": []}\n{"text": "a", "label": ""}\n',
    )
    assert [example.label for example in read("multi_label", path)] == [("a", "b"), ("a", "b"), (), ()]


def test_label_sets_are_written_so_that_they_can_be_read_again(tmp_path):
    (example,) = read("multi_label", written(tmp_path, "brackets.tsv", "text\tlabel\na\t[1],[]\n"))
    assert example.label == ("[1]", "[]")
    sets = [("New York, NY", "b"), ("a", "b"), (), ("[x",), ('"q"', "a,b")]
    examples = [Example(str(number), "a", None, None, "dir/test.jsonl:1") for number in range(len(sets))]
    sequences.write_predictions(
        registry.find("multi_label"), str(tmp_path), examples, [{"labels": list(labels)} for labels in sets]
    )
    path = written(
        tmp_path,
        "again.tsv",
        (tmp_path / "predictions.tsv").read_text(encoding="utf-8").replace("index\tprediction", "text\tlabel"),
    )
    assert [example.label for example in read("multi_label", path)] == [tuple(sorted(labels)) for labels in sets]


def test_sets_of_labels_are_the_columns_that_have_a_one(tmp_path):
    path = written(tmp_path, "a.csv", "id,text,rude,threat\n7,a,1,0\n8,b,0,0\n9,c,1.0,1\n")
    assert [example.label for example in read("multi_label", path, label_column="threat,rude")] == [
        ("rude",),
        (),
        ("rude", "threat"),
    ]
    path = written(tmp_path, "a.jsonl", '{"text": "a", "rude": true, "threat": 0}\n')
    assert read("multi_label", path, label_column="rude,threat")[0].label == ("rude",)
    assert refusal(tmp_path, "multi_label", "b.csv", "text,rude,threat\na,1,2\n", label_column="rude,threat") == (
        "b.csv:2: column 'threat' has '2'; expected 0 or 1, since --label_column names several"
    )


def test_numbers_are_read_from_text_and_json(tmp_path):
    assert read("regression", written(tmp_path, "a.tsv", "text\tlabel\na\t-1.5e1\n"))[0].label == -15.0
    assert read("regression", written(tmp_path, "a.jsonl", '{"text": "a", "label": 2}\n'))[0].label == 2.0


@pytest.mark.parametrize(
    "task, content, message",
    [
        (
            "classification",
            '{"text": "a", "label": true}',
            "a.jsonl:1: label 'True'; expected a name or a whole number",
        ),
        ("classification", '{"text": "a", "label": " "}', "a.jsonl:1: label ' '; expected a name or a whole number"),
        ("classification", '{"text": "a", "label": 0.5}', "a.jsonl:1: label '0.5'; expected a name or a whole number"),
        ("classification", '{"text": null, "label": 1}', "a.jsonl:1: column 'text' is 'None'; expected text"),
        (
            "classification",
            '{"words": "a", "label": 1}',
            "a.jsonl:1: --text_columns is missing; the columns are words, label",
        ),
        (
            "multi_label",
            '{"text": "a", "label": [1]}',
            "a.jsonl:1: labels '[1]'; expected names joined by commas, or a list of them",
        ),
        ("regression", '{"text": "a", "label": "high"}', "a.jsonl:1: label 'high'; expected a number"),
        ("regression", '{"text": "a", "label": "nan"}', "a.jsonl:1: label 'nan'; expected a number"),
        ("regression", f'{{"text": "a", "label": 1{"0" * 400}}}', f"a.jsonl:1: label '1{'0' * 39}'; expected a number"),
    ],
)
def test_an_invalid_label_or_text_is_named_by_file_and_line(tmp_path, task, content, message):
    assert refusal(tmp_path, task, "a.jsonl", content + "\n") == message


def test_missing_columns_and_more_than_two_columns_are_refused(tmp_path):
    content = "text\tlabel\tkind\na\t1\tx\n"
    assert refusal(tmp_path, "classification", "a.tsv", content, text_columns=("txt",)) == (
        "a.tsv:2: has no column 'txt': did you mean 'text'?"
    )
    assert refusal(tmp_path, "classification", "a.tsv", content, text_columns=("text", "label", "kind")) == (
        "--text_columns=text,label,kind: names 3 columns; expected one or two"
    )


def test_a_header_alone_is_no_example(tmp_path):
    assert (
        refusal(tmp_path, "classification", "a.tsv", "text\tlabel\n")
        == "a.tsv: holds no example of task classification"
    )
