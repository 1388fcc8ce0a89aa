"""Reads and writes KerasHub's presets.

A preset has config.json, model.weights.h5, and the files of the tokenizer and the head. This module reads the files
itself, because Keras builds an object of any Python class that a preset names. write() puts our tensors into KerasHub's
objects, and KerasHub saves them. Only write() imports keras_hub, because this import takes seconds.
"""

import os
import re

import numpy as np

from keras_bert_app.config.bert_config import BertConfig
from keras_bert_app.errors import UserError
from keras_bert_app.files import check_in_folder, read_json, read_whole
from keras_bert_app.interop import attention_heads, directories
from keras_bert_app.interop.keras_hub import hdf5_files
from keras_bert_app.interop.keras_hub.keras_hub_names import (
    backbone_names,
    classifier_names,
    masked_lm_names,
    plain_name,
)
from keras_bert_app.interop.keras_hub.keras_hub_objects import (
    ARGUMENTS,
    BACKBONE_COMPUTES,
    build_model,
    build_tokenizer,
    not_held,
)
from keras_bert_app.interop.weights import Weights, join_attention
from pipelines import storage
from pipelines.wordpiece import casing
from pipelines.wordpiece.vocabulary import parse_vocabulary

_CONFIG, _TASK, _TOKENIZER = "config.json", "task.json", "tokenizer.json"
_WEIGHTS, _SHARDS, _TASK_WEIGHTS = "model.weights.h5", "model.weights.json", "task.weights.h5"
_VOCABULARY = "assets/tokenizer/vocabulary.txt"
_MAX_JSON_BYTES = 10_000_000
_MAX_VOCABULARY_BYTES = 100_000_000
_DEFAULTS = {"max_sequence_length": 512, "num_segments": 2, "dropout": 0.1}
_KERAS_KEYS = {"name", "trainable", "dtype"}  # Settings that every layer has.
# Task class -> function that lists the names of its head. BertClassifier is an old name of BertTextClassifier.
_TASKS = {
    "BertMaskedLM": masked_lm_names,
    "BertTextClassifier": classifier_names,
    "BertClassifier": classifier_names,
    "BertTextEmbedder": dict,
}
_TOKENIZER_AS_BERT = {"split": True, "suffix_indicator": "##", "oov_token": "[UNK]"}


def recognizes(path: str | os.PathLike) -> bool:
    """Checks whether a directory has a config.json that names a registered Keras class.

    Args:
        path: str or os.PathLike. Local or remote directory.

    Returns:
        bool. Also True for a class that `read` refuses.
    """
    name = f"{path}/{_CONFIG}"
    try:
        return storage.is_file(name) and "registered_name" in read_json(name, _MAX_JSON_BYTES, path)
    except UserError:
        return False


def read(path: str | os.PathLike) -> Weights:
    """Reads a preset. Converts float64, float16 and bfloat16 to float32.

    The configuration has the constants of BertBackbone: gelu_tanh and a LayerNorm epsilon of 1e-12. KerasHub's
    masked-LM head has other constants. Weights.unused names them.

    Args:
        path: str or os.PathLike. Directory of the preset.

    Returns:
        Weights. Tensors are float32.

    Raises:
        UserError: The preset has another class than BERT's, or its files are missing, damaged, hostile or
            contradictory.
    """
    directory = str(path).rstrip("/")
    config = _backbone_config(f"{directory}/{_CONFIG}", _read_json(f"{directory}/{_CONFIG}"))
    task, task_settings = _read_task(directory, config)
    files = _weight_files(directory)
    names = {stored: path for path, (stored, _) in backbone_names(config.num_hidden_layers).items()}
    tensors, unused, unexpected = _read_files(files, names, config)
    if not np.any(tensors.get("encoder/pooler/kernel", 1)):
        del tensors["encoder/pooler/kernel"]
        tensors.pop("encoder/pooler/bias", None)
        unused["pooled_dense"] = "all zeros, which means that there is no pooler"
    if task and storage.is_file(f"{directory}/{_TASK_WEIGHTS}"):
        names = {stored: path for path, (stored, _) in _TASKS[task]().items()}
        head_tensors, head_unused, head_unexpected = _read_files([f"{directory}/{_TASK_WEIGHTS}"], names, config)
        tensors |= head_tensors
        unused |= head_unused
        unexpected |= head_unexpected
    if "masked_lm/transform/kernel" in tensors:
        unused["exact gelu and LayerNorm epsilon 1e-5 of KerasHub's masked-LM head"] = (
            "the head computes here as the encoder does, with gelu_tanh and 1e-12; its logits are not quite KerasHub's"
        )
    if task == "BertTextEmbedder":
        unused[f"{_TASK} {task}"] = "the encoder is read, the pooling is not"
    if "classifier/kernel" in tensors and task_settings.get("activation") not in (None, "linear"):
        unused[f"activation {str(task_settings['activation'])[:50]} of the classifier"] = "its outputs here are logits"
    absent = ["next_sentence", *([] if task == "BertMaskedLM" else ["masked_lm"])]
    absent += ["pooler"] if "pooled_dense" in unused else []
    vocabulary, do_lower_case, not_followed = _read_tokenizer(directory, config)
    return Weights(
        config.replace(do_lower_case=do_lower_case),
        join_attention(tensors),
        vocabulary,
        "sequence_classification" if "classifier/kernel" in tensors else "",
        unused={**unused, **not_followed},
        unexpected=unexpected,
        origin=f"keras_hub {directory}",
        absent={part: f"{task or 'BertBackbone'} of KerasHub never has one" for part in absent},
    )


