"""KerasHub's presets: config.json, model.weights.h5, the tokenizer's files, and those of a masked LM or classifier.

Read by hand, never by Keras: a preset names Python classes, and loading it there makes objects of them. Written by
KerasHub itself, from genuine objects that got our tensors. Only write() imports keras_hub, which takes seconds.
"""

import re

import numpy as np

from keras_bert_app.config.bert_config import BertConfig
from keras_bert_app.errors import UserError
from keras_bert_app.interop import attention_heads, bounded_files, directories
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
from pipelines.wordpiece import casing
from pipelines.wordpiece.vocabulary import parse_vocabulary

_CONFIG, _TASK, _TOKENIZER = "config.json", "task.json", "tokenizer.json"
_WEIGHTS, _SHARDS, _TASK_WEIGHTS = "model.weights.h5", "model.weights.json", "task.weights.h5"
_VOCABULARY = "assets/tokenizer/vocabulary.txt"
_MAX_JSON_BYTES = 10_000_000
_MAX_VOCABULARY_BYTES = 100_000_000
_DEFAULTS = {"max_sequence_length": 512, "num_segments": 2, "dropout": 0.1}
_KERAS_KEYS = {"name", "trainable", "dtype"}  # what every layer has
# Task classes -> names of their own tensors; BertTextClassifier was once called BertClassifier.
_TASKS = {
    "BertMaskedLM": masked_lm_names,
    "BertTextClassifier": classifier_names,
    "BertClassifier": classifier_names,
    "BertTextEmbedder": dict,
}
_TOKENIZER_AS_BERT = {"split": True, "suffix_indicator": "##", "oov_token": "[UNK]"}


def recognizes(path):
    """Whether a directory has a config.json that names a registered Keras class, also one that is refused then."""
    name = f"{path}/{_CONFIG}"
    try:
        return bounded_files.is_file(name) and "registered_name" in bounded_files.read_json(name, _MAX_JSON_BYTES)
    except UserError:
        return False


def read(path):
    """A preset's directory as Weights; float64, float16 and bfloat16 become float32.

    The configuration is what BertBackbone computes: gelu_tanh and LayerNorm epsilon 1e-12. KerasHub's masked-LM head
    has constants of its own, which `unused` tells.

    Raises:
        UserError: another class than BERT's, files that are missing, damaged or hostile, or that contradict each other.
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
        unused["pooled_dense"] = "all zeros, which stand for no pooler"
    if task and bounded_files.is_file(f"{directory}/{_TASK_WEIGHTS}"):
        names = {stored: path for path, (stored, _) in _TASKS[task]().items()}
        found = _read_files([f"{directory}/{_TASK_WEIGHTS}"], names, config)
        for ours, theirs in zip((tensors, unused, unexpected), found):
            ours |= theirs
    if "masked_lm/transform/kernel" in tensors:
        unused["exact gelu and LayerNorm epsilon 1e-5 of KerasHub's masked-LM head"] = (
            "the head computes here as the encoder does, with gelu_tanh and 1e-12; its logits are not quite KerasHub's"
        )
    if task == "BertTextEmbedder":
        unused[f"{_TASK} {task}"] = "its encoder is read, how it pools is not"
    if "classifier/kernel" in tensors and task_settings.get("activation") not in (None, "linear"):
        unused[f"activation {str(task_settings['activation'])[:50]} of the classifier"] = "its outputs here are logits"
    vocabulary, do_lower_case, not_followed = _read_tokenizer(directory, config)
    return Weights(
        config.replace(do_lower_case=do_lower_case),
        join_attention(tensors),
        vocabulary,
        "sequence_classification" if "classifier/kernel" in tensors else "",
        unused={**unused, **not_followed},
        unexpected=unexpected,
        origin=f"keras_hub {directory}",
    )


def write(weights, directory):
    """Writes a preset with KerasHub's own save_to_preset; whole or not at all.

    It is a BertTextClassifier or a BertMaskedLM where there is such a head, else a BertBackbone with its tokenizer. A
    missing pooler becomes zeros, which read() takes for none.

    Returns:
        lines that say what a preset cannot hold.

    Raises:
        UserError: the directory is there and not empty, or BertBackbone could not compute such a model.
    """
    with directories.written_whole(directory) as temporary:
        model = build_model(weights)
        model.save_to_preset(temporary)
        tokenizer = None if hasattr(model, "preprocessor") else build_tokenizer(weights)
        if tokenizer:
            tokenizer.save_to_preset(temporary)
    return not_held(weights, model)


def _read_json(path):
    if not bounded_files.is_file(path):
        raise UserError(f"{path}: is missing; expected a preset's directory, as keras_hub's save_to_preset writes it")
    return bounded_files.read_json(path, _MAX_JSON_BYTES)


def _settings(path, values, classes):
    """(class, its settings) of a serialized object that is one of some of KerasHub's classes."""
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
    """(class of task.json or "", its settings)."""
    path = f"{directory}/{_TASK}"
    if not bounded_files.is_file(path):
        return "", {}
    task, settings = _settings(path, _read_json(path), _TASKS)
    if "backbone" in settings and _backbone_config(path, settings["backbone"]) != config:
        raise UserError(f"{path}: its backbone is not the one of {_CONFIG}; the files are of two presets")
    return task, settings


