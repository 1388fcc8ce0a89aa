"""Words of raw text in graph, as the files of tagging tasks have them: punctuation at a word's edges stands alone.

A word is what stands between spaces, without the punctuation at its edges, each character of which is a word; so is
every CJK character. "U.S.-based", "1,000" and "don't" stay whole, but for 's, 're, 've, 'll, 'd and 'm at the end.
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
    """Groups the pieces of texts to words.

    Args:
        tokenizer: BertTokenizer.
    """

    def __init__(self, tokenizer):
        self.tokenizer = tokenizer
        pieces = [piece.removeprefix("##") for piece in tokenizer.vocabulary]

        def flags(holds):
            return tf.constant(np.array([holds(piece) for piece in pieces]))

        # [V]. Of an unknown word it is not known what it is made of: it stands alone, as a CJK character does.
        self.is_continuation = tf.constant(np.array([piece.startswith("##") for piece in tokenizer.vocabulary]))
        self.is_letters = flags(
            lambda piece: not _is_punctuation(piece) and not _CJK.fullmatch(piece) and piece != "[UNK]"
        )
        self.is_joiner = flags(_JOINERS.__contains__)
        self.is_apostrophe = flags(_APOSTROPHES.__contains__)
        self.is_ending = flags(lambda piece: piece.lower() in _ENDINGS)

    def split(self, text):
        """(pieces, first piece of each word, characters of each word) of texts.

        Args:
            text: string [B].

        Returns:
            pieces: RaggedTensor int32 [B, (pieces)]; first: RaggedTensor int32 [B, (words)], places in the pieces' flat
            values; starts, ends: RaggedTensors int32 [B, (words)], characters of the text, the end exclusive.
        """
        pieces, _, _, start, end = self.tokenizer.tokenize_with_offsets(text)
        ids, starts, ends = pieces.flat_values, start.flat_values, end.flat_values
        row = row_ids(pieces.row_splits)
        # [P] Whether a piece touches the one before.
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
    """Bool [P]: of each place what holds one place before it (1) or after it (-1); False beyond the ends."""
    if by > 0:
        return tf.concat([[False], values[:-1]], axis=0)[: tf.size(values)]
    return tf.concat([values[1:], [False]], axis=0)[: tf.size(values)]


def _is_punctuation(piece):
    """Whether BERT's tokenizer makes a word of it: one character of category P, or of ASCII's symbols."""
    return len(piece) == 1 and (unicodedata.category(piece)[0] == "P" or piece in "$+<=>^`|~")
