"""Vectors of texts for callers from Python, with the methods of a SentenceTransformer."""

import dataclasses
import os
import sys
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

from keras_bert_app.config.prompts import DOCUMENT, QUERY, ROLES
from keras_bert_app.errors import UserError, nearest
from keras_bert_app.export.sentence_vectors import Pooling, embedding_module
from keras_bert_app.interop.hub import is_handle
from keras_bert_app.serving import saved_model_files
from keras_bert_app.terminal.progress import Progress
from keras_bert_app.vectors import embedding
from keras_bert_app.vectors.text_sources import work_of
from pipelines.data_error import in_arguments
from pipelines.wordpiece.texts import as_batch

# Arguments of SentenceTransformer.encode (6.2) and of mteb's encoders (2.26) without an effect here: TensorFlow chooses
# the device, and mteb names the part of a task.
_WITHOUT_EFFECT = ("device", "hf_split", "hf_subset", "num_proc")
# Arguments that would change the result -> the only value that is computed here.
_ONLY = {
    "convert_to_tensor": False,
    "output_value": "sentence_embedding",
    "precision": "float32",
    "pool": None,
    "chunk_size": None,
}


class TextEmbedder:
    """A function from texts to vectors. It has the methods of a SentenceTransformer that mteb's runner needs.

    Args:
        embed: embedding.Embedder. The model.
        name: str. The name of the model in results of mteb.

    Attributes:
        prompts: dict name -> prompt. See encode.
        default_prompt_name: str or None. The name of the prompt of texts for which none is named.
        similarity_fn_name: "cosine". The function that `similarity` computes.
    """

    similarity_fn_name = "cosine"

    def __init__(self, embed: embedding.Embedder, name: str = ""):
        self._embed, self._name, self._size = embed, name, None
        self.prompts, self.default_prompt_name = dict(embed.prompts.texts), embed.prompts.default_name

    def __call__(self, texts: str | Iterable[str], batch_size: int = embedding.BATCH_SIZE) -> np.ndarray:
        """Makes the vectors of texts, with the default prompt of the model if it has one.

        Args:
            texts: one text, or an iterable of texts.
            batch_size: int. The most texts of a batch.

        Returns:
            float32 [N, D] in the order of the texts, or float32 [D] for one string.

        Raises:
            UserError: there are no texts.
            DataError: an item is not a text.
        """
        batch, is_one = as_batch(texts)
        if not len(batch):
            raise UserError("there are no texts; give at least one")
        rows, _ = embedding.embed_texts(self._embed, list(batch.numpy()), _checked_batch_size(batch_size))
        return rows[0] if is_one else rows

    def encode(
        self,
        sentences: str | Iterable[Any],
        batch_size: int = embedding.BATCH_SIZE,
        normalize_embeddings: bool = False,
        convert_to_numpy: bool = True,
        prompt_name: str | None = None,
        prompt: str | None = None,
        show_progress_bar: bool | None = None,
        prompt_type: str | None = None,
        task_metadata: Any = None,
        truncate_dim: int | None = None,
        **others: Any,
    ) -> np.ndarray | list[np.ndarray]:
        """Makes the vectors of texts, as SentenceTransformer.encode and the encoders of mteb do.

        The first of these prompts that is given stands before each text: prompt, the prompt of prompt_name, that of
        the task and of prompt_type, the default prompt of the model.

        Args:
            sentences: one text; an iterable of texts; or mteb's batches, an iterable of dicts with the key "text".
            batch_size: int. The most texts of a batch.
            normalize_embeddings: bool. Whether vectors get length 1 even if the model gives other lengths.
            convert_to_numpy: bool. False for a list of vectors.
            prompt_name: str or None. A name in `prompts`, or "query" or "document".
            prompt: str or None. The text itself; "" for none.
            show_progress_bar: bool or None. Whether progress lines go to standard error.
            prompt_type: str or None. "query" or "document", as mteb names the role of the texts.
            task_metadata: mteb's description of a task, or None. A prompt with the name of the task or of its type,
                alone or as "NAME-query", comes before the prompt of the role.
            truncate_dim: int or None. Only so many numbers of a vector are kept.
            **others: device, hf_split, hf_subset and num_proc have no effect. convert_to_tensor, output_value,
                precision, pool and chunk_size may have their default values.

        Returns:
            float32 [N, D], or float32 [D] for one string; or a list of float32 [D].

        Raises:
            UserError: an argument is unknown, or has a value that is not computed here.
            DataError: an item is not a text.
        """
        _check_others(others)
        embed = self._embed
        chosen = prompt if prompt is not None else self._prompt_of(prompt_name, prompt_type, task_metadata)
        if chosen is not None:
            if not isinstance(chosen, str):
                raise UserError(f"prompt={str(chosen)[:40]!r}: expected a text")
            embed = embed.with_prompt(chosen)
        batch, is_one = as_batch(_texts_of(sentences))
        texts = list(batch.numpy())
        vectors = self._vectors(embed, texts, _checked_batch_size(batch_size), bool(show_progress_bar))
        if truncate_dim is not None:
            if type(truncate_dim) is not int or not 1 <= truncate_dim <= vectors.shape[1]:
                raise UserError(f"truncate_dim={truncate_dim!r}: the vectors have {vectors.shape[1]} numbers")
            vectors = vectors[:, :truncate_dim]
        if normalize_embeddings:
            vectors = _unit(vectors)
        if not convert_to_numpy and not is_one:
            return list(vectors)
        return vectors[0] if is_one else vectors

    def encode_query(self, sentences: str | Iterable[Any], **settings: Any) -> np.ndarray | list[np.ndarray]:
        """Calls encode with the prompt of queries, unless another prompt is given, with the arguments of encode."""
        return self.encode(sentences, **_with_role(settings, QUERY))

    def encode_document(self, sentences: str | Iterable[Any], **settings: Any) -> np.ndarray | list[np.ndarray]:
        """Calls encode with the prompt of documents, unless another prompt is given, with the arguments of encode."""
        return self.encode(sentences, **_with_role(settings, DOCUMENT))

    def similarity(self, embeddings1: Any, embeddings2: Any) -> np.ndarray:
        """The cosines of all vectors of one array with all vectors of another one.

        Args:
            embeddings1: [N, D] or [D].
            embeddings2: [M, D] or [D].

        Returns:
            float32 [N, M]. The cosine with a vector of zeros is 0.

        Raises:
            UserError: the arrays hold no vectors of one size.
        """
        one, other = _vectors_of_one_size(embeddings1, embeddings2)
        return one @ other.T

    def similarity_pairwise(self, embeddings1: Any, embeddings2: Any) -> np.ndarray:
        """The cosine of each vector of an array with the vector of the same row of another one.

        Args:
            embeddings1: [N, D] or [D].
            embeddings2: [N, D] or [D].

        Returns:
            float32 [N].

        Raises:
            UserError: the arrays have different shapes.
        """
        one, other = _vectors_of_one_size(embeddings1, embeddings2)
        if len(one) != len(other):
            raise UserError(f"there are {len(one)} and {len(other)} vectors; expected the same number on both sides")
        return (one * other).sum(axis=1)

    def get_embedding_dimension(self) -> int:
        """The number of numbers of a vector."""
        if self._size is None:
            self._size = self._embed([b""])[0].shape[1]
        return self._size

    get_sentence_embedding_dimension = get_embedding_dimension  # its name before sentence-transformers 6

    @property
    def mteb_model_meta(self) -> Any:
        """The description of the model that mteb's runner asks for; None if no mteb is loaded."""
        models = sys.modules.get("mteb.models")  # the caller's; this package does not need it
        name = "/".join(["keras_bert_app", os.path.basename(os.path.normpath(self._name)) or "model"])
        return models and models.ModelMeta.create_empty({"name": name, "revision": "local"})

    def _prompt_of(self, prompt_name, prompt_type, task_metadata):
        """The prompt that the arguments name, or None if they name none."""
        prompts = self._embed.prompts
        if prompt_name is not None:
            return prompts.of_name(prompt_name, f"prompt_name={prompt_name!r}", "this model")
        role = None if prompt_type is None else str(getattr(prompt_type, "value", prompt_type))
        if role not in (None, *ROLES):
            raise UserError(f"prompt_type={role!r}: expected query or document")
        for name in (getattr(task_metadata, "name", None), getattr(task_metadata, "type", None)):
            for candidate in ([f"{name}-{role}"] if role else []) + [name]:
                if candidate in prompts.texts:
                    return prompts.texts[candidate]
        return prompts.of_role(role) if role and prompts.named else None

    def _vectors(self, embed, texts, batch_size, is_shown):
        if not texts:
            return np.zeros((0, self.get_embedding_dimension()), np.float32)
        if not is_shown:
            return embedding.embed_texts(embed, texts, batch_size)[0]
        progress = Progress("texts", len(texts), sum(map(work_of, texts)), sys.stderr)
        vectors, _ = embedding.embed_texts(embed, texts, batch_size, progress.done)
        progress.end()
        return vectors


