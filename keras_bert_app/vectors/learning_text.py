"""The text that word vectors are learned from: a temporary file with the words of one sentence in each line."""

import collections
import dataclasses
import os
import random
from collections.abc import Callable, Iterable, Iterator

import tensorflow as tf

from pipelines.wordpiece.tokenizer import BertTokenizer
from pipelines.wordpiece.words import rebatched, split_words

MAX_LINE_WORDS = 10_000  # gensim's MAX_WORDS_IN_BATCH; it ignores the rest of a longer sentence
_SAMPLED_SENTENCES = 5000


@dataclasses.dataclass
class LearningText:
    """A text in a file, and its counts.

    Attributes:
        path: str. The file. Each line has the words of one sentence, with one space between them.
        counts: Counter word -> occurrences.
        num_lines: int.
        num_words: int. Occurrences of all words.
        sample: list of lists of str. Some sentences, drawn by the seed.
    """

    path: str
    counts: collections.Counter
    num_lines: int = 0
    num_words: int = 0
    sample: list[list[str]] = dataclasses.field(default_factory=list)

    def sentences(self, done: Callable[[int, float], None]) -> "Sentences":
        """Returns the sentences as an iterable that gensim may read several times.

        Args:
            done: function of the words of a sentence and their work, called before the sentence is trained.
        """
        return Sentences(self.path, done)


class Sentences:
    """The lines of a file as lists of words. Every iteration begins at the first line.

    Args:
        path: str. See LearningText.
        done: function of the number of words of a line, twice.
    """

    def __init__(self, path: str, done: Callable[[int, float], None]):
        self.path, self.done = path, done

    def __iter__(self) -> Iterator[list[str]]:
        with open(self.path, encoding="utf-8", newline="\n") as file:
            for line in file:
                words = line[:-1].split(" ")
                self.done(len(words), len(words))
                yield words


def write_text(
    text_batches: Iterable, directory: str, do_lower_case: bool, tokenizer: BertTokenizer | None, seed: int
) -> LearningText:
    """Splits a text into words or pieces, and writes them to a file.

    Args:
        text_batches: iterable of string tensors [n] or lists of sentences.
        directory: str. The directory of the file.
        do_lower_case: bool. Whether words are lower-cased and lose their accents.
        tokenizer: BertTokenizer for pieces of its vocabulary; None for words as BERT's basic tokenizer splits them.
        seed: int. The seed of the sample.

    Returns:
        LearningText.
    """
    text = LearningText(os.path.join(directory, "sentences.txt"), collections.Counter())
    generator = random.Random(seed)
    with open(text.path, "wb") as file:
        for batch in rebatched(text_batches):
            for line in _lines(batch, do_lower_case, tokenizer):
                words = line.decode("utf-8").split(" ")
                for start in range(0, len(words), MAX_LINE_WORDS):
                    part = words[start : start + MAX_LINE_WORDS]
                    file.write(" ".join(part).encode() + b"\n")
                    _count(text, part, generator)
    return text


def _lines(batch, do_lower_case, tokenizer):
    """The words of each sentence of a batch, joined by spaces; sentences without words are left out."""
    if tokenizer is None:
        words = split_words(batch, do_lower_case)
    else:
        words = tokenizer.pieces(tokenizer.tokenize(tf.convert_to_tensor(batch)))
    return filter(None, tf.strings.reduce_join(words, axis=-1, separator=" ").numpy().tolist())


def _count(text, words, generator):
    """Adds a line to the counts and, by chance, to the sample (Vitter 1985, algorithm R)."""
    text.counts.update(words)
    text.num_lines += 1
    text.num_words += len(words)
    if len(text.sample) < _SAMPLED_SENTENCES:
        text.sample.append(words)
    elif (place := generator.randrange(text.num_lines)) < _SAMPLED_SENTENCES:
        text.sample[place] = words
