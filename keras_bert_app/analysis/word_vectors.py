"""The vectors of all words of many sentences at every layer, one beside another, as probes read them.

Dimensions: L layers (vectors have L + 1, the embeddings first), T words of all sentences, H hidden size.
"""

import tempfile

import numpy as np

from keras_bert_app.analysis import encoded_sentences
from keras_bert_app.terminal.progress import reported


def word_vectors(subject, words_of, log):
    """float16 [L + 1, T, H]: of each word the mean of its pieces, at every layer, in the order of the sentences.

    They lie in a temporary file, which is gone when they are: of a base model and 200,000 words they take 4 GB.

    Args:
        words_of: list of sequences of words, each of which fits into the encoder's positions (sentences.fitting). log: called
            with lines of progress.
    """
    ends, config = np.cumsum([len(words) for words in words_of]), subject.config
    vectors = np.memmap(
        tempfile.TemporaryFile(),
        np.float16,
        "w+",
        shape=(config.num_hidden_layers + 1, int(ends[-1]), config.hidden_size),
    )
    for one in reported(
        encoded_sentences.encode(subject, words_of), len(words_of), f"sentences through {subject.name}", log
    ):
        vectors[:, ends[one.number] - len(words_of[one.number]) : ends[one.number]] = one.word_states()
    return vectors
