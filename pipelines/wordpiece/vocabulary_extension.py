"""Adds to a vocabulary the words of a domain that save the most pieces. No entry changes its id."""

import dataclasses
import heapq
import unicodedata
from collections.abc import Iterable, Mapping

from pipelines.data_error import DataError
from pipelines.wordpiece.tokenizer import BertTokenizer
from pipelines.wordpiece.vocabulary import UNUSED_PIECE, write_vocabulary
from pipelines.wordpiece.vocabulary_report import cut_words
from pipelines.wordpiece.words import MAX_CHARACTERS_PER_WORD, count_words


@dataclasses.dataclass(frozen=True)
class AddedWord:
    """A word that became an entry.

    Attributes:
        word: the entry.
        id: the id of the entry.
        count: the occurrences of the word in the text.
        pieces: the number of its pieces when it was chosen; 0 if it was [UNK].
        saved: the number of pieces that it saves in the text, as extend_vocabulary counts them.
    """

    word: str
    id: int
    count: int
    pieces: int
    saved: int


@dataclasses.dataclass(frozen=True)
class Fit:
    """The fit of a vocabulary to a text: sums over all words."""

    words: int
    pieces: int
    unknown_words: int

    @property
    def pieces_per_word(self) -> float:
        """The mean number of pieces of a word."""
        return self.pieces / self.words


@dataclasses.dataclass(frozen=True)
class Extension:
    """The result of extend_vocabulary.

    Attributes:
        added: AddedWords in the order of their choice.
        num_slots: the number of words that replace [unusedN] entries.
        num_appended: the number of words at the end of the file.
        old_size: the number of entries before.
        new_size: the number of entries after.
        before: the Fit to the text before.
        after: the Fit to the text after.
        num_dropped: occurrences of words that were too rare to be kept in memory; no Fit counts them.
    """

    added: list
    num_slots: int
    num_appended: int
    old_size: int
    new_size: int
    before: Fit
    after: Fit
    num_dropped: int


def extend_vocabulary(
    vocab_file: str,
    output_file: str,
    text_batches: Iterable,
    num_words: int,
    do_lower_case: bool = True,
    min_count: int = 5,
) -> Extension:
    """Writes a vocabulary with additional words, which save the most pieces in a text.

    A word saves occurrences x (pieces - 1) pieces. The number is computed again after each choice: once "leukemia" is
    an entry, "leukemias" saves less. An [UNK] word counts as having as many pieces as characters, but at least two. If
    two words save equally many pieces, the first in the alphabet wins.

    A candidate has a letter, because pure numbers would fill a vocabulary with years and doses. It has at least
    min_count occurrences and at most 200 characters. A single character without a letter is a candidate only if it is
    [UNK]. The chosen words replace the [unusedN] entries in the order of the file, and the rest are appended. No other
    entry changes.

    Args:
        vocab_file: the vocabulary to extend; it is not changed.
        output_file: the file to write.
        text_batches: iterable of string tensors [n] or lists of strings.
        num_words: the most words to add.
        do_lower_case: whether the vocabulary is uncased.
        min_count: the fewest occurrences of a word that is added.

    Returns:
        Extension.

    Raises:
        DataError: the vocabulary is not usable, the text has no words, or no word would save a piece.
    """
    tokenizer = BertTokenizer(vocab_file, do_lower_case)
    counted = count_words(text_batches, do_lower_case)
    if not counted.counts:
        raise DataError("extend_vocab: the text holds no word; give files with text")
    before = fit(tokenizer, counted.counts)
    chosen = choose_words(tokenizer, counted.counts, num_words, min_count)
    if not chosen:
        raise DataError(f"extend_vocab: no word that occurs {min_count} times or more saves a piece; lower --min_count")
    pieces = list(tokenizer.vocabulary)
    slots = [i for i, piece in enumerate(pieces) if UNUSED_PIECE.fullmatch(piece)][: len(chosen)]
    places = [*slots, *range(len(pieces), len(pieces) + len(chosen) - len(slots))]
    pieces += [""] * (len(chosen) - len(slots))
    for place, (word, *_) in zip(places, chosen, strict=True):
        pieces[place] = word
    write_vocabulary(pieces, output_file)
    return Extension(
        [AddedWord(word, place, *figures) for place, (word, *figures) in zip(places, chosen, strict=True)],
        len(slots),
        len(chosen) - len(slots),
        tokenizer.vocab_size,
        len(pieces),
        before,
        fit(BertTokenizer(output_file, do_lower_case), counted.counts),
        counted.num_dropped,
    )


def fit(tokenizer: BertTokenizer, counts: Mapping[str, int]) -> Fit:
    """Computes the Fit of a tokenizer to counted words.

    Args:
        tokenizer: BertTokenizer.
        counts: dict of word to occurrences.

    Returns:
        Fit.
    """
    pieces = unknown = 0
    for word, ids in cut_words(tokenizer, list(counts)):
        pieces += counts[word] * len(ids)
        unknown += counts[word] * (ids == [tokenizer.unk_id])
    return Fit(sum(counts.values()), pieces, unknown)


def choose_words(
    tokenizer: BertTokenizer, counts: Mapping[str, int], num_words: int, min_count: int
) -> list[tuple[str, int, int, int]]:
    """Chooses the words to add, the best first.

    Args:
        tokenizer: BertTokenizer.
        counts: dict of word to occurrences.
        num_words: the most words to choose.
        min_count: the fewest occurrences of a word.

    Returns:
        list of (word, count, pieces or 0 for [UNK], saved).
    """
    candidates = [word for word, count in counts.items() if count >= min_count]
    heap = []
    for word, ids in cut_words(tokenizer, candidates):
        pieces = 0 if ids == [tokenizer.unk_id] else len(ids)
        if _is_worth_an_entry(word, pieces):
            heap.append((-counts[word] * _saved_each(word, pieces), word, pieces))
    heap = [entry for entry in heap if entry[0]]
    heapq.heapify(heap)
    vocabulary, chosen = set(tokenizer.vocabulary), []
    while heap and len(chosen) < num_words:
        score, word, pieces = heapq.heappop(heap)
        # A word chosen in the meantime may be the beginning of this word.
        current_pieces = pieces_of(word, vocabulary)
        current_score = -counts[word] * _saved_each(word, current_pieces)
        if current_score > score:
            if current_score:
                heapq.heappush(heap, (current_score, word, current_pieces))
            continue
        chosen.append((word, counts[word], pieces, -score))
        vocabulary.add(word)
    return chosen


def _is_worth_an_entry(word, pieces):
    if len(word) > MAX_CHARACTERS_PER_WORD:
        return False
    return any(unicodedata.category(c)[0] == "L" for c in word) or (len(word) == 1 and pieces == 0)


def _saved_each(word, pieces):
    return pieces - 1 if pieces else max(1, len(word) - 1)


def pieces_of(word: str, vocabulary: set[str]) -> int:
    """Counts the pieces into which the greedy longest match cuts a word.

    BertTokenizer does the same in graph; this function serves single words while the vocabulary changes.

    Args:
        word: str.
        vocabulary: set of str.

    Returns:
        int; 0 if the word is [UNK].
    """
    start, pieces = 0, 0
    while start < len(word):
        for end in range(len(word), start, -1):
            if ("##" if start else "") + word[start:end] in vocabulary:
                break
        else:
            return 0
        start, pieces = end, pieces + 1
    return pieces
