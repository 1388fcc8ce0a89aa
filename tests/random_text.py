"""Random strings on which tokenizers differ, for the tests, the golden files and the benchmarks.

A string is a pure function of (seed, number). Every version of Python makes the same strings, because the generator
uses no Unicode table and draws only random.Random(seed).random(), which Python keeps stable. The module imports the
standard library only, because the interpreter of the reference tokenizer imports it too.
"""

import random

# The first and last code points of scripts and blocks. A draw chooses a range first, then a code point in the range.
_WORD_RANGES = {
    "latin": (
        (0x41, 0x5A),
        (0x61, 0x7A),
        (0xC0, 0x24F),
        (0x1E00, 0x1EFF),
        (0x250, 0x2AF),
        (0xA720, 0xA7FF),
        (0x2C60, 0x2C7F),
    ),
    "greek": ((0x370, 0x3FF), (0x1F00, 0x1FFF), (0x3B1, 0x3C9), (0x391, 0x3A9)),
    "cyrillic": ((0x400, 0x52F), (0x1C80, 0x1C8A), (0xA640, 0xA69F)),
    "caucasian": ((0x530, 0x58F), (0x10A0, 0x10FF), (0x1C90, 0x1CBF), (0x2D00, 0x2D2D), (0x2C00, 0x2C5F)),
    "semitic": ((0x590, 0x5FF), (0x600, 0x6FF), (0x700, 0x7BF), (0x860, 0x8FF), (0xFB1D, 0xFDFF), (0xFE70, 0xFEFF)),
    "indic": ((0x900, 0x97F), (0x980, 0x9FF), (0xA00, 0xDFF), (0xA8E0, 0xA8FF), (0x11000, 0x1134F)),
    "southeast_asian": (
        (0xE00, 0xEFF),
        (0xF00, 0xFFF),
        (0x1000, 0x109F),
        (0x1780, 0x17FF),
        (0x1900, 0x1AAF),
        (0x1B00, 0x1BFF),
        (0xA980, 0xA9DF),
    ),
    "african_and_american": (
        (0x1200, 0x139F),
        (0x13A0, 0x13FF),
        (0xAB70, 0xABBF),
        (0x1400, 0x167F),
        (0x7C0, 0x7FF),
        (0x1E900, 0x1E95F),
        (0x2D30, 0x2D7F),
    ),
    "kana": ((0x3040, 0x309F), (0x30A0, 0x30FF), (0x31F0, 0x31FF), (0x3100, 0x312F), (0xFF66, 0xFF9F)),
    "hangul": (
        (0xAC00, 0xD7A3),
        (0x1100, 0x11FF),
        (0xA960, 0xA97F),
        (0xD7B0, 0xD7FF),
        (0x3130, 0x318F),
        (0x1100, 0x1112),
        (0x1161, 0x1175),
        (0x11A7, 0x11C2),
    ),
    "cjk": (
        (0x4E00, 0x9FFF),
        (0x3400, 0x4DBF),
        (0x20000, 0x2A6DF),
        (0x2A700, 0x2EBFF),
        (0xF900, 0xFAFF),
        (0x2F800, 0x2FA1F),
        (0x4E00, 0x4F00),
        (0x30000, 0x323AF),
        (0x2E80, 0x33FF),
    ),
    "compatibility": (
        (0x2100, 0x218F),
        (0x2460, 0x24FF),
        (0xFB00, 0xFB06),
        (0xFF00, 0xFFEF),
        (0x1D400, 0x1D7FF),
        (0x2070, 0x209F),
        (0x1F100, 0x1F2FF),
    ),
    "ancient_capitals": (
        (0x10400, 0x104FF),
        (0x10570, 0x105BF),
        (0x10C80, 0x10CFF),
        (0x118A0, 0x118DF),
        (0x16E40, 0x16E9F),
        (0x10D40, 0x10D8F),
    ),
    "digits": ((0x30, 0x39), (0x30, 0x39), (0x660, 0x669), (0x966, 0x96F), (0xBC, 0xBE)),
}
_MARK_RANGES = (
    (0x300, 0x36F),
    (0x483, 0x489),
    (0x591, 0x5C7),
    (0x610, 0x61A),
    (0x64B, 0x65F),
    (0x900, 0x903),
    (0x93E, 0x94F),
    (0x1AB0, 0x1ACE),
    (0x1DC0, 0x1DFF),
    (0x20D0, 0x20F0),
    (0x302A, 0x302F),
    (0x3099, 0x309A),
    (0xFE00, 0xFE0F),
    (0xFE20, 0xFE2F),
    (0x1D165, 0x1D172),
    (0x16FF0, 0x16FF1),
    (0xE0100, 0xE01EF),
    (0x1E000, 0x1E02A),
    (0x345, 0x345),
    (0xCF3, 0xCF3),
    (0x10EFD, 0x10EFF),
    (0x1E4EC, 0x1E4EF),
)
# Spacing marks with a combining class other than 0. Decomposition orders them, and stripping of accents keeps them.
ORDERED_MARKS = "\U0001d165\U0001d166\U0001d16d\U0001d172\U00016ff0\U00016ff1\u302e\u302f\u1b44\u1baa\u1bf2\ua953\ua9c0"
_CONTROLS = "".join(map(chr, [*range(0, 9), 11, 12, *range(14, 32), *range(127, 160)])) + (
    "\xad\u0600\u0605\u061c\u06dd\u070f\u0890\u08e2\u180e\u200b\u200c\u200d\u2060\u2063\u206f\ufeff\ufff9\ufffb\ufffd"
    "\U000110bd\U000110cd\U00013430\U00013438\U00013439\U0001bca0\U0001d173\U000e0001\U000e007f\ufffe\uffff\ue000"
)
_WHITE_SPACE = " \t\n\r\xa0\u1680\u2000\u2002\u2003\u2007\u2009\u200a\u2028\u2029\u202f\u205f\u3000"
_BIDI_MARKS = "\u200e\u200f\u061c\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
_PUNCTUATION_RANGES = (
    (0x21, 0x2F),
    (0x3A, 0x40),
    (0x5B, 0x60),
    (0x7B, 0x7E),
    (0xA1, 0xBF),
    (0x2010, 0x205E),
    (0x3001, 0x3030),
    (0xFF01, 0xFF0F),
    (0xFE10, 0xFE6F),
    (0x2E00, 0x2E5D),
    (0x2190, 0x23FF),
)
_CASE_ODDITIES = (
    "İ",
    "ı",
    "i\u0307",
    "I\u0307",
    "ß",
    "ẞ",
    "ſ",
    "ŉ",
    "ǰ",
    "ΐ",
    "ΰ",
    "և",
    "ẖ",
    "ẚ",
    "ᾳ",
    "ᾼ",
    "ᾈ",
    "ῼ",
    "ǅ",
    "ǈ",
    "ǲ",
    "ﬀ",
    "ﬁ",
    "ﬃ",
    "ﬅ",
    "ﬆ",
    "ﬓ",
    "\u212a",
    "\u212b",
    "\u2126",
    "µ",
    "ℵ",
    "ª",
    "º",
    "Ⅷ",
    "ⓐ",
    "Ⓐ",
    "\u0345",
    "Ⱥ",
    "Ɐ",
    "Ᏸ",
    "ᏸ",
    "Ꭰ",
    "Ა",
    "ა",
    "Ⴀ",
    "\u1c89",
    "\u2c2f",
    "\ua7c0",
    "\ua7cb",
    "\ua7dc",
    "\U00010570",
)
_SIGMA_BEFORE = (
    "Α",
    "α",
    "1",
    " ",
    "",
    ".",
    "Α\u0301",
    "Α\xad",
    "Α'",
    "\u0345",
    "ª",
    "Ⓐ",
    "中",
    "Α\u200d",
    "a",
    "ʰ",
    "\ua7c0",
    "\U00010597",
    "Α\u0898",
    "Α\U0001e2ae",
)
_SIGMA_AFTER = (
    "",
    "Α",
    "α",
    "1",
    " ",
    ".",
    ".Α",
    "\u0301",
    "\u0301Α",
    "\xad",
    "\xadΑ",
    "'Α",
    "\u0345",
    "ª",
    "ⓐ",
    "中",
    ":α",
    "\u00b7",
    "-",
    "\U0001f3fb",
    "\u02b0",
    "\u180e",
    "\u19b0",
    "\ua7c0",
    "\U00010597",
    "\u0898Α",
    "\u180fΑ",
    "\U0001e2aeΑ",
    "\u0605Α",
    "\u200dΑ",
    "\ufe0fΑ",
    "\ufffdΑ",
    "\x00Α",
)
_EMOJI_RANGES = ((0x1F300, 0x1F64F), (0x1F680, 0x1F6FF), (0x1F900, 0x1FAFF), (0x2600, 0x27BF), (0x1F1E6, 0x1F1FF))
_EMOJI_JOINTS = (
    "\u200d",
    "\ufe0f",
    "\ufe0f\u200d",
    "\U0001f3fb",
    "\U0001f3ff",
    "\u20e3",
    "\U000e0067\U000e007f",
    "",
    "",
)
_SPECIALS = (
    "[MASK]",
    "[CLS]",
    "[SEP]",
    "[PAD]",
    "[UNK]",
    "[unused1]",
    "[mask]",
    "##ing",
    "##",
    "[MASK",
    "MASK]",
    "[[MASK]]",
    "[ＭＡＳＫ]",
    "[MASK\u0301]",
    "[MA\xadSK]",
)
_WORDS = (
    "the of and in to was is for on as with that by at from his are were which hello world tokenization "
    "unaffable Wikipedia University international Straße café naïve résumé Москва россия αθήνα ΑΘΉΝΑ ΟΔΟΣ οδός "
    "中国 大学 日本語 東京 カタカナ ひらがな 한국어 서울 שלום العربية मानक हिन्दी ไทย Việt İstanbul "
    "don't e.g. 3.14 2019 U.S. x² H₂O"
).split(" ")
# Characters of 1, 2, 3 and 4 bytes, characters that lowering lengthens, and characters that decompose into several.
_LONG_WORD_UNITS = (
    "a",
    "A",
    "7",
    "é",
    "ж",
    "ß",
    "İ",
    "\u0e01",
    "\u1ea4",
    "ᾼ",
    "한",
    "각",
    "カ",
    "ガ",
    "\u3042",
    "\U0001f600",
    "\U00010400",
    "\U0001d400",
    "a\u0301",
    "e\u0301\u0308",
    "x\xad",
    "\U0001d15e",
    "\u0958",
    "\ufb2c",
    "\u0cca",
    "ab",
    "aé",
    "aж\U0001f600",
    "\u0301",
    "q",
    "\U0010ffff",
    "\u0378",
)
_LONG_WORD_LENGTHS = (66, 67, 99, 100, 101, 198, 199, 200, 201, 202, 399, 400, 401, 800, 801)

