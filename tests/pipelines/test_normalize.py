"""Normalization against Python's own unicodedata, for every code point there is."""

import unicodedata

import pytest
import tensorflow as tf

from pipelines import normalize

CODE_POINTS = [code for code in range(0x110000) if not 0xD800 <= code <= 0xDFFF]
CJK_BLOCKS = ((0x4E00, 0x9FFF), (0x3400, 0x4DBF), (0x20000, 0x2A6DF), (0x2A700, 0x2B73F), (0x2B740, 0x2B81F),
              (0x2B820, 0x2CEAF), (0xF900, 0xFAFF), (0x2F800, 0x2FA1F))


def words_by_unicodedata(text, do_lower_case):
    """BERT's basic tokenization written down from its description, one character at a time."""
    kept = "".join(" " if c in "\t\n\r" or unicodedata.category(c) == "Zs" else c for c in text
                   if c in "\t\n\r" or (c not in "\0\ufffd" and unicodedata.category(c) not in ("Cc", "Cf")))
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


@pytest.mark.skipif(unicodedata.unidata_version != "14.0.0", reason="the reference is Unicode 14, that of Python 3.11")
@pytest.mark.parametrize("do_lower_case", [True, False])
def test_every_code_point_inside_a_word_is_normalized_as_unicodedata_says(do_lower_case):
    normalized = tf.function(lambda texts: tf.strings.split(normalize.space_out(texts, do_lower_case)))
    different = []
    for start in range(0, len(CODE_POINTS), 1 << 16):
        codes = CODE_POINTS[start:start + (1 << 16)]
        texts = [f"A{chr(code)}b" for code in codes]
        for code, text, words in zip(codes, texts, normalized(tf.constant(texts)).to_list()):
            # Unassigned code points that a newer table knows become one stand-in; which word it is does not matter.
            found = [word.decode().replace("\U0010ffff", chr(code)) for word in words]
            if found != words_by_unicodedata(text, do_lower_case):
                different.append((hex(code), found))
    assert not different


def test_invalid_utf8_is_dropped_and_its_neighbours_stay():
    words = tf.strings.split(normalize.space_out(tf.constant([b"caf\xff\xc3\xa9 \xe4\xb8", b"\xed\xa0\x80x"]), False))
    assert [[word.decode() for word in row] for row in words.to_list()] == [["café"], ["x"]]
