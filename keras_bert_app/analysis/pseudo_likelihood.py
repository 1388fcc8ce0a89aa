"""Pseudo-log-likelihood of the pieces of texts (Salazar et al. 2020, Masked Language Model Scoring)."""

import functools
from collections.abc import Callable

import numpy as np
import tensorflow as tf

from keras_bert_app.analysis.encoders import Subject
from keras_bert_app.errors import UserError
from keras_bert_app.export import masked_lm_scoring
from keras_bert_app.terminal.progress import reported

_PIECES_A_CALL = 512


def require_masked_lm(subject: Subject) -> None:
    """Checks that the model has a masked-LM head.

    Args:
        subject: Subject.

    Raises:
        UserError: the model has no masked-LM head.
    """
    if subject.model is None or "masked_lm" not in subject.model.parts:
        raise UserError(
            "--init_checkpoint has no masked-LM head, which this analysis needs; give a model with that head, such as "
            "a run of pretrain"
        )


def piece_log_probabilities(subject: Subject, pieces: list[np.ndarray], log: Callable[[str], None]) -> list[np.ndarray]:
    """Computes log p(piece | all other pieces) for every piece of every text.

    Args:
        subject: Subject. A model with a masked-LM head.
        pieces: list of int32 arrays. The pieces of each text, at most `room(subject)` of them.
        log: Callable. Receives progress lines.

    Returns:
        list of float32 arrays, one for each text, in nats.
    """
    score = _scorer(subject)
    scores_by_text = [None] * len(pieces)
    parts = _parts(pieces)
    for numbers in reported(parts, len(parts), "parts scored", log):
        rows = [pieces[number] for number in numbers]
        ragged = tf.RaggedTensor.from_row_lengths(np.concatenate(rows), [len(row) for row in rows])
        for number, row in zip(numbers, score(ragged).numpy(), strict=True):
            scores_by_text[number] = row[: len(pieces[number])]
    return scores_by_text


@functools.lru_cache(maxsize=2)  # tracing takes seconds
def _scorer(subject):
    """Traces a function that scores pieces.

    Its input is a RaggedTensor int32 [B, (pieces)]. Its output is float32 [B, longest], padded with 0.
    """
    vocabulary = tf.constant(subject.tokenizer.vocabulary)

    @tf.function(input_signature=[tf.RaggedTensorSpec([None, None], tf.int32)], autograph=False)
    def score(pieces):
        return masked_lm_scoring.pseudo_log_likelihood(
            subject.model, subject.tokenizer, vocabulary, pieces, subject.config.max_position_embeddings
        )["token_log_probabilities"]

    return score


def room(subject: Subject) -> int:
    """Counts the positions that a model has for pieces, without [CLS] and [SEP].

    Args:
        subject: Subject.

    Returns:
        int. The largest number of pieces of a text.
    """
    return subject.config.max_position_embeddings - 2


def _parts(pieces):
    """Groups texts of similar lengths.

    Each group is a list of text numbers. The texts of a group have a few hundred pieces together.
    """
    parts, size = [[]], 0
    for number in np.argsort([len(row) for row in pieces], kind="stable"):
        if size >= _PIECES_A_CALL:
            parts, size = [*parts, []], 0
        parts[-1].append(int(number))
        size += len(pieces[number])
    return [part for part in parts if part]


def unigram_log_probabilities(pieces: list[np.ndarray], vocab_size: int) -> np.ndarray:
    """Computes unigram log probabilities with add-one smoothing.

    Args:
        pieces: list of int32 arrays. The pieces of each text.
        vocab_size: int.

    Returns:
        float64 [vocab_size], in nats.
    """
    counts = 1.0 + np.bincount(np.concatenate(pieces), minlength=vocab_size)
    return np.log(counts / counts.sum())
