"""Golden pieces of google-research/bert's FullTokenizer on adversarial strings.

Reference: PyPI bert-tensorflow 1.0.4, bert/tokenization.py, on Python 3.11
(unicodedata 14.0.0). See README.md beside this file for the environment.

    python tests/golden/generate_tokenization.py

Writes beside this file:
  tokenization_vocab.txt  an invented vocabulary, [PAD] at 0. It lacks ##q, Q
                          and ~, for example, so that [UNK] occurs
  tokenization.json       {"metadata": {...}, "cases": [{"text": string,
                          "lower": pieces, "cased": pieces}, ...]}. "lower" is
                          with do_lower_case, and "cased" is without
"""

import json
import os
import string
import sys
import unicodedata
from importlib.metadata import version

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

from absl import flags
from bert import tokenization

OUTPUT_DIR = os.path.dirname(os.path.abspath(__file__))
VERSIONS = {"bert-tensorflow": "1.0.4", "unicodedata": "14.0.0"}

SPECIALS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "[unused0]", "[unused1]"]
# Single characters, each as an entry alone and, with ##, within a word.
LETTERS = (
    "éçßøæœıđł\u0301\u0308\u0307\u0306\u3099½²ﬁＡａ１Ⅰⅰǅǆⓐ"
    "αιουωσςμγΣΑΔΟйиプ"
    # Upper and lower case: Georgian (Unicode 11), Cherokee, and U+1C89. Unicode
    # 16 added U+1C89, so the reference does not change it.
    "ᲐაᎠꭰ\u1c89\u1c8a"
    "املپשלוםךกนสำदिनक"
    "がかカパ한어\u1112\u1161\u11ab"
)
ALONE = "中国人大学的我一語日本㐀\uf900\u8c48𠀀…—–“”‘’«»¿¡、。「」！？，：·‰§€£©°¶"
SYMBOLS = "😀👍🏽❤→∞√€™"  # neither letters nor punctuation, so they stay in words
WORDS = """
the in it un hello world Hello World token tokens mask cls sep unk ##aff ##able
##ing ##ed ##s ##er ##est ##ization ##ize ##ization caf café cafe ##fé ##fe
naive naïve resume résumé stra ##sse ##ße strasse nq ##qq ##qb aq abc abcd ##cd
##de ##def istanbul Istanbul ##stan i ##bul New York new york 2019 ##19 20 ##000
don can ##not cannot привет ##вет οδος ##δος οδοσ ελλας 中国 ##中 ##国 日本語 カ ハ パ ab
##ab ##abab aaaa ##aaaa سلام ##لام שלום नमस्ते नमसत สวัสดี สวสด 한국 ##국어 mask]
[mask ##. ... -- 's
""".split()


def make_vocabulary():
    """Returns the entries in order, without repetition."""
    missing = set("Q~^") | {"##q", "##Q", "##Z", "##7"}
    ascii_word = string.ascii_lowercase + string.ascii_uppercase + string.digits
    entries = (
        SPECIALS
        + list(string.punctuation + ascii_word)
        + ["##" + c for c in ascii_word]
        + [form for c in LETTERS for form in (c, "##" + c)]
        + list(ALONE)
        + [form for c in SYMBOLS for form in (c, "##" + c)]
        + WORDS
    )
    return [entry for entry in dict.fromkeys(entries) if entry not in missing]


