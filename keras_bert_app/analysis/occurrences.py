"""The places of words in a corpus, and their vectors there.

Dimensions: L + 1 states (the embeddings' output first), n occurrences, H hidden size.
"""

import dataclasses
import re

import numpy as np

from keras_bert_app.analysis import texts
from keras_bert_app.analysis.progress import reported
from keras_bert_app.analysis.sentences import Encoded, encode_rows
from keras_bert_app.errors import UserError

FEWEST = 10  # occurrences; fewer make no clusters
_MOST = 400  # of a word; taken at equal steps through the corpus
_MOST_OTHERS = 300  # sentences in which nothing was looked up; for what all words do
_FEWEST_CONTEXTS = 5  # sentences with a word that count it among all words


@dataclasses.dataclass(frozen=True)
class Corpus:
    """The sentences that are read: M of them.

    Attributes:
        texts: M texts.Text. keys: of each the list of its words as the tokenizer's casing has them. documents: int [M].
        places: dict word -> int [n, 2], sentence and word of each occurrence. remark: what was left out, or "".
    """

    texts: list
    keys: list
    documents: np.ndarray
    places: dict
    remark: str


def find(subject, path, words, max_sentences, seed):
    """The Corpus of a file's sentences that hold the words, and of some others.

    Raises:
        UserError: a word is there less than FEWEST times.
    """
    lower = subject.config.do_lower_case
    sentences, documents = texts.corpus_sentences(path, max_sentences)
    wanted = re.compile(r"(?<!\w)(?:%s)(?!\w)" % "|".join(map(re.escape, words)), re.IGNORECASE if lower else 0)
    is_wanted = np.array([bool(wanted.search(sentence)) for sentence in sentences])
    others = np.flatnonzero(~is_wanted)
    others = np.random.default_rng(seed).choice(others, min(_MOST_OTHERS, len(others)), replace=False)
    numbers = np.sort(np.concatenate([np.flatnonzero(is_wanted), others]))
    given, kept, remark = texts.encodable(subject, [sentences[number] for number in numbers])
    keys = [[word.lower() if lower else word for word in text.words()] for text in given]
    places = {word: [] for word in words}
    by_key = {word.lower() if lower else word: word for word in words}
    for number, row in enumerate(keys):
        for at, key in enumerate(row):
            if key in by_key:
                places[by_key[key]].append((number, at))
    for word, found in places.items():
        if len(found) < FEWEST:
            raise UserError(
                f"--words: {word!r} stands {len(found)} times in {path}; expected {FEWEST} times at least; give more "
                "text or another word")
    return Corpus(given, keys, np.array(documents)[numbers][kept],
                  {word: np.array(found)[np.linspace(0, len(found) - 1, min(_MOST, len(found))).astype(int)]
                   for word, found in places.items()}, remark)


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
        random_sum += units[:, chosen[one.number]]
        num_random += 1
        # One occurrence a sentence: the contexts of a word are to be different ones.
        for key, at in {key: at for at, key in enumerate(corpus.keys[one.number])}.items():
            if any(map(str.isalpha, key)):
                sums[key] = sums.get(key, 0) + units[:, at]
                counts[key] = counts.get(key, 0) + 1
    often = [key for key, count in counts.items() if count >= _FEWEST_CONTEXTS]
    similar = [mean_cosine(sums[key], counts[key]) for key in often]
    return Vectors(found, mean_cosine(random_sum, num_random),
                   np.mean(similar, axis=0) if often else np.full(shape[0], np.nan), len(often))


def mean_cosine(total, count):
    """The mean cosine of each two of `count` vectors of length 1 with the sum `total` [..., H]."""
    return (np.sum(np.square(total, dtype=np.float64), axis=-1) - count) / max(count * (count - 1), 1)


def _unit(one: Encoded):
    """float32 [L + 1, W, H]: the words' vectors, of length 1."""
    states = one.word_states()
    return states / np.maximum(np.linalg.norm(states, axis=-1, keepdims=True), 1e-12)
