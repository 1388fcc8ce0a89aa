"""The English sentences in a docstring.

docstring_layout.py gives the paragraphs. This module cuts them at sentence ends, removes the markup inside a line, and
drops text that does not read as an English sentence.
"""

import re

from pipelines.text.docstring_layout import prose_paragraphs

MIN_WORDS, MAX_WORDS = 4, 120
MIN_LETTER_SHARE = 0.8  # letters and spaces among all characters
MIN_FUNCTION_WORD_SHARE = 0.1  # running English has 0.35 to 0.5, lists of names and types almost none
MAX_CODE_WORD_SHARE = 1 / 3

_FUNCTION_WORDS = frozenset(
    "a about after all also an and any are as at be because been before being between both but by can cannot "
    "could do does each either every for from had has have how if in into is it its may might more most must "
    "no not of on one only or other our out over same should since so some such than that the their them then "
    "there these they this those through to under until up use used using was we were what when where whether "
    "which while who whose will with within without would yet you your".split()
)


def docstring_sentences(docstring: str) -> list[str]:
    """Finds the prose sentences of a docstring.

    Args:
        docstring: str.

    Returns:
        list of str. The sentences in order, each one line without markup.
    """
    pieces = (piece for paragraph in prose_paragraphs(docstring) for piece in split_sentences(paragraph))
    return [sentence for sentence in map(without_markup, pieces) if is_prose(sentence)]


_ABBREVIATION = re.compile(
    r"(?:\b(?:e\.?g|i\.?e|etc|vs|cf|al|resp|approx|incl|figs?|eqs?|sec|no|vol|pp|dr|mr|mrs|ms|prof|st|inc|jr|ver|[A-Z])"
    r"|\b\d+(?:\.\d+)*\.x)\.$",
    re.IGNORECASE,
)
_SENTENCE_END = re.compile(r"[.!?]+[\"')\]*`]*\s+(?=[\"'(\[`*:_]*[A-Z]|[`*\"']|:[a-z]+:`|\w+_\w|[a-z]\w*\()")


def split_sentences(paragraph: str) -> list[str]:
    """Cuts a paragraph into sentences.

    A sentence ends after '.', '!' or '?', if white space and a capital, a quote, markup or an identifier follow. It
    does not end after an abbreviation, a single initial or a version such as '1.x.'.

    Args:
        paragraph: str.

    Returns:
        list of str.
    """
    sentences, start = [], 0
    for end in _SENTENCE_END.finditer(paragraph):
        sentence = paragraph[start : end.end()].strip()
        if not _ABBREVIATION.search(sentence.rstrip("\"')]*`")):
            sentences.append(sentence)
            start = end.end()
    return [*sentences, paragraph[start:].strip()]


