"""Occurrences of words in a corpus, and their vectors.

Dimensions: L + 1 states (the embeddings' output first), n occurrences, H hidden size.
"""

import dataclasses
import re
from collections.abc import Callable, Sequence

import numpy as np

from keras_bert_app.analysis import input_texts
from keras_bert_app.analysis.encoded_sentences import Encoded, encode_rows
from keras_bert_app.analysis.encoders import Subject
from keras_bert_app.analysis.even_samples import evenly_spaced
from keras_bert_app.errors import UserError
from keras_bert_app.terminal.progress import reported

FEWEST = 10  # occurrences; fewer do not form clusters
_MOST = 400  # occurrences of a word, taken at equal steps through the corpus
_MOST_OTHERS = 300  # sentences without the words; they add words to the mean of all words
_FEWEST_CONTEXTS = 5  # a word counts for the mean of all words if it occurs in this many sentences


@dataclasses.dataclass(frozen=True)
class Corpus:
    """The M sentences that are read.

    Attributes:
        texts: list of M input_texts.Text.
        keys: list of M lists of str. The words of each sentence in the tokenizer's casing.
        documents: int [M]. The document of each sentence.
        contexts: int [M]. The number of the first sentence with the same words.
        places: dict of word -> int [n, 2]. The sentence and the place in the sentence of each occurrence.
        remarks: list of str. Lines that say how much was read and left out.
    """

    texts: list
    keys: list
    documents: np.ndarray
    contexts: np.ndarray
    places: dict
    remarks: list


def find(subject: Subject, path: str, words: Sequence[str], max_sentences: int, seed: int) -> Corpus:
    """Finds the sentences of a file that contain the words, and draws some sentences without them.

    Args:
        subject: Subject. Its tokenizer decides about casing.
        path: str. See input_texts.corpus_sentences.
        words: sequence of str.
        max_sentences: int. How many sentences to read; 0 for all.
        seed: int. The seed for the draw of sentences without the words.

    Returns:
        Corpus.

    Raises:
        UserError: the file contains a word less than FEWEST times, or no text can contain the word.
    """
    _check_words(subject, words)
    sentences, documents = input_texts.corpus_sentences(path, max_sentences, subject.tokenizer.kind)
    words_by_key = {_key(subject, word): word for word in words}
    has_word = _which_have_words(subject, sentences, words, words_by_key)
    others = np.flatnonzero(~has_word)
    others = np.random.default_rng(seed).choice(others, min(_MOST_OTHERS, len(others)), replace=False)
    numbers = np.sort(np.concatenate([np.flatnonzero(has_word), others]))
    texts, kept, left_out = input_texts.encodable(subject, [sentences[number] for number in numbers])
    keys = [[_key(subject, word) for word in text.words()] for text in texts]
    places = {word: [] for word in words}
    for number, sentence_keys in enumerate(keys):
        for at, key in enumerate(sentence_keys):
            if key in words_by_key:
                places[words_by_key[key]].append((number, at))
    for word, word_places in places.items():
        if len(word_places) < FEWEST:
            raise UserError(
                f"--words: {word!r} occurs {len(word_places)} times in {path}; expected at least {FEWEST} times; give "
                "more text or another word"
            )
    remarks = [
        f"{len(sentences):,} sentences of {path} were read. {int(has_word.sum()):,} of them have one of the words; "
        f"{len(others):,} of the others, drawn by the seed, show the mean of all words."
    ]
    remarks += [
        f"{word} occurs {len(word_places):,} times; {_MOST:,} of the occurrences were taken, at equal steps."
        for word, word_places in places.items()
        if len(word_places) > _MOST
    ]
    remarks += [left_out] if left_out else []
    first = {}
    contexts = [first.setdefault(tuple(sentence_keys), number) for number, sentence_keys in enumerate(keys)]
    return Corpus(
        texts,
        keys,
        np.array(documents)[numbers][kept],
        np.array(contexts),
        {word: np.array(evenly_spaced(word_places, _MOST)) for word, word_places in places.items()},
        remarks,
    )


def _key(subject, word):
    return word.lower() if subject.config.do_lower_case else word


def _which_have_words(subject, sentences, words, words_by_key):
    """bool [sentences]."""
    pattern = _pattern(subject, words)
    has_word = np.array([bool(pattern.search(sentence)) for sentence in sentences])
    # The pattern also matches within longer words. Only the tokenizer's split shows whether a match is a whole word.
    candidates = np.flatnonzero(has_word)
    texts = input_texts.cut(subject.tokenizer, [sentences[number] for number in candidates])
    for number, text in zip(candidates, texts, strict=True):
        has_word[number] = any(_key(subject, word) in words_by_key for word in text.words())
    return has_word


def _pattern(subject, words):
    """A pattern that matches in every sentence with one of the words, also within longer words."""
    return re.compile("|".join(map(re.escape, words)), re.IGNORECASE if subject.config.do_lower_case else 0)


