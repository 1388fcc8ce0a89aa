"""Rerankers: the scores of many documents for a query, from a run of finetune --task=rerank or from its export."""

import os
from collections.abc import Iterable, Sequence

import numpy as np
import tensorflow as tf

from keras_bert_app.errors import UserError, failed_check, first_line
from keras_bert_app.export import finetuned_export, saved_models
from keras_bert_app.vectors.text_sources import work_of

BATCH_SIZE = 32
_INPUTS = {"query", "document"}


class Reranker:
    """A function from a query and texts to scores.

    Args:
        path: str. The work directory of a run, or an export with or without its version number.
        batch_size: int. The most texts of a batch. A batch has texts of similar lengths.

    Attributes:
        num_scored: int. How many texts were scored so far.
        num_truncated: int. How many of them were too long, together with their query, and lost their ends.
    """

    def __init__(self, path: str, batch_size: int = BATCH_SIZE):
        self.path, self.batch_size, self.num_scored, self.num_truncated = path, batch_size, 0, 0
        self._serve = _serve(path)

    def __call__(self, query: str | bytes, texts: Sequence[str | bytes]) -> np.ndarray:
        """Scores texts.

        Args:
            query: str, or bytes in UTF-8.
            texts: sequence of str or bytes.

        Returns:
            float32 [N], in the order of the texts. The best text has the highest score.

        Raises:
            UserError: an argument is no text, or the texts are one text instead of several.
        """
        query, texts = _as_bytes(query, "query"), _all_as_bytes(texts)
        found = np.zeros(len(texts), np.float32)
        # The longest texts come first, so that a lack of memory shows at once.
        order = sorted(range(len(texts)), key=lambda number: -work_of(texts[number]))
        for start in range(0, len(order), self.batch_size):
            some = order[start : start + self.batch_size]
            found[some], truncated = _scores(self._serve, self.path, query, [texts[number] for number in some])
            self.num_truncated += int(truncated.sum())
        self.num_scored += len(texts)
        return found

    def remarks(self) -> list[str]:
        """[] or a line for people: how many texts lost their ends."""
        if not self.num_truncated:
            return []
        return [
            f"{self.path}: {self.num_truncated:,} of {self.num_scored:,} texts had, with their query, more tokens than "
            "the reranker reads; their ends were left out"
        ]


def load_reranker(path: str | os.PathLike, batch_size: int = BATCH_SIZE) -> Reranker:
    """Loads a model that scores texts for a query. The arguments are those of Reranker.

    Returns:
        Reranker. It is a function of a query and texts.

    Raises:
        UserError: there is no such model, or it is no reranker.

    Example:
        rerank = load_reranker("runs/reranker")
        scores = rerank("what helps?", ["rest", "the sea"])  # float32 [2]
    """
    return Reranker(os.fspath(path), batch_size)


def _all_as_bytes(texts):
    if isinstance(texts, str | bytes) or not isinstance(texts, Iterable):
        raise UserError(f"texts={str(texts)[:40]!r}: expected a list of texts")
    return [_as_bytes(text, f"texts[{number}]") for number, text in enumerate(texts)]


def _as_bytes(text, name):
    if not isinstance(text, str | bytes):
        raise UserError(f"{name}={str(text)[:40]!r} is of the type {type(text).__name__}: expected a text")
    return text if isinstance(text, bytes) else text.encode("utf-8", "replace")


def _serve(path):
    """The function of query and document of a run or of an export."""
    if finetuned_export.is_finetuned(path):
        serve, names = finetuned_export.raw_text_function(path)
        if set(names) != _INPUTS:
            raise UserError(f"{path}: is a run that takes {', '.join(names)}; expected a run of finetune --task=rerank")
        return serve
    signatures = saved_models.load(path).signatures
    serve = signatures["serving_default"] if "serving_default" in signatures else None
    taken = set(serve.structured_input_signature[1]) if serve else set()
    if taken != _INPUTS or not {"scores", "truncated"} <= set(serve.structured_outputs):
        raise UserError(
            f"{path}: is no reranker (it takes {', '.join(sorted(taken)) or 'nothing'}); expected a run of finetune "
            "--task=rerank, or its export without _ids"
        )
    return serve


def _scores(serve, path, query, texts):
    try:
        outputs = serve(query=tf.constant([query] * len(texts), tf.string), document=tf.constant(texts, tf.string))
        scores, truncated = outputs["scores"].numpy(), outputs["truncated"].numpy()
    except tf.errors.ResourceExhaustedError:
        raise  # the command gives the advice for too little memory
    except (tf.errors.OpError, ValueError, TypeError) as error:
        reason = failed_check(error) or first_line(error)
        raise UserError(f"{path}: cannot score these texts ({reason}); export the run again") from None
    if scores.shape != (len(texts),) or not np.isfinite(scores).all():
        raise UserError(f"{path}: does not give a finite score for each text; export the run again")
    return scores, truncated


def best_first(scores: np.ndarray) -> list[int]:
    """The numbers of texts, the best first. If scores are equal, the first text comes first.

    Args:
        scores: float [N].
    """
    return np.argsort(-scores, kind="stable").tolist()
