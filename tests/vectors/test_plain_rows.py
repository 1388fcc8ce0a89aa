"""Rows of plain English text that are made without TensorFlow equal the rows of the tokenizer."""

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from keras_bert_app.export import masked_lm_scoring
from keras_bert_app.vectors.plain_rows import PlainRows
from pipelines.wordpiece.tokenizer import BertTokenizer
from pipelines.wordpiece.vocabulary import SPECIAL_PIECES

PIECES = [*SPECIAL_PIECES, "a", "b", "ab", "##a", "##b", "##ab", "1", "##1", "'", "[", "]", "-", "mask", "~"]
CASED = [*PIECES, "A", "##B"]
ROOM = 11
TEXT = st.one_of(
    st.text(alphabet="abAB1 '[]-~", max_size=30),
    st.text(alphabet=st.characters(max_codepoint=126), max_size=12),
    st.just("[MASK] a"),
    st.just("a" * 99),
    st.just("b" + "a" * 98 + " " * 40),
)


def bytes_of(pieces):
    return "".join(f"{piece}\n" for piece in pieces).encode()


@pytest.mark.parametrize("do_lower_case", [True, False])
def test_rows_equal_those_of_the_tokenizer_and_text_that_is_not_plain_gives_none(do_lower_case):
    vocabulary = bytes_of(PIECES if do_lower_case else CASED)
    plain, tokenizer = PlainRows(vocabulary, do_lower_case, ROOM), BertTokenizer(vocabulary, do_lower_case)

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string)])  # eager calls would take five times as long
    def expected(texts):
        return masked_lm_scoring.single_rows(tokenizer, tokenizer.tokenize(texts), ROOM)

    @settings(max_examples=150, deadline=None)
    @given(st.lists(TEXT, min_size=1, max_size=5))
    def check(texts):
        texts = [text.encode() for text in texts]
        rows = plain(texts)
        assert (rows is None) == any(byte not in range(32, 127) for text in texts for byte in text)
        if rows is not None:
            inputs, truncated = expected(texts)
            for name, values in {**inputs, "truncated": truncated}.items():
                assert rows[name].dtype == values.numpy().dtype
                np.testing.assert_array_equal(rows[name], values, err_msg=name)

    check()


@pytest.mark.parametrize("texts", [["a" * 100], ["é"], ["a\tb"], ["a"] * 33])
def test_a_long_word_another_character_or_too_many_texts_give_none(texts):
    assert PlainRows(bytes_of(PIECES), True, ROOM)([text.encode() for text in texts]) is None
