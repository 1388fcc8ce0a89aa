"""Widths, wrapping and colours of text on a terminal."""

import io
import os
import sys

import pytest

from keras_bert_app.terminal import screen


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
def test_width_is_what_a_terminal_takes(text, columns):
    assert screen.width(text) == columns


def test_what_would_move_the_cursor_is_shown_as_an_escape_and_hangul_is_put_together():
    assert screen.printable("a\x1b[2J\u202e") == "a\\x1b[2J\\u202e"
    assert screen.printable("\u1112\u1161\u11ab") == "한"


def test_only_right_to_left_text_is_isolated():
    assert screen.isolated("word 中") == "word 中"
    assert screen.isolated("שלום") == "\u2068שלום\u2069"


@pytest.mark.parametrize("line_width", [7, 13, 29, 71])
def test_no_wrapped_line_is_wider_than_asked_and_no_word_is_lost(line_width):
    words = [(text, "31") for text in ("a", "中文", "longer", "שלום", "x" * 4, "國家") * 5]
    lines = screen.wrapped(words, "> ", line_width, color=False)
    assert all(screen.width(line) <= max(line_width, 8) for line in lines)
    assert " ".join(lines).split() == [">", *(text for text, _ in words)]
    assert all(line.startswith("  ") for line in lines[1:])
    coloured = screen.wrapped(words, "> ", line_width, color=True)
    assert [line.replace("\x1b[31m", "").replace("\x1b[0m", "") for line in coloured] == lines


def test_colours_are_for_terminals_unless_asked_for(monkeypatch):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert screen.wants_color("auto", Terminal()) and not screen.wants_color("auto", io.StringIO())
    assert screen.wants_color("always", io.StringIO()) and not screen.wants_color("never", Terminal())
    monkeypatch.setenv("NO_COLOR", "1")
    assert not screen.wants_color("auto", Terminal()) and screen.wants_color("always", Terminal())


def test_an_arrow_is_written_where_the_encoding_has_it():
    assert screen.can_write("→", io.TextIOWrapper(io.BytesIO(), "utf-8"))
    assert not screen.can_write("→", io.TextIOWrapper(io.BytesIO(), "ascii"))


def test_work_goes_on_without_a_reader(monkeypatch):
    reader, writer = os.pipe()
    with open(writer, "w", buffering=1, encoding="ascii") as stream:
        monkeypatch.setattr(sys, "stdout", stream)
        done = []
        with screen.read_or_not("stdout"):
            print("read")
            os.close(reader)
            for number in range(3):
                print("é" * 10_000, flush=True)
                done.append(number)
        assert done == [0, 1, 2] and sys.stdout is stream
