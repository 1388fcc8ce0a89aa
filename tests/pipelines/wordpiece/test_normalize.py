"""Normalization equals Python's own unicodedata for every code point."""

import unicodedata

import pytest
import tensorflow as tf
import tensorflow_text as tf_text

from pipelines.wordpiece import normalize, unicode_14

CODE_POINTS = [code for code in range(0x110000) if not 0xD800 <= code <= 0xDFFF]
# The other planes hold only letters or unassigned code points in every version of Unicode, so a sample of them is
# enough.
DISTINCT_CODE_POINTS = [
    code for code in CODE_POINTS if code < 0x32400 or 0xE0000 <= code < 0xE1000 or code % 37 == 0 or code > 0x10EFF0
]
IS_REFERENCE = pytest.mark.skipif(
    unicodedata.unidata_version != "14.0.0", reason="the reference is the Unicode 14 of Python 3.11"
)
CJK_BLOCKS = (
    (0x4E00, 0x9FFF),
    (0x3400, 0x4DBF),
    (0x20000, 0x2A6DF),
    (0x2A700, 0x2B73F),
    (0x2B740, 0x2B81F),
    (0x2B820, 0x2CEAF),
    (0xF900, 0xFAFF),
    (0x2F800, 0x2FA1F),
)


def words_by_unicodedata(text, do_lower_case):
    """Splits a text by BERT's basic tokenization, written from its description, one character at a time."""
    kept = "".join(
        " " if c in "\t\n\r" or unicodedata.category(c) == "Zs" else c
        for c in text
        if c in "\t\n\r" or (c not in "\0\ufffd" and unicodedata.category(c) not in ("Cc", "Cf"))
    )
    spaced = "".join(f" {c} " if any(a <= ord(c) <= b for a, b in CJK_BLOCKS) else c for c in kept)
    words = []
    for word in spaced.split():
        if do_lower_case:
            word = "".join(c for c in unicodedata.normalize("NFD", word.lower()) if unicodedata.category(c) != "Mn")
        for c in word:
            is_ascii_symbol = c.isascii() and not c.isalnum()
            if is_ascii_symbol or unicodedata.category(c).startswith("P"):
                words += [c, ""]
            elif not words or words[-1] is None:
                words.append(c)
            else:
                words[-1] += c
        words.append(None)
    return [word for word in words if word]


@IS_REFERENCE
@pytest.mark.parametrize("do_lower_case", [True, False])
def test_every_code_point_inside_a_word_is_normalized_as_unicodedata_says(do_lower_case):
    normalized = tf.function(lambda texts: tf.strings.split(normalize.space_out(texts, do_lower_case)))
    different = []
    for start in range(0, len(DISTINCT_CODE_POINTS), 1 << 16):
        codes = DISTINCT_CODE_POINTS[start : start + (1 << 16)]
        texts = [f"A{chr(code)}b" for code in codes]
        for code, text, words in zip(codes, texts, normalized(tf.constant(texts)).to_list(), strict=True):
            actual = [word.decode() for word in words]
            if actual != words_by_unicodedata(text, do_lower_case):
                different.append((hex(code), actual))
    assert not different


@IS_REFERENCE
@pytest.mark.parametrize(
    "context",
    [
        "ΑΣ{} {}Σ",
        "a\u0345{}\u0334",
        *(pytest.param(context, marks=pytest.mark.slow) for context in ("ΑΣ{}Α", "\U0001d16d{}\U00016ff0{}\U0010ffff")),
    ],
)
def test_lower_case_and_decomposition_of_every_code_point_are_python_s_in_every_context(context):
    texts = [context.replace("{}", chr(code)) for code in CODE_POINTS if code]
    expected = [unicodedata.normalize("NFD", text.lower()).encode() for text in texts]
    actual = tf.function(unicode_14.lower_and_decompose)(tf.constant(texts)).numpy().tolist()
    assert [text for text, ours, theirs in zip(texts, actual, expected, strict=True) if ours != theirs] == []


@IS_REFERENCE
def test_the_tables_name_exactly_the_code_points_on_which_tensorflow_and_unicode_14_differ():
    texts = tf.constant([chr(code) for code in CODE_POINTS])
    lowered = tf.strings.lower(texts, encoding="utf-8").numpy().tolist()
    capitals = {
        code for code, small in zip(CODE_POINTS, lowered, strict=True) if code and small != chr(code).lower().encode()
    }
    assert capitals == {code for first, last, _ in unicode_14.CAPITALS for code in range(first, last + 1)}
    newer = set()
    for context in ("{}", "a\u0345{}", "a{}\u0334"):
        contexts = [context.replace("{}", chr(code)) for code in CODE_POINTS]
        for code, text, actual in zip(
            CODE_POINTS, contexts, tf_text.normalize_utf8(contexts, "NFD").numpy().tolist(), strict=True
        ):
            if actual != unicodedata.normalize("NFD", text).encode():
                newer.add(code)
    assert newer == {code for first, last in unicode_14.NEWER_MARKS for code in range(first, last + 1)}


@IS_REFERENCE
def test_the_character_classes_are_what_their_generator_writes(tmp_path, monkeypatch):
    from tests.golden import generate_unicode_14 as generator

    committed = generator.OUTPUT.read_bytes()
    monkeypatch.setattr(generator, "OUTPUT", tmp_path / "classes.py")
    generator.main()
    assert (tmp_path / "classes.py").read_bytes() == committed


def test_invalid_utf8_is_dropped_and_its_neighbours_stay():
    words = tf.strings.split(normalize.space_out(tf.constant([b"caf\xff\xc3\xa9 \xe4\xb8", b"\xed\xa0\x80x"]), False))
    assert [[word.decode() for word in row] for row in words.to_list()] == [["café"], ["x"]]
