"""Vocabularies: every fault is named with its line; learning gives exactly what was asked for."""

import pytest
import tensorflow as tf

from pipelines import BertTokenizer, vocab
from pipelines.errors import DataError

SPECIALS = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n"


@pytest.mark.parametrize("content, message", [
    (SPECIALS.replace("[MASK]\n", "") + "a\n", r"\[MASK\] is missing"),
    (SPECIALS + "a\nb\na\n", r"line 8 repeats line 6 \('a'\)"),
    (SPECIALS + "a\n\nb\n", "line 7 is empty"),
    (SPECIALS + "a\r\nb\n", "line 6 ends with a carriage return"),
    ("a\n" + SPECIALS, r"\[PAD\] stands in line 2"),
    ("", r"\[PAD\] is missing"),
])
def test_a_fault_is_named_with_its_line(tmp_path, content, message):
    path = tmp_path / "vocab.txt"
    path.write_bytes(content.encode())
    with pytest.raises(DataError, match=message):
        vocab.load_vocabulary(path)


def test_bytes_that_are_no_utf8_and_a_missing_file_are_named(tmp_path):
    path = tmp_path / "vocab.txt"
    path.write_bytes(SPECIALS.encode() + b"\xff\n")
    with pytest.raises(DataError, match="line 6 is not UTF-8"):
        vocab.load_vocabulary(path)
    with pytest.raises(DataError, match="cannot be read"):
        vocab.load_vocabulary(tmp_path / "none.txt")


def test_only_line_feeds_end_an_entry_and_the_last_may_lack_one(tmp_path):
    path = tmp_path / "vocab.txt"
    path.write_bytes((SPECIALS + "\u2028\na\x85b\nlast").encode())
    assert vocab.load_vocabulary(path)[5:] == ["\u2028", "a\x85b", "last"]


TEXT = ["The cat sat on the mat, unaware of the other cats.", "Käse und Brot! 中文"] * 3


@pytest.mark.parametrize("vocab_size", [60, 77, 200])
def test_exactly_the_size_asked_for_each_entry_once_and_the_same_every_time(tmp_path, vocab_size):
    pieces, words = vocab.learn_vocabulary([TEXT], vocab_size)
    assert len(pieces) == len(set(pieces)) == vocab_size
    assert tuple(pieces[:5]) == vocab.SPECIAL_PIECES
    assert words == 3 * (13 + 6)
    assert vocab.learn_vocabulary([TEXT[::-1]], vocab_size)[0] == pieces
    vocab.write_vocabulary(pieces, tmp_path / "vocab.txt")
    assert vocab.load_vocabulary(tmp_path / "vocab.txt") == pieces


def test_text_is_covered_by_what_was_learned_from_it(tmp_path):
    for do_lower_case in (True, False):
        pieces, _ = vocab.learn_vocabulary([tf.constant(TEXT)], 200, do_lower_case)
        vocab.write_vocabulary(pieces, tmp_path / "vocab.txt")
        tokenizer = BertTokenizer(str(tmp_path / "vocab.txt"), do_lower_case)
        assert tokenizer.unk_id not in tokenizer.tokenize(TEXT).flat_values.numpy()
        assert ("The" in pieces) is not do_lower_case


def test_no_text_and_no_room_are_refused():
    with pytest.raises(DataError, match="no word"):
        vocab.learn_vocabulary([[]], 100)
    with pytest.raises(DataError, match="vocab_size 20 has no room"):
        vocab.learn_vocabulary([TEXT], 20)
