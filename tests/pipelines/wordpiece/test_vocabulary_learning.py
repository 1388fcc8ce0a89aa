"""Learning gives exactly the requested size, and the same result every time, in every script."""

import collections

import pytest
import tensorflow as tf

from pipelines import BertTokenizer
from pipelines.data_error import DataError
from pipelines.wordpiece import vocabulary, vocabulary_learning

TEXT = ["The cat sat on the mat, unaware of the other cats.", "Käse und Brot! 中文"] * 3


@pytest.mark.parametrize("vocab_size", [60, 77, 200])
def test_learning_gives_the_requested_number_of_entries_whatever_the_order_of_the_text(tmp_path, vocab_size):
    pieces, words = vocabulary_learning.learn_vocabulary([TEXT], vocab_size)
    assert len(pieces) == len(set(pieces)) == vocab_size
    assert tuple(pieces[:5]) == vocabulary.SPECIAL_PIECES
    assert words == 3 * (13 + 6)
    assert vocabulary_learning.learn_vocabulary([TEXT[::-1]], vocab_size)[0] == pieces
    vocabulary.write_vocabulary(pieces, tmp_path / "vocab.txt")
    assert vocabulary.load_vocabulary(tmp_path / "vocab.txt") == pieces


def test_a_learned_vocabulary_covers_its_text(tmp_path):
    for do_lower_case in (True, False):
        pieces, _ = vocabulary_learning.learn_vocabulary([tf.constant(TEXT)], 200, do_lower_case)
        vocabulary.write_vocabulary(pieces, tmp_path / "vocab.txt")
        tokenizer = BertTokenizer(str(tmp_path / "vocab.txt"), do_lower_case)
        assert tokenizer.unk_id not in tokenizer.tokenize(TEXT).flat_values.numpy()
        assert ("The" in pieces) is not do_lower_case


@pytest.mark.parametrize("do_lower_case", [True, False])
def test_every_learned_entry_can_occur_in_a_text(do_lower_case):
    text = [*TEXT, "日本語のテキスト, 한국어 문장 и русский текст ÅÉ ǅ"] * 2
    pieces, _ = vocabulary_learning.learn_vocabulary([text], 300, do_lower_case)
    assert not vocabulary.never_produced(pieces, do_lower_case)


def test_chinese_characters_take_one_entry_each_and_most_of_the_vocabulary():
    characters = [chr(0x4E00 + i) for i in range(600)]
    words = collections.Counter({character: 1000 - i for i, character in enumerate(characters)})
    words["apple"] = 1000
    pieces = vocabulary_learning.learn_from_words(words, 700)
    assert set(characters) <= set(pieces)
    assert not any(piece.startswith("##") and piece[2] >= "一" for piece in pieces)
    assert "apple" in pieces and len(pieces) == 700


def test_rare_characters_come_before_unused_entries():
    words = collections.Counter({"cat": 100_000, "☃": 1})
    pieces = vocabulary_learning.learn_from_words(words, 40)
    assert pieces.index("☃") < pieces.index("[unused0]")


def test_words_over_200_characters_are_counted_and_not_learned():
    pieces, words = vocabulary_learning.learn_vocabulary([["cat " * 3 + "x" * 201 + " " + "y" * 200]], 400)
    assert words == 5 and not any("x" in piece for piece in pieces) and "y" * 200 in pieces


def test_a_text_without_a_word_and_a_vocab_size_that_is_too_small_are_refused():
    with pytest.raises(DataError, match="no word"):
        vocabulary_learning.learn_vocabulary([[]], 100)
    with pytest.raises(DataError, match="vocab_size 20 has no room"):
        vocabulary_learning.learn_vocabulary([TEXT], 20)
