"""Vectors of many texts: what an export makes of them, in batches of like lengths."""

import json
import os

import numpy as np
import tensorflow as tf

from keras_bert_app.errors import UserError
from keras_bert_app.export import saved_models
from keras_bert_app.serving.litert_model import MODEL_FILE, LiteRTModel
from keras_bert_app.vectors.plain_rows import PlainRows
from keras_bert_app.vectors.text_sources import work_of

BATCH_SIZE = 32  # beyond it a CPU is no faster
_COUNTED_AT_A_TIME = 256  # texts; cutting them into pieces takes many times their bytes


class Embedder:
    """Vectors of texts by an export of embeddings, or by a module that is to be one.

    Args:
        signatures: dict name -> function. from_ids: LiteRTModel of the signature "ids", which is faster, or None.
            plain_rows: PlainRows that goes with it.
    """

    def __init__(self, signatures, from_ids=None, plain_rows=None):
        self._embed, self._num_tokens = signatures["serving_default"], signatures["num_tokens"]
        self._tokenize = signatures["tokenize"] if from_ids else None
        self._from_ids, self._plain_rows = from_ids, plain_rows

    def __call__(self, texts):
        """(vectors float32 [B, D], truncated bool [B]) of a list of bytes."""
        if self._from_ids is None or not texts:
            found = self._embed(text=tf.constant(texts, tf.string))
            return found["embedding"].numpy(), found["truncated"].numpy()
        inputs = self._plain_rows(texts) if self._plain_rows else None
        if inputs is None:
            inputs = {
                name: values.numpy() for name, values in self._tokenize(text=tf.constant(texts, tf.string)).items()
            }
        truncated = inputs.pop("truncated")
        return self._from_ids(**inputs)["embedding"], truncated

    def num_tokens(self, texts):
        """int32 [B], before anything is cut off."""
        return self._num_tokens(text=tf.constant(texts, tf.string))["num_tokens"].numpy()


def load_embedder(saved_model, num_threads=0):
    """The Embedder of an export; it runs model.tflite where that is beside it.

    Args:
        num_threads: of model.tflite; 0 for as many as this process may use.

    Raises:
        UserError: see saved_models.load; or the export answers something else.
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


def embed_texts(embed, texts, batch_size=BATCH_SIZE, done=lambda texts, work: None):
    """Vectors of texts, in their order.

    Args:
        embed: Embedder. texts: list of bytes. done: called after each batch with the number of its texts, and what they
            cost as texts.work_of counts it.

    Returns:
        (float32 [N, D], truncated bool [N]).
    """
    # The longest first: if memory is short, that is known at once. Lengths in bytes would do worse: with them a third of
    # what is computed is padding.
    lengths = [embed.num_tokens(texts[at : at + _COUNTED_AT_A_TIME]) for at in range(0, len(texts), _COUNTED_AT_A_TIME)]
    order = np.argsort(-np.concatenate(lengths), kind="stable")
    parts = []
    for at in range(0, len(order), batch_size):
        batch = [texts[row] for row in order[at : at + batch_size]]
        parts.append(embed(batch))
        done(len(batch), sum(map(work_of, batch)))
    places = np.argsort(order)
    return tuple(np.concatenate(kind)[places] for kind in zip(*parts))
