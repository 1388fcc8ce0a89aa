"""The error names each fault of a vocabulary file, with the line where it has one."""

import pytest

from pipelines.data_error import DataError
from pipelines.wordpiece import vocabulary

SPECIALS = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n"


@pytest.mark.parametrize(
    "content, message",
    [
        (SPECIALS.replace("[MASK]\n", "") + "a\n", r"\[MASK\] is missing"),
        (SPECIALS + "a\nb\na\n", r"line 8 repeats line 6 \('a'\)"),
        (SPECIALS + "a\n\nb\n", "line 7 is empty"),
        (SPECIALS + "a\r\nb\n", "line 6 ends with a carriage return"),
        ("a\n" + SPECIALS, r"\[PAD\] is in line 2"),
        ("\ufeff" + SPECIALS, "line 1 begins with a byte order mark"),
        ("", r"the file is empty; \[PAD\] is missing"),
    ],
)
def test_a_fault_is_named_with_its_line(tmp_path, content, message):
    path = tmp_path / "vocab.txt"
    path.write_bytes(content.encode())
    with pytest.raises(DataError, match=message):
        vocabulary.load_vocabulary(path)


def test_the_error_names_a_line_that_is_not_utf8_and_a_missing_file(tmp_path):
    path = tmp_path / "vocab.txt"
    path.write_bytes(SPECIALS.encode() + b"\xff\n")
    with pytest.raises(DataError, match="line 6 is not UTF-8"):
        vocabulary.load_vocabulary(path)
    with pytest.raises(DataError, match="cannot be read"):
        vocabulary.load_vocabulary(tmp_path / "none.txt")


def test_only_line_feeds_end_an_entry_and_the_last_may_lack_one(tmp_path):
    path = tmp_path / "vocab.txt"
    path.write_bytes((SPECIALS + "\u2028\na\x85b\nlast").encode())
    assert vocabulary.load_vocabulary(path)[5:] == ["\u2028", "a\x85b", "last"]


def test_all_faults_are_listed_and_a_run_of_empty_lines_is_one_fault():
    pieces, faults = vocabulary.parse_vocabulary(b"a\n\n\n\xff\n[PAD]\na\n[UNK]\n[CLS]\nb\nb\nb\n\n")
    assert pieces[:5] == ["a", "", "", None, "[PAD]"]
    assert faults == [
        "lines 2 to 3 are empty",
        "line 4 is not UTF-8",
        "line 6 repeats line 1 ('a')",
        "line 10 repeats line 9 ('b')",
        "line 11 repeats line 9 ('b')",
        "line 12 is empty",
        "[SEP] is missing",
        "[MASK] is missing",
        "[PAD] is in line 5, not in line 1 (id 0)",
    ]


def test_a_file_with_carriage_returns_has_no_other_fault():
    faults = vocabulary.parse_vocabulary((SPECIALS + "a\n").replace("\n", "\r\n").encode())[1]
    assert faults == ["lines 1 to 6 end with a carriage return"]


@pytest.mark.parametrize(
    "do_lower_case, expected",
    [
        (True, ["The", "é", "한", "##!", "##中", "a.b", "##", " ", "x" * 201]),
        (False, ["##!", "##中", "a.b", "##", " ", "x" * 201]),
    ],
)
def test_entries_that_no_text_can_give_are_found(do_lower_case, expected):
    pieces = [
        *vocabulary.SPECIAL_PIECES,
        "[unused0]",
        "the",
        "The",
        "é",
        "한",
        "!",
        "##!",
        "中",
        "##中",
        "a.b",
        "##",
        "##b",
        " ",
        "x" * 200,
        "x" * 201,
    ]
    actual = vocabulary.never_produced(pieces, do_lower_case)
    assert [piece for _, piece in actual] == expected
    assert all(pieces[i] == piece for i, piece in actual)


def test_never_produced_lists_the_whole_words_of_a_real_vocabulary_that_give_other_pieces(shared):
    from pipelines import BertTokenizer

    path = str(shared / "vocabs/bert-base-uncased-vocab.txt")
    pieces = vocabulary.load_vocabulary(path)
    never = {piece for _, piece in vocabulary.never_produced(pieces, True)}
    whole = [piece for piece in pieces if not piece.startswith(("##", "["))]
    tokens = BertTokenizer(path).tokenize(whole).to_list()
    assert never.intersection(whole) == {
        piece for piece, ids in zip(whole, tokens, strict=True) if [pieces[i] for i in ids] != [piece]
    }
