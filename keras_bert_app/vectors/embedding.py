"""Vectors of many texts from an export, in batches of texts of similar lengths."""

import copy
import functools
import os
from collections.abc import Callable

import numpy as np
import tensorflow as tf

from keras_bert_app.config.prompts import NO_PROMPTS, ROLES, Prompts, checked_prompts
from keras_bert_app.errors import UserError, failed_check, first_line
from keras_bert_app.export import saved_models
from keras_bert_app.files import read_json, read_whole
from keras_bert_app.serving.litert_model import MODEL_FILE, LiteRTModel
from keras_bert_app.vectors.plain_rows import PlainRows
from keras_bert_app.vectors.text_sources import work_of
from pipelines import storage

BATCH_SIZE = 32  # larger batches are no faster on a CPU
_MAX_VOCABULARY_BYTES = 100_000_000
_MAX_MODEL_BYTES = 1 << 31  # the limit of a .tflite file
_MOST_TOKENS = 100_000  # tokens of a row
_COUNTED_AT_A_TIME = 256  # texts; tokenization takes many times their size in memory


class Embedder:
    """A function from texts to vectors: an export of embeddings, or a module before its export.

    Args:
        signatures: dict from name to function. The signatures of the export.
        from_ids: LiteRTModel of the signature "ids", which is faster, or None.
        plain_rows: PlainRows of the same model, or None.
        prompts: Prompts. Those of the model. The Embedder puts the default prompt before each text; see with_prompt.
    """

    def __init__(
        self,
        signatures: dict,
        from_ids: LiteRTModel | None = None,
        plain_rows: PlainRows | None = None,
        prompts: Prompts = NO_PROMPTS,
    ):
        self.prompts, self._prompt = prompts, prompts.default.encode()
        self._embed, self._num_tokens = signatures["serving_default"], signatures["num_tokens"]
        if prompts.default:  # serving_default would put this prompt before another one
            self._embed = functools.partial(_embed_rows, signatures["tokenize"], signatures["ids"])
        self._tokenize = signatures["tokenize"] if from_ids else None
        self._from_ids, self._plain_rows = from_ids, plain_rows

    def with_prompt(self, prompt: str) -> "Embedder":
        """An Embedder of the same model that puts another prompt before each text.

        Args:
            prompt: str. "" for none.

        Returns:
            Embedder.
        """
        other = copy.copy(self)
        other._prompt = prompt.encode()
        return other

    def __call__(self, texts: list[bytes]) -> tuple[np.ndarray, np.ndarray]:
        """Makes the vectors of a batch.

        Args:
            texts: list of bytes.

        Returns:
            (vectors float32 [B, D], truncated bool [B]).
        """
        texts = [self._prompt + text for text in texts] if self._prompt else texts
        if self._from_ids is None or not texts:
            outputs = _run(self._embed, texts)
            return _checked(outputs, len(texts))
        inputs = (self._plain_rows(texts) if self._plain_rows else None) or _run(self._tokenize, texts)
        truncated = inputs.pop("truncated", None)
        return _checked({**self._from_ids(**inputs), "truncated": truncated}, len(texts))

    def num_tokens(self, texts: list[bytes]) -> np.ndarray:
        """Counts the tokens of texts before anything is cut off.

        Args:
            texts: list of bytes.

        Returns:
            int32 [B].

        Raises:
            UserError: the export does not count tokens, or not one number for each text.
        """
        texts = [self._prompt + text for text in texts] if self._prompt else texts
        counts = _run(self._num_tokens, texts).get("num_tokens")
        if counts is None or counts.shape != (len(texts),) or counts.dtype != np.int32:
            raise UserError("the signature num_tokens of the export does not give a number for each text; export again")
        return counts


def for_role(embed: Embedder, role: str) -> Embedder:
    """The Embedder with the prompt of a role.

    Args:
        embed: Embedder.
        role: str. "query" for a text that looks for others, or "document" for a text that is looked for.

    Returns:
        Embedder. If the model has no prompts, its vectors are the same.
    """
    assert role in ROLES, role
    return embed.with_prompt(embed.prompts.of_role(role)) if embed.prompts.named else embed


def embedder_of_module(module: tf.Module) -> Embedder:
    """The Embedder of a model that is not exported.

    Args:
        module: export.sentence_vectors.EmbeddingModule.
    """
    return Embedder(module.exported, prompts=Prompts(module.about.prompts, module.about.default_prompt_name))


