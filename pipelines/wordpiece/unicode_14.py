"""Lower case and decomposition as in Unicode 14, the version of the reference.

google-research/bert uses Python's str.lower and unicodedata; the reference is Python 3.11 with Unicode 14. TensorFlow
2.21 has two other versions. The older version, in tf.strings.lower, leaves some capitals unchanged, and it counts other
characters as letters when it writes a final sigma. The newer version, in normalize_utf8, decomposes and reorders
characters that Unicode 14 does not have. tests/pipelines/wordpiece/test_normalize.py computes the differences again,
and fails if a new version of a library changes them.
"""

import tensorflow as tf
import tensorflow_text as tf_text

from pipelines.ragged import keep
from pipelines.wordpiece import unicode_14_classes as classes

# Capitals of Unicode 14 that tf.strings.lower does not change: first, last, distance to the small letter.
CAPITALS = (
    (0x2C2F, 0x2C2F, 0x30),
    (0xA7C0, 0xA7C0, 1),
    (0xA7D0, 0xA7D0, 1),
    (0xA7D6, 0xA7D6, 1),
    (0xA7D8, 0xA7D8, 1),
    (0x10570, 0x1057A, 0x27),
    (0x1057C, 0x1058A, 0x27),
    (0x1058C, 0x10592, 0x27),
    (0x10594, 0x10595, 0x27),
)
# Unassigned in Unicode 14, but normalize_utf8 decomposes them or sorts them as marks: first, last.
NEWER_MARKS = (
    (0x897, 0x897),
    (0x105C9, 0x105C9),
    (0x105E4, 0x105E4),
    (0x10D69, 0x10D6D),
    (0x10EFD, 0x10EFF),
    (0x11383, 0x11383),
    (0x11385, 0x11385),
    (0x1138E, 0x1138E),
    (0x11391, 0x11391),
    (0x113C5, 0x113C5),
    (0x113C7, 0x113C8),
    (0x113CE, 0x113D0),
    (0x11F41, 0x11F42),
    (0x16121, 0x16128),
    (0x1612F, 0x1612F),
    (0x16D68, 0x16D6A),
    (0x1E08F, 0x1E08F),
    (0x1E4EC, 0x1E4EF),
    (0x1E5EE, 0x1E5EF),
)
# During decomposition, two characters that no table contains replace each of NEWER_MARKS.
_ESCAPE, _FIRST_ESCAPED = 0x10FFFF, 0x10F000

_LOWERED = {code: code + distance for first, last, distance in CAPITALS for code in range(first, last + 1)}
_ESCAPED = [_ESCAPE, *(code for first, last in NEWER_MARKS for code in range(first, last + 1))]
_CHANGED = "(?s).*[" + "".join(rf"\x{{{code:X}}}" for code in (*_LOWERED, *_ESCAPED)) + "].*"

# A final sigma follows a cased letter and precedes none. The pattern skips case-ignorable characters on both sides.
_FINAL_SIGMA = (
    f"([{classes.CASED}][{classes.CASE_IGNORABLE}]*)Σ"
    f"([{classes.CASE_IGNORABLE}]*(?:[^{classes.CASED}{classes.CASE_IGNORABLE}]|$))"
)


def lower_and_decompose(texts):
    """Applies str.lower and unicodedata.normalize("NFD") of Unicode 14.

    The reference applies str.lower to each word. White space is no letter, so it separates words here as well.

    Args:
        texts: string [N], valid UTF-8.

    Returns:
        string [N].
    """
    # Few texts have a sigma or a character of the tables, so two searches find out whether to take the extra steps.
    texts = tf.cond(_is_in_any(texts, "(?s).*Σ.*"), lambda: _lower_sigma(texts), lambda: texts)
    return tf.cond(
        _is_in_any(texts, _CHANGED),
        lambda: _unescape(_lower_and_decompose(_escape(texts))),
        lambda: _lower_and_decompose(texts),
    )


def _is_in_any(texts, pattern):
    return tf.reduce_any(tf.strings.regex_full_match(texts, pattern))


def _lower_and_decompose(texts):
    return tf_text.normalize_utf8(tf.strings.lower(texts, encoding="utf-8"), "NFD")


def _lower_sigma(texts):
    return tf.strings.regex_replace(tf.strings.regex_replace(texts, _FINAL_SIGMA, r"\1ς\2"), "Σ", "σ")


def _escape(texts):
    """Writes small letters for CAPITALS, and two characters for each of NEWER_MARKS.

    NFD does not change these two characters.
    """
    codes = tf.strings.unicode_decode(texts, "UTF-8")
    small, _ = _looked_up(codes.flat_values, list(_LOWERED), list(_LOWERED.values()))
    second, is_escaped = _looked_up(small, _ESCAPED, [_FIRST_ESCAPED + i for i in range(len(_ESCAPED))])
    both = tf.reshape(tf.stack([tf.where(is_escaped, _ESCAPE, small), tf.where(is_escaped, second, -1)], axis=1), [-1])
    doubled = tf.RaggedTensor.from_row_splits(both, codes.row_splits * 2, validate=False)
    return tf.strings.unicode_encode(keep(doubled, both >= 0), "UTF-8")


def _unescape(texts):
    codes = tf.strings.unicode_decode(texts, "UTF-8")
    flat = codes.flat_values
    is_escape = flat == _ESCAPE
    follows = tf.concat([[False], is_escape[:-1]], axis=0)[: tf.size(flat)]
    original = tf.gather(_ESCAPED, tf.where(follows, flat - _FIRST_ESCAPED, 0))
    return tf.strings.unicode_encode(
        keep(codes.with_flat_values(tf.where(follows, original, flat)), ~is_escape), "UTF-8"
    )


def _looked_up(codes, keys, values):
    """Returns (codes with keys replaced by their values, which codes were keys)."""
    keys, values = (tf.constant(column) for column in zip(*sorted(zip(keys, values, strict=True)), strict=True))
    place = tf.minimum(tf.searchsorted(keys, codes), keys.shape[0] - 1)
    is_key = tf.gather(keys, place) == codes
    return tf.where(is_key, tf.gather(values, place), codes), is_key
