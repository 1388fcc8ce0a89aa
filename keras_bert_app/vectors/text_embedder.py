"""Vectors of texts for callers from Python."""

import os
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from keras_bert_app.errors import UserError
from keras_bert_app.export import saved_models
from keras_bert_app.export.sentence_vectors import Pooling, embedding_module
from keras_bert_app.interop.hub import is_handle
from keras_bert_app.vectors import embedding
from pipelines.data_error import in_arguments
from pipelines.wordpiece.texts import as_batch


def load_embedder(
    model: str | os.PathLike, log: Callable[[str], None] = lambda line: None, **pooling: Any
) -> Callable[..., np.ndarray]:
    """Loads a model that makes vectors of texts.

    Args:
        model: str or os.PathLike. An export of embeddings, or a model in any layout that load_pretrained reads.
        log: function that takes a line of text, such as print. The lines say what was loaded and how vectors are made.
        **pooling: fields of export.sentence_vectors.Pooling (pooling, layer, normalize, pool_special_tokens,
            max_seq_length and vector_size). They are for a model that is no export. The model's own files give the
            defaults. Without such files the vector is the mean over the pieces of the second layer from the top.

    Returns:
        A function of texts and batch_size (32). It returns float32 [N, D] in the order of the texts, or float32 [D] for
        one string.

    Raises:
        UserError: there is no such model, or it cannot be pooled in this way.

    Example:
        embed = load_embedder("runs/mine", normalize=True)
        query, *others = embed(["a question", "an answer", "another answer"])
        [float(query @ other) for other in others]  # cosines
    """
    embed = embedder_of(os.fspath(model), lambda line: log(in_arguments(line)), **pooling)

    def vectors(texts: str | Iterable[str], batch_size: int = embedding.BATCH_SIZE) -> np.ndarray:
        batch, is_one = as_batch(texts)
        if not len(batch):
            raise UserError("there are no texts; give at least one")
        rows, _ = embedding.embed_texts(embed, list(batch.numpy()), batch_size)
        return rows[0] if is_one else rows

    return vectors


def embedder_of(model: str, log: Callable[[str], None] = lambda line: None, **pooling: Any) -> embedding.Embedder:
    """The Embedder of an export, or of a model. The arguments are those of load_embedder."""
    if _is_export(model):
        if pooling:
            raise UserError(f"{next(iter(pooling))} is for models; the export {model} has its own")
        return embedding.load_embedder(model)
    module, _ = embedding_module(model, Pooling(**pooling), log)
    return embedding.Embedder(module.exported)


def _is_export(model):
    if is_handle(model):
        return False
    try:
        saved_models.find(model)
    except UserError:
        return False
    return True
