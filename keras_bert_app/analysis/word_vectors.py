"""Vectors of all words of many sentences at every layer, in one array for probes.

Dimensions: L layers (there are L + 1 vectors, the embeddings first), T words of all sentences, H hidden size.
"""

import tempfile
from collections.abc import Callable, Sequence

import numpy as np

from keras_bert_app.analysis import encoded_sentences
from keras_bert_app.analysis.encoders import Subject
from keras_bert_app.terminal.progress import reported


def word_vectors(subject: Subject, words_of: list[Sequence[str]], log: Callable[[str], None]) -> np.ndarray:
    """Computes the vector of each word at every layer: the mean of the vectors of its pieces.

    The array lies in a temporary file, which the system deletes together with the array. For a base model and 200,000
    words the file takes 4 GB.

    Args:
        subject: Subject. The encoder.
        words_of: list of sequences of str. The words of each sentence; each sentence fits into the encoder's positions
            (encoded_sentences.fitting).
        log: Callable. Receives progress lines.

    Returns:
        float16 [L + 1, T, H], in the order of the sentences.
    """
    ends, config = np.cumsum([len(words) for words in words_of]), subject.config
    vectors = np.memmap(
        tempfile.TemporaryFile(),
        np.float16,
        "w+",
        shape=(config.num_hidden_layers + 1, int(ends[-1]), config.widest_state),
    )
    for sentence in reported(
        encoded_sentences.encode(subject, words_of), len(words_of), f"sentences through {subject.name}", log
    ):
        vectors[:, ends[sentence.number] - len(words_of[sentence.number]) : ends[sentence.number]] = (
            sentence.word_states()
        )
    return vectors