def _check_words(subject, words):
    """Raises UserError for words that no text can contain, or that the tokenizer does not distinguish."""
    known = {}
    for word, text in zip(words, input_texts.cut(subject.tokenizer, list(words)), strict=True):
        if len(text.words()) != 1:
            raise UserError(
                f"--words: BERT splits {word!r} into {len(text.words())} words "
                f"({', '.join(text.words()) or 'none'}), at white space, punctuation and each CJK character; give a "
                "word that BERT does not split"
            )
        key = _key(subject, word)
        if key in known:
            raise UserError(
                f"--words: {known[key]!r} and {word!r} are the same word to this uncased model; give one of them"
            )
        known[key] = word


@dataclasses.dataclass(frozen=True)
class Vectors:
    """The vectors of an encoder for a Corpus.

    Attributes:
        words: dict of word -> float32 [L + 1, n, H], of length 1.
        random_cosine: float [L + 1]. The mean cosine of random words from different sentences.
        similarities: float [frequent words, L + 1]. The mean cosine of a word's vectors in different sentences, for
            each word that occurs in at least five sentences.
    """

    words: dict
    random_cosine: np.ndarray
    similarities: np.ndarray

    @property
    def num_words(self) -> int:
        return len(self.similarities)

    @property
    def all_words(self) -> np.ndarray:
        """float [L + 1]: the mean of the similarities; NaN without frequent words."""
        return self.similarities.mean(axis=0) if len(self.similarities) else np.full(self.similarities.shape[1], np.nan)


def vectors(subject: Subject, corpus: Corpus, seed: int, log: Callable[[str], None]) -> Vectors:
    """Computes the vectors of a Corpus. The vector of a word is the mean of its pieces' vectors.

    Args:
        subject: Subject. The encoder.
        corpus: Corpus.
        seed: int. The seed that draws the random words.
        log: Callable. Receives progress lines.

    Returns:
        Vectors.
    """
    rows, generator = [(text.pieces, None) for text in corpus.texts], np.random.default_rng(seed)
    chosen = [int(generator.integers(len(keys))) for keys in corpus.keys]
    occurrences_by_sentence = {}
    for word, places in corpus.places.items():
        for number, (sentence, at) in enumerate(places):
            occurrences_by_sentence.setdefault(int(sentence), []).append((word, number, at))
    shape = (subject.config.num_hidden_layers + 1, subject.config.widest_state)
    word_vectors = {
        word: np.zeros((shape[0], len(places), shape[1]), np.float32) for word, places in corpus.places.items()
    }
    sums, counts, random_sum, num_random = {}, {}, np.zeros(shape), 0
    for encoded in reported(encode_rows(subject, rows), len(rows), f"sentences through {subject.name}", log):
        units = _unit(encoded)
        for word, number, at in occurrences_by_sentence.get(encoded.number, ()):
            word_vectors[word][:, number] = units[:, at]
        if corpus.contexts[encoded.number] != encoded.number:
            continue  # a repeated sentence is the same context
        random_sum += units[:, chosen[encoded.number]]
        num_random += 1
        # Only one occurrence counts in each sentence, so that the contexts of a word differ.
        for key, at in {key: at for at, key in enumerate(corpus.keys[encoded.number])}.items():
            if any(map(str.isalpha, key)):
                sums[key] = sums.get(key, 0) + units[:, at]
                counts[key] = counts.get(key, 0) + 1
    frequent = [key for key, count in counts.items() if count >= _FEWEST_CONTEXTS]
    similarities = [mean_cosine(sums[key], counts[key]) for key in frequent]
    return Vectors(
        word_vectors,
        mean_cosine(random_sum, num_random),
        np.array(similarities).reshape(-1, shape[0]),
    )


def mean_cosine(total: np.ndarray, count: int) -> np.ndarray:
    """Computes the mean cosine of all pairs of vectors of length 1 from the sum of the vectors.

    Args:
        total: float [..., H]. The sum of the vectors.
        count: int. The number of vectors.

    Returns:
        float [...].
    """
    return (np.sum(np.square(total, dtype=np.float64), axis=-1) - count) / max(count * (count - 1), 1)


def mean_cosine_apart(vectors: np.ndarray, contexts: np.ndarray) -> np.ndarray:
    """Computes the mean cosine of all pairs of vectors of different contexts.

    Args:
        vectors: float [L + 1, n, H], of length 1.
        contexts: int [n]. At least two of them differ.

    Returns:
        float [L + 1].
    """
    _, places, counts = np.unique(contexts, return_inverse=True, return_counts=True)
    # [L + 1, contexts, H]
    sums = np.eye(len(counts))[places].T @ vectors.astype(np.float64)
    total = np.sum(sums.sum(axis=1) ** 2, axis=-1) - np.sum(sums**2, axis=(1, 2))
    return total / max(len(places) ** 2 - np.sum(counts**2), 1)


def _unit(encoded: Encoded):
    """float32 [L + 1, W, H]: the words' vectors, scaled to length 1."""
    states = encoded.word_states()
    return states / np.maximum(np.linalg.norm(states, axis=-1, keepdims=True), 1e-12)