# `probe` puts each character between letters, between spaces and at both ends, and
# doubles it.
PROBED = (
    "\x00 \x01 \x07 \x08 \x0b \x0c \x1b \x1c \x1f \x7f \x80 \x85 \x9f \xa0 \xad "
    "\u061c \u0600 \u070f \u1680 \u180e \u2000 \u2003 \u2009 \u200a \u200b \u200c "
    "\u200d \u200e \u200f \u2028 \u2029 \u202a \u202e \u202f \u205f \u2060 \u2066 "
    "\u3000 \ufe0f \ufeff \ufff9 \ufffc \ufffd \ufffe \uffff \ue000 \U000e0001 "
    "\U000e0020 \U000f0000 \U0010fffd \U0010ffff \u0301 \u0345 \u034f \u0903 \u20dd "
    "\u093f \u0488 \u302e \u3099 \u3164 \u115f "
    # CJK blocks, first and last, and their neighbours outside.
    "\u33ff \u3400 \u4dbf \u4dc0 \u4dff \u4e00 \u9fff \ua000 \uf8ff \uf900 \ufaff "
    "\ufb00 \U0001ffff \U00020000 \U0002a6df \U0002a6e0 \U0002a700 \U0002b73f "
    "\U0002b740 \U0002b820 \U0002ceaf \U0002ceb0 \U0002f7ff \U0002f800 \U0002fa1f "
    "\U0002fa20 \U00030000 \u3007 \u3042 \u30a2 \uac00 \uff21 \uff66 "
    # Assigned after Unicode 14, so the reference treats them as unassigned.
    "\u0cf3 \u0ece \U00010efd \U00011f00 \U0001e4ec \U00011b00 \U00013430 "
    "\U00013439 \u1c89 \u1c8a \u2ffc \u31ef \U0001fae8 "
    # Punctuation of every class, and symbols that are not punctuation.
    "_ - ( ] $ + < ^ ` | ~ \xa7 \xb6 \xb7 \xab \xbf \u2014 \u2026 \u203f \u2030 "
    "\u3001 \u30fb \uff0c \uff3f \uff5e \u066a \u0964 \u05be \u1400 \U00010100 "
    "\xa2 \xb0 \xd7 \u20ac \u2122 \u2192 \u221e \U0001f600"
).split(" ")

