"""The places of words in a corpus, and their vectors there.

Dimensions: L + 1 states (the embeddings' output first), n occurrences, H hidden size.
"""

import dataclasses
import re

import numpy as np

from keras_bert_app.analysis import input_texts
from keras_bert_app.analysis.encoded_sentences import Encoded, encode_rows
from keras_bert_app.analysis.samples import evenly
from keras_bert_app.errors import UserError
from keras_bert_app.terminal.progress import reported

FEWEST = 10  # occurrences; fewer make no clusters
_MOST = 400  # of a word; taken at equal steps through the corpus
_MOST_OTHERS = 300  # sentences in which nothing was looked up; for what all words do
_FEWEST_CONTEXTS = 5  # sentences with a word that count it among all words


@dataclasses.dataclass(frozen=True)
class Corpus:
    """The sentences that are read: M of them.

    Attributes:
        texts: M texts.Text. keys: of each the list of its words as the tokenizer's casing has them. documents: int [M].
        contexts: int [M], of each the first sentence of the same words. places: dict word -> int [n, 2], sentence and word of
            each occurrence. remarks: lines, what was left out.
    """

    texts: list
    keys: list
    documents: np.ndarray
    contexts: np.ndarray
    places: dict
    remarks: list


def find(subject, path, words, max_sentences, seed):
    """The Corpus of a file's sentences that hold the words, and of some others.

    Raises:
        UserError: a word is there less than FEWEST times.
    """
    lower = subject.config.do_lower_case
    _check_words(subject, words)
    sentences, documents = input_texts.corpus_sentences(path, max_sentences)
    wanted = _pattern(subject, words)
    is_wanted = np.array([bool(wanted.search(sentence)) for sentence in sentences])
    by_key = {word.lower() if lower else word: word for word in words}
    for number, text in zip(
        np.flatnonzero(is_wanted),
        input_texts.cut(subject.tokenizer, [sentences[at] for at in np.flatnonzero(is_wanted)]),
    ):
        is_wanted[number] = any(
            (word.lower() if lower else word) in by_key for word in text.words()
        )  # not within a longer word alone
    others = np.flatnonzero(~is_wanted)
    others = np.random.default_rng(seed).choice(others, min(_MOST_OTHERS, len(others)), replace=False)
    numbers = np.sort(np.concatenate([np.flatnonzero(is_wanted), others]))
    given, kept, remark = input_texts.encodable(subject, [sentences[number] for number in numbers])
    keys = [[word.lower() if lower else word for word in text.words()] for text in given]
    places = {word: [] for word in words}
    for number, row in enumerate(keys):
        for at, key in enumerate(row):
            if key in by_key:
                places[by_key[key]].append((number, at))
    for word, found in places.items():
        if len(found) < FEWEST:
            raise UserError(
                f"--words: {word!r} stands {len(found)} times in {path}; expected {FEWEST} times at least; give more "
                "text or another word"
            )
    remarks = [
        f"Of {path} {len(sentences):,} sentences were read: {int(is_wanted.sum()):,} with one of the words, and "
        f"{len(others):,} of the others, drawn by the seed, for what all words do."
    ]
    remarks += [
        f"{word} stands there {len(found):,} times; {_MOST:,} of them were taken at equal steps."
        for word, found in places.items()
        if len(found) > _MOST
    ]
    remarks += [remark] if remark else []
    first = {}
    contexts = [first.setdefault(tuple(row), number) for number, row in enumerate(keys)]
    return Corpus(
        given,
        keys,
        np.array(documents)[numbers][kept],
        np.array(contexts),
        {word: np.array(evenly(found, _MOST)) for word, found in places.items()},
        remarks,
    )


def _pattern(subject, words):
    """What is found in every sentence that has one of the words; within longer words too, which cutting them tells apart."""
    return re.compile("|".join(map(re.escape, words)), re.IGNORECASE if subject.config.do_lower_case else 0)


