"""Rows of tables in all formats, and the error messages about faulty files."""

import pytest

from keras_bert_app.errors import UserError
from keras_bert_app.tasks.readers import tables
from keras_bert_app.tasks.readers.tables import column_of, label_of, read_rows, text_of
from tests.tasks.texts import written


def rows(tmp_path, name, content, **arguments):
    return list(read_rows(written(tmp_path, name, content), **arguments))


def refusal(tmp_path, name, content, **arguments):
    """The error message about a file, without the directory."""
    with pytest.raises(UserError) as error:
        rows(tmp_path, name, content, **arguments)
    return str(error.value).removeprefix(f"{tmp_path}/")


def test_a_table_of_tabs_has_no_quoting(tmp_path):
    assert rows(tmp_path, "a.tsv", 'text\tlabel\n" one\t1\n2 "two"\t0\n') == [
        (2, {"text": '" one', "label": "1"}),
        (3, {"text": '2 "two"', "label": "0"}),
    ]


def test_a_byte_order_mark_and_carriage_returns_are_dropped_and_only_a_newline_ends_a_line(tmp_path):
    content = "\ufefftext\tlabel\r\none\u2028still one\x0b\x85\t1\r\n"
    assert rows(tmp_path, "a.tsv", content) == [(2, {"text": "one\u2028still one\x0b\x85", "label": "1"})]


def test_empty_fields_are_empty_texts_and_empty_lines_are_no_rows(tmp_path):
    assert rows(tmp_path, "a.tsv", "text\tlabel\n\t1\n\n\t\n") == [
        (2, {"text": "", "label": "1"}),
        (4, {"text": "", "label": ""}),
    ]
    assert rows(tmp_path, "a.csv", "text,label\n,1\n\n") == [(2, {"text": "", "label": "1"})]


@pytest.mark.parametrize("name", ["a.tsv", "a.csv"])
def test_in_a_table_of_one_column_an_empty_line_is_an_empty_text(tmp_path, name):
    assert rows(tmp_path, name, "text\none\n\ntwo\n") == [(2, {"text": "one"}), (3, {"text": ""}), (4, {"text": "two"})]


def test_quoted_fields_of_csv_hold_commas_quotes_and_newlines_and_a_row_has_the_number_of_its_first_line(tmp_path):
    content = 'text,label\n"one, ""two""\nthree",1\nfour,0\n'
    assert rows(tmp_path, "a.csv", content) == [
        (2, {"text": 'one, "two"\nthree', "label": "1"}),
        (4, {"text": "four", "label": "0"}),
    ]


def test_a_field_of_csv_may_be_longer_than_the_module_allows_by_default(tmp_path):
    ((_, row),) = rows(tmp_path, "a.csv", f"text,label\n{'x' * 200_000},1\n")
    assert len(row["text"]) == 200_000


@pytest.mark.parametrize(
    "content, number", [('text,label\none,1\n"two,0\nthree,1\n', 3), ('text,label\n"one" two,1\n', 2)]
)
def test_faulty_quotes_are_named_by_the_first_line_of_their_row(tmp_path, content, number):
    assert refusal(tmp_path, "a.csv", content).startswith(f"a.csv:{number}: is not CSV (")


def test_json_lines_keep_their_values(tmp_path):
    content = '{"text": "one", "label": 1}\n\n{"text": "two", "label": ["a", "b"]}\n'
    assert rows(tmp_path, "a.jsonl", content) == [
        (1, {"text": "one", "label": 1}),
        (3, {"text": "two", "label": ["a", "b"]}),
    ]


def test_a_txt_file_that_begins_with_a_brace_holds_json_lines_and_any_other_txt_file_holds_tabs(tmp_path):
    assert rows(tmp_path, "a.txt", '{"text": "one"}\n') == [(1, {"text": "one"})]
    assert rows(tmp_path, "b.txt", "text\tlabel\n{one}\t1\n") == [(2, {"text": "{one}", "label": "1"})]


@pytest.mark.parametrize("name", ["a.tsv", "a.csv", "a.jsonl", "a.txt"])
@pytest.mark.parametrize("content", ["", "\n\r\n \n"])
@pytest.mark.parametrize("arguments", [{}, {"has_header": False}, {"columns": ("text",)}])
def test_a_file_that_is_empty_or_blank_has_no_rows(tmp_path, name, content, arguments):
    assert rows(tmp_path, name, content, **arguments) == []


def test_blank_lines_at_the_start_do_not_decide_the_columns_the_quoting_or_the_format(tmp_path):
    labelled = {"text": "a, b", "label": "1"}
    assert rows(tmp_path, "a.tsv", "\n\ntext\tlabel\na, b\t1\n") == [(4, labelled)]
    assert rows(tmp_path, "a.csv", '\n \ntext,label\n"a, b",1\n') == [(4, labelled)]
    assert rows(tmp_path, "a.csv", "\ntext\tlabel\na, b\t1\n") == [(3, labelled)]
    assert rows(tmp_path, "a.tsv", "\na, b\t1\n", columns=("text", "label")) == [(2, labelled)]
    assert rows(tmp_path, "a.txt", '\n{"text": "one"}\n') == [(2, {"text": "one"})]
    assert rows(tmp_path, "a.tsv", "\na\t1\n\nb\t0\n", has_header=False) == [
        (2, {"0": "a", "1": "1"}),
        (4, {"0": "b", "1": "0"}),
    ]
    # Without a header, each line of a table with one column is a text. The text may be empty.
    assert rows(tmp_path, "a.tsv", "\na\n", has_header=False) == [(1, {"0": ""}), (2, {"0": "a"})]


