"""The exact search of vectors.static, and checks that vectors belong to texts and to a model."""

from collections.abc import Callable, Iterable

import numpy as np

from keras_bert_app.errors import UserError
from keras_bert_app.vectors.static.exact_nearest import nearest, unit

__all__ = ("check_vectors", "nearest")

_SAMPLES = 8
# The least cosine of two vectors of one text from different batches or machines. Another model's cosine is far lower.
_SAME = 0.99


def check_vectors(vectors: np.ndarray, texts: Iterable[bytes], embed: Callable, name: str) -> None:
    """Checks with a few samples that vectors belong to texts and to a model.

    Args:
        vectors: [N, D].
        texts: iterable of bytes. All texts of the corpus.
        embed: embedding.Embedder. The model.
        name: str. The name of the vectors in messages.

    Raises:
        UserError: the vectors belong to other texts or to another model.
    """
    samples = set(np.linspace(0, max(len(vectors) - 1, 0), _SAMPLES, dtype=int).tolist())
    count, taken = 0, {}
    for count, text in enumerate(texts, start=1):
        if count - 1 in samples:
            taken[count - 1] = text
    if count != len(vectors):
        raise UserError(
            f"{name}: has {len(vectors):,} vectors, but the corpus has {count:,} texts; embed the corpus again"
        )
    embedded, _ = embed(list(taken.values()))
    prompts = getattr(embed, "prompts", None)  # not an Embedder: a function
    advice = "embed this corpus with this model" + (" and --prompt=document" if prompts and prompts.named else "")
    if embedded.shape[1] != vectors.shape[1]:
        raise UserError(
            f"{name}: has vectors of {vectors.shape[1]} numbers, and the model gives {embedded.shape[1]}; embed "
            "the corpus with this model"
        )
    for row, ours in zip(taken, embedded, strict=True):
        theirs = np.asarray(vectors[row], np.float32)
        cosine = float(unit(ours[None])[0] @ unit(theirs[None])[0])
        if cosine < _SAME and ours.any():
            raise UserError(
                f"{name}: vector {row + 1:,} is not that of text {row + 1:,} (cosine {cosine:.3f}, expected 1); "
                f"{advice}"
            )
