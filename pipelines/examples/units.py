"""Units of masking: pieces, whole words, spans of words, phrases of a lexicon, words of a segmenter.

A unit is a run of pieces; the pieces that begin a unit define all units. Dimensions: T pieces, M sentences, V
vocabulary entries.
"""

from collections.abc import Sequence

import tensorflow as tf

from pipelines.data_error import DataError
from pipelines.examples.pointer_jumping import visited_positions


def word_beginnings(vocabulary: Sequence[str]):
    """Computes which pieces of a vocabulary begin a word, that is, have no "##".

    Args:
        vocabulary: list of str [V].

    Returns:
        bool [V].
    """
    return tf.constant([not piece.startswith("##") for piece in vocabulary])


def span_beginnings(begins_word, begins_sentence, seed, max_ngram: int):
    """Draws spans of 1 to max_ngram words; the probability of n words is in proportion to 1 / n.

    ALBERT uses the same probabilities (Lan et al. 2020, section 4.1). Each span begins where the previous span ends. A
    span also ends at the end of its sentence.

    Args:
        begins_word: bool [T].
        begins_sentence: bool [T].
        seed: int [2].
        max_ngram: the most words of a span.

    Returns:
        bool [T]. The pieces that begin a span.
    """
    word = tf.cumsum(tf.cast(begins_word, tf.int32)) - 1
    num_words = tf.reduce_sum(tf.cast(begins_word, tf.int32))
    weights = [1 / n for n in range(1, max_ngram + 1)]
    draws = tf.random.stateless_uniform([num_words], seed) * sum(weights)
    upper_bounds = tf.cumsum(tf.constant(weights))[:-1]
    lengths = 1 + tf.searchsorted(upper_bounds, draws, side="right")
    # There are as many draws as words, so some spans begin after the last word; these spans are ignored.
    first_words = tf.concat([[0], tf.cumsum(lengths)], axis=0)
    is_first = (
        tf.math.unsorted_segment_max(
            tf.ones_like(first_words), tf.where(first_words < num_words, first_words, -1), num_words
        )
        > 0
    )
    return begins_word & (tf.gather(is_first, tf.maximum(word, 0)) | begins_sentence)


class Lexicon:
    """Finds phrases in tokenized text from left to right, at each place the longest phrase.

    Args:
        phrases: list of str. The tokenizer cuts them like text.
        tokenizer: pipelines.wordpiece.tokenizer.BertTokenizer.

    Attributes:
        num_phrases: the number of phrases in use.
        num_unusable: the number of phrases without a piece, with [UNK], or of more than 64 pieces.

    Raises:
        DataError: no phrase can be used.
    """

    MAX_PIECES = 64

    def __init__(self, phrases: Sequence[str], tokenizer):
        self._vocab_size = tokenizer.vocab_size
        rows = tokenizer.tokenize(tf.constant(list(phrases), tf.string)).to_list() if phrases else []
        usable = {tuple(row) for row in rows if 0 < len(row) <= self.MAX_PIECES and tokenizer.unk_id not in row}
        self.num_phrases, self.num_unusable = len(usable), sum(tuple(row) not in usable for row in rows)
        if not usable:
            raise DataError(
                f"lexicon: none of its {len(rows):,} phrases can be written in the vocabulary's pieces; give one "
                "phrase a line, in the language and casing of the vocabulary"
            )
        # A trie: node 0 is the root, and (node, piece) gives the child.
        children, is_phrase = {}, [False]
        for phrase in sorted(usable):
            node = 0
            for piece in phrase:
                key = node * self._vocab_size + piece
                if key not in children:
                    children[key] = len(is_phrase)
                    is_phrase.append(False)
                node = children[key]
            is_phrase[node] = True
        keys = sorted(children)
        self._keys = tf.constant(keys, tf.int64)
        self._children = tf.constant([children[key] for key in keys], tf.int64)
        self._is_phrase = tf.constant(is_phrase)
        self._depth = max(map(len, usable))

    def beginnings(self, ids, begins_word, sentence_ends):
        """Finds the pieces that begin a unit: a phrase of the lexicon, or a word outside of phrases.

        A phrase lies within a sentence, and begins and ends where words do.

        Args:
            ids: int32 [T].
            begins_word: bool [T].
            sentence_ends: int32 [T]. For each piece, the index after the last piece of its sentence.

        Returns:
            bool [T].
        """
        ids = tf.cast(ids, tf.int64)
        num_pieces = tf.size(ids)
        ends_word = tf.concat([begins_word[1:], [True]], axis=0)[:num_pieces]
        length = tf.ones_like(begins_word, tf.int32)
        # [(candidates)] the piece where a phrase may begin, and the trie node that the phrase has reached so far
        start = tf.cast(tf.where(begins_word)[:, 0], tf.int32)
        node = tf.zeros_like(start, tf.int64)
        for depth in range(self._depth):
            last = start + depth
            inside = last < tf.gather(sentence_ends, start)
            start, node, last = (tf.boolean_mask(values, inside) for values in (start, node, last))
            key = node * self._vocab_size + tf.gather(ids, last)
            place = tf.minimum(tf.searchsorted(self._keys, key), len(self._keys) - 1)
            is_child = tf.gather(self._keys, place) == key
            start, last, place = (tf.boolean_mask(values, is_child) for values in (start, last, place))
            node = tf.gather(self._children, place)
            is_match = tf.gather(self._is_phrase, node) & tf.gather(ends_word, last)
            length = tf.tensor_scatter_nd_update(
                length,
                tf.boolean_mask(start, is_match)[:, None],
                tf.fill([tf.reduce_sum(tf.cast(is_match, tf.int32))], depth + 1),
            )
        visited = visited_positions(tf.range(num_pieces) + length)
        is_visited = tf.math.unsorted_segment_max(tf.ones_like(visited), visited, num_pieces) > 0
        return is_visited & begins_word