def test_half_a_surrogate_pair_becomes_a_question_mark_and_a_whole_one_its_character(tmp_path):
    content = '{"text": "\\ud83d one", "label": ["\\uD83D\\uDE00"]}\n'
    assert rows(tmp_path, "a.jsonl", content) == [(1, {"text": "? one", "label": ["\U0001f600"]})]


@pytest.mark.parametrize(
    "name, content, message",
    [
        ("a.tsv", "text\tlabel\none\t1\ntwo\n", "a.tsv:3: has 1 fields; expected 2 (text, label)"),
        ("a.csv", "text,label\none,two,1\n", "a.csv:2: has 3 fields; expected 2 (text, label)"),
        (
            "a.tsv",
            "text\tlabel\ttext\n",
            f"a.tsv:1: two columns are named 'text'; name each column once{tables._HEAD_ADVICE}",
        ),
        ("a.tsv", b"text\tlabel\none\t1\ntw\xe9\t0\n", "a.tsv:3: is not UTF-8 (byte 2 of the line); convert the file"),
        ("a.csv", b"text,label\n\xff,1\n", "a.csv:2: is not UTF-8 (byte 0 of the line); convert the file"),
        ("a.jsonl", b'{"text": "\xff"}\n', "a.jsonl:1: is not UTF-8 (byte 10 of the line); convert the file"),
        (
            "a.jsonl",
            '{"text": 1}\n{"text": \n',
            "a.jsonl:2: is not JSON (Expecting value: line 1 column 10 (char 9)); expected one object a line",
        ),
        ("a.jsonl", "[1]\n", "a.jsonl:1: is a JSON list; expected one object a line"),
    ],
)
def test_a_fault_is_named_by_file_line_and_reason(tmp_path, name, content, message):
    assert refusal(tmp_path, name, content) == message


def test_json_that_is_nested_too_deep_is_refused(tmp_path):
    assert refusal(tmp_path, "a.jsonl", '{"text": ' + "[" * 100_000 + "\n").startswith("a.jsonl:1: is not JSON (")


def test_ragged_rows_can_be_left_out_and_their_line_numbers_are_listed(tmp_path):
    ragged = []
    kept_rows = rows(tmp_path, "a.tsv", "text\tlabel\none\t1\ntwo\nthree\t0\t0\nfour\t1\n", ragged=ragged)
    assert [number for number, _ in kept_rows] == [2, 5] and ragged == [3, 4]


def test_a_file_without_header_takes_given_columns_and_one_with_a_header_keeps_its_own(tmp_path):
    assert rows(tmp_path, "a.tsv", "x\t1\ny\t0\n", columns=("text", "label")) == [
        (1, {"text": "x", "label": "1"}),
        (2, {"text": "y", "label": "0"}),
    ]
    assert rows(tmp_path, "a.tsv", "index\ttext\n0\tx\n", columns=("text", "label")) == [
        (2, {"index": "0", "text": "x"})
    ]


def test_the_error_about_a_missing_column_suggests_the_nearest_name():
    with pytest.raises(UserError, match="a.tsv:7: has no column 'text': did you mean 'texts'?"):
        column_of("a.tsv", 7, {"texts": "", "label": ""}, "text")
    with pytest.raises(UserError, match="a.tsv:7: column 'text' is '3'; expected text"):
        text_of("a.tsv", 7, {"text": 3}, "text")
    with pytest.raises(
        UserError, match=r"a.tsv:7: has no column 'label' with the answers \(columns: text\); tasks over"
    ):
        label_of("a.tsv", 7, {"text": ""}, "label")


def test_a_csv_with_tabs_and_without_commas_in_line_1_has_tabs_and_no_quoting(tmp_path):
    assert rows(tmp_path, "a.csv", 'news\tone "two\t5.0\nnews\ta, b\t1\n', has_header=False) == [
        (1, {"0": "news", "1": 'one "two', "2": "5.0"}),
        (2, {"0": "news", "1": "a, b", "2": "1"}),
    ]


def test_rows_without_header_may_have_more_fields_than_line_1(tmp_path):
    numbered_rows = rows(tmp_path, "a.tsv", "a\t1\n\nb\t2\tsource\nc\n", has_header=False)
    assert numbered_rows == [(1, {"0": "a", "1": "1"}), (3, {"0": "b", "1": "2", "2": "source"}), (4, {"0": "c"})]


def test_the_error_about_a_missing_column_says_that_line_1_was_read_as_the_header_and_shortens_long_texts(tmp_path):
    ((number, row),) = rows(tmp_path, "a.csv", f'"3","{"w" * 99}"\n"4","news"\n')
    with pytest.raises(UserError) as error:
        column_of("a.csv", number, row, "text")
    assert str(error.value) == (
        f"a.csv:2: has no column 'text': known: 3, {'w' * 30}…; line 1 was read as the header; if it is an example, "
        "give --task=classification, regression or multi_label with columns by number from 0, such as "
        "--text_columns=1,2 --label_column=0"
    )