def load_embedder(
    model: str | os.PathLike, log: Callable[[str], None] = lambda line: None, **pooling: Any
) -> TextEmbedder:
    """Loads a model that makes vectors of texts.

    Args:
        model: str or os.PathLike. An export of embeddings, or a model in any layout that load_pretrained reads.
        log: function that takes a line of text, such as print. The lines say what was loaded and how vectors are made.
        **pooling: fields of export.sentence_vectors.Pooling (pooling, layer, normalize, pool_special_tokens,
            max_seq_length, vector_size, query_prompt and document_prompt). They are for a model that is no export. The
            model's own files give the defaults. Without such files the vector is the mean over the pieces of the second
            layer from the top.

    Returns:
        TextEmbedder. It is a function of texts and batch_size (32), and has the methods encode, encode_query,
        encode_document, similarity and similarity_pairwise of a SentenceTransformer.

    Raises:
        UserError: there is no such model, or it cannot be pooled in this way.

    Example:
        embed = load_embedder("runs/mine", normalize=True)
        query, *others = embed(["a question", "an answer", "another answer"])
        [float(query @ other) for other in others]  # cosines
    """
    return TextEmbedder(
        embedder_of(os.fspath(model), lambda line: log(in_arguments(line)), **pooling), os.fspath(model)
    )