def write(weights: Weights, directory: str | os.PathLike) -> list[str]:
    """Writes a preset with KerasHub's save_to_preset, completely or not at all.

    If the weights have a suitable head, the preset is a BertTextClassifier or a BertMaskedLM. Otherwise the preset is a
    BertBackbone with its tokenizer. A missing pooler becomes zeros, and read() drops a pooler of zeros.

    Args:
        weights: Weights. Must have the whole encoder.
        directory: str or os.PathLike. Local directory that does not exist yet or is empty.

    Returns:
        list of str. Lines that say which properties a preset cannot store.

    Raises:
        UserError: The directory exists and is not empty, or BertBackbone cannot compute such a model.
    """
    with directories.written_whole(directory) as temporary:
        model = build_model(weights)
        model.save_to_preset(temporary)
        tokenizer = None if hasattr(model, "preprocessor") else build_tokenizer(weights)
        if tokenizer:
            tokenizer.save_to_preset(temporary)
    return not_held(weights, model)


def _read_json(path):
    if not storage.is_file(path):
        raise UserError(f"{path}: is missing; expected a preset's directory, as keras_hub's save_to_preset writes it")
    return read_json(path, _MAX_JSON_BYTES, os.path.dirname(path))


def _settings(path, values, classes):
    """Checks that a serialized object has one of KerasHub's classes. Returns (class, settings)."""
    name = values.get("registered_name") if isinstance(values, dict) else values
    match = re.fullmatch(r"keras_(?:hub|nlp)>(\w+)", name) if isinstance(name, str) else None
    if not match or match[1] not in classes:
        raise UserError(
            f"{path}: is of the class {str(name)[:80]!r}; expected KerasHub's {' or '.join(classes)}: "
            "nothing else is read, or run"
        )
    settings = values.get("config")
    if not isinstance(settings, dict):
        raise UserError(f"{path}: {match[1]} has no config; fetch the preset again")
    return match[1], settings


def _backbone_config(path, values):
    _, settings = _settings(path, values, ["BertBackbone"])
    settings = {**_DEFAULTS, **{key: value for key, value in settings.items() if key not in _KERAS_KEYS}}
    unknown, absent = settings.keys() - ARGUMENTS.keys() - {"dropout"}, ARGUMENTS.keys() - settings.keys()
    if unknown or absent:
        raise UserError(
            f"{path}: BertBackbone {'has the unknown setting' if unknown else 'lacks the setting'} "
            f"{str(min(unknown or absent))[:80]!r}; expected {', '.join(ARGUMENTS)} and dropout"
        )
    try:
        return BertConfig(
            **{ours: settings[theirs] for theirs, ours in ARGUMENTS.items()},
            **BACKBONE_COMPUTES,
            hidden_dropout_prob=settings["dropout"],
            attention_probs_dropout_prob=settings["dropout"],
        )
    except UserError as error:
        raise UserError(f"{path}: {str(error)[:200]}") from None