_INVALID = (
    b"\xed\xa0\x80",
    b"\xed\xbf\xbf",
    b"\xed\xa0\xbd\xed\xb8\x80",
    b"\xc0\x80",
    b"\xc1\xbf",
    b"\xe0\x80\x80",
    b"\xe0\x9f\xbf",
    b"\xf0\x80\x80\x80",
    b"\xf0\x8f\xbf\xbf",
    b"\xf4\x90\x80\x80",
    b"\xf5\x80\x80\x80",
    b"\xf8\x88\x80\x80\x80",
    b"\xfe",
    b"\xff",
    b"\x80",
    b"\xbf",
    b"\xc3",
    b"\xe4",
    b"\xe4\xb8",
    b"\xf0",
    b"\xf0\x9f",
    b"\xf0\x9f\x98",
    b"\xef\xbb",
    b"\xcc",
    b"\xe2\x80",
    b"\x00\xff\x00",
    b"\xff\xfe",
    b"\xef\xbf\xbd",
)


class _Draw:
    """Random draws of one seed. Every draw uses random() only."""

    def __init__(self, seed):
        self.random = random.Random(seed).random

    def below(self, limit):
        return int(self.random() * limit)

    def one_of(self, choices):
        return choices[int(self.random() * len(choices))]

    def from_ranges(self, ranges):
        first, last = self.one_of(ranges)
        return chr(first + int(self.random() * (last - first + 1)))


