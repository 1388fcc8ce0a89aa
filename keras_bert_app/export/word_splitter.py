"""Splits raw text into words in graph, in the same way as the files of tagging tasks.

Spaces separate words. Each punctuation character at an edge of a word is a separate word, and so is every CJK
character. "U.S.-based", "1,000" and "don't" stay whole. The endings 's, 're, 've, 'll, 'd and 'm are separate words.
"""

import re
import unicodedata

import numpy as np
import tensorflow as tf

from pipelines.ragged import row_ids

_JOINERS = frozenset(".,'’-/&@_:")
_APOSTROPHES = frozenset("'’")
_ENDINGS = frozenset(("s", "re", "ve", "ll", "d", "m"))
_CJK = re.compile("[\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0002fa1f]")


class WordSplitter:
    """A function that groups the pieces of texts into words.

    Args:
        tokenizer: BertTokenizer. The tokenizer that makes the pieces.
    """

    def __init__(self, tokenizer):
        self.tokenizer = tokenizer
        pieces = [piece.removeprefix("##") for piece in tokenizer.vocabulary]

        def flags(holds):
            return tf.constant(np.array([holds(piece) for piece in pieces]))

        # [V] The characters of an unknown word are unknown, so [UNK] is a separate word, like a CJK character.
        self.is_continuation = tf.constant(np.array([piece.startswith("##") for piece in tokenizer.vocabulary]))
        self.is_letters = flags(
            lambda piece: not _is_punctuation(piece) and not _CJK.fullmatch(piece) and piece != "[UNK]"
        )
        self.is_joiner = flags(_JOINERS.__contains__)
        self.is_apostrophe = flags(_APOSTROPHES.__contains__)
        self.is_ending = flags(lambda piece: piece.lower() in _ENDINGS)

    def split(self, text):
        """Splits texts into pieces and words.

        Args:
            text: string [B].

        Returns:
            pieces: RaggedTensor int32 [B, (pieces)].
            first: RaggedTensor int32 [B, (words)]. The first piece of each word, a place in the values of `pieces`.
            starts: RaggedTensor int32 [B, (words)]. The first character of each word in its text.
            ends: RaggedTensor int32 [B, (words)]. The end of each word in its text, exclusive.
        """
        pieces, _, _, start, end = self.tokenizer.tokenize_with_offsets(text)
        ids, starts, ends = pieces.flat_values, start.flat_values, end.flat_values
        row = row_ids(pieces.row_splits)
        # [P] Whether a piece touches the piece before it.
        touches = tf.concat([[False], (starts[1:] == ends[:-1]) & (row[1:] == row[:-1])], axis=0)[: tf.size(ids)]
        letters = tf.gather(self.is_letters, ids)
        after_letters = touches & _shifted(letters, 1)
        before_letters = _shifted(touches & letters, -1)
        is_inner = tf.gather(self.is_joiner, ids) & after_letters & before_letters
        ends_word = ~_shifted(touches, -1)
        is_clitic = (
            is_inner & tf.gather(self.is_apostrophe, ids) & _shifted(tf.gather(self.is_ending, ids) & ends_word, -1)
        )
        follows_inner = touches & letters & _shifted(is_inner, 1)
        is_joined = (touches & tf.gather(self.is_continuation, ids)) | (is_inner & ~is_clitic) | follows_inner
        first = tf.where(~is_joined)[:, 0]
        splits = tf.gather(tf.concat([[0], tf.cumsum(tf.cast(~is_joined, tf.int64))], axis=0), pieces.row_splits)
        last = tf.concat([first[1:] - 1, [tf.size(ids, tf.int64) - 1]], axis=0)[: tf.size(first)]

        def by_text(values):
            return tf.RaggedTensor.from_row_splits(values, splits, validate=False)

        return (
            pieces,
            by_text(tf.cast(first, tf.int32)),
            by_text(tf.gather(starts, first)),
            by_text(tf.gather(ends, last)),
        )


def _shifted(values, by):
    """Returns bool [P]: the value one place before (by=1) or after (by=-1) each place. False beyond the ends."""
    if by > 0:
        return tf.concat([[False], values[:-1]], axis=0)[: tf.size(values)]
    return tf.concat([values[1:], [False]], axis=0)[: tf.size(values)]


def _is_punctuation(piece):
    """Returns whether BERT's tokenizer splits at a piece: one character of category P, or an ASCII symbol."""
    return len(piece) == 1 and (unicodedata.category(piece)[0] == "P" or piece in "$+<=>^`|~")