_HOLE = "\x00"  # replaces markup that words cannot express; a sentence with a hole is dropped
_URL = r"(?:https?|ftp)://[^\s<>)\]]+"
_MARKUP = [  # (a string that the text must contain before the pattern is tried, pattern, replacement)
    ("![", r"!\[[^\]]*\]\([^)]*\)", _HOLE),  # image
    ("](", r"\[([^\[\]]+)\]\([^()\s]*(?:\([^()]*\)[^()\s]*)*\)", r"\1"),  # [text](target)
    ("][", r"\[([^\[\]]+)\]\[[^\[\]]*\]", r"\1"),  # [text][label]
    ("[`", r"\[(`[^`]+`)\]", r"\1"),  # [`name`]
    (":math:", r":math:`[^`]*`", _HOLE),
    ("$", r"\$[^$]+\$", _HOLE),
    ("<", r"(?::[\w+-]+)*:`([^`<]+?)\s*<[^`]*>`", r"\1"),  # :role:`text <target>`
    (":`", r"(?::[\w+-]+)+:`[~!]?([^`]*)`", r"\1"),  # :role:`name`
    ("<", r"`([^`<]+?)\s*<[^`]*>`_{0,2}", r"\1"),  # `text <target>`_
    ("[", r"\s*\[(?:\d+|#\w*|\*)\]_?(?!\w)", ""),  # footnote mark
    ("`", r"`{1,3}~?([^`]*)`{1,3}_{0,2}", r"\1"),
    ("://", r"\s*[(<]\s*(?:see:?\s*)?" + _URL + r"\s*[)>]", ""),
    ("://", _URL, _HOLE),
    ("**", r"(?<![\w*])\*\*(?=\S)(.+?)(?<=\S)\*\*(?![\w*])", r"\1"),
    ("*", r"(?<![\w*])\*(?=[^\s*])(.+?)(?<=[^\s*])\*(?![\w*])", r"\1"),
    ("_", r"(?<!\w)_(?=[^\s_])([^_]+)(?<=\S)_(?!\w)", r"\1"),
    ("<", r"</?(?:a|b|i|p|br|em|li|ul|ol|pre|code|div|span|sub|sup|img|table|tr|td|th|Tip|strong)\b[^<>]*>", ""),
    ("\\", r"\\([*_`|])", r"\1"),
    ("&", r"&lt;", "<"),
    ("&", r"&gt;", ">"),
    ("&", r"&amp;", "&"),
    (" ", r" ([.,;:!?)])(?=\s|$)", r"\1"),
]
_MARKUP = [(needed, re.compile(pattern), replacement) for needed, pattern, replacement in _MARKUP]


def without_markup(text: str) -> str:
    """Removes markup. The result reads like the rendered page, with single spaces.

    Args:
        text: str.

    Returns:
        str.
    """
    for needed, pattern, replacement in _MARKUP:
        if needed in text:
            text = pattern.sub(replacement, text)
    return " ".join(text.split())


_UNREADABLE = re.compile(r"[\\$^~{}]|::=|>>>|==|\.\.\.\.|[(=+*/]\.\.\.")
_LEGAL = (
    "copyright", "licensed", "license ", "all rights reserved", "warranty", "warranties", "permission is hereby",
)  # fmt: skip
_CODE_WORD = re.compile(r"\w[_=\[\](){}<>/|+*]+\w|\w\.\w|\w\(|=")


def is_prose(text: str) -> bool:
    """Returns whether a sentence without markup reads as English prose.

    Such a sentence has a length within bounds, enough letters and function words, few identifiers, balanced brackets,
    and a sentence end. A summary line or list item without a sentence end passes if its last word can end a sentence.

    Args:
        text: str. A sentence without markup.

    Returns:
        bool.
    """
    words = text.split()
    if not MIN_WORDS <= len(words) <= MAX_WORDS or not (text[0].isalpha() or text[0] in "\"'("):
        return False
    if not text.isprintable() or _UNREADABLE.search(text) or text.startswith(("TODO", "FIXME", "XXX")):
        return False
    lowercase = text.lower()
    if any(phrase in lowercase for phrase in _LEGAL):
        return False
    if text.count("(") != text.count(")") or text.count("[") != text.count("]") or text.count('"') % 2:
        return False
    if sum(map(str.isalpha, text)) + len(words) - 1 < MIN_LETTER_SHARE * len(text):
        return False
    function_words = sum(word.strip("\"'(),.:;").lower() in _FUNCTION_WORDS for word in words)
    if function_words < MIN_FUNCTION_WORD_SHARE * len(words):
        return False
    if _CODE_WORD.search(text):
        if sum(bool(_CODE_WORD.search(word)) for word in words) > MAX_CODE_WORD_SHARE * len(words):
            return False
    if text.rstrip("\"')]*")[-1:] in (".", "!", "?", ":"):
        return not text.endswith(("e.g.", "i.e.", "e.g.:", "i.e.:"))
    if function_words < 2 or words[-1].lower() in _FUNCTION_WORDS:
        return False
    return text[-1].isalnum() or text[-1] in "\"')"