def _word(draw):
    ranges = draw.one_of(_SCRIPTS)
    return "".join([draw.from_ranges(ranges) for _ in range(1 + draw.below(8))])


def _marks(draw):
    return "".join([draw.from_ranges(_MARK_RANGES) for _ in range(1 + draw.below(5))])


def _marked_word(draw):
    ranges = draw.one_of(_SCRIPTS)
    return "".join(
        [draw.from_ranges(ranges) + (_marks(draw) if draw.random() < 0.4 else "") for _ in range(1 + draw.below(5))]
    )


def _emoji(draw):
    return "".join([draw.from_ranges(_EMOJI_RANGES) + draw.one_of(_EMOJI_JOINTS) for _ in range(1 + draw.below(4))])


def _right_to_left(draw):
    return "".join(
        [
            draw.one_of(_BIDI_MARKS) if draw.random() < 0.3 else draw.from_ranges(_WORD_RANGES["semitic"])
            for _ in range(2 + draw.below(8))
        ]
    )


def _anything(draw):
    """Any code point, assigned or not, except surrogates, which UTF-8 cannot encode."""
    code = draw.below(0x110000 - 0x800) if draw.random() < 0.5 else draw.below(0x20000)
    return chr(code if code < 0xD800 else code + 0x800)


_SCRIPTS = tuple(_WORD_RANGES.values())
# (weight, function that makes a part of a string)
_MAKERS = (
    (5, _word),
    (4, lambda draw: draw.one_of(_WORDS)),
    (3, lambda draw: draw.one_of(_WORDS).upper() if draw.random() < 0.5 else draw.one_of(_WORDS).title()),
    (2, lambda draw: "".join([draw.from_ranges(((0x61, 0x7A), (0x20, 0x7E))) for _ in range(1 + draw.below(12))])),
    (2, _marked_word),
    (1, _marks),
    (1, lambda draw: "".join([draw.one_of(ORDERED_MARKS) for _ in range(1 + draw.below(4))])),
    (2, lambda draw: draw.one_of(_CONTROLS)),
    (2, lambda draw: "".join([draw.one_of(_WHITE_SPACE) for _ in range(1 + draw.below(3))])),
    (2, _emoji),
    (1, _right_to_left),
    (2, lambda draw: "".join([draw.from_ranges(_PUNCTUATION_RANGES) for _ in range(1 + draw.below(6))])),
    (1, lambda draw: draw.from_ranges(_PUNCTUATION_RANGES) * (1 + draw.below(20))),
    (2, lambda draw: draw.one_of(_CASE_ODDITIES)),
    (1, lambda draw: draw.one_of(_SIGMA_BEFORE) + draw.one_of("ΣΣσς") + draw.one_of(_SIGMA_AFTER)),
    (2, lambda draw: draw.one_of(_SPECIALS)),
    (2, _anything),
)
_WEIGHTED_MAKERS = tuple(maker for weight, maker in _MAKERS for _ in range(weight))
_SEPARATORS = ("", "", "", " ", " ", "\u3000", "\n", ".")


