"""Colours and encodings of a stream, and output whose reader leaves early."""

import io
import os
import sys

from keras_bert_app.terminal import screen


def test_auto_gives_colours_to_terminals_only_and_always_and_never_override_this(monkeypatch):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert screen.wants_color("auto", Terminal()) and not screen.wants_color("auto", io.StringIO())
    assert screen.wants_color("always", io.StringIO()) and not screen.wants_color("never", Terminal())
    monkeypatch.setenv("NO_COLOR", "1")
    assert not screen.wants_color("auto", Terminal()) and screen.wants_color("always", Terminal())


def test_can_write_says_whether_the_encoding_has_an_arrow():
    assert screen.can_write("→", io.TextIOWrapper(io.BytesIO(), "utf-8"))
    assert not screen.can_write("→", io.TextIOWrapper(io.BytesIO(), "ascii"))


def test_work_continues_after_its_reader_has_left(monkeypatch):
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


def test_output_ends_quietly_when_its_reader_leaves(monkeypatch):
    reader, writer = os.pipe()
    with open(writer, "w", buffering=1, encoding="ascii") as stream:
        monkeypatch.setattr(sys, "stdout", stream)
        printed = []
        with screen.until_reader_leaves():
            os.close(reader)
            for number in range(3):
                print("x" * 100_000, flush=True)
                printed.append(number)
        assert printed == []
