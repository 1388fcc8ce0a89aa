"""Words are counted as the tokenizer splits them, in Chinese text too."""

import random

import numpy as np
import pytest
import tensorflow as tf

from pipelines.wordpiece import word_counting, words


def counts(lines):
    return word_counting.words_of_lines(np.frombuffer(("\n".join(lines) + "\n").encode(), np.uint8)).tolist()


def split(lines):
    return words.split_words(tf.constant(lines), True).row_lengths().numpy().tolist()


def test_words_marks_and_chinese_characters_count_one_each():
    lines = ["The cat's mat, twice.", "", "他来了。", "iPhone手机 3.5", "a\u200db \ufffd c\u0301d", "\u3000 \xa0"]
    assert counts(lines) == [8, 0, 4, 6, 2, 0]
    assert word_counting.count_words("他 来了\nno".encode()) == 4


@pytest.mark.parametrize("pattern", ["a{}b", "a {} b"])
def test_every_kind_of_character_counts_as_the_tokenizer_splits_it(pattern):
    codes = [*range(11, 0xD800, 3), *range(0xE000, 0x30000, 17), *range(0xE0000, 0x110000, 997)]
    lines = [pattern.format(chr(code)) for code in codes]
    assert counts(lines) == split(lines)


def test_random_lines_count_as_the_tokenizer_splits_them():
    generator = random.Random(3)
    alphabet = [*"ab  .,'", "é", "e\u0301", "中", "文", "か", "한", "≠", "\u200b", "\x07", "\u2028", "。", "😀"]
    lines = ["".join(generator.choices(alphabet, k=generator.randrange(40))) for _ in range(3000)]
    assert counts(lines) == split(lines)