def _check_words(subject, words):
    """Raises UserError for words that can be in no text, or that the tokenizer does not tell apart."""
    lower, known = subject.config.do_lower_case, {}
    for word, text in zip(words, input_texts.cut(subject.tokenizer, list(words))):
        if len(text.words()) != 1:
            raise UserError(
                f"--words: {word!r} is {len(text.words())} words to BERT ({', '.join(text.words()) or 'none'}), which "
                "splits text at white space, punctuation and each CJK character; give one of them"
            )
        key = word.lower() if lower else word
        if key in known:
            raise UserError(
                f"--words: {known[key]!r} and {word!r} are the same word to this uncased model; give one of them"
            )
        known[key] = word


@dataclasses.dataclass(frozen=True)
class Vectors:
    """What an encoder makes of a Corpus.

    Attributes:
        words: dict word -> float32 [L + 1, n, H], of length 1. random_cosine: float [L + 1], the mean cosine of words
            at random from different sentences. all_words: float [L + 1], the mean self-similarity of all words of five
            sentences or more.
            num_words: how many those are.
    """

    words: dict
    random_cosine: np.ndarray
    all_words: np.ndarray
    num_words: int


def vectors(subject, corpus, seed, log):
    """The Vectors of a Corpus, those of a word the mean of its pieces'."""
    rows, random = [(text.pieces, None) for text in corpus.texts], np.random.default_rng(seed)
    chosen = [int(random.integers(len(keys))) for keys in corpus.keys]
    of_sentence = {}
    for word, places in corpus.places.items():
        for number, (sentence, at) in enumerate(places):
            of_sentence.setdefault(int(sentence), []).append((word, number, at))
    shape = (subject.config.num_hidden_layers + 1, subject.config.hidden_size)
    found = {word: np.zeros((shape[0], len(places), shape[1]), np.float32) for word, places in corpus.places.items()}
    sums, counts, random_sum, num_random = {}, {}, np.zeros(shape), 0
    for one in reported(encode_rows(subject, rows), len(rows), f"sentences through {subject.name}", log):
        units = _unit(one)
        for word, number, at in of_sentence.get(one.number, ()):
            found[word][:, number] = units[:, at]
        if corpus.contexts[one.number] != one.number:
            continue  # a sentence that is there twice is one context
        random_sum += units[:, chosen[one.number]]
        num_random += 1
        # One occurrence a sentence: the contexts of a word are to be different ones.
        for key, at in {key: at for at, key in enumerate(corpus.keys[one.number])}.items():
            if any(map(str.isalpha, key)):
                sums[key] = sums.get(key, 0) + units[:, at]
                counts[key] = counts.get(key, 0) + 1
    often = [key for key, count in counts.items() if count >= _FEWEST_CONTEXTS]
    similar = [mean_cosine(sums[key], counts[key]) for key in often]
    return Vectors(
        found,
        mean_cosine(random_sum, num_random),
        np.mean(similar, axis=0) if often else np.full(shape[0], np.nan),
        len(often),
    )


def mean_cosine(total, count):
    """The mean cosine of each two of `count` vectors of length 1 with the sum `total` [..., H]."""
    return (np.sum(np.square(total, dtype=np.float64), axis=-1) - count) / max(count * (count - 1), 1)


def mean_cosine_apart(vectors, contexts):
    """float [L + 1]: the mean cosine of each two vectors of different contexts.

    Args:
        vectors: [L + 1, n, H], of length 1. contexts: int [n], two different ones at least.
    """
    _, places, counts = np.unique(contexts, return_inverse=True, return_counts=True)
    # [L + 1, contexts, H]
    sums = np.eye(len(counts))[places].T @ vectors.astype(np.float64)
    total = np.sum(sums.sum(axis=1) ** 2, axis=-1) - np.sum(sums**2, axis=(1, 2))
    return total / max(len(places) ** 2 - np.sum(counts**2), 1)


def _unit(one: Encoded):
    """float32 [L + 1, W, H]: the words' vectors, of length 1."""
    states = one.word_states()
    return states / np.maximum(np.linalg.norm(states, axis=-1, keepdims=True), 1e-12)
