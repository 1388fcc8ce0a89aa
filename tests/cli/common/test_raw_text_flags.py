"""Examples of raw texts from flags and from plain text files."""

import os

import pytest
from absl import flags

from keras_bert_app.cli.common import raw_text_flags
from keras_bert_app.errors import UserError


@pytest.fixture
def rows(tmp_path):
    """A function of (names of inputs, arguments) that returns the examples of these flags."""
    before = set(flags.FLAGS)
    raw_text_flags.define()

    def rows_of(names, *arguments):
        flags.FLAGS.unparse_flags()
        for name in set(flags.FLAGS) - before:
            flags.FLAGS[name].unparse()
        texts = flags.FLAGS(["x", *arguments])[1:]
        raw_text_flags.check(texts)
        return list(raw_text_flags.rows(names, texts))

    yield rows_of
    for name in set(flags.FLAGS) - before:
        delattr(flags.FLAGS, name)


def test_texts_pairs_questions_and_choices_come_from_flags(rows):
    assert rows(("text",), "a", "--text=b") == [{"text": "a"}, {"text": "b"}]
    assert rows(("text_a", "text_b"), "--text=a", "--text_pair=b") == [{"text_a": "a", "text_b": "b"}]
    questions = ("--question=q", "--question=r", "--context=c")
    assert rows(("question", "context"), *questions) == [
        {"question": "q", "context": "c"},
        {"question": "r", "context": "c"},
    ]
    documents = ("--query=q", "--document=d", "--document=e")
    assert rows(("query", "document"), *documents) == [
        {"query": "q", "document": "d"},
        {"query": "q", "document": "e"},
    ]
    assert rows(("query", "document"), *documents, "--query=r")[1] == {"query": "r", "document": "e"}
    choices = ("--context=c", "--choice=x", "--choice=y")
    assert rows(("context", "choices"), *choices) == [{"context": "c", "choices": ["x", "y"]}]
    assert rows(("context", "question", "choices"), *choices, "--question=q") == [
        {"context": "c", "question": "q", "choices": ["x", "y"]}
    ]


def test_a_line_that_is_cut_is_said(rows, tmp_path, capsys):
    path = tmp_path / "long.txt"
    path.write_bytes(b"a" * (1 << 21) + b"\nb\xff\n")
    (long, short) = rows(("text",), f"--text_file={path}")
    assert len(long["text"]) < 1 << 21 and short["text"].startswith("b")
    assert [line.partition(": ")[2] for line in capsys.readouterr().err.splitlines()] == [
        "1 lines hold invalid UTF-8; those bytes were left out",
        "1 lines are longer than 1 MB; the rest of them was left out",
    ]


def test_a_pipe_is_read_once(rows):
    reader, writer = os.pipe()
    os.write(writer, b"a\nb\n")
    os.close(writer)
    assert rows(("text",), f"--text_file=/dev/fd/{reader}") == [{"text": "a"}, {"text": "b"}]
    os.close(reader)


def test_each_line_of_a_plain_file_is_an_example_with_tabs_between_its_texts(rows, tmp_path):
    path = tmp_path / "plain.txt"
    path.write_text("a\tb\nc\td\n", encoding="utf-8")
    flag = f"--text_file={path}"
    assert rows(("text",), flag) == [{"text": "a\tb"}, {"text": "c\td"}]
    assert rows(("question", "context"), flag)[1] == {"question": "c", "context": "d"}
    path.write_text("c\tq\tx\ty\tz\n", encoding="utf-8")
    assert rows(("context", "choices"), flag) == [{"context": "c", "choices": ["q", "x", "y", "z"]}]
    assert rows(("context", "question", "choices"), flag)[0]["choices"] == ["x", "y", "z"]


@pytest.mark.parametrize(
    "names, arguments, said",
    [
        (("text_a", "text_b"), ["--text=a"], "--text_pair is missing: this model takes --text and --text_pair"),
        (("text_a", "text_b"), ["--text=a", "--text=b", "--text_pair=c"], "--text 2 times, --text_pair 1 times"),
        (("query", "document"), ["--query=a"], "--document is missing: this model takes --query and --document"),
        (("query", "document"), ["--query=a"] * 2 + ["--document=b"], "--query 2 times, --document 1 times"),
        (("text",), ["--question=a"], "--text is missing: this model takes --text"),
        (("context", "choices"), ["--context=a", "--context=b", "--choice=x"], "--context was given 2 times"),
        (("text_a", "text_b"), ["--text_file={}"], ":1: has 1 column; expected text_a, text_b, with tabs between them"),
        (("question", "context"), ["--text_file={}", "--text=a"], "--text_file and --text were both given"),
    ],
)
def test_flags_that_do_not_fit_the_model_are_named(rows, tmp_path, names, arguments, said):
    (tmp_path / "plain.txt").write_text("no tab\n")
    with pytest.raises(UserError) as refusal:
        rows(names, *(argument.format(tmp_path / "plain.txt") for argument in arguments))
    assert said in str(refusal.value)
