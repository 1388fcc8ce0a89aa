"""Vectors of many texts by an export, in batches of texts of similar lengths."""

import json
import os
from collections.abc import Callable

import numpy as np
import tensorflow as tf

from keras_bert_app.errors import UserError
from keras_bert_app.export import saved_models
from keras_bert_app.serving.litert_model import MODEL_FILE, LiteRTModel
from keras_bert_app.vectors.plain_rows import PlainRows
from keras_bert_app.vectors.text_sources import work_of

BATCH_SIZE = 32  # larger batches are no faster on a CPU
_COUNTED_AT_A_TIME = 256  # texts; their tokenization takes many times their bytes


class Embedder:
    """A function that makes vectors of texts by an export of embeddings, or by a module before its export.

    Args:
        signatures: dict from name to function.
        from_ids: LiteRTModel of the signature "ids", which is faster, or None.
        plain_rows: PlainRows of the same model, or None.
    """

    def __init__(self, signatures: dict, from_ids: LiteRTModel | None = None, plain_rows: PlainRows | None = None):
        self._embed, self._num_tokens = signatures["serving_default"], signatures["num_tokens"]
        self._tokenize = signatures["tokenize"] if from_ids else None
        self._from_ids, self._plain_rows = from_ids, plain_rows

    def __call__(self, texts: list[bytes]) -> tuple[np.ndarray, np.ndarray]:
        """Makes the vectors of a batch.

        Args:
            texts: list of bytes.

        Returns:
            (vectors float32 [B, D], truncated bool [B]).
        """
        if self._from_ids is None or not texts:
            outputs = self._embed(text=tf.constant(texts, tf.string))
            return outputs["embedding"].numpy(), outputs["truncated"].numpy()
        inputs = self._plain_rows(texts) if self._plain_rows else None
        if inputs is None:
            inputs = {
                name: values.numpy() for name, values in self._tokenize(text=tf.constant(texts, tf.string)).items()
            }
        truncated = inputs.pop("truncated")
        return self._from_ids(**inputs)["embedding"], truncated

    def num_tokens(self, texts: list[bytes]) -> np.ndarray:
        """Counts the tokens of texts before anything is cut off.

        Args:
            texts: list of bytes.

        Returns:
            int32 [B].
        """
        return self._num_tokens(text=tf.constant(texts, tf.string))["num_tokens"].numpy()


def load_embedder(saved_model: str, num_threads: int = 0) -> Embedder:
    """Loads the Embedder of an export. It runs model.tflite if the export has one.

    Args:
        saved_model: str. See saved_models.load.
        num_threads: int. Threads for model.tflite; 0 for as many as this process may use.

    Returns:
        Embedder.

    Raises:
        UserError: the export cannot be loaded, or it gives no sentence vectors.
    """
    loaded, directory = saved_models.load(saved_model), saved_models.find(saved_model)
    signatures = loaded.signatures
    outputs = signatures["serving_default"].structured_outputs
    if "embedding" not in outputs:
        raise UserError(
            f"{saved_model}: gives {', '.join(sorted(outputs))}, and no sentence vectors; write an export that "
            "does with `export --kind=embeddings`"
        )
    path = os.path.join(directory, MODEL_FILE)
    if not tf.io.gfile.exists(path):
        return Embedder(signatures)
    model, vocabulary, config, about = (
        _contents(os.path.join(directory, name)) for name in (MODEL_FILE, "vocab.txt", "config.json", "export.json")
    )
    plain_rows = PlainRows(vocabulary, json.loads(config)["do_lower_case"], json.loads(about)["max_seq_length"])
    return Embedder(signatures, LiteRTModel(model, num_threads), plain_rows)


def _contents(path):
    with tf.io.gfile.GFile(path, "rb") as file:
        return file.read()


def embed_texts(
    embed: Embedder,
    texts: list[bytes],
    batch_size: int = BATCH_SIZE,
    done: Callable[[int, float], None] = lambda texts, work: None,
) -> tuple[np.ndarray, np.ndarray]:
    """Makes the vectors of texts, in the order of the texts.

    Args:
        embed: Embedder. It makes the vectors of a batch.
        texts: list of bytes.
        batch_size: int. The most texts of a batch.
        done: function of the number of texts of a batch and their work (text_sources.work_of), called after each batch.

    Returns:
        (float32 [N, D], truncated bool [N]).
    """
    # The longest texts come first, so that a lack of memory shows at once. Lengths in tokens matter: batches by lengths
    # in bytes would be one third padding.
    lengths = [embed.num_tokens(texts[at : at + _COUNTED_AT_A_TIME]) for at in range(0, len(texts), _COUNTED_AT_A_TIME)]
    order = np.argsort(-np.concatenate(lengths), kind="stable")
    parts = []
    for at in range(0, len(order), batch_size):
        batch = [texts[row] for row in order[at : at + batch_size]]
        parts.append(embed(batch))
        done(len(batch), sum(map(work_of, batch)))
    places = np.argsort(order)
    return tuple(np.concatenate(kind)[places] for kind in zip(*parts, strict=True))
