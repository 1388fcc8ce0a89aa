"""Sentence splitting as TensorFlow graph ops, for English and for Chinese and Japanese.

RE2 has no look-around, so the work is done in passes that only ever trade white space for a
newline or back: first a newline goes in after everything that could end a sentence, then it is
taken out again after abbreviations and initials. No character but white space is ever touched,
whatever the text holds, so no placeholder characters are needed that the text might hold too.
"""

import tensorflow as tf

from pipelines.ragged import keep

_SPACE = r"[\s\pZ\x0b\x1c-\x1f\x{85}]"  # what Python's str.strip takes for white space
# Quotes and brackets that close after the end of a sentence, and that open before its start.
_CLOSING = r"[\"'”’»)\]}」』】）〕］＂＇]"
_OPENING = r"[\"'“‘„«(\[{「『【《〈（〔［¿¡]"
# Western: a terminator, white space, then a capital, a digit or a letter of a script without case.
_WESTERN_END = rf"([.!?…]{_CLOSING}*){_SPACE}+({_OPENING}*[\p{{Lu}}\p{{Lt}}\p{{Lo}}\p{{Nd}}])"
# Chinese and Japanese: full-width terminators need no white space; ASCII ! and ? do before
# anything but an ideograph or kana.
_CJK_END = rf"([。｡！？；]+{_CLOSING}*){_SPACE}*"
_ASCII_CJK_END = rf"([!?]{_CLOSING}*)([\p{{Han}}\p{{Hiragana}}\p{{Katakana}}])"
_SENTENCE_END = f"{_WESTERN_END}|{_CJK_END}|{_ASCII_CJK_END}"

# Never the end of a sentence.
_TITLES = (
    "Mr|Mrs|Ms|Messrs|Mmes|Dr|Drs|Prof|Rev|Fr|Hon|Gen|Col|Maj|Capt|Cpt|Cmdr|Cdr|Lt|Sgt|Adm|Brig"
    "|Sen|Rep|Gov|Pres|Supt|Insp|St|Ste|Mt|Ft|vs|v|cf|viz|e\\.g|i\\.e|E\\.g|I\\.e|approx|esp|incl"
    "|resp|Ph|Bros|Univ|Dept|Assn"
)
# The end of a sentence unless a number follows: "No. 5", "Jan. 5".
_NUMBERED = (
    "No|Nos|no|nos|Vol|vol|Vols|vols|Fig|fig|Figs|figs|Eq|eq|Sec|sec|Ch|ch|Art|art|Op|op|pp|p|pg"
    "|b|d|c|ca|fl"
    "|Jan|Feb|Mar|Apr|Jun|Jul|Aug|Sep|Sept|Oct|Nov|Dec"
)
# The end of a sentence only before a word that commonly opens one: "Acme Inc. The", "the U.S. In".
_EITHER = "Inc|Ltd|Co|Corp|Jr|Sr|Esq|etc|al|a\\.m|p\\.m|Ave|Blvd|Rd|Mts"
_OPENERS = (
    "The|This|That|These|Those|He|She|It|We|They|There|Then|His|Her|Its|Their|In|On|At|As|After"
    "|Although|Before|But|By|For|From|However|If|Since|When|While|With|During|Some|Many"
)
# An initial ends a sentence only before such a word, too ("World War I. The"), and not when it
# opens the text, where it numbers a list entry ("A. The").
_INITIAL = r"\b[A-Z]|\B[À-ÖØ-ÞΑ-ΩА-Я]"
# "^\d" is the number of a list entry, "1. Introduction".
_NOT_AN_END = (
    rf"(^\d{{1,3}}|\b(?:{_TITLES}|{_EITHER})|{_INITIAL})\.\n"
    rf"|\b({_NUMBERED})\.\n(\d)"
)
_END_AFTER_ALL = rf"((?:\b[A-Z]\.){{2}}|\S [A-Z]\.|\b(?:{_EITHER})\.) ((?:{_OPENERS})\b)"
# A title in 《》, a clause that goes on after a quotation, and the "（；）" that is left of a pair
# of names once templates are removed.
_CLAUSE_GOES_ON = rf"\n([，、：；。,:;》〉])|(；{_CLOSING}+)\n"


@tf.function(input_signature=[tf.TensorSpec([None], tf.string)], autograph=False)
def split_sentences(texts):
    """Split every text into its sentences.

    A sentence ends after . ! ? … with closing quotes or brackets, when white space and a capital,
    a digit or a letter without case follow, but not after an abbreviation ("Mr.", "e.g.") or an
    initial ("J."); and after 。！？； with closing quotes, white space or none. The sentences of a
    text, joined, are the text again up to white space; a text of white space only has none.

    Args:
        texts: string tensor [N], UTF-8. Newlines count as white space.

    Returns:
        RaggedTensor string [N, (sentences)], stripped of ASCII white space and never empty.
    """
    texts = _with_newlines(tf.strings.regex_replace(texts, r"\n", " "))
    sentences = tf.strings.strip(tf.strings.split(texts, sep="\n"))
    return keep(sentences, sentences.flat_values != "")


@tf.function(input_signature=[tf.TensorSpec([None], tf.string)], autograph=False)
def join_sentences_by_newline(texts):
    r"""split_sentences with the sentences joined again, by newlines: [N] strings to [N] strings.

    For texts that hold no newline and neither start nor end with white space; without a string
    for each sentence it takes half the time.
    """
    return tf.strings.strip(_with_newlines(texts))


def _with_newlines(texts):
    """A newline in place of the white space, or of none, between two sentences."""
    texts = tf.strings.regex_replace(texts, _SENTENCE_END, r"\1\3\4" "\n" r"\2\5")
    texts = tf.strings.regex_replace(texts, _NOT_AN_END, r"\1\2. \3")
    texts = tf.strings.regex_replace(texts, _END_AFTER_ALL, "\\1\n\\2")
    return tf.strings.regex_replace(texts, _CLAUSE_GOES_ON, r"\1\2")
