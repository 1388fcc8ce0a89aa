"""Texts from files of lines or of JSON lines, plain or compressed with gzip, of any length."""

import gzip
import json

import pytest

from keras_bert_app.errors import UserError
from keras_bert_app.vectors import text_sources
from pipelines.data_error import DataError
from pipelines.text.text_files import ReaderCounts


def read(path, **arguments):
    return list(text_sources.read_texts(str(path), **arguments))


def test_every_line_is_a_text_even_if_the_line_is_empty(tmp_path):
    path = tmp_path / "my texts.txt"
    path.write_bytes(b"\xef\xbb\xbffirst\r\n\n  \nl\xc3\xa4st")
    assert read(path) == [b"first", b"", b"  ", "läst".encode()]
    path.write_bytes(b"one\n\n")
    assert read(path) == [b"one", b""]
    path.write_bytes(b"")
    assert read(path) == []


def test_a_gzip_file_is_read_under_any_name(tmp_path):
    (tmp_path / "x.txt").write_bytes(gzip.compress(b"a\nb\n"))
    assert read(tmp_path / "x.txt") == [b"a", b"b"]


def test_json_lines_give_the_named_field(tmp_path):
    lines = [{"title": "no", "text": "one\ntwo"}, {"text": ""}, {"text": "ä\ud800"}]
    path = tmp_path / "x.jsonl.gz"
    path.write_bytes(gzip.compress("\n\n".join(map(json.dumps, lines)).encode()))
    assert read(path) == [b"one\ntwo", b"", "ä\ufffd".encode()]
    assert read(path, input_format="lines")[0].startswith(b"{")


@pytest.mark.parametrize(
    "line, message",
    [
        ("{", r":2: not JSON"),
        ("[1]", r":2: a JSON list"),
        ('{"body": "x"}', r"it has body; give the name of the field that holds the text as --text_field"),
        ('{"text": 3}', "is 3; expected a string"),
    ],
)
def test_a_record_without_a_text_is_refused(tmp_path, line, message):
    (tmp_path / "x.jsonl").write_text('{"text": "a"}\n' + line + "\n")
    with pytest.raises(DataError, match=message):
        read(tmp_path / "x.jsonl")


def test_a_field_of_a_file_of_lines_is_refused(tmp_path):
    (tmp_path / "x.txt").write_text("a\n")
    with pytest.raises(UserError, match="--text_field=body: .*x.txt has a text in each line and no fields; leave it"):
        read(tmp_path / "x.txt", text_field="body")


def test_only_the_beginning_of_a_too_long_line_is_kept_and_the_line_is_counted(tmp_path):
    (tmp_path / "x.txt").write_bytes(b"a\n" + b"word " * 500_000 + b"\nb\xff\n")
    counts = ReaderCounts()
    texts = read(tmp_path / "x.txt", counts=counts)
    assert len(texts) == 3 and texts[0] == b"a" and texts[2] == "b\ufffd".encode()
    assert 1 << 19 < len(texts[1]) <= 1 << 20
    assert (counts.capped_lines, counts.invalid_utf8_lines) == (1, 1)


def test_the_texts_of_some_rows_are_read_without_the_rows_after_them():
    def endless():
        number = 0
        while True:
            yield number
            number += 1

    assert text_sources.texts_at(endless(), [7, 2, 7]) == {2: 2, 7: 7}
    assert text_sources.texts_at(endless(), []) == {}


def test_an_unknown_format_is_refused():
    with pytest.raises(UserError, match="did you mean 'jsonl'"):
        text_sources.format_of("x", "json")
