"""Readable text from WordPiece pieces, as graph ops of TensorFlow alone.

WordPiece splits a text at spaces and around each punctuation mark, and keeps no trace of the spaces. The rules below
put spaces where most texts have them. No rules can be exact: "well-known" and "well - known" have the same pieces.
"""

from typing import Any

import tensorflow as tf

# (pattern in RE2's syntax, replacement), applied in this order. RE2 has no lookahead, so the list has a rule twice
# if its matches may overlap.
_JOINED_LETTERS = (r"(\pL) ' (\pL)", r"\1'\2")
_JOINED_CHINESE = (r"([\p{Han}\p{Hiragana}\p{Katakana}]) ([\p{Han}\p{Hiragana}\p{Katakana}])", r"\1\2")
_HYPHEN = (r"([\pL\pN]) - ([\pL\pN])", r"\1-\2")
_ABBREVIATION = (r"\b(\pL)\. (\pL)\.", r"\1.\2.")
_THOUSANDS = (r"(\pN), (\pN{3})\b", r"\1,\2")
_RULES = (
    ("(^| )##", ""),
    _JOINED_CHINESE,
    _JOINED_CHINESE,
    (r" ?([。，、！？；：…》」』）】]) ?", r"\1"),
    (r" ?([《「『（【]) ?", r"\1"),
    (r" ([.,!?;:%)\]}])", r"\1"),
    (r"([(\[{]) ", r"\1"),
    (r"([$£€#]) (\pN)", r"\1\2"),
    (r"„ ?([^“„]*[^“„ ]) ?“", r"„\1“"),
    (r"“ ?([^”“]*[^”“ ]) ?”", r"“\1”"),
    (r"s ' (\pL{3,})", r"s' \1"),  # such as "the welders' mask"
    _JOINED_LETTERS,
    _JOINED_LETTERS,
    (r"(\pL) - (und|oder|bis|and|or) ", r"\1- \2 "),
    _HYPHEN,
    _HYPHEN,
    (r"([\pL\pN]) / ([\pL\pN])", r"\1/\2"),
    _ABBREVIATION,
    _ABBREVIATION,
    _THOUSANDS,
    _THOUSANDS,
    (r"(\pN)\. (\pN)", r"\1.\2"),
    (r"(\pN): (\pN\pN)\b", r"\1:\2"),
    (r'" ([^"]*[^" ]) "', r'"\1"'),
)


def detokenize(pieces: tf.RaggedTensor) -> tf.Tensor:
    """Joins the pieces of each text to a readable text.

    Args:
        pieces: RaggedTensor of string [B, (pieces)], without special pieces.

    Returns:
        string [B].
    """
    texts = tf.strings.reduce_join(pieces, axis=-1, separator=" ")
    for pattern, replacement in _RULES:
        texts = tf.strings.regex_replace(texts, pattern, replacement)
    return tf.strings.strip(texts)


def texts_of_ids(ids: tf.Tensor, tokenizer: Any) -> tf.Tensor:
    """Joins the pieces of each row before [SEP], which ends a text.

    Args:
        ids: int32 [B, T]. A row has the pieces of a text, then [SEP] unless the text fills the row, then zeros.
        tokenizer: BertTokenizer of the texts.

    Returns:
        string [B].
    """
    return tokenizer.readable(pieces_of_ids(ids, tf.constant(tokenizer.vocabulary), tokenizer.sep_id))


def pieces_of_ids(ids: tf.Tensor, vocabulary: tf.Tensor, end_id: int, starts: tf.Tensor | int = 0) -> tf.RaggedTensor:
    """Finds the pieces of each row before the piece that ends a text.

    Args:
        ids: int32 [B, T]. See texts_of_ids.
        vocabulary: string [V]. The pieces.
        end_id: int. The piece that ends a text.
        starts: int, or int32 [B, 1]. The first place of the text in each row.

    Returns:
        RaggedTensor of string [B, (pieces)].
    """
    is_text = tf.range(tf.shape(ids)[1]) >= starts
    is_end = tf.cast(is_text & ((ids == end_id) | (ids == 0)), tf.int32)
    pieces = tf.ragged.boolean_mask(ids, is_text & (tf.cumsum(is_end, axis=1) == 0))
    return tf.gather(vocabulary, pieces)