TEXTS = [
    # Nothing, or only characters that are removed.
    "", " ", "   ", "\t", "\n", "\r\n", "\x00", "\x00\x00 \x00", "\ufffd", "\u200b",
    "\xad", "\u0301", " \u0301 ", "\u0301\u0301", "\u3000", "\u2028", "\xa0\xa0",
    # Plain.
    "hello world", "Hello World", "HELLO WORLD", "  hello   world  ", "hello\tworld",
    "hello\nworld\r\n", "unaffable", "UNaffable", "un affable", "tokenization",
    "tokenizationing", "New York", "newyork", "abcdef", "abcdefg", "abcd", "2019",
    "20000", "a1b2c3", "3.14", "1,000,000", "don't", "can't cannot can not", "we're",
    "'s", "it's", "x", "q", "Q", "aq", "aqb", "nqq", "nq", "nqb", "xaqx", "iraq",
    "Zz zZ", "7", "77", "a7", "~", "a~b", "hello ~ world",
    # Specials are ordinary text.
    "[MASK]", "[mask]", "[CLS] hello [SEP]", "hello [MASK] world", "[MASK][MASK]",
    "x[MASK]y", "[PAD]", "[UNK]", "[unused0]", "[unused1] hello", "[ MASK ]",
    "##ing", "##", "####", "un ##aff ##able", "##un", "##[UNK]", "[ＭＡＳＫ]",
    # Runs of punctuation.
    "...", "hello...world", "--", "a--b", "!!!???", "(hello)", "\"hello,\" world.",
    "a.b.c.", "http://a.b/c?d=e&f=g#h", "me@x.org", "C++", "C#", "<br/>", "$1.00",
    "100%", "a_b", "__init__", "`a`", "^", "a|b", "\\n", "{[()]}", "*a*", "#1", ".", ",.",
    "“hello” — ‘world’…", "¿qué? ¡no!", "«café»", "a·b", "5‰", "§5", "a…b", "‚a„",
    # Accents, composed and decomposed; ligatures; compatibility characters.
    "café", "cafe\u0301", "CAFÉ", "CAFE\u0301", "naïve résumé", "NAÏVE RÉSUMÉ",
    "e\u0301\u0308\u0327a", "\u0301abc", "abc\u0301", "a \u0301 b", "a\u0301 b",
    "ß", "Straße", "STRASSE", "STRAẞE", "ẞ", "ſ", "ﬁ ﬂ ﬃ", "ﬁt",
    "\u212b \xc5 A\u030a", "\u2126 \u03a9", "\u212a K",
    "½", "1½", "² ³ x²", "①②", "Ⅷ ⅷ Ⅰ", "ａｂｃ", "ＡＢＣ", "Ａ１", "！？，：", "™ ℃ №",
    "Ǆ ǅ ǆ", "œuvre Œuvre", "æ Æ ø Ø", "đ Đ ł Ł", "ñandú ÑANDÚ", "ç c\u0327 Ç",
    "Việt Nam", "Ṩ Ṥ s\u0323\u0307 s\u0307\u0323", "ﷺ", "㎏ ㍿", "ⓐⒶ", "ĳ Ĳ", "ŉ", "ǰ",
    "1\u20442 \u2044", "Z\u0351\u036b\u0343\u036aa\u0302\u0308l\u030cg\u0327o\u0301",
    # Case mappings that depend on place or language.
    "İstanbul", "ISTANBUL", "ıI iİ", "İ", "I\u0307", "i\u0307", "ΟΔΟΣ", "οδος", "ΟΔΟΣ.",
    "ΟΔΟΣ ΟΔΟΣ", "Σ", "ΣΣ", "ΑΣ", "ΑΣΑ", "Σ.", "ΑΣ.Α", "ΑΣ'Α", "ΑΣ\u0301", "ΑΣ\xadΑ", "aΣ",
    "1Σ", "ΑΣ1", "ΑΣ-Β", "ΕΛΛΆΣ Ελλάς", "ᾼ ᾳ ᾈ", "ΐ ΰ", "\u1fbb \u03ac \u0386",
    "Ǉ \u2127 ℵ", "Ꭰ ꭰ", "Ა ა", "Ⴀ ⴀ", "\u1c89 \u1c8a",
    "𐐀 𐐨", "𝐀𝐛", "Ȿ ȿ Ꞌ",
    # Other scripts.
    "привет", "ПРИВЕТ", "Йй И\u0306и\u0306", "Ёё", "Київ їжа", "سلام", "السَّلَامُ عَلَيْكُم",
    "سلا\u200cم", "ســلام", "پ ي ی", "؟ ، ؛", "١٢٣", "שלום", "שָׁלוֹם", "של\u05beום", "ךם",
    "נ\u200fא", "สวัสดี", "สวัสดีครับ", "ำ นะ", "नमस्ते", "हिंदी में", "क\u200dष क\u094dष", "।॥", "\u0958 \u0915\u093c",
    "বাংলা", "தமிழ்", "తెలుగు", "ಕನ್ನಡ", "മലയാളം", "සිංහල", "ལྷ་ས།", "မြန်မာ", "ខ្មែរ", "አማርኛ።",
    "ქართული", "հայերեն։", "ᏣᎳᎩ", "ᠮᠣᠩᠭᠣᠯ",
    # Chinese, Japanese, Korean.
    "中国人", "我一中国人", "中 国", "hello中国world", "中a国", "a中", "中,国。", "中\u0301国",
    "日本語", "日本語です", "カタカナ", "ｶﾀｶﾅ", "がか\u3099", "パハ\u309a", "ー〜", "〇", "々", "㐀𠀀\uf900",
    "\uf900 \uf901 \uf90a \u8c48", "\U0002f800", "한국어", "한국", "\u1112\u1161\u11ab", "ㅎㅏㄴ", "漢字とカナ",
    "「中」『国』、。",
    "ＮＨＫ中国", "㈱ ㊥", "⺀ ⼀", "ㄅㄆ",
    # Emoji.
    "😀", "hello😀world", "👍🏽", "👨\u200d👩\u200d👧", "❤\ufe0f", "❤", "🇩🇪", "1\ufe0f\u20e3", "😀😀 😀",
    # Long words: over 200 characters after lower-casing, a word is [UNK].
    "a" * 199, "a" * 200, "a" * 201, "a" * 1000, "A" * 200, "A" * 201, "é" * 199,
    "é" * 200, "é" * 201, "e\u0301" * 100, "e\u0301" * 101, "e\u0301" * 200,
    "e\u0301" * 201, "İ" * 200, "İ" * 201, "ß" * 200, "ß" * 201, "中" * 201,
    "😀" * 200, "😀" * 201, "한" * 67, "한" * 66 + "ab", "한" * 200, "." * 201,
    "a" * 150 + "." + "a" * 150, "a" * 200 + "\xad", "a" * 200 + "\u200b" * 9,
    "a" * 200 + "\u0301", "a" * 199 + "q", "x " + "a" * 201 + " y", "ab" * 100,
    "ab" * 100 + "c", "\u0301" * 300, "a" + "\u0301" * 300, "𠀀" * 201, "𝐀" * 200,
    # Mixtures.
    "a\x00b", "a\ufffdb", "hel\xadlo", "hel\u200blo", "hello\xa0world", "a\u2028b",
    "a \u2028 b", "a\u2029b\u0085c", "a\x1cb\x1db", "\ufeffhello", "hello\ufeff",
    "\u202ehello\u202c", "a\u0301\u200bb", "don\u2019t", "don\u02bct", "co\u2010op",
    "non\u2011breaking", "a\u2212b", "x\u0338", "\xb5 μ", "ª º", "Caf\xe9\u2014CAF\xc9",
    "The naïve Café, at ½ price… in İstanbul (中国)!", "\tΟΔΟΣ\u3000中国\xa0[MASK]\x00 ",
]  # fmt: skip