def _embed_rows(tokenize, ids, text):
    """Runs the signatures tokenize and ids, one after the other."""
    rows = dict(tokenize(text=text))
    truncated = rows.pop("truncated")
    return {**ids(**rows), "truncated": truncated}


def _run(signature, texts):
    """Runs a signature over texts. Returns a dict of arrays."""
    try:
        return {name: values.numpy() for name, values in signature(text=tf.constant(texts, tf.string)).items()}
    except tf.errors.ResourceExhaustedError:
        raise  # the command gives the advice for too little memory
    except (tf.errors.OpError, ValueError, TypeError) as error:
        if line := failed_check(error):
            raise UserError(line) from None
        reason = first_line(error)
        raise UserError(f"the export cannot embed these texts ({reason}); export the model again") from None


def _checked(outputs, num_texts):
    """Returns (vectors, truncated) after a check of the outputs, because the source of the export is unknown."""
    vectors, truncated = outputs.get("embedding"), outputs.get("truncated")
    if (
        vectors is None
        or truncated is None
        or vectors.ndim != 2
        or vectors.dtype != np.float32
        or not len(vectors) == num_texts == truncated.size
    ):
        raise UserError("the export does not give a float32 vector and `truncated` for each text; export again")
    return vectors, truncated


def load_embedder(saved_model: str, num_threads: int = 0) -> Embedder:
    """Loads the Embedder of an export. It runs model.tflite if the export has one.

    Args:
        saved_model: str. See saved_models.load.
        num_threads: int. Threads for model.tflite; 0 for as many as this process may use.

    Returns:
        Embedder.

    Raises:
        UserError: the export cannot be loaded, it gives no sentence vectors, or its files contradict each other.
    """
    directory = saved_models.find(saved_model)  # a newer version may appear during the loading
    signatures = saved_models.load(directory).signatures
    outputs = signatures["serving_default"].structured_outputs if "serving_default" in signatures else {}
    if not isinstance(outputs, dict) or "embedding" not in outputs or "num_tokens" not in signatures:
        raise UserError(
            f"{saved_model}: gives no sentence vectors (its outputs: {', '.join(sorted(outputs)) or 'none'}); write "
            "another export with `export --kind=embeddings`"
        )
    path, about_path = (os.path.join(directory, name) for name in (MODEL_FILE, "export.json"))
    about = read_json(about_path) if storage.exists(about_path) else {}
    prompts = checked_prompts(about, about_path)
    if prompts.default and not {"tokenize", "ids"} <= set(signatures):
        raise UserError(f"{directory}: has a default prompt, but no signatures tokenize and ids; export again")
    if not storage.exists(path):
        return Embedder(signatures, prompts=prompts)
    config = read_json(os.path.join(directory, "config.json"))
    do_lower_case, max_seq_length = config.get("do_lower_case"), about.get("max_seq_length")
    is_length = type(max_seq_length) is int and 3 <= max_seq_length <= _MOST_TOKENS
    if not is_length or not isinstance(do_lower_case, bool):
        raise UserError(
            f"{directory}: do_lower_case is {repr(do_lower_case)[:40]} in config.json and max_seq_length is "
            f"{repr(max_seq_length)[:40]} in export.json; expected true or false and a number from 3 to "
            f"{_MOST_TOKENS:,}; export again"
        )
    if "tokenize" not in signatures:
        raise UserError(f"{directory}: has {MODEL_FILE}, but no signature tokenize for its inputs; export again")
    vocabulary = read_whole(os.path.join(directory, "vocab.txt"), _MAX_VOCABULARY_BYTES)
    model = LiteRTModel(read_whole(path, _MAX_MODEL_BYTES), num_threads)
    if config.get("tokenizer") == "symbols":
        return Embedder(signatures, model, None, prompts)  # PlainRows cuts words into pieces
    return Embedder(signatures, model, PlainRows(vocabulary, do_lower_case, max_seq_length), prompts)


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
    # The longest texts come first, so that a lack of memory shows at once. The order follows the number of tokens,
    # because with an order by bytes a third of each batch would be padding.
    lengths = [embed.num_tokens(texts[at : at + _COUNTED_AT_A_TIME]) for at in range(0, len(texts), _COUNTED_AT_A_TIME)]
    order = np.argsort(-np.concatenate(lengths), kind="stable")
    parts = []
    for at in range(0, len(order), batch_size):
        batch = [texts[row] for row in order[at : at + batch_size]]
        parts.append(embed(batch))
        done(len(batch), sum(map(work_of, batch)))
    places = np.argsort(order)
    return tuple(np.concatenate(kind)[places] for kind in zip(*parts, strict=True))
