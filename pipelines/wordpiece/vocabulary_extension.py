"""Words of a domain for an existing vocabulary: those that save the most pieces, without moving an entry."""

import dataclasses
import heapq
import unicodedata

from pipelines.data_error import DataError
from pipelines.wordpiece.tokenizer import BertTokenizer
from pipelines.wordpiece.vocabulary import UNUSED_PIECE, write_vocabulary
from pipelines.wordpiece.vocabulary_report import cut_words
from pipelines.wordpiece.words import MAX_CHARACTERS_PER_WORD, count_words


@dataclasses.dataclass(frozen=True)
class AddedWord:
    """A word that became an entry.

    Attributes:
        word, id: the entry. count: its occurrences in the text.
        pieces: how many pieces it was cut into when it was chosen; 0 where it was [UNK].
        saved: pieces that it saves in the text, as extend_vocabulary counts them.
    """

    word: str
    id: int
    count: int
    pieces: int
    saved: int


@dataclasses.dataclass(frozen=True)
class Fit:
    """A vocabulary on a text: sums over all its words."""

    words: int
    pieces: int
    unknown_words: int

    @property
    def pieces_per_word(self):
        return self.pieces / self.words


@dataclasses.dataclass(frozen=True)
class Extension:
    """What extend_vocabulary did.

    Attributes:
        added: AddedWords in the order of their choice. num_slots, num_appended: where they went.
        old_size, new_size: entries before and after. before, after: Fits on the text.
        num_dropped: occurrences of words too rare to be kept in memory, in neither Fit.
    """

    added: list
    num_slots: int
    num_appended: int
    old_size: int
    new_size: int
    before: Fit
    after: Fit
    num_dropped: int


def extend_vocabulary(vocab_file, output_file, text_batches, num_words, do_lower_case=True, min_count=5):
    """Writes a vocabulary with the words added whose being one piece saves the most pieces in a text.

    A word saves occurrences x (pieces - 1), counted anew after each choice: with "leukemia" added, "leukemias" has
    less to save. A word that is [UNK] today has its one piece but none of its meaning; it counts as if cut into its
    characters, and as two pieces at least. Ties go to the word that sorts first.

    Candidates have a letter, at least min_count occurrences and no more than 200 characters; numbers are left out,
    since they would fill a vocabulary with years and doses, but not words such as "b12". A symbol is a candidate if it
    is [UNK] today. The chosen words take the places of the [unusedN] entries in the order of the file, then new places
    at its end. No existing entry changes its id, and no other entry is lost.

    Args:
        vocab_file: the vocabulary to extend; it is not changed. output_file: where to write.
        text_batches: iterable of string tensors [n] or lists of strings.
        num_words: the most words to add. min_count: the fewest occurrences of a word that is added.

    Returns:
        Extension.

    Raises:
        DataError: the vocabulary is not usable, the text has no words, or none of them would save a piece.
    """
    tokenizer = BertTokenizer(vocab_file, do_lower_case)
    counted = count_words(text_batches, do_lower_case)
    if not counted.counts:
        raise DataError("extend_vocab: the text holds no word; give files with text")
    before = fit(tokenizer, counted.counts)
    chosen = choose_words(tokenizer, counted.counts, num_words, min_count)
    if not chosen:
        raise DataError(
            f"extend_vocab: no word of this text occurs {min_count} times or more and is cut today; the "
            "vocabulary fits as it is, or --min_count is too high"
        )
    pieces = list(tokenizer.vocabulary)
    slots = [i for i, piece in enumerate(pieces) if UNUSED_PIECE.fullmatch(piece)][: len(chosen)]
    places = [*slots, *range(len(pieces), len(pieces) + len(chosen) - len(slots))]
    pieces += [""] * (len(chosen) - len(slots))
    for place, (word, *_) in zip(places, chosen):
        pieces[place] = word
    write_vocabulary(pieces, output_file)
    return Extension(
        [AddedWord(word, place, *figures) for place, (word, *figures) in zip(places, chosen)],
        len(slots),
        len(chosen) - len(slots),
        tokenizer.vocab_size,
        len(pieces),
        before,
        fit(BertTokenizer(output_file, do_lower_case), counted.counts),
        counted.num_dropped,
    )


def fit(tokenizer, counts):
    """The Fit of a tokenizer on counted words."""
    pieces = unknown = 0
    for word, ids in cut_words(tokenizer, list(counts)):
        pieces += counts[word] * len(ids)
        unknown += counts[word] * (ids == [tokenizer.unk_id])
    return Fit(sum(counts.values()), pieces, unknown)


def choose_words(tokenizer, counts, num_words, min_count):
    """The words to add, best first, as tuples (word, count, pieces or 0 for [UNK], saved)."""
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
        # A word chosen since may have become the beginning of this one.
        now = pieces_of(word, vocabulary)
        score_now = -counts[word] * _saved_each(word, now)
        if score_now > score:
            if score_now:
                heapq.heappush(heap, (score_now, word, now))
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


def pieces_of(word, vocabulary):
    """How many pieces the greedy longest match cuts a word into; 0 where it is [UNK].

    BertTokenizer does the same in graph; here one word is asked about after the vocabulary changed.
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
