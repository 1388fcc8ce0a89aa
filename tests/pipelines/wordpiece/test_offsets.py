"""Offsets give the position of each piece in the original text."""

import json

import pytest
import tensorflow as tf
import tokenizers

from pipelines import BertTokenizer


def spans_of(tokenizer, text):
    """Returns [(piece, its text by character offsets, its text by byte offsets)]."""
    ids, start_bytes, end_bytes, start_chars, end_chars = (
        row.to_list()[0] for row in tokenizer.tokenize_with_offsets(tf.constant([text]))
    )
    raw = text.encode()
    return [
        (tokenizer.vocabulary[i], text[a:b], raw[c:d].decode())
        for i, a, b, c, d in zip(ids, start_chars, end_chars, start_bytes, end_bytes, strict=True)
    ]


@pytest.fixture
def tokenizer(tmp_path):
    pieces = (
        "[PAD] [UNK] [CLS] [SEP] [MASK] cafe au ##lait la ##it , . 中 文 strasse un ##aware i i̇ σας οδος x ab ##c"
    ).split()
    (tmp_path / "vocab.txt").write_text("".join(f"{piece}\n" for piece in pieces), encoding="utf-8")
    return BertTokenizer(str(tmp_path / "vocab.txt"))


@pytest.mark.parametrize(
    "text, expected",
    [
        ("Café au", [("cafe", "Café"), ("au", "au")]),
        ("Cafe\u0301, x", [("cafe", "Cafe"), (",", ","), ("x", "x")]),
        ("  UNAWARE  ", [("un", "UN"), ("##aware", "AWARE")]),
        ("中文x", [("中", "中"), ("文", "文"), ("x", "x")]),
        ("ΣΑΣ ΟΔΟΣ", [("σας", "ΣΑΣ"), ("οδος", "ΟΔΟΣ")]),
        ("a\u200bb\u00adC x", [("ab", "a\u200bb"), ("##c", "C"), ("x", "x")]),
        ("zzz x", [("[UNK]", "zzz"), ("x", "x")]),
        ("y" * 201 + " x", [("[UNK]", "y" * 201), ("x", "x")]),
        ("", []),
    ],
)
def test_the_offsets_of_each_piece_span_its_original_text(tokenizer, text, expected):
    actual = spans_of(tokenizer, text)
    assert [(piece, original) for piece, original, _ in actual] == expected
    assert all(original == raw for _, original, raw in actual)


def test_ids_are_those_of_tokenize_for_whole_batches(golden):
    texts = [case["text"] for case in json.loads((golden / "tokenization.json").read_text(encoding="utf-8"))["cases"]]
    for do_lower_case in (True, False):
        tokenizer = BertTokenizer(str(golden / "tokenization_vocab.txt"), do_lower_case, verify_casing=False)
        ids, start_bytes, end_bytes, start_chars, end_chars = tokenizer.tokenize_with_offsets(texts)
        assert ids.to_list() == tokenizer.tokenize(texts).to_list()
        for text, *spans in zip(
            texts, start_bytes.to_list(), end_bytes.to_list(), start_chars.to_list(), end_chars.to_list(), strict=True
        ):
            for a, b, c, d in zip(*spans, strict=True):
                assert text.encode()[a:b].decode() == text[c:d] != ""


def test_special_pieces_in_text_have_their_own_span(golden):
    tokenizer = BertTokenizer(str(golden / "tokenization_vocab.txt"), special_tokens_in_text=True, verify_casing=False)
    texts = ["é [MASK]é[SEP] a", "[CLS]", "", "a", "中[PAD][UNK]\x00x[MASK]"]
    ids, start_bytes, end_bytes, start_chars, end_chars = tokenizer.tokenize_with_offsets(texts)
    assert ids.to_list() == tokenizer.tokenize(texts).to_list()
    originals = [
        [text[a:b] for a, b in zip(*spans, strict=True)]
        for text, *spans in zip(texts, start_chars.to_list(), end_chars.to_list(), strict=True)
    ]
    assert originals == [
        ["é", "[MASK]", "é", "[SEP]", "a"],
        ["[CLS]"],
        [],
        ["a"],
        ["中", "[PAD]", "[UNK]", "x", "[MASK]"],
    ]
    raw = [
        [text.encode()[a:b].decode() for a, b in zip(*spans, strict=True)]
        for text, *spans in zip(texts, start_bytes.to_list(), end_bytes.to_list(), strict=True)
    ]
    assert raw == originals


def test_words_that_are_already_split_keep_their_pieces_apart(tokenizer):
    words = tf.ragged.constant([["Café", "\u200b", "unaware,"], [], ["zzz"]])
    ids, start_bytes, end_bytes, start_chars, end_chars = tokenizer.tokenize_words_with_offsets(words)
    assert tokenizer.pieces(ids).to_list() == [[[b"cafe"], [], [b"un", b"##aware", b","]], [], [[b"[UNK]"]]]
    assert start_chars.to_list() == [[[0], [], [0, 2, 7]], [], [[0]]]
    assert end_chars.to_list() == [[[4], [], [2, 7, 8]], [], [[3]]]
    assert start_bytes.to_list() == start_chars.to_list()
    assert end_bytes.to_list() == [[[5], [], [2, 7, 8]], [], [[3]]]


def test_spans_are_those_of_hugging_face_s_tokenizer_on_plain_prose(shared):
    vocab_file = str(shared / "vocabs/bert-base-uncased-vocab.txt")
    theirs = tokenizers.BertWordPieceTokenizer(vocab_file, lowercase=True)
    lines = (shared / "data/text/sample_text.txt").read_text(encoding="utf-8").split("\n")
    ids, _, _, starts, ends = BertTokenizer(vocab_file).tokenize_with_offsets(lines)
    for line, row, first, last in zip(lines, ids.to_list(), starts.to_list(), ends.to_list(), strict=True):
        encoding = theirs.encode(line, add_special_tokens=False)
        assert encoding.ids == row
        assert encoding.offsets == list(zip(first, last, strict=True))
