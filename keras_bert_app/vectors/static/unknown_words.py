"""Vectors of unknown words, which a file of word vectors lacks: the policies of --unknown_vectors.

- `unk`: all unknown words have one vector.
- `shape`: the words of a shape class, such as Xxxx or dddd, have the mean of the known words of this class.
- `characters`: the mean of the vectors of the word's character n-grams.
- `random`: random vectors, which say nothing about the word.

`given` names the words that a training did not see but the file has. They keep the vector of the file.
"""

import unicodedata
from collections.abc import Callable, Collection, Iterable, Sequence

import numpy as np

from keras_bert_app.vectors.static.learning_options import NGRAM_LENGTHS
from keras_bert_app.vectors.static.word_vector_files import WordVectors

UNKNOWN_WORDS = ("[UNK]", "<unk>", "<UNK>")  # names of the vector for all unknown words in BERT's and GloVe's files
_INNER = "##"
_LONGEST_RUN = 4  # equal letters of a shape, as in spaCy's token.shape_


def given(words: Iterable[str], known: WordVectors, seen: Collection[str]) -> list[str]:
    """Lists the words that a training did not see but the file has.

    A classifier that reads fixed vectors can use these words, because their vectors lie in the space of the others.

    Args:
        words: iterable of str.
        known: WordVectors.
        seen: collection of str. The words of the training.

    Returns:
        list of str, in the order of the words.
    """
    return [word for word in words if word in known.rows and word not in seen]


def unk_vector(known: WordVectors) -> np.ndarray:
    """Returns the one vector for all unknown words.

    Args:
        known: WordVectors.

    Returns:
        float32 [D]. The row of [UNK] or <unk>; without such a row the mean of all vectors.
    """
    for word in UNKNOWN_WORDS:
        if word in known.rows:
            return known.vectors[known.rows[word]]
    return known.vectors.mean(axis=0, dtype=np.float64).astype(np.float32)


def shape_of(word: str) -> str:
    """Returns the shape class of a word.

    A capital becomes X, another cased letter x, a digit d, a letter without case c, and every other character p. A run
    of more than four equal letters counts as four. An inner piece keeps its ##.

    Args:
        word: str. A word or a WordPiece.

    Returns:
        str.

    Examples:
        Berlin is Xxxxx, 2014 is dddd, U.S. is XpXp and ##ing is ##xxx.
    """
    inner, text = _split_inner(word)
    shape = ""
    for letter in map(_class_of, text):
        if not shape.endswith(letter * _LONGEST_RUN):
            shape += letter
    return inner + shape


def _split_inner(word):
    """(prefix of an inner WordPiece or "", text)."""
    return (_INNER, word[len(_INNER) :]) if word.startswith(_INNER) and len(word) > len(_INNER) else ("", word)


def _class_of(character):
    if character.isupper():
        return "X"
    if character.islower():
        return "x"
    if character.isnumeric() and unicodedata.category(character)[0] == "N":
        return "d"
    return "c" if character.isalpha() else "p"


def by_shape(words: Sequence[str], known: WordVectors) -> np.ndarray:
    """Makes vectors by shape classes: the mean of the known words of the class.

    Args:
        words: sequence of n str.
        known: WordVectors.

    Returns:
        float32 [n, D]. A class without known words gets unk_vector.
    """
    shapes = list(map(shape_of, words))
    numbers = {shape: number for number, shape in enumerate(dict.fromkeys(shapes))}
    members = [(numbers[shape], row) for row, word in enumerate(known.words) if (shape := shape_of(word)) in numbers]
    return _means(members, len(numbers), known)[[numbers[shape] for shape in shapes]]


def ngrams_of(word: str, lengths: tuple[int, int] = NGRAM_LENGTHS) -> list[str]:
    """Lists the character n-grams of a word, with < and > at its ends. An inner WordPiece has no < before it.

    Args:
        word: str. A word or a WordPiece.
        lengths: (int, int). The fewest and the most characters of an n-gram.

    Returns:
        list of str, each once.

    Example:
        ngrams_of("cat", (3, 4))  # <ca, cat, at>, <cat, cat>
    """
    inner, text = _split_inner(word)
    text = f"{'' if inner else '<'}{text}>"
    return list(
        dict.fromkeys(
            text[start : start + length]
            for length in range(lengths[0], lengths[1] + 1)
            for start in range(len(text) - length + 1)
        )
    )