def embedder_of(model: str, log: Callable[[str], None] = lambda line: None, **pooling: Any) -> embedding.Embedder:
    """The Embedder of an export, or of a model. The arguments and errors are those of load_embedder."""
    if not is_handle(model) and saved_model_files.holds_export(model):
        if pooling:
            raise UserError(f"{next(iter(pooling))} is for models; the export {model} has its own")
        return embedding.load_embedder(model)
    fields = [field.name for field in dataclasses.fields(Pooling)]
    if unknown := next((name for name in pooling if name not in fields), None):
        raise UserError(f"{unknown} is not an argument of load_embedder: {nearest(unknown, fields)}")
    module, _ = embedding_module(model, Pooling(**pooling), log)
    return embedding.embedder_of_module(module)


def _texts_of(sentences):
    """The texts of one text or of several, or those of mteb's batches."""
    if isinstance(sentences, str | bytes | Mapping) or hasattr(sentences, "columns") or hasattr(sentences, "dtype"):
        return sentences  # as_batch takes these, or refuses them
    try:
        items = list(sentences)
    except TypeError:
        return sentences
    if items and all(isinstance(item, Mapping) and "text" in item for item in items):
        texts = [item["text"] for item in items]
        return [each for text in texts for each in ([text] if isinstance(text, str | bytes) else text)]
    return items


def _checked_batch_size(batch_size):
    if isinstance(batch_size, bool) or not isinstance(batch_size, int | np.integer) or batch_size < 1:
        raise UserError(f"batch_size={batch_size!r}: expected a whole number from 1")
    return int(batch_size)


def _check_others(others):
    for name, value in others.items():
        if name in _ONLY and value != _ONLY[name]:
            raise UserError(f"{name}={str(value)[:40]!r}: encode computes {name}={_ONLY[name]!r} alone; leave it out")
        if name not in (*_ONLY, *_WITHOUT_EFFECT):
            known = ("batch_size", "normalize_embeddings", "convert_to_numpy", "prompt_name", "prompt", *_ONLY)
            raise UserError(f"{name} is not an argument of encode: {nearest(name, known)}")


def _with_role(settings, role):
    return settings if settings.get("prompt_type") is not None else {**settings, "prompt_type": role}


def _vectors_of_one_size(one, other):
    """Two arrays of vectors of length 1, float32 [N, D]."""
    one, other = (np.atleast_2d(np.asarray(vectors, np.float32)) for vectors in (one, other))
    if one.ndim != 2 or other.ndim != 2 or one.shape[1] != other.shape[1]:
        raise UserError(
            f"embeddings have the shapes {list(one.shape)} and {list(other.shape)}; expected vectors of one size"
        )
    return _unit(one), _unit(other)


def _unit(vectors):
    """Vectors of length 1; a vector of zeros stays."""
    norms = np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors / np.where(norms > 0, norms, 1)
