"""Texts become rows of ids: truncation, packing, windows."""

import random

import numpy as np
import pytest

from keras_bert_app.config.finetuning_config import FinetuningConfig
from keras_bert_app.tasks import features, registry
from keras_bert_app.tasks.families import sequences
from keras_bert_app.tasks.families.sequences import Example
from keras_bert_app.tasks.features import RowBuilder, piece_ids, truncated
from tests.tasks.texts import WORDS, pieces, rows_of, tokenizer

CLS, SEP = 2, 3


def text_features(text, **settings):
    """The Features of one text without label."""
    run = FinetuningConfig(max_seq_length=13, **settings)
    examples = [Example("0", text, None, None, "a.tsv:2")]
    return sequences.featurize(registry.find("sst-2"), examples, tokenizer(), run, ("0", "1"), has_labels=False)


def alphabet(length):
    return " ".join(WORDS[at % len(WORDS)] for at in range(length))


def test_a_pair_is_truncated_as_in_the_loop_of_google():
    generator = random.Random(7)
    for _ in range(2000):
        a, b = (list(range(generator.randint(0, 23))) for _ in "ab")
        room = generator.randint(0, 41)
        kept = truncated((np.array(a), np.array(b)), room)
        # google-research/bert run_classifier.py: one token at a time from the longer text, from B if both are equal.
        while len(a) + len(b) > room:
            (a if len(a) > len(b) else b).pop()
        assert [part.tolist() for part in kept] == [a, b]


def test_the_longest_of_three_parts_loses_its_end_token_by_token():
    generator = random.Random(11)
    for _ in range(2000):
        parts = [list(range(generator.randint(0, 17))) for _ in range(3)]
        room = generator.randint(0, 43)
        kept = truncated(parts, room)
        parts = [list(part) for part in parts]
        while sum(map(len, parts)) > room:
            max(reversed(parts), key=len).pop()
        assert kept == parts


def test_rows_are_packed_one_after_the_other_with_segment_b_after_the_first_separator():
    builder = RowBuilder(tokenizer())
    builder.add(np.array([7, 8]), np.array([9]))
    builder.add(np.array([], np.int32))
    builder.add(np.array([5]), np.array([], np.int32))
    packed = builder.features([0, 1, 2])
    assert rows_of(packed) == [[CLS, 7, 8, SEP, 9, SEP], [CLS, SEP], [CLS, 5, SEP, SEP]]
    assert packed.b_starts.tolist() == [4, 2, 3]
    assert packed.row_lengths().tolist() == [6, 2, 4] and packed.num_units == 3
    assert packed.token_ids.dtype == np.int32


def test_units_of_several_rows_know_their_rows_and_the_longest_of_them():
    builder = RowBuilder(tokenizer())
    for length in (3, 7, 2, 5, 1):
        builder.add(np.zeros(length, np.int32))
    packed = builder.features([0, 1], unit_splits=[0, 2, 5])
    assert packed.num_units == 2 and tuple(packed.rows_of(1)) == (2, 5)
    assert packed.longest_rows().tolist() == [9, 7] and packed.group_sizes().tolist() == [2, 3]


def test_each_text_has_its_own_pieces_whatever_the_number_of_calls(monkeypatch):
    monkeypatch.setattr(features, "_TEXTS_PER_CALL", 3)
    texts = ["a b", "", "c", "d e f", "g", "\ud800", "h i"]
    assert [ids.tolist() for ids in piece_ids(tokenizer(), texts)] == [
        pieces("a b"),
        [],
        pieces("c"),
        pieces("d e f"),
        pieces("g"),
        [1],
        pieces("h i"),
    ]
    assert piece_ids(tokenizer(), []) == []


def test_a_text_that_fits_is_one_row_in_every_mode():
    for mode in ("head", "head_tail", "windows", "hierarchical"):
        rows = text_features(alphabet(11), long_documents=mode)
        assert rows_of(rows) == [[CLS, *pieces(alphabet(11)), SEP]] and rows.notes == []
        assert (rows.unit_splits is not None) == (mode in ("windows", "hierarchical"))


def test_head_keeps_the_beginning_and_head_tail_keeps_a_quarter_there_and_the_rest_at_the_end():
    whole = pieces(alphabet(26))
    assert rows_of(text_features(alphabet(26))) == [[CLS, *whole[:11], SEP]]
    rows = text_features(alphabet(26), long_documents="head_tail")
    assert rows_of(rows) == [[CLS, *whole[:2], *whole[-9:], SEP]]
    assert rows.notes == ["1 of 1 texts are longer than 13 tokens and were cut"]


def test_head_and_tail_take_the_first_128_of_510_tokens_as_in_the_paper():
    run = FinetuningConfig(max_seq_length=512, long_documents="head_tail")
    ((row, _),), _ = sequences._rows(np.arange(1000), None, run)
    assert row.tolist() == [*range(128), *range(1000 - 382, 1000)]


@pytest.mark.parametrize("stride", [1, 4, 11, 12, 128])
def test_windows_cover_every_token_whatever_the_stride(stride):
    run = FinetuningConfig(max_seq_length=13, long_documents="windows", doc_stride=stride, max_windows=1000)
    for length in range(12, 60):
        rows, is_cut = sequences._rows(np.arange(length), None, run)
        rows = [row.tolist() for row, _ in rows]
        assert set().union(*rows) == set(range(length)) and not is_cut
        assert all(row == list(range(row[0], row[0] + len(row))) and len(row) <= 11 for row in rows)
        assert all(len(row) == 11 for row in rows[:-1])
        # Without the last window, tokens would be missing.
        assert set().union(*rows[:-1]) != set(range(length))


def test_windows_beyond_max_windows_are_cut_and_noted_even_if_they_overlap():
    rows = text_features(alphabet(26), long_documents="windows", doc_stride=2, max_windows=5)
    assert len(rows_of(rows)) == 5
    assert rows.notes == ["1 of 1 texts are longer than 5 windows of 13 tokens and were cut"]
    assert text_features(alphabet(19), long_documents="windows", doc_stride=2, max_windows=5).notes == []