def _weight_files(directory):
    """The files of the backbone's weights: one, or the shards that model.weights.json names."""
    if bounded_files.is_file(f"{directory}/{_WEIGHTS}"):
        return [f"{directory}/{_WEIGHTS}"]
    path = f"{directory}/{_SHARDS}"
    if not bounded_files.is_file(path):
        raise UserError(f"{directory}: has no {_WEIGHTS} and no {_SHARDS}; fetch the whole preset")
    places = _read_json(path).get("weight_map")
    names = [
        name
        for place in (places.values() if isinstance(places, dict) else [None])
        for name in (place if isinstance(place, list) else [place])
    ]
    for name in names:
        if not isinstance(name, str) or not re.fullmatch(r"[\w-]+\.weights\.h5", name):
            raise UserError(
                f"{path}: names the file {str(name)[:80]!r}; expected shards beside it, such as model_00000.weights.h5"
            )
        if not bounded_files.is_file(f"{directory}/{name}"):
            raise UserError(f"{directory}/{name}: is missing; {_SHARDS} names it; fetch the whole preset")
    return [f"{directory}/{name}" for name in sorted(set(names))]


def _read_files(files, paths, config):
    """(tensors by our paths, unused, unexpected) of HDF5 files; paths: name in them -> our path."""
    tensors, unused, unexpected = {}, {}, {}
    for file in files:
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
    """(bytes of the vocabulary or None, do_lower_case, dict setting that is not followed -> why)."""
    path, not_followed, do_lower_case, vocabulary = f"{directory}/{_TOKENIZER}", {}, True, None
    if bounded_files.is_file(path):
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
    if bounded_files.is_file(f"{directory}/{_VOCABULARY}"):
        vocabulary = bounded_files.read_whole(f"{directory}/{_VOCABULARY}", _MAX_VOCABULARY_BYTES)
        if vocabulary.count(b"\n") > config.vocab_size:
            raise UserError(
                f"{directory}/{_VOCABULARY}: has {vocabulary.count(10):,} pieces, but {_CONFIG} has "
                f"vocabulary_size {config.vocab_size:,}; the files are of two presets"
            )
        if not do_lower_case and not casing.fits([piece for piece in parse_vocabulary(vocabulary)[0] if piece], False):
            do_lower_case, not_followed[f"{_TOKENIZER} lowercase=False"] = (
                True,
                casing.NO_CAPITALS,
            )  # of bert_base_zh, for one
    return vocabulary, do_lower_case, not_followed
