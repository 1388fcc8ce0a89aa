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
def test_the_texts_come_from_the_named_columns_or_from_the_usual_ones(tmp_path, header, columns, texts):
    path = written(tmp_path, "a.tsv", f"{header}\n1\tx{chr(9) + 'y' if header.count(chr(9)) == 2 else ''}\n")
    (example,) = read("classification", path, text_columns=columns)
    assert (example.text_a, example.text_b, example.label) == (*texts, "1")
    assert example.place == f"{path}:2" and example.guid == "0"


def test_columns_that_are_guessed_from_the_training_file_are_read_in_every_file(tmp_path):
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


def test_json_lines_in_the_txt_files_of_scibert_are_read(tmp_path):
    for name, label in (("train", "INHIBITOR"), ("dev", "AGONIST"), ("test", "INHIBITOR")):
        written(tmp_path, f"{name}.txt", f'{{"text": "a << b >>", "label": "{label}", "metadata": []}}\n')
        (example,) = split("classification", tmp_path, name)
        assert (example.text_a, example.label) == ("a << b >>", label)


def test_csv_files_and_other_usual_file_names_are_found(tmp_path):
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
    assert features.notes == [f"1 of 2 have a text without a word piece, the first {path}:2"]


def test_a_file_without_labels_is_read_for_predictions_and_refused_for_training(tmp_path):
    path = written(tmp_path, "test.tsv", "id\ttext\nq7\ta\n")
    (example,) = read("classification", path, has_labels=False)
    assert example.label is None and example.guid == "q7"
    with pytest.raises(
        UserError,
        match=r"test.tsv:2: has no column 'label' with the answers \(columns: id, text\); tasks "
        "over tables take another column by --label_column",
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
        (tmp_path / "predictions.tsv").read_text(encoding="utf-8").replace("prediction", "label"),
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
        "b.csv:2: column 'threat' has '2'; expected 0 or 1, because --label_column names several columns"
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
        ("regression", '{"text": "a", "label": 1e300}', "a.jsonl:1: label '1e+300'; expected a number"),
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


def test_a_file_with_only_a_header_is_refused(tmp_path):
    assert (
        refusal(tmp_path, "classification", "a.tsv", "text\tlabel\n")
        == "a.tsv: holds no example of task classification"
    )


AG_NEWS = '"3","Oil, up","Prices rose."\n"4","New chip","It is fast."\n"3","Banks","They merge."\n'


def settled(tmp_path, task, name, content, **settings):
    """(run with the decided header, training examples) of a table."""
    written(tmp_path, name, content)
    run = registry.find(task).settled(FinetuningConfig(task=task, data_dir=str(tmp_path), **settings))
    return run, registry.find(task).read_split(str(tmp_path), "train", run)


def test_a_table_without_a_header_has_columns_by_number_and_line_1_is_an_example(tmp_path):
    run, examples = settled(tmp_path, "classification", "train.csv", AG_NEWS, text_columns=("1", "2"), label_column="0")
    assert run.header == "no" and [example.label for example in examples] == ["3", "4", "3"]
    assert (examples[0].text_a, examples[0].text_b) == ("Oil, up", "Prices rose.")
    assert examples.notes() == ["line 1 was read as an example, and columns have numbers"]
    # The reader reads a file for predictions like the training file.
    path = written(tmp_path, "new.csv", '"1","One","line."\n')
    assert len(registry.find("classification").read_file(path, run, has_labels=False)) == 1


def test_the_original_files_of_sts_b_are_read_with_columns_by_number(tmp_path):
    content = 'news\tMSRpar\t2012\t1\t4.400\tA plane.\tA "jet.\nnews\tMSRpar\t2012\t2\t0.5\tA.\tB.\tsite\tsite\n'
    run, examples = settled(tmp_path, "regression", "train.csv", content, text_columns=("5", "6"), label_column="4")
    assert run.header == "no"
    assert [(one.text_a, one.text_b, one.label) for one in examples] == [
        ("A plane.", 'A "jet.', 4.4),
        ("A.", "B.", 0.5),
    ]


@pytest.mark.parametrize(
    "task, content, columns, label_column",
    [
        ("classification", "class\ttitle\nx\ta\nx\tb\ny\tc\n", ("1",), "0"),
        ("classification", "0\t1\nx\ta\nx\tb\ny\tc\n", ("1",), "0"),  # pandas numbers columns without a name
        ("regression", "score\ttitle\n1\ta\n2\tb\n3\tc\n", ("1",), "0"),
        ("multi_label", "topics\ttitle\nx,y\ta\nx\tb\n\tc\n", ("1",), "0"),
        ("multi_label", "rude\ttitle\tthreat\n1\ta\t0\n0\tb\t0\n1\tc\t1\n", ("1",), "0,2"),
    ],
)
def test_columns_by_number_are_valid_for_a_table_with_a_header_too(tmp_path, task, content, columns, label_column):
    run, examples = settled(tmp_path, task, "train.tsv", content, text_columns=columns, label_column=label_column)
    header = ", ".join(content.partition("\n")[0].split("\t"))
    assert run.header == "yes" and [example.text_a for example in examples] == ["a", "b", "c"]
    assert examples.notes() == [f"line 1 was read as the header ({header})"]
    if label_column == "0,2":
        assert sequences.label_names(registry.find(task), examples, run) == ("rude", "threat")


@pytest.mark.parametrize(
    "task, content, columns, label_column",
    [
        ("multi_label", "x,y\ta\nx\tb\n", ("1",), "0"),
        ("multi_label", "1\ta\t0\n0\tb\t0\n", ("1",), "0,2"),
        ("regression", "1.5\ta\n-2\tb\n", ("1",), "0"),
    ],
)
def test_labels_of_every_kind_show_that_line_1_is_an_example(tmp_path, task, content, columns, label_column):
    run, examples = settled(tmp_path, task, "train.tsv", content, text_columns=columns, label_column=label_column)
    assert run.header == "no" and [example.text_a for example in examples] == ["a", "b"]


def test_the_option_header_overrides_the_guess_and_a_column_name_needs_a_header(tmp_path):
    settings = {"text_columns": ("1",), "label_column": "0"}
    for header, count in (("yes", 2), ("no", 3), ("auto", 2)):
        run, examples = settled(
            tmp_path, "classification", "train.tsv", "z\ta\nx\tb\ny\tc\n", header=header, **settings
        )
        assert len(examples) == count and run.header == ("no" if header == "no" else "yes")
    with pytest.raises(UserError, match="--header=no: the columns have numbers from 0, but --text_columns=text"):
        settled(tmp_path, "classification", "train.tsv", "text\tlabel\na\tx\n", header="no", text_columns=("text",))


def test_the_error_about_missing_columns_says_that_line_1_was_read_as_the_header(tmp_path):
    assert refusal(tmp_path, "classification", "a.csv", AG_NEWS).startswith(
        "a.csv:2: --text_columns is missing; the columns are 3, Oil, up, Prices rose.; line 1 was read as the header; "
    )
    assert "; line 1 was read as the header" in refusal(tmp_path, "sts-b", "a.tsv", "1\ta\tb\n2\tc\td\n")