def _read_task(directory, config):
    """Reads task.json. Returns (class, settings), or ("", {}) without such a file."""
    path = f"{directory}/{_TASK}"
    if not storage.is_file(path):
        return "", {}
    task, settings = _settings(path, _read_json(path), _TASKS)
    if "backbone" in settings and _backbone_config(path, settings["backbone"]) != config:
        raise UserError(f"{path}: its backbone differs from the backbone of {_CONFIG}; the files are of two presets")
    return task, settings


def _weight_files(directory):
    """Lists the files with the backbone's weights: model.weights.h5, or the shards in model.weights.json."""
    if storage.is_file(f"{directory}/{_WEIGHTS}"):
        return [f"{directory}/{_WEIGHTS}"]
    path = f"{directory}/{_SHARDS}"
    if not storage.is_file(path):
        raise UserError(f"{directory}: has no {_WEIGHTS} and no {_SHARDS}; fetch the whole preset")
    weight_map = _read_json(path).get("weight_map")
    names = [
        name
        for shards in (weight_map.values() if isinstance(weight_map, dict) else [None])
        for name in (shards if isinstance(shards, list) else [shards])
    ]
    for name in names:
        if not isinstance(name, str) or not re.fullmatch(r"[\w-]+\.weights\.h5", name):
            raise UserError(
                f"{path}: names the file {str(name)[:80]!r}; expected shards beside it, such as model_00000.weights.h5"
            )
        if not storage.is_file(f"{directory}/{name}"):
            raise UserError(f"{directory}/{name}: is missing; {_SHARDS} names it; fetch the whole preset")
    return [f"{directory}/{name}" for name in sorted(set(names))]


def _read_files(files, paths, config):
    """Reads HDF5 files. `paths` maps names to our paths. Returns (tensors by our paths, unused, unexpected)."""
    tensors, unused, unexpected = {}, {}, {}
    for file in files:
        check_in_folder(file, os.path.dirname(file))
        arrays, others = hdf5_files.read_tensors(file, lambda name: plain_name(name) in paths)
        for name, array in arrays.items():
            path = paths[plain_name(name)]
            if path in tensors:
                raise UserError(f"{file}: holds {name} for the second time; fetch the preset again")
            tensors[path] = attention_heads.without_heads(f"{file}: {name}", path, array, config)
        for name, shape in others.items():
            if name.startswith("optimizer/"):
                unused["optimizer"] = "the state of a training run"
            elif "/seed_generator/" in name:
                unused[name] = "the state of random numbers"
            else:
                unexpected[name] = shape
    return tensors, unused, unexpected


def _read_tokenizer(directory, config):
    """Reads the tokenizer. Returns (vocabulary or None, do_lower_case, dict of ignored settings with the reasons)."""
    path, not_followed, do_lower_case, vocabulary = f"{directory}/{_TOKENIZER}", {}, True, None
    if storage.is_file(path):
        _, settings = _settings(path, _read_json(path), ["BertTokenizer"])
        do_lower_case = settings.get("lowercase", False)
        if not isinstance(do_lower_case, bool):
            raise UserError(f"{path}: lowercase is {str(do_lower_case)[:80]!r}; expected true or false")
        as_bert = {**_TOKENIZER_AS_BERT, "strip_accents": do_lower_case}
        not_followed = {
            f"{_TOKENIZER} {key}={str(settings[key])[:50]}": "text is cut as google-research/bert cuts it"
            for key, value in as_bert.items()
            if settings.get(key, value) != value
        }
    if storage.is_file(f"{directory}/{_VOCABULARY}"):
        vocabulary = read_whole(f"{directory}/{_VOCABULARY}", _MAX_VOCABULARY_BYTES, directory)
        if vocabulary.count(b"\n") > config.vocab_size:
            raise UserError(
                f"{directory}/{_VOCABULARY}: has {vocabulary.count(10):,} pieces, but {_CONFIG} has "
                f"vocabulary_size {config.vocab_size:,}; the files are of two presets"
            )
        if not do_lower_case and not casing.fits([piece for piece in parse_vocabulary(vocabulary)[0] if piece], False):
            # An example is the preset bert_base_zh.
            do_lower_case = True
            not_followed[f"{_TOKENIZER} lowercase=False"] = casing.NO_CAPITALS
    return vocabulary, do_lower_case, not_followed
