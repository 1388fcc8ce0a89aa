"""BERT's text cleaning as TensorFlow operations on batches of strings.

The reference is the BasicTokenizer of google-research/bert.

The steps have Google's order: clean the text; put spaces around CJK characters; for uncased vocabularies lower-case,
apply NFD and remove accents; put spaces around punctuation. Splitting the result at white space gives the words that
WordPiece cuts into pieces.
"""

import tensorflow as tf
import tensorflow_text as tf_text

from pipelines.wordpiece import unicode_14_classes as classes
from pipelines.wordpiece.unicode_14 import lower_and_decompose

# NUL, U+FFFD and the categories Cc and Cf, except tab, line feed and carriage return, which are white space.
_REMOVED = r"\x00-\x08\x0B\x0C\x0E-\x1F\x7F-\x{9F}\x{FFFD}" + classes.FORMAT
# Google's _is_whitespace, and two more separators at which Python's str.split() splits.
_WHITE_SPACE = r"\t\n\r\x{2028}\x{2029}" + classes.SPACE_SEPARATOR
# Google's _is_chinese_char: CJK ideographs only. Hangul, Hiragana and Katakana are not split into characters.
_CJK = (
    r"\x{4E00}-\x{9FFF}\x{3400}-\x{4DBF}\x{20000}-\x{2A6DF}\x{2A700}-\x{2B73F}\x{2B740}-\x{2B81F}"
    r"\x{2B820}-\x{2CEAF}\x{F900}-\x{FAFF}\x{2F800}-\x{2FA1F}"
)
# Punctuation is category P, and every printable ASCII character except letters, digits and space (also "$", "^").
_PUNCTUATION = r"!-/:-@\[-`{-~" + classes.PUNCTUATION

# At these separators both FastWordpieceTokenizer of tf.text and Google's code split. At these letters neither splits.
# This is also true after tf.strings.lower and NFD. Both sets are large enough for ordinary text. They leave out the
# capital sigma, because its small letter depends on its neighbours. tests/pipelines/wordpiece/test_tokenizer.py tries
# every character.
_ASCII_SEPARATORS = r"\t\n\r -/:-@\[-`{-~"
_PLAIN_SEPARATORS = (
    _ASCII_SEPARATORS + r"\x{A0}\x{2000}-\x{200A}\x{2010}-\x{2027}\x{3000}-\x{3003}"
    r"\x{3400}-\x{4DBF}\x{4E00}-\x{9FFF}"
)
_ASCII_LETTERS = "0-9A-Za-z"
_PLAIN_LETTERS = (
    _ASCII_LETTERS + r"\x{A1}-\x{AC}\x{AE}-\x{3A2}\x{3A4}-\x{5FF}\x{606}-\x{61B}\x{61D}-\x{6DC}\x{6DE}-\x{70E}"
    r"\x{710}-\x{88F}\x{900}-\x{ECD}\x{ECF}-\x{180D}\x{1C00}-\x{1FFF}\x{202F}-\x{205F}\x{2070}-\x{2C2E}"
    r"\x{2C30}-\x{2FFF}\x{3004}-\x{33FF}\x{4DC0}-\x{4DFF}\x{A000}-\x{A7BF}\x{A800}-\x{D7FF}"
    r"\x{E000}-\x{FEFE}\x{FF00}-\x{FFEF}\x{1F000}-\x{1FAFF}"
)
# The longest decomposition of one character without accents: a Hangul syllable has three letters.
_MAX_LETTERS_PER_CHARACTER = 3


def repair_utf8(texts):
    """Replaces every invalid UTF-8 sequence by U+FFFD, which cleaning then removes.

    Args:
        texts: string [N].

    Returns:
        string [N].
    """
    return tf.strings.unicode_transcode(texts, "UTF-8", "UTF-8", errors="replace", replacement_char=0xFFFD)


def clean(texts):
    """Removes control characters, NUL and U+FFFD; every white-space character becomes a space.

    Args:
        texts: string [N], valid UTF-8.

    Returns:
        string [N].
    """
    texts = tf.strings.regex_replace(texts, f"[{_REMOVED}]", "")
    return tf.strings.regex_replace(texts, f"[{_WHITE_SPACE}]", " ")


def lower_and_strip_accents(texts):
    """Applies str.lower and canonical decomposition, then removes combining marks (category Mn).

    Args:
        texts: string [N], valid UTF-8.

    Returns:
        string [N].
    """
    return _strip_accents(lower_and_decompose(texts))


def lower_and_strip_accents_of_plain(texts):
    """Does the same as lower_and_strip_accents, but faster; only for strings that is_plain accepts.

    Args:
        texts: string [N].

    Returns:
        string [N].
    """
    return _strip_accents(tf_text.normalize_utf8(tf.strings.lower(texts, encoding="utf-8"), "NFD"))


def _strip_accents(texts):
    return tf.strings.regex_replace(texts, f"[{classes.NONSPACING_MARK}]", "")


def space_out(texts, do_lower_case: bool):
    """Turns raw text into text with spaces around words, punctuation and CJK characters.

    Args:
        texts: string [N].
        do_lower_case: whether to lower-case and strip accents.

    Returns:
        string [N].
    """
    texts = clean(repair_utf8(texts))
    texts = tf.strings.regex_replace(texts, f"([{_CJK}])", r" \1 ")
    if do_lower_case:
        texts = lower_and_strip_accents(texts)
    return tf.strings.regex_replace(texts, f"([{_PUNCTUATION}])", r" \1 ")


def is_plain_ascii(texts, max_characters_per_word: int):
    """Tells which strings have only printable ASCII and white space, and no very long words.

    Args:
        texts: string [N].
        max_characters_per_word: the tokenizer's limit.

    Returns:
        bool [N].
    """
    return tf.strings.regex_full_match(texts, _words_of(_ASCII_LETTERS, _ASCII_SEPARATORS, max_characters_per_word))


def is_plain(texts, max_characters_per_word: int):
    """Tells which strings FastWordpieceTokenizer itself splits as Google's code does.

    For an uncased vocabulary these strings first need lower_and_strip_accents_of_plain, and nothing else.

    FastWordpieceTokenizer splits at white space, punctuation and CJK characters several times as fast as space_out. It
    does not clean text, and it uses another version of Unicode, so it suits only some strings.

    Args:
        texts: string [N].
        max_characters_per_word: the tokenizer's limit.

    Returns:
        bool [N].
    """
    return tf.strings.regex_full_match(texts, _words_of(_PLAIN_LETTERS, _PLAIN_SEPARATORS, max_characters_per_word))


def _words_of(letters, separators, max_characters_per_word):
    """Makes a pattern of words below the limit, in characters and in bytes, before and after decomposition."""
    longest = min(max_characters_per_word // _MAX_LETTERS_PER_CHARACTER, 100)
    return f"(?:[{letters}]{{0,{longest}}}[{separators}])*[{letters}]{{0,{longest}}}"
