"""BERT's text cleaning as TensorFlow ops: google-research/bert tokenization.BasicTokenizer on batches of strings.

Order as there: clean -> spaces around CJK characters -> lower, NFD, drop accents (uncased only) -> spaces around
punctuation. After it, splitting on white space gives the words that WordPiece cuts into pieces.
"""

import tensorflow as tf
import tensorflow_text as tf_text

from pipelines.unicode_14 import as_in_unicode_14

# NUL, U+FFFD and the categories Cc and Cf, but not tab, line feed and carriage return, which are white space.
_REMOVED = r"[\x00-\x08\x0B\x0C\x0E-\x1F\x7F-\x{9F}\x{FFFD}\p{Cf}]"
# _is_whitespace there, and the two separators at which Python's str.split() splits besides.
_WHITE_SPACE = r"[\t\n\r\p{Zs}\x{2028}\x{2029}]"
# _is_chinese_char there: CJK ideographs only; Hangul, Hiragana and Katakana are written with spaces or as words.
_CJK = (r"([\x{4E00}-\x{9FFF}\x{3400}-\x{4DBF}\x{20000}-\x{2A6DF}\x{2A700}-\x{2B73F}\x{2B740}-\x{2B81F}"
        r"\x{2B820}-\x{2CEAF}\x{F900}-\x{FAFF}\x{2F800}-\x{2FA1F}])")
# All ASCII that is neither letter, digit nor space counts as punctuation ("$", "^", "`" too), and category P.
_PUNCTUATION = r"([!-/:-@\[-`{-~\p{P}])"

# Text on which the short path of the tokenizer is exact.
PLAIN_ASCII = r"[\t\n\r -~]*"


def repair_utf8(texts):
    """Strings with every invalid UTF-8 sequence replaced by U+FFFD, which cleaning then removes."""
    return tf.strings.unicode_transcode(texts, "UTF-8", "UTF-8", errors="replace", replacement_char=0xFFFD)


def clean(texts):
    """Removes control characters, NUL and U+FFFD; every white-space character becomes a space."""
    texts = tf.strings.regex_replace(texts, _REMOVED, "")
    return tf.strings.regex_replace(texts, _WHITE_SPACE, " ")


def lower_and_strip_accents(texts):
    """str.lower, canonical decomposition, then no combining marks (category Mn)."""
    texts = tf.strings.lower(texts, encoding="utf-8")
    texts = tf_text.normalize_utf8(texts, "NFD")
    return tf.strings.regex_replace(texts, r"\p{Mn}", "")


def space_out(texts, do_lower_case):
    """Raw text to text whose words, punctuation and CJK characters stand between spaces.

    Args:
        texts: string tensor [N]. do_lower_case: whether to lower and strip accents.

    Returns:
        String tensor [N].
    """
    texts = clean(as_in_unicode_14(repair_utf8(texts), do_lower_case))
    texts = tf.strings.regex_replace(texts, _CJK, r" \1 ")
    if do_lower_case:
        texts = lower_and_strip_accents(texts)
    return tf.strings.regex_replace(texts, _PUNCTUATION, r" \1 ")
