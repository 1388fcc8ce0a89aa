"""Reads the tensors of a transformers state dict and gives them our paths."""

import typing

import numpy as np

from keras_bert_app.config.bert_config import BertConfig
from keras_bert_app.errors import UserError
from keras_bert_app.interop.huggingface.huggingface_names import our_path, plain_name, transposed
from keras_bert_app.interop.huggingface.safetensors_files import Entry, read_tensor
from keras_bert_app.interop.weights import join_attention

_BUFFERS = ("bert.embeddings.position_ids", "bert.embeddings.token_type_ids")
_OUTPUT_LAYERS = ("classifier.", "qa_outputs.")
_DECODER, _DECODER_BIAS = "cls.predictions.decoder.weight", "cls.predictions.decoder.bias"
_WORDS, _OUTPUT_BIAS, _OUTPUT_EMBEDDINGS = (
    "encoder/embeddings/word_embeddings",
    "masked_lm/output_bias",
    "masked_lm/output_embeddings",
)


class StateDict(typing.NamedTuple):
    """The tensors of a directory.

    Attributes:
        tensors: dict path -> float32 array.
        unused: dict name -> str. Tensors that are not loaded, and why.
        unexpected: dict name -> shape. Tensors that a BERT does not have.
    """

    tensors: dict
    unused: dict
    unexpected: dict


def read(directory: str, entries: dict[str, Entry], config: BertConfig, task: str) -> StateDict:
    """Reads all tensors of a directory.

    Args:
        directory: str. Directory of the model, for messages.
        entries: dict name -> safetensors_files.Entry. The tensors in the files.
        config: BertConfig. Configuration of the model.
        task: str. Task of the model's class, or "".

    Returns:
        StateDict. Tensors are float32.

    Raises:
        UserError: Tensors contradict each other or the configuration, or have an unsupported type.
    """
    plain = _by_plain_name(directory, entries)
    tensors, unused, unexpected = {}, {}, {}
    for name, entry in plain.items():
        path = _path(name, config, task)
        if name in _BUFFERS:
            unused[entry.name] = "a buffer with known values"
        elif name in (_DECODER, _DECODER_BIAS):
            continue  # The code below reads the decoder after the tensors to which it may be tied.
        elif path is None:
            unexpected[entry.name] = entry.shape
        else:
            tensors[path] = np.asarray(transposed(path, read_tensor(entry)), order="C")
    if config.tie_word_embeddings:
        for name, path in ((_DECODER, _WORDS), (_DECODER_BIAS, _OUTPUT_BIAS)):
            if name in plain:
                _tie(directory, plain[name], path, tensors, unused)
    else:
        if _DECODER in plain:
            tensors[_OUTPUT_EMBEDDINGS] = read_tensor(plain[_DECODER])
        if _DECODER_BIAS in plain:
            if _OUTPUT_BIAS in tensors:
                unused["cls.predictions.bias"] = "an untied head uses decoder.bias instead"
            tensors[_OUTPUT_BIAS] = read_tensor(plain[_DECODER_BIAS])
    _check_attention(directory, config, tensors)
    kernel = tensors.get("classifier/kernel")
    if kernel is not None and kernel.ndim != 2:
        raise UserError(
            f"{directory}: the output layer's kernel has shape {list(kernel.shape)}; expected two dimensions"
        )
    return StateDict(join_attention(tensors), unused, unexpected)


def _by_plain_name(directory, entries):
    plain = {}
    for name, entry in entries.items():
        other = plain.setdefault(plain_name(name), entry)
        if other is not entry:
            raise UserError(
                f"{directory}: {other.name!r} and {name!r} are the same tensor of a BERT; remove one of them"
            )
    return plain


def _path(name, config, task):
    """Gives our path of a plain name. An output layer must have its name in the class of the task."""
    if name.startswith(_OUTPUT_LAYERS):
        own = "qa_outputs." if task == "question_answering" else "classifier."
        if not task or not name.startswith(own):
            return None
        name = f"classifier.{name.removeprefix(own)}"
    return our_path(name, config.num_hidden_layers)


def _tie(directory, entry, path, tensors, unused):
    """Ties a decoder's tensor to the tensor at `path`. Keeps one of two equal tensors, and refuses different ones."""
    value = read_tensor(entry)
    if path not in tensors:
        tensors[path] = value
    elif np.array_equal(value, tensors[path], equal_nan=True):
        unused[entry.name] = f"tied to {path}, and equal to it"
    else:
        # transformers 4 used the tensor at `path`, and transformers 5 uses the decoder's tensor.
        raise UserError(
            f"{directory}: {entry.name} differs from {path}, to which config.json ties it; set "
            f"tie_word_embeddings to false in config.json to use {entry.name}, or remove it from the file"
        )


def _check_attention(directory, config, tensors):
    """Checks the shapes of query, key and value before they are joined. A joined tensor would hide a wrong shape."""
    for path, tensor in tensors.items():
        if path.split("/")[-2] in ("query", "key", "value"):
            expected = (config.hidden_size,) * (2 if path.endswith("/kernel") else 1)
            if tensor.shape != expected:
                raise UserError(f"{directory}: {path} expected {list(expected)}, found {list(tensor.shape)}")
