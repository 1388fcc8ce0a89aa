"""Symbols with spaces between them: their ids, their places, their vocabulary."""

import collections
import random

import pytest
import tensorflow as tf

from pipelines.data_error import DataError
from pipelines.wordpiece.symbol_counting import count_symbols, learn_from_symbols
from pipelines.wordpiece.symbols import SymbolTokenizer
from pipelines.wordpiece.tokenizer import BertTokenizer
from pipelines.wordpiece.tokenizers import make_tokenizer
from pipelines.wordpiece.vocabulary import SPECIAL_PIECES
from pipelines.wordpiece.vocabulary_checks import split_symbols
from pipelines.wordpiece.words import WordCounts

SYMBOLS = ["A", "AB", "E11.9", "Ä-1", "日本", "<x>", "a"]
VOCABULARY = "".join(f"{piece}\n" for piece in (*SPECIAL_PIECES, *SYMBOLS)).encode()
TOKENIZER = SymbolTokenizer(VOCABULARY)


def ids_of(text):
    known = {symbol: number for number, symbol in enumerate(SYMBOLS, start=len(SPECIAL_PIECES))}
    return [known.get(symbol, TOKENIZER.unk_id) for symbol in split_symbols(text)]


@pytest.mark.parametrize(
    "text",
    ["A AB  E11.9", "  Ä-1\t日本 a ", "", "ABA E11 .9 ab Ä", "A\u00a0AB <x>", "[MASK] A [SEP]", "A[MASK] [UNK]"],
)
def test_a_symbol_is_an_entry_as_it_stands_or_unknown(text):
    expected = ids_of(text)
    assert TOKENIZER.tokenize(text).numpy().tolist() == expected
    assert TOKENIZER.tokenize([text, "A"]).to_list() == [expected, [5]]


def test_random_texts_have_the_ids_of_a_look_up_and_the_places_of_their_symbols():
    draw = random.Random(3)
    texts = [
        "".join(
            draw.choice([*SYMBOLS, "B", "日", "Ä", "\0", "\u3000", " ", "  ", "\t", "\n"])
            for _ in range(draw.randrange(12))
        )
        for _ in range(300)
    ]
    ids, start_bytes, end_bytes, start_chars, end_chars = (
        values.to_list() for values in TOKENIZER.tokenize_with_offsets(texts)
    )
    for row, text in enumerate(texts):
        assert ids[row] == ids_of(text)
        encoded = text.encode()
        for starts, ends, whole in ((start_bytes, end_bytes, encoded), (start_chars, end_chars, text)):
            parts = [whole[start:end] for start, end in zip(starts[row], ends[row], strict=True)]
            assert parts == (whole.split() if whole is encoded else split_symbols(whole))


def test_special_pieces_count_only_where_they_are_asked_for_and_only_as_whole_symbols():
    tokenizer = SymbolTokenizer(VOCABULARY, special_tokens_in_text=True)
    assert tokenizer.tokenize("A [MASK] A[MASK] [SEP]").numpy().tolist() == [5, 4, 1, 3]
    ids, *_, starts, ends = tokenizer.tokenize_with_offsets("A [MASK]")
    assert (ids.numpy().tolist(), starts.numpy().tolist(), ends.numpy().tolist()) == ([5, 4], [0, 2], [1, 8])


def test_pieces_join_to_the_symbols_of_the_text():
    ids = TOKENIZER.tokenize(["A E11.9 <x>", "日本 日本", ""])
    expected = [text.encode() for text in ("A E11.9 <x>", "日本 日本", "")]
    assert TOKENIZER.readable(TOKENIZER.pieces(ids)).numpy().tolist() == expected
    assert TOKENIZER.detokenize(ids).numpy().tolist() == expected


def test_a_saved_function_of_symbols_needs_nothing_of_this_package(tmp_path):
    module = tf.Module()
    module.tokenizer = TOKENIZER
    module.ids = tf.function(
        lambda texts: TOKENIZER.tokenize(texts).to_tensor(), input_signature=[tf.TensorSpec([None], tf.string)]
    )
    tf.saved_model.save(module, str(tmp_path))
    assert tf.saved_model.load(str(tmp_path)).ids(["A x", "a"]).numpy().tolist() == [[5, 1], [11, 0]]


@pytest.mark.parametrize(
    "entry, words",
    [
        ("two words", "line 6: 'two words' has a space"),
        ("##A", "line 6: '##A' begins with ##"),
        ("x" * 257, "line 6: 'xxx.* has more than 256 bytes"),
    ],
)
def test_an_entry_that_no_symbol_can_be_is_refused_with_its_line(entry, words):
    with pytest.raises(DataError, match=words):
        SymbolTokenizer("".join(f"{piece}\n" for piece in (*SPECIAL_PIECES, entry)).encode())


@pytest.mark.parametrize("from_directory", [BertTokenizer.from_directory, SymbolTokenizer.from_directory])
def test_the_tokenizer_of_a_directory_follows_its_configuration(from_directory, tmp_path):
    (tmp_path / "vocab.txt").write_bytes(VOCABULARY)
    (tmp_path / "config.json").write_text('{"do_lower_case": false, "tokenizer": "symbols"}')
    tokenizer = from_directory(str(tmp_path), special_tokens_in_text=True)
    assert tokenizer.kind == "symbols"
    assert tokenizer.tokenize("E11.9 [MASK] a").numpy().tolist() == [7, 4, 11]


def test_a_vocabulary_of_small_letters_is_no_fault_of_symbols():
    pieces = (*SPECIAL_PIECES, *"abcdefghijklmnopqrstuvwxyz")
    tokenizer = make_tokenizer("".join(f"{piece}\n" for piece in pieces).encode(), "symbols", do_lower_case=False)
    assert tokenizer.tokenize("a B z").numpy().tolist() == [5, 1, 30]


def test_the_vocabulary_has_the_most_frequent_symbols_and_says_what_it_leaves_out():
    counted = count_symbols([["b a", "a  c a"], tf.constant(["b [MASK] d"])])
    assert dict(counted.counts) == {"a": 3, "b": 2, "c": 1, "d": 1, "[MASK]": 1} and counted.num_words == 8
    everything = learn_from_symbols(counted, 100, 1)
    assert everything.pieces == [*SPECIAL_PIECES, "a", "b", "c", "d"] and everything.num_left_out == 1
    frequent = learn_from_symbols(counted, 100, 2)
    assert (frequent.pieces[5:], frequent.num_left_out, frequent.unknown) == (["a", "b"], 3, 3 / 8)
    assert learn_from_symbols(counted, 6, 1).pieces[5:] == ["a"]


@pytest.mark.parametrize(
    "counts, words",
    [
        ({}, "holds no symbol"),
        ({"a": 2, "b": 1}, "none of the 2 symbols occurs 3 times, the most frequent one 2 times; give a lower"),
        ({"##a": 5}, "the symbol '##a' begins with ##"),
    ],
)
def test_text_without_a_usable_symbol_is_refused(counts, words):
    with pytest.raises(DataError, match=words):
        learn_from_symbols(WordCounts(collections.Counter(counts), sum(counts.values())), 100, 3)
