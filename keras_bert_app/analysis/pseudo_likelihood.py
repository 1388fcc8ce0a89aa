"""How likely a masked language model finds the pieces of texts (Salazar et al. 2020, Masked Language Model Scoring)."""

import functools

import numpy as np
import tensorflow as tf

from keras_bert_app.errors import UserError
from keras_bert_app.export import masked_lm_scoring
from keras_bert_app.terminal.progress import reported

_PIECES_A_CALL = 512


def require_masked_lm(subject):
    """Raises UserError unless the model has a masked-LM head."""
    if subject.model is None or subject.model.masked_lm is None:
        raise UserError(
            "--init_checkpoint has no masked-LM head, which alone tells how likely a word is; give a model that kept "
            "it, such as one that pretrain made"
        )


def piece_log_probabilities(subject, pieces, log):
    """Of each piece log p(piece | all others), in nats: a list of float32 arrays, one for each text.

    Args:
        pieces: list of int32 arrays, none longer than `room(subject)`. log: called with lines of progress.
    """
    score = _scorer(subject)
    found = [None] * len(pieces)
    parts = _parts(pieces)
    for numbers in reported(parts, len(parts), "parts scored", log):
        rows = [pieces[number] for number in numbers]
        ragged = tf.RaggedTensor.from_row_lengths(np.concatenate(rows), [len(row) for row in rows])
        for number, row in zip(numbers, score(ragged).numpy()):
            found[number] = row[: len(pieces[number])]
    return found


@functools.lru_cache(maxsize=2)  # tracing takes seconds
def _scorer(subject):
    """tf.function from pieces, RaggedTensor int32 [B, (pieces)], to their scores float32 [B, longest], padded with 0."""
    vocabulary = tf.constant(subject.tokenizer.vocabulary)

    @tf.function(input_signature=[tf.RaggedTensorSpec([None, None], tf.int32)], autograph=False)
    def score(pieces):
        return masked_lm_scoring.pseudo_log_likelihood(
            subject.model, subject.tokenizer, vocabulary, pieces, subject.config.max_position_embeddings
        )["token_log_probabilities"]

    return score


def room(subject):
    """The most pieces of a text beside [CLS] and [SEP]."""
    return subject.config.max_position_embeddings - 2


def _parts(pieces):
    """Numbers of texts in lists of some hundred pieces, those of like lengths together."""
    parts, size = [[]], 0
    for number in np.argsort([len(row) for row in pieces], kind="stable"):
        if size >= _PIECES_A_CALL:
            parts, size = [*parts, []], 0
        parts[-1].append(int(number))
        size += len(pieces[number])
    return [part for part in parts if part]


def unigram_log_probabilities(pieces, vocab_size):
    """float64 [V]: by how often each piece stands in texts, one more than counted. Args: pieces: list of int32 arrays."""
    counts = 1.0 + np.bincount(np.concatenate(pieces), minlength=vocab_size)
    return np.log(counts / counts.sum())
