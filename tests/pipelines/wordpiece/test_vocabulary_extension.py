"""An extension puts the words that save most pieces into unused entries, then at the end. No entry moves."""

import pytest

from pipelines import BertTokenizer
from pipelines.data_error import DataError
from pipelines.wordpiece import vocabulary_extension
from pipelines.wordpiece.vocabulary import SPECIAL_PIECES, load_vocabulary, write_vocabulary

LETTERS = "abcdefghijklmnopqrstuvwxyz0123456789"
ENTRIES = ["[PAD]", "[unused0]", *SPECIAL_PIECES[1:], "[unused1]", *LETTERS, *(f"##{c}" for c in LETTERS), "the"]


@pytest.fixture
def vocab_file(tmp_path):
    write_vocabulary(ENTRIES, tmp_path / "vocab.txt")
    return str(tmp_path / "vocab.txt")


def extend(vocab_file, tmp_path, text, num_words, **more):
    output_file = str(tmp_path / "extended.txt")
    extension = vocabulary_extension.extend_vocabulary(vocab_file, output_file, [[text]], num_words, **more)
    return extension, load_vocabulary(output_file)


def test_words_fill_unused_entries_in_order_then_the_end_and_no_entry_moves(vocab_file, tmp_path):
    extension, pieces = extend(vocab_file, tmp_path, "the fever " * 5 + "rash " * 6 + "ill " * 5, 3)
    # Pieces saved: fever 5 x 4, rash 6 x 3, ill 5 x 2.
    assert [(added.word, added.count, added.pieces, added.saved) for added in extension.added] == [
        ("fever", 5, 5, 20),
        ("rash", 6, 4, 18),
        ("ill", 5, 3, 10),
    ]
    assert pieces == ["[PAD]", "fever", *SPECIAL_PIECES[1:], "rash", *ENTRIES[7:], "ill"]
    assert [added.id for added in extension.added] == [1, 6, len(ENTRIES)]
    assert (extension.num_slots, extension.num_appended) == (2, 1)
    assert (extension.old_size, extension.new_size) == (len(ENTRIES), len(ENTRIES) + 1)
    assert (extension.before.words, extension.before.pieces, extension.after.pieces) == (21, 5 + 25 + 24 + 15, 21)
    assert extension.after.pieces_per_word == 1


def test_the_saving_of_a_longer_word_is_counted_again_after_its_beginning_was_chosen(vocab_file, tmp_path):
    # Without "fever", "fevers" saves 5 x 5. With "fever" it is "fever ##s" and saves only 5, less than "ague".
    extension, _ = extend(vocab_file, tmp_path, "fever " * 9 + "fevers " * 5 + "ague " * 5, 2)
    assert [added.word for added in extension.added] == ["fever", "ague"]
    assert extension.before.pieces - extension.after.pieces == 9 * 4 + 5 * 4 + 5 * 3


def test_an_unknown_word_counts_as_if_cut_into_its_characters(vocab_file, tmp_path):
    extension, _ = extend(vocab_file, tmp_path, "γάμμα " * 5 + "rash " * 6 + "中 " * 7 + "≥ " * 8, 5)
    assert [(added.word, added.pieces, added.saved) for added in extension.added] == [
        ("γαμμα", 0, 20),
        ("rash", 4, 18),
        ("≥", 0, 8),
        ("中", 0, 7),
    ]
    assert extension.before.unknown_words == 20 and extension.after.unknown_words == 0


def test_ties_go_to_the_word_that_sorts_first_whatever_the_order_of_the_text(vocab_file, tmp_path):
    for text in ("bad ill ache " * 5, "ill bad ache " * 5):
        extension, _ = extend(vocab_file, tmp_path, text, 3)
        assert [added.word for added in extension.added] == ["ache", "bad", "ill"]


def test_numbers_rare_words_and_words_over_200_characters_are_left_out(vocab_file, tmp_path):
    extension, _ = extend(vocab_file, tmp_path, "1984 " * 9 + "b12 " * 5 + "rare " * 4 + ("x" * 201 + " ") * 9, 9)
    assert [added.word for added in extension.added] == ["b12"]
    with pytest.raises(DataError, match="occurs 6 times or more"):
        extend(vocab_file, tmp_path, "b12 " * 5, 9, min_count=6)
    with pytest.raises(DataError, match="no word"):
        extend(vocab_file, tmp_path, " ", 9)


def test_pieces_are_counted_as_the_tokenizer_cuts(golden):
    import json

    texts = [case["text"] for case in json.loads((golden / "tokenization.json").read_text(encoding="utf-8"))["cases"]]
    tokenizer = BertTokenizer(str(golden / "tokenization_vocab.txt"), verify_casing=False)
    words = [word for word in vocabulary_extension.count_words([texts], True).counts if len(word) <= 200]
    vocabulary = set(tokenizer.vocabulary)
    for word, ids in vocabulary_extension.cut_words(tokenizer, words):
        assert vocabulary_extension.pieces_of(word, vocabulary) == (0 if ids == [tokenizer.unk_id] else len(ids)), word