def _long_word(draw):
    """A word near the limit of 200 characters after normalization, or of 800 bytes."""
    length = draw.one_of(_LONG_WORD_LENGTHS)
    unit = draw.one_of(_LONG_WORD_UNITS)
    word = unit * (length if draw.random() < 0.5 else -(-length // len(unit)))
    if draw.random() < 0.5:
        place = draw.below(len(word) + 1)
        word = word[:place] + draw.one_of(_WEIGHTED_MAKERS)(draw) + word[place:]
    return draw.one_of(("", "", "x ", "中", "(")) + word + draw.one_of(("", "", " y", "中", ")", "\u0301"))


def random_string(seed: int, number: int) -> str:
    """A string of mixed scripts, marks, controls, white space, emoji and words of any length.

    Args:
        seed: chooses the sequence of strings.
        number: the place in that sequence.
    """
    draw = _Draw(seed * 1_000_003 + number)
    if draw.random() < 0.01:
        return _long_word(draw)
    parts = []
    for _ in range(1 + draw.below(8)):
        parts.append(draw.one_of(_WEIGHTED_MAKERS)(draw))
        parts.append(draw.one_of(_SEPARATORS))
    return "".join(parts)


def random_bytes(seed: int, number: int) -> bytes:
    """Bytes that are mostly not UTF-8: encoded surrogates, overlong and cut sequences, stray and changed bytes."""
    draw = _Draw(seed * 1_000_003 + number)
    if draw.random() < 0.1:
        return bytes([draw.below(256) for _ in range(draw.below(40))])
    text = bytearray(random_string(seed + 1, number).encode("utf-8"))
    for _ in range(1 + draw.below(3)):
        place = draw.below(len(text) + 1)
        kind = draw.below(4)
        if kind == 0 and place < len(text):
            del text[place]
        elif kind == 1 and place < len(text):
            text[place] = draw.below(256)
        elif kind == 2 and draw.random() < 0.2:
            del text[place:]
        else:
            text[place:place] = draw.one_of(_INVALID)
    return bytes(text)


def code_points() -> tuple[int, ...]:
    """All code points that UTF-8 can encode."""
    return (*range(0xD800), *range(0xE000, 0x110000))


def code_point_contexts(code: int) -> tuple[str, ...]:
    """Strings with a code point: alone, doubled, in a word, between CJK, and where it affects case or mark order."""
    c = chr(code)
    return (c, c + c, f"ab{c}cd", f"中{c}国", f"ΑΣ{c}", f"ΑΣ{c}Α", f"{c}Σ", f"a\U0001d16d{c}\U00016ff0")


def character_vocabulary() -> list[str]:
    """A vocabulary with two entries for each code point: one starts a word, and the other (##) continues it.

    It has all code points of planes 0 and 1, the tags, and samples of the other planes, which are uniform. A published
    vocabulary turns a word with one rare character into [UNK], which hides the other characters. With this vocabulary
    every code point of the normalized text shows as a piece.
    """
    codes = [
        *range(0x21, 0xD800),
        *range(0xE000, 0x20000),
        *range(0x20000, 0xE0000, 101),
        *range(0xE0000, 0xE1000),
        *range(0xE1000, 0x10FFFF, 1009),
        0x10FFFF,
    ]
    # The reference tokenizer strips the lines of a vocabulary, so white space cannot be an entry.
    characters = [character for character in map(chr, codes) if character.strip()]
    return ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"] + [form for c in characters for form in (c, "##" + c)]