def probe(character):
    """A string with the character in every kind of place."""
    c = character
    return f"{c}ab{c}cd {c} a{c}{c}b A{c}B{c} .{c}. 中{c}中{c}"


def main():
    installed = {
        "bert-tensorflow": version("bert-tensorflow"),
        "unicodedata": unicodedata.unidata_version,
    }
    if installed != VERSIONS:
        raise SystemExit(f"reference versions are {installed}, expected {VERSIONS}")
    flags.FLAGS(sys.argv[:1])  # the reference reads the flag preserve_unused_tokens

    vocabulary = make_vocabulary()
    vocab_file = os.path.join(OUTPUT_DIR, "tokenization_vocab.txt")
    with open(vocab_file, "w", encoding="utf-8", newline="\n") as f:
        f.writelines(entry + "\n" for entry in vocabulary)
    tokenizers = {
        "lower": tokenization.FullTokenizer(vocab_file, do_lower_case=True),
        "cased": tokenization.FullTokenizer(vocab_file, do_lower_case=False),
    }
    if list(tokenizers["lower"].vocab) != vocabulary:
        raise SystemExit("the reference reads other entries from tokenization_vocab.txt; mend make_vocabulary")

    texts = dict.fromkeys(TEXTS + [probe(c) for c in PROBED])
    cases = [{"text": text, **{k: t.tokenize(text) for k, t in tokenizers.items()}} for text in texts]
    metadata = {
        "reference": "bert/tokenization.py FullTokenizer",
        "versions": VERSIONS,
        "vocabulary": "tokenization_vocab.txt",
    }
    path = os.path.join(OUTPUT_DIR, "tokenization.json")
    lines = ",\n".join(json.dumps(case) for case in cases)
    with open(path, "w", encoding="utf-8", newline="\n") as f:
        f.write(f'{{"metadata": {json.dumps(metadata)},\n"cases": [\n{lines}\n]}}\n')
    size = os.path.getsize(path)
    print(f"{path} {size} bytes, {len(cases)} cases, {len(vocabulary)} entries")


if __name__ == "__main__":
    main()
