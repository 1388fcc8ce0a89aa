"""Learns a WordPiece vocabulary from text."""

import collections
from collections.abc import Iterable, Mapping

from pipelines.data_error import DataError
from pipelines.wordpiece.vocabulary import SPECIAL_PIECES
from pipelines.wordpiece.words import MAX_CHARACTERS_PER_WORD, count_words

_MIN_ALPHABET_ENTRIES = 100


def learn_vocabulary(text_batches: Iterable, vocab_size: int, do_lower_case: bool = True) -> tuple[list[str], int]:
    """Learns WordPiece entries from texts; see learn_from_words.

    Args:
        text_batches: iterable of string tensors [n] or lists of strings.
        vocab_size: the exact number of entries, special pieces included.
        do_lower_case: whether to lower-case and strip accents first.

    Returns:
        (pieces, words): list of vocab_size strings, and the number of words of the text.

    Raises:
        DataError: the text has no words, or vocab_size has no room for its characters.
    """
    words = count_words(text_batches, do_lower_case)
    return learn_from_words(words.counts, vocab_size), words.num_words


def learn_from_words(words: Mapping[str, int], vocab_size: int) -> list[str]:
    """Learns WordPiece entries by byte-pair merging of counted words.

    The learner is the Rust trainer of the `tokenizers` library. docs/decisions.md compares it with keras_hub's
    learner in pieces per word and time. The result is the same for the same counts.

    Args:
        words: dict of word (str, as pipelines.wordpiece.words gives them) to its number of occurrences.
        vocab_size: the exact number of entries, special pieces included.

    Returns:
        list of vocab_size strings.

    Raises:
        DataError: there are no words, or vocab_size has no room for their characters.
    """
    import tokenizers

    if not words:
        raise DataError("learn_vocab: the text holds no word; give files with text")
    words = {word: count for word, count in words.items() if len(word) <= MAX_CHARACTERS_PER_WORD}
    room = vocab_size - len(SPECIAL_PIECES)
    characters, inner = _characters(words)
    alphabet, entries = _alphabet(characters, inner, max(_MIN_ALPHABET_ENTRIES, room * 3 // 4))
    if room < entries:
        raise DataError(
            f"learn_vocab: vocab_size {vocab_size} has no room for the {len(alphabet)} characters of this "
            f"text, which take {entries} entries (one at the beginning of a word, one within); give a "
            f"vocab_size of {len(SPECIAL_PIECES) + 2 * entries} or more"
        )
    # A word with a character outside the alphabet becomes [UNK], so its parts are not learned.
    words = {word: count for word, count in words.items() if alphabet.issuperset(word)}
    # Without this list the trainer numbers the inner characters in the order of a hash table. These numbers break ties
    # between merges, so the vocabulary would be different in every run.
    inner_pieces = [f"##{character}" for character in sorted({c for word in words for c in word[1:]})]
    trainer = tokenizers.trainers.WordPieceTrainer(
        vocab_size=vocab_size, special_tokens=[*SPECIAL_PIECES, *inner_pieces], show_progress=False
    )
    learner = tokenizers.Tokenizer(tokenizers.models.WordPiece(unk_token="[UNK]"))
    learner.pre_tokenizer = tokenizers.pre_tokenizers.WhitespaceSplit()
    learner.train_from_iterator(_repeated(words), trainer)
    learned = learner.get_vocab()
    return _filled_up(sorted(learned, key=learned.get), words, characters, vocab_size)


def _characters(words):
    """Returns a Counter of characters, and the set of characters that occur after the first character of a word.

    Chinese characters are not in this set, because each is a separate word.
    """
    characters, inner = collections.Counter(), set()
    for word, count in words.items():
        for character in word:
            characters[character] += count
        inner.update(word[1:])
    return characters, inner


def _alphabet(characters, inner, max_entries, coverage=0.9999):
    """Selects the most frequent characters that make up `coverage` of the text.

    Returns (set of characters, number of their entries).

    Rarer characters would take the entries of words. A character takes one entry, and a second entry ("##c") if it also
    occurs after the first character of a word.
    """
    wanted, covered, entries, alphabet = coverage * sum(characters.values()), 0, 0, set()
    for character, count in _by_frequency(characters):
        cost = 1 + (character in inner)
        if covered >= wanted or entries + cost > max_entries:
            break
        alphabet.add(character)
        covered += count
        entries += cost
    return alphabet, entries


def _by_frequency(counts):
    return sorted(counts.items(), key=lambda item: (-item[1], item[0]))


def _repeated(words, words_a_line=1000):
    """Yields lines in which each word stands as often as it was counted.

    The trainer counts the words itself.
    """
    for word, count in sorted(words.items()):
        while count > 0:
            yield " ".join([word] * min(count, words_a_line))
            count -= words_a_line


def _filled_up(pieces, words, characters, vocab_size):
    """Returns exactly vocab_size pieces.

    The learned pieces come first, then whole words, then rare characters, then [unusedN].
    """
    known = set(pieces)
    for piece, _ in (*_by_frequency(words), *_by_frequency(characters)):
        if len(pieces) >= vocab_size:
            break
        if piece not in known:
            pieces.append(piece)
            known.add(piece)
    unused = (f"[unused{i}]" for i in range(vocab_size))
    while len(pieces) < vocab_size:
        pieces.append(next(unused))
    return pieces[:vocab_size]
