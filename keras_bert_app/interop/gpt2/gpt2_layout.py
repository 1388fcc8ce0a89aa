"""Reads and writes transformers' GPT-2: config.json, model.safetensors and a WordPiece tokenizer's files.

GPT-2 of OpenAI cuts text into byte pairs, which this application does not do. But many GPT-2 models have a WordPiece
vocabulary, among them most Chinese ones.
"""

import json
import os
import re

import numpy as np

from keras_bert_app.config.bert_config import BertConfig
from keras_bert_app.config.published_keys import HUGGINGFACE
from keras_bert_app.config.weight_shapes import shapes
from keras_bert_app.errors import UserError
from keras_bert_app.files import read_json
from keras_bert_app.interop import directories
from keras_bert_app.interop.huggingface import huggingface_files, huggingface_tokenizer, safetensors_files
from keras_bert_app.interop.weights import Weights
from pipelines import storage
from pipelines.wordpiece.vocabulary import parse_vocabulary

_MODEL_TYPE = "gpt2"
# transformers' class -> our parts.
_CLASSES = {
    "GPT2LMHeadModel": ("encoder", "language_model"),
    "GPT2Model": ("encoder",),
}
# Key of transformers -> our key, for values with the same meaning.
_KEYS = {
    "vocab_size": "vocab_size",
    "n_embd": "hidden_size",
    "n_layer": "num_hidden_layers",
    "n_head": "num_attention_heads",
    "n_inner": "intermediate_size",
    "n_positions": "max_position_embeddings",
    "activation_function": "hidden_act",
    "resid_pdrop": "hidden_dropout_prob",
    "attn_pdrop": "attention_probs_dropout_prob",
    "layer_norm_epsilon": "layer_norm_eps",
    "initializer_range": "initializer_range",
    "tie_word_embeddings": "tie_word_embeddings",
}
# Keys that only this package reads.
_OWN_KEYS = ("tokenizer",)
# The defaults of transformers' GPT2Config, for keys that config.json leaves out.
_DEFAULTS = {
    "vocab_size": 50257,
    "n_embd": 768,
    "n_layer": 12,
    "n_head": 12,
    "n_positions": 1024,
    "activation_function": "gelu_new",
    "resid_pdrop": 0.1,
    "attn_pdrop": 0.1,
    "layer_norm_epsilon": 1e-5,
    "initializer_range": 0.02,
    "tie_word_embeddings": True,
}
# Keys that must have exactly this value. Any other value describes another architecture.
_REQUIRED_VALUES = {
    "scale_attn_weights": True,
    "scale_attn_by_inverse_layer_idx": False,
    "add_cross_attention": False,
}
_NAMES = {
    "encoder/embeddings/word_embeddings": "transformer.wte.weight",
    "encoder/embeddings/position_embeddings": "transformer.wpe.weight",
    "encoder/final_layer_norm/gamma": "transformer.ln_f.weight",
    "encoder/final_layer_norm/beta": "transformer.ln_f.bias",
    "language_model/output_embeddings": "lm_head.weight",
}
# The kernels of GPT-2 are [input, output], as ours are. Its query, key and value are one matrix, as ours are.
_NAMES_IN_LAYER = {
    "attention/query_key_value/kernel": "attn.c_attn.weight",
    "attention/query_key_value/bias": "attn.c_attn.bias",
    "attention/output/kernel": "attn.c_proj.weight",
    "attention/output/bias": "attn.c_proj.bias",
    "attention_layer_norm/gamma": "ln_1.weight",
    "attention_layer_norm/beta": "ln_1.bias",
    "intermediate/kernel": "mlp.c_fc.weight",
    "intermediate/bias": "mlp.c_fc.bias",
    "output/kernel": "mlp.c_proj.weight",
    "output/bias": "mlp.c_proj.bias",
    "output_layer_norm/gamma": "ln_2.weight",
    "output_layer_norm/beta": "ln_2.bias",
}
_BUFFER = re.compile(r"transformer\.h\.\d+\.attn\.(?:bias|masked_bias)$")


def recognizes(path: str | os.PathLike) -> bool:
    """Checks whether a directory has transformers' GPT-2.

    Args:
        path: str or os.PathLike. Local or remote directory.

    Returns:
        bool. Also True for files that `read` refuses.
    """
    directory = str(path).rstrip("/")
    config = f"{directory}/{huggingface_files.CONFIG}"
    if not (huggingface_files.has_weights(directory) and storage.is_file(config)):
        return False
    return read_json(config, folder=directory).get("model_type") == _MODEL_TYPE


def read(path: str | os.PathLike) -> Weights:
    """Reads a model directory. Converts float64, float16 and bfloat16 to float32.

    Args:
        path: str or os.PathLike. Local or remote directory.

    Returns:
        Weights. Tensors are float32.

    Raises:
        UserError: The model has another architecture, its weights have an unsupported format, or the files are damaged,
            hostile or contradictory.
    """
    directory = str(path).rstrip("/")
    values = huggingface_files.read_config(directory, _MODEL_TYPE, tuple(_CLASSES))
    architecture = next(iter(values.get("architectures") or ()), "GPT2LMHeadModel")
    config, remarks = _config(directory, values)
    tensors, unused, unexpected = _tensors(directory, config)
    vocabulary, do_lower_case, says_casing, not_followed = huggingface_tokenizer.read(
        directory, config, values.get("do_lower_case")
    )
    return Weights(
        config.replace(do_lower_case=do_lower_case),
        tensors,
        vocabulary,
        unused={**unused, **not_followed},
        unexpected=unexpected,
        origin=f"gpt2 {directory}",
        says_casing=says_casing,
        absent={} if "language_model" in _CLASSES[architecture] else {"language_model": f"{architecture} has none"},
        remarks=remarks,
    )


