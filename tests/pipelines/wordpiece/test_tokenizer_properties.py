"""Properties of the tokenizer for any bytes.

All ways to call the tokenizer give the same answer without an error, and offsets are positions in the text.
"""

import functools

import pytest
import tensorflow as tf
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pipelines import BertTokenizer
from pipelines.wordpiece.vocabulary import SPECIAL_PIECES
from tests import random_text
from tests.conftest import GOLDEN

_NUMBERS = st.integers(0, 10**6)
# Hypothesis' own strings shrink well. Tokenizers are known to differ on the other strings.
VALID = st.one_of(
    st.text(st.characters(codec="utf-8"), max_size=30).map(str.encode),
    st.text("aAéÉ\u0301 [MASK]Σ中한\U0001f600\xad\n.", max_size=30).map(str.encode),
    st.builds(random_text.random_string, st.just(1), _NUMBERS).map(str.encode),
)
ANY_BYTES = st.one_of(VALID, st.binary(max_size=30), st.builds(random_text.random_bytes, st.just(1), _NUMBERS))
BATCHES = st.lists(ANY_BYTES, min_size=1, max_size=6)

check = settings(
    max_examples=25,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
STRINGS = [tf.TensorSpec([None], tf.string)]
ROWS = tf.RaggedTensorSpec([None, None], tf.string)


class Ways:
    """One tokenizer and the ways of calling it, each of which is traced once."""

    def __init__(self, do_lower_case, special_tokens_in_text):
        self.tokenizer = BertTokenizer(
            str(GOLDEN / "tokenization_vocab.txt"), do_lower_case, special_tokens_in_text, verify_casing=False
        )
        self.in_a_function = tf.function(self.tokenizer.tokenize, input_signature=STRINGS)
        self.with_offsets = tf.function(self.tokenizer.tokenize_with_offsets, input_signature=STRINGS)

        @tf.function(input_signature=[ROWS])
        def in_tf_data(rows):
            """Takes each row of strings as an element of a tf.data pipeline: [rows, (strings), (pieces)]."""
            dataset = tf.data.Dataset.from_tensor_slices(rows).map(self.tokenizer.tokenize)
            return dataset.ragged_batch(rows.nrows()).get_single_element()

        self.in_tf_data = in_tf_data


ways_of = functools.cache(Ways)


@pytest.fixture(
    scope="module",
    params=[(True, False), (False, False), (True, True)],
    ids=lambda param: f"{'lower' if param[0] else 'cased'}-{'special' if param[1] else 'plain'}",
)
def ways(request):
    return ways_of(*request.param)


@check
@given(strings=BATCHES)
def test_every_way_of_calling_gives_the_same_ids(ways, strings):
    expected = [ways.in_a_function([string]).to_list()[0] for string in strings]
    assert ways.in_a_function(strings).to_list() == expected
    rows = tf.ragged.constant([[string] for string in strings] + [strings], dtype=tf.string)
    assert ways.in_tf_data(rows).to_list() == [[ids] for ids in expected] + [expected]
    assert ways.with_offsets(strings)[0].to_list() == expected


def test_eager_calls_give_the_same_ids(ways):
    # Eager calls are slow, so there is one batch only.
    strings = [b"", *(random_text.random_bytes(2, number) for number in range(300)), "a [MASK] ΟΔΟΣ".encode()]
    in_a_function = ways.with_offsets(strings)
    assert ways.tokenizer.tokenize(strings).to_list() == in_a_function[0].to_list()
    for eager, traced in zip(ways.tokenizer.tokenize_with_offsets(strings), in_a_function, strict=True):
        assert eager.to_list() == traced.to_list()


@pytest.fixture(scope="module")
def offset_functions():
    """Returns tokenize_words_with_offsets and tokenize_with_offsets of one tokenizer."""
    ways = ways_of(True, False)
    return tf.function(ways.tokenizer.tokenize_words_with_offsets, input_signature=[ROWS]), ways.with_offsets


@check
@given(strings=BATCHES, lengths=st.lists(st.integers(0, 3), min_size=1, max_size=6))
def test_ragged_rows_of_words_give_the_results_of_their_words(offset_functions, strings, lengths):
    # The strings are words of rows, some of which are empty; the remaining strings are the last row.
    splits = [0]
    for length in lengths:
        splits.append(min(splits[-1] + length, len(strings)))
    splits.append(len(strings))
    offsets_of_rows, offsets_of_strings = offset_functions
    for actual, flat in zip(
        offsets_of_rows(tf.RaggedTensor.from_row_splits(strings, splits)), offsets_of_strings(strings), strict=True
    ):
        flat = flat.to_list()
        assert actual.to_list() == [flat[start:end] for start, end in zip(splits, splits[1:], strict=False)]


@check
@given(strings=BATCHES)
def test_offsets_are_ordered_places_in_the_string(ways, strings):
    _, *spans = (values.to_list() for values in ways.with_offsets(strings))
    for string, start_bytes, end_bytes, start_chars, end_chars in zip(strings, *spans, strict=True):
        num_chars = len(string.decode("utf-8", "replace"))
        for starts, ends, length in ((start_bytes, end_bytes, len(string)), (start_chars, end_chars, num_chars)):
            assert all(0 <= start < end <= length for start, end in zip(starts, ends, strict=True))
            if not any(character in string.decode("utf-8", "replace") for character in random_text.ORDERED_MARKS):
                assert starts == sorted(starts) and ends == sorted(ends)


@check
@given(string=VALID)
def test_offsets_in_bytes_and_in_characters_are_the_same_places(ways, string):
    _, start_bytes, end_bytes, start_chars, end_chars = (values.to_list()[0] for values in ways.with_offsets([string]))
    assert [len(string[:place].decode()) for place in start_bytes + end_bytes] == start_chars + end_chars


@check
@given(string=ANY_BYTES)
def test_an_invalid_sequence_counts_as_a_replacement_character(ways, string):
    ids, _, _, start_chars, end_chars = (values.to_list() for values in ways.with_offsets([string]))
    replaced = ways.with_offsets([string.decode("utf-8", "replace")])
    assert [ids, start_chars, end_chars] == [replaced[i].to_list() for i in (0, 3, 4)]
    assert ways.in_a_function([string]).to_list() == ids


@pytest.mark.parametrize("do_lower_case", [True, False])
def test_special_tokens_in_text_changes_only_texts_with_a_special_token(do_lower_case):
    strings = [random_text.random_bytes(4, number) for number in range(2000)]
    strings = [string for string in strings if not any(piece.encode() in string for piece in SPECIAL_PIECES)]
    plain, special = (ways_of(do_lower_case, flag).in_a_function(strings).to_list() for flag in (False, True))
    assert plain == special
