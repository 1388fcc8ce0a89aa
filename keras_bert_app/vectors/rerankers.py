"""Rerankers: the scores of many documents for a query, from a run of finetune --task=rerank or from its export."""

import os
from collections.abc import Callable, Sequence

import numpy as np
import tensorflow as tf

from keras_bert_app.errors import UserError, failed_check
from keras_bert_app.export import finetuned_export, saved_models
from keras_bert_app.vectors.text_sources import work_of

BATCH_SIZE = 32
_INPUTS = {"query", "document"}
# A function from a query and texts to scores, float32 [N], the highest for the best text.
Reranker = Callable[[bytes, Sequence[bytes]], np.ndarray]


def load_reranker(path: str | os.PathLike, batch_size: int = BATCH_SIZE) -> Reranker:
    """Loads a model that scores texts for a query.

    Args:
        path: str or os.PathLike. The work directory of a run, or an export with or without its version number.
        batch_size: int. The most texts of a batch. A batch has texts of similar lengths.

    Returns:
        A function (query, texts) -> float32 [N], the scores of the texts in their order; see Reranker.

    Raises:
        UserError: there is no such model, or it is no reranker.
    """
    path = os.fspath(path)
    serve = _serve(path)

    def scores(query: bytes, texts: Sequence[bytes]) -> np.ndarray:
        found = np.zeros(len(texts), np.float32)
        # The longest texts come first, so that a lack of memory shows at once.
        order = sorted(range(len(texts)), key=lambda number: -work_of(texts[number]))
        for start in range(0, len(order), batch_size):
            some = order[start : start + batch_size]
            found[some] = _scores(serve, path, query, [texts[number] for number in some])
        return found

    return scores


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
    if taken != _INPUTS or "scores" not in serve.structured_outputs:
        raise UserError(
            f"{path}: is no reranker (it takes {', '.join(sorted(taken)) or 'nothing'}); expected a run of finetune "
            "--task=rerank, or its export without _ids"
        )
    return serve


def _scores(serve, path, query, texts):
    try:
        outputs = serve(query=tf.constant([query] * len(texts), tf.string), document=tf.constant(texts, tf.string))
        scores = outputs["scores"].numpy()
    except tf.errors.ResourceExhaustedError:
        raise  # the command gives the advice for too little memory
    except (tf.errors.OpError, ValueError, TypeError) as error:
        reason = failed_check(error) or (str(error).strip().splitlines() or [type(error).__name__])[0][:200]
        raise UserError(f"{path}: cannot score these texts ({reason}); export the run again") from None
    if scores.shape != (len(texts),) or not np.isfinite(scores).all():
        raise UserError(f"{path}: does not give a finite score for each text; export the run again")
    return scores


def best_first(scores: np.ndarray) -> list[int]:
    """The numbers of texts, the best first. Of equal scores, the first text comes first.

    Args:
        scores: float [N].
    """
    return np.argsort(-scores, kind="stable").tolist()
