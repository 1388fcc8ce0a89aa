"""The options of a training of word vectors. The module needs the standard library only."""

import dataclasses

from keras_bert_app.errors import UserError, nearest

METHODS = ("skip_gram", "fasttext")
NGRAM_LENGTHS = (3, 6)  # as in fastText (Bojanowski et al. 2017, section 3.2)
LAST_RATE = 1e-4  # gensim's min_alpha: the learning rate falls to it in a straight line


@dataclasses.dataclass(frozen=True)
class LearningOptions:
    """The options of a training of word vectors.

    Attributes:
        method: str. One of METHODS.
        vector_size: int. D.
        window: int. The most words between a word and a word of its context, plus 1. Each place draws 1 to `window`.
        negative: int. Random words for each pair.
        min_count: int. Rarer words get no vector and do not count as context.
        epochs: int. Passes over the text.
        learning_rate: float. The first learning rate.
        seed: int.
        subword_lengths: (int, int). The fewest and the most characters of fastText's n-grams.
        workers: int. Threads. With more than one the result depends on their timing.

    Raises:
        UserError: a value is out of its range.
    """

    method: str = "skip_gram"
    vector_size: int = 128
    window: int = 5
    negative: int = 5
    min_count: int = 5
    epochs: int = 5
    learning_rate: float = 0.025
    seed: int = 12345
    subword_lengths: tuple[int, int] = NGRAM_LENGTHS
    workers: int = 1

    def __post_init__(self):
        if self.method not in METHODS:
            raise UserError(f"--method={self.method} is not known: {nearest(self.method, METHODS)}")
        for name in ("vector_size", "window", "negative", "min_count", "epochs", "workers"):
            if getattr(self, name) < 1:
                raise UserError(f"--{name}={getattr(self, name)}: expected 1 or more")
        if not LAST_RATE <= self.learning_rate < 1:
            raise UserError(f"--learning_rate={self.learning_rate}: expected a number from {LAST_RATE} to below 1")
        if not 0 <= self.seed < 1 << 32:
            raise UserError(f"--seed={self.seed}: expected a number from 0 to {(1 << 32) - 1}")
        shortest, longest = self.subword_lengths
        if not 1 <= shortest <= longest:
            raise UserError(
                f"--subword_lengths={shortest},{longest}: expected the fewest and the most characters, such as 3,6"
            )