def by_characters(words: Sequence[str], known: WordVectors) -> np.ndarray:
    """Makes vectors from character n-grams: the mean of the vectors of the word's n-grams.

    With subwords of a fastText training, an n-gram has its trained vector. Otherwise an n-gram has the mean of the
    known words that have it. N-grams without a vector do not count.

    Args:
        words: sequence of n str.
        known: WordVectors.

    Returns:
        float32 [n, D]. A word without a known n-gram gets unk_vector.
    """
    if known.subwords:
        rows, vectors = known.subwords.rows, known.subwords.vectors
        ngrams = [ngrams_of(word, known.subwords.lengths) for word in words]
    else:
        ngrams = list(map(ngrams_of, words))
        rows, vectors = _ngram_vectors(set().union(*ngrams), known)
    unk = unk_vector(known)
    return np.array(
        [
            vectors[found].mean(axis=0, dtype=np.float64)
            if (found := [rows[part] for part in parts if part in rows])
            else unk
            for parts in ngrams
        ],
        np.float32,
    ).reshape(len(words), known.vectors.shape[1])


def _ngram_vectors(wanted, known):
    """(dict n-gram -> row, float32 [R, D]): the mean of the known words that have each wanted n-gram."""
    members = [(part, row) for row, word in enumerate(known.words) for part in ngrams_of(word) if part in wanted]
    rows = {part: number for number, part in enumerate(dict.fromkeys(part for part, _ in members))}
    return rows, _means([(rows[part], row) for part, row in members], len(rows), known)


def _means(members, num_groups, known):
    """float32 [G, D]: the mean of the known vectors of each group. An empty group gets unk_vector.

    Args:
        members: list of (number of a group, row of a known word).
        num_groups: int. G.
        known: WordVectors.
    """
    means = np.repeat(unk_vector(known)[None], num_groups, axis=0)
    if members:
        groups, rows = np.array(sorted(members)).T
        numbers, starts = np.unique(groups, return_index=True)
        for number, chosen in zip(numbers, np.split(rows, starts[1:]), strict=True):
            means[number] = known.vectors[chosen].mean(axis=0, dtype=np.float64)
    return means


def by_chance(words: Sequence[str], known: WordVectors, seed: int) -> np.ndarray:
    """Draws random vectors whose numbers have the variance of the known vectors (Kim 2014, section 3.1).

    Args:
        words: sequence of n str.
        known: WordVectors.
        seed: int. The same seed and number of words give the same vectors.

    Returns:
        float32 [n, D].
    """
    generator = np.random.Generator(np.random.Philox(key=seed))
    values = generator.standard_normal((len(words), known.vectors.shape[1]), np.float32)
    return values * known.vectors.std(dtype=np.float64).astype(np.float32)


def by_unk(words: Sequence[str], known: WordVectors) -> np.ndarray:
    """Gives all words unk_vector.

    Args:
        words: sequence of n str.
        known: WordVectors.

    Returns:
        float32 [n, D].
    """
    return np.repeat(unk_vector(known)[None], len(words), axis=0)


# Policy of --unknown_vectors -> function of (words, WordVectors).
POLICIES: dict[str, Callable] = {"unk": by_unk, "shape": by_shape, "characters": by_characters}


def vectors_of(words: Sequence[str], known: WordVectors, policy: str) -> np.ndarray:
    """Makes the vectors of words: those of the file, and for unknown words those of a policy.

    Args:
        words: sequence of n str.
        known: WordVectors.
        policy: str. A key of POLICIES.

    Returns:
        float32 [n, D].
    """
    rows = [known.rows.get(word, -1) for word in words]
    vectors = known.vectors[rows].copy() if rows else np.zeros((0, known.vectors.shape[1]), np.float32)
    missing = [number for number, row in enumerate(rows) if row < 0]
    if missing:
        vectors[missing] = POLICIES[policy]([words[number] for number in missing], known)
    return vectors
