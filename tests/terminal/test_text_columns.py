"""Safe characters, widths and wrapped lines of text on a terminal."""

import pytest

from keras_bert_app.terminal import text_columns


@pytest.mark.parametrize(
    "text, columns",
    [
        ("word", 4),
        ("中文", 4),
        ("e\u0301", 1),
        ("שלום", 4),
        ("한", 2),
        ("\u1112\u1161\u11ab", 2),
        ("\u2068שלום\u2069", 4),
        ("ｶﾅ", 2),
        ("日本go", 6),
    ],
)
def test_width_is_the_number_of_columns_on_a_terminal(text, columns):
    assert text_columns.width(text) == columns


def test_control_characters_are_shown_as_escapes_and_hangul_is_composed():
    assert text_columns.printable("a\x1b[2J\u202e") == "a\\x1b[2J\\u202e"
    assert text_columns.printable("\u1112\u1161\u11ab") == "한"


def test_only_right_to_left_text_is_isolated():
    assert text_columns.isolated("word 中") == "word 中"
    assert text_columns.isolated("שלום") == "\u2068שלום\u2069"


@pytest.mark.parametrize("line_width", [7, 13, 29, 71])
def test_no_wrapped_line_is_wider_than_asked_and_no_word_is_lost(line_width):
    words = [(text, "31") for text in ("a", "中文", "longer", "שלום", "x" * 4, "國家") * 5]
    lines = text_columns.wrapped(words, "> ", line_width, color=False)
    assert all(text_columns.width(line) <= max(line_width, 8) for line in lines)
    assert " ".join(lines).split() == [">", *(text for text, _ in words)]
    assert all(line.startswith("  ") for line in lines[1:])
    coloured = text_columns.wrapped(words, "> ", line_width, color=True)
    assert [line.replace("\x1b[31m", "").replace("\x1b[0m", "") for line in coloured] == lines
