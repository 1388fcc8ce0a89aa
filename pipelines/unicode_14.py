"""The code points on which TensorFlow 2.21's Unicode tables and Unicode 14 differ.

google-research/bert takes Python's unicodedata, and the reference here is Python 3.11 with Unicode 14. TensorFlow brings
two other versions: a newer one for categories and decomposition, an older one for lower case. The tables were found by
sending every code point through pipelines.normalize and through unicodedata; tests/pipelines/test_normalize.py does so
again and fails when a library's version changes them.
"""

import tensorflow as tf

# Unassigned in Unicode 14, so there they are letters of a word like any other; in newer tables they are punctuation, marks
# or format characters, or decompose. First and last of each range.
_UNASSIGNED = (
    (0xECE, 0xECE), (0x105C9, 0x105C9), (0x105E4, 0x105E4), (0x10EFD, 0x10EFF), (0x11241, 0x11241), (0x11383, 0x11383),
    (0x11385, 0x11385), (0x1138E, 0x1138E), (0x11391, 0x11391), (0x113C5, 0x113C5), (0x113C7, 0x113C8),
    (0x11B00, 0x11B09), (0x11F00, 0x11F01), (0x11F36, 0x11F3A), (0x11F40, 0x11F40), (0x11F42, 0x11F4F),
    (0x13439, 0x13440), (0x13447, 0x13455), (0x16121, 0x16128), (0x16D68, 0x16D6A), (0x1E08F, 0x1E08F),
    (0x1E4EC, 0x1E4EF))
# Those of them that matter without lower-casing: punctuation and format characters of newer tables.
_UNASSIGNED_CASED = ((0x11B00, 0x11B09), (0x11F43, 0x11F4F), (0x13439, 0x1343F))
# Capitals of Unicode 14 that the older table does not lower: first, last, distance to the small letter.
_CAPITALS = (
    (0x2C2F, 0x2C2F, 0x30), (0xA7C0, 0xA7C0, 1), (0xA7D0, 0xA7D0, 1), (0xA7D6, 0xA7D6, 1), (0xA7D8, 0xA7D8, 1),
    (0x10570, 0x1057A, 0x27), (0x1057C, 0x1058A, 0x27), (0x1058C, 0x10592, 0x27), (0x10594, 0x10595, 0x27))
# No character, in no table anything but a letter, and in no vocabulary: a word with it is [UNK].
_STAND_IN = 0x10FFFF


def _mapping(do_lower_case):
    mapping = {code: _STAND_IN for first, last in (_UNASSIGNED if do_lower_case else _UNASSIGNED_CASED)
               for code in range(first, last + 1)}
    if do_lower_case:
        mapping |= {code: code + distance for first, last, distance in _CAPITALS for code in range(first, last + 1)}
    return dict(sorted(mapping.items()))


def as_in_unicode_14(texts, do_lower_case):
    """Strings in which the characters that TensorFlow knows differently are replaced by ones that it knows alike."""
    mapping = _mapping(do_lower_case)
    pattern = "(?s).*[" + "".join(rf"\x{{{code:X}}}" for code in mapping) + "].*"

    def replace():
        codes = tf.strings.unicode_decode(texts, "UTF-8")
        keys, values = tf.constant(list(mapping), tf.int32), tf.constant(list(mapping.values()), tf.int32)
        place = tf.minimum(tf.searchsorted(keys, codes.flat_values), len(mapping) - 1)
        replaced = tf.where(tf.gather(keys, place) == codes.flat_values, tf.gather(values, place), codes.flat_values)
        return tf.strings.unicode_encode(codes.with_flat_values(replaced), "UTF-8")

    # Hardly any text holds one of them: the rest pays for one search only.
    return tf.cond(tf.reduce_any(tf.strings.regex_full_match(texts, pattern)), replace, lambda: texts)