def write(weights: Weights, directory: str | os.PathLike) -> list[str]:
    """Writes a directory that transformers 5 loads as GPT2LMHeadModel, completely or not at all.

    [CLS] begins a text, and [SEP] ends it.

    Args:
        weights: Weights. Weights of architecture gpt.
        directory: str or os.PathLike. Local directory that does not exist yet or is empty.

    Returns:
        list of str. Lines about properties that are lost.

    Raises:
        UserError: The directory exists and is not empty, or the weights are not those of a whole GPT.
    """
    if weights.config.architecture != "gpt":
        raise UserError(f"{weights.origin}: is a {weights.config.architecture}, not a gpt; write another layout")
    missing = weights.missing()
    if missing or weights.config.num_heads_by_layer:
        fault = f"{missing[0]} is missing" if missing else "heads were pruned"
        raise UserError(f"{weights.origin}: {fault}, and this layout has no place for such a model; write --to=workdir")
    values = {"architectures": ["GPT2LMHeadModel"], "model_type": _MODEL_TYPE, "dtype": "float32"}
    ours = weights.config.to_dict()
    values |= {theirs: ours[name] for theirs, name in _KEYS.items()}
    values |= {"embd_pdrop": values["resid_pdrop"], **_special_ids(weights.vocabulary)}
    values |= {name: ours[name] for name in _OWN_KEYS if name in ours}
    lines = [] if weights.vocabulary is not None else ["no vocabulary: transformers will find no tokenizer there"]
    if weights.task:
        lines.append(f"classifier is left out: this layout has no output layer for {weights.task}")
    with directories.written_whole(directory) as temporary:
        tensors = {_name(path): weights.tensors[path] for path in shapes(weights.config)}
        safetensors_files.write(os.path.join(temporary, huggingface_files.WEIGHTS), tensors)
        storage.write_whole(os.path.join(temporary, huggingface_files.CONFIG), json.dumps(values, indent=2) + "\n")
        if weights.vocabulary is not None:
            huggingface_tokenizer.write(temporary, weights.vocabulary, weights.config)
    return lines


def _config(directory, values):
    """Returns (BertConfig, lines about settings that this application does not have)."""
    for key, required in _REQUIRED_VALUES.items():
        if values.get(key, required) != required:
            raise UserError(
                f"{directory}/config.json: {key} is {repr(values[key])[:80]}; expected {required!r}, as in GPT-2"
            )
    values = _DEFAULTS | {key: value for key, value in values.items() if value is not None}
    ours = {name: values[key] for key, name in _KEYS.items() if key in values}
    ours |= {name: values[name] for name in _OWN_KEYS if name in values}
    if "intermediate_size" not in ours and isinstance(ours["hidden_size"], int):
        ours["intermediate_size"] = 4 * ours["hidden_size"]
    try:
        config = BertConfig.from_dict({**ours, "architecture": "gpt"}, HUGGINGFACE)
    except UserError as error:
        raise UserError(f"{directory}/config.json: {error}") from None
    dropout = values.get("embd_pdrop", config.hidden_dropout_prob)
    if dropout == config.hidden_dropout_prob:
        return config, ()
    return config, (f"embd_pdrop {dropout} is not followed: embeddings also have dropout {config.hidden_dropout_prob}",)


def _tensors(directory, config):
    """Returns (tensors by our paths, unused tensors, unexpected tensors)."""
    paths = {_name(path): path for path in shapes(config)}
    tensors, unused, unexpected, tied = {}, {}, {}, None
    for name, entry in huggingface_files.read_entries(directory).items():
        plain = name if name.startswith(("transformer.", "lm_head.")) else f"transformer.{name}"
        if _BUFFER.match(plain):
            unused[name] = "a buffer with known values"
        elif plain in paths:
            if paths[plain] in tensors:
                raise UserError(f"{directory}: {name!r} is there twice, with and without 'transformer.'; remove one")
            tensors[paths[plain]] = safetensors_files.read_tensor(entry)
        elif plain == "lm_head.weight":
            tied = safetensors_files.read_tensor(entry)
        else:
            unexpected[name] = entry.shape
    words = tensors.get("encoder/embeddings/word_embeddings")
    if tied is not None and words is not None:
        if not np.array_equal(tied, words, equal_nan=True):
            raise UserError(
                f"{directory}: lm_head.weight differs from wte.weight, to which config.json ties it; set "
                "tie_word_embeddings to false in config.json to use lm_head.weight, or remove it from the file"
            )
        unused["lm_head.weight"] = "tied to the word embeddings, and equal to them"
    return tensors, unused, unexpected


def _name(path):
    """Gives transformers' name of one of our paths."""
    layer = re.match(r"encoder/layer_(\d+)/(.*)", path)
    return f"transformer.h.{layer[1]}.{_NAMES_IN_LAYER[layer[2]]}" if layer else _NAMES[path]


def _special_ids(vocabulary):
    """The keys of config.json that say which pieces begin, end and pad a text."""
    if vocabulary is None:
        return {}
    ids = {piece: index for index, piece in enumerate(parse_vocabulary(vocabulary)[0])}
    keys = {"bos_token_id": "[CLS]", "eos_token_id": "[SEP]", "pad_token_id": "[PAD]"}
    return {key: ids[piece] for key, piece in keys.items() if piece in ids}
