"""Reads and writes google-research/bert's layout: bert_config.json, vocab.txt and bert_model.ckpt.*.

The tensors have the names of modeling.py, run_pretraining.py, run_classifier.py and run_squad.py. Kernels are [input,
output], as in this application. Only the output_weights of output layers are [n, H].
"""

import json
import os

import numpy as np
import tensorflow as tf

from keras_bert_app.config.bert_config import BertConfig
from keras_bert_app.errors import UserError
from keras_bert_app.files import check_in_folder, read_whole
from keras_bert_app.interop import directories
from keras_bert_app.interop.google_tf1.google_names import google_name, is_transposed, our_path
from keras_bert_app.interop.weights import Weights, join_attention, split_attention
from keras_bert_app.runs import tf_checkpoints
from pipelines import storage
from pipelines.data_error import DataError
from pipelines.wordpiece import casing
from pipelines.wordpiece.vocabulary import parse_vocabulary

_CONFIG, _VOCABULARY, _CHECKPOINT = "bert_config.json", "vocab.txt", "bert_model.ckpt"
_MAX_VOCABULARY_BYTES = 100_000_000
_CASING = "tokenizer_config.json"  # casing.from_configuration reads this file.
_CONFIG_KEYS = (
    "attention_probs_dropout_prob",
    "hidden_act",
    "hidden_dropout_prob",
    "hidden_size",
    "initializer_range",
    "intermediate_size",
    "max_position_embeddings",
    "num_attention_heads",
    "num_hidden_layers",
    "type_vocab_size",
    "vocab_size",
)
# Our name -> the name in modeling.get_activation, whose "gelu" is the tanh form.
_ACTIVATIONS = {"gelu_tanh": "gelu", "gelu_exact": "gelu", "relu": "relu", "tanh": "tanh"}
_LAYER_NORM_EPS = 1e-12  # The default of contrib_layers.layer_norm, which modeling.layer_norm does not change.
# Task -> scope of its output layer, from run_squad.py and run_classifier.py.
_OUTPUT_LAYERS = {"question_answering": "cls/squad/", "sequence_classification": ""}
# Last part of the names of optimizer slots, as optimization.py, LAMB and TensorFlow itself write them.
_SLOTS = {
    "adam_m",
    "adam_v",
    "lamb_m",
    "lamb_v",
    "AdamWeightDecayOptimizer",
    "AdamWeightDecayOptimizer_1",
    "Adam",
    "Adam_1",
}
_COUNTERS = {"global_step", "beta1_power", "beta2_power"}


def recognizes(path: str | os.PathLike) -> bool:
    """Checks whether a path is Google's checkpoint, or a directory with one.

    Args:
        path: str or os.PathLike. Checkpoint prefix or directory, local or remote.

    Returns:
        bool. Also True for a damaged checkpoint.
    """
    try:
        prefix = tf_checkpoints.find_prefix(path)
        return prefix is not None and "bert/embeddings/word_embeddings" in tf_checkpoints.tensor_names(prefix)
    except UserError:
        return True  # read() raises an error that names the fault.


def read(path: str | os.PathLike) -> Weights:
    """Reads Google's checkpoint. Converts tensors of any float type to float32.

    bert_config.json normally does not state do_lower_case. The reader takes this value from tokenizer_config.json or an
    extra key, or else from the vocabulary. Weights.origin names the value and its source.

    Args:
        path: str or os.PathLike. Directory, or checkpoint prefix with bert_config.json and vocab.txt beside it. If a
            directory has several checkpoints of one run, the newest is read.

    Returns:
        Weights. Tensors are float32.

    Raises:
        UserError: A file is missing or damaged, the path has checkpoints of several runs, or the attention weights do
            not have the hidden_size of bert_config.json.
    """
    prefix = tf_checkpoints.find_prefix(path)
    if prefix is None:
        raise UserError(
            f"{path}: there is no checkpoint; expected a directory with {_CHECKPOINT}.index, or the path "
            "of a checkpoint without .index"
        )
    directory = os.path.dirname(prefix) or "."
    if not storage.exists(os.path.join(directory, _CONFIG)):
        raise UserError(f"{directory}: has no {_CONFIG}; put the {_CONFIG} of {os.path.basename(prefix)} there")
    vocabulary = None
    if storage.exists(os.path.join(directory, _VOCABULARY)):
        vocabulary = read_whole(os.path.join(directory, _VOCABULARY), _MAX_VOCABULARY_BYTES, directory)
    check_in_folder(os.path.join(directory, _CONFIG), directory)
    remarks = []
    config = BertConfig.from_json_file(os.path.join(directory, _CONFIG), remarks.append)
    try:
        do_lower_case, reason = casing.from_configuration(directory), "as configured"
    except DataError:
        do_lower_case, reason = _casing_of(vocabulary)
    config = config.replace(do_lower_case=do_lower_case)
    checkpoint = tf_checkpoints.open_checkpoint(prefix)
    if config.num_hidden_layers > len(checkpoint.shapes):
        raise UserError(
            f"{prefix}: does not fit {_CONFIG}: it has only {len(checkpoint.shapes)} tensors, but num_hidden_layers "
            f"is {config.num_hidden_layers:,}"
        )
    tensors, task, unused, unexpected = _tensors(checkpoint, config)
    return Weights(
        config,
        tensors,
        vocabulary,
        task,
        unused=unused,
        unexpected=unexpected,
        origin=f"google_tf1 {prefix} (do_lower_case={str(do_lower_case).lower()}, {reason})",
        says_casing=reason == "as configured",
        # run_classifier.py and run_squad.py build no heads of pre-training.
        absent={part: f"a model of {task} never has one" for part in ("masked_lm", "next_sentence") if task},
        remarks=tuple(remarks),
    )


def write(weights: Weights, directory: str | os.PathLike) -> list[str]:
    """Writes a directory that Google's code can load, completely or not at all.

    The files are for the flags --bert_config_file, --vocab_file and --init_checkpoint of Google's code. If the
    vocabulary does not show do_lower_case, tokenizer_config.json states it. Google's code ignores this file.

    Args:
        weights: Weights. Must have the whole encoder.
        directory: str or os.PathLike. Local directory that does not exist yet or is empty.

    Returns:
        list of str. Lines that say which properties this layout cannot store.

    Raises:
        UserError: The directory exists and is not empty, or Google's code cannot run such a model.
    """
    _check_writable(weights)
    config = weights.config
    values = {key: getattr(config, key) for key in _CONFIG_KEYS} | {"hidden_act": _ACTIVATIONS[config.hidden_act]}
    tensors = _google_tensors(weights)
    files = {_CONFIG: (json.dumps(values, indent=2) + "\n").encode()}
    if weights.vocabulary is not None:
        files[_VOCABULARY] = weights.vocabulary
    if config.do_lower_case != _casing_of(weights.vocabulary)[0]:
        files[_CASING] = (json.dumps({"do_lower_case": config.do_lower_case}) + "\n").encode()
    with directories.written_whole(directory) as temporary:
        for name, content in files.items():
            storage.write_whole(os.path.join(temporary, name), content)
        tf.raw_ops.SaveV2(
            prefix=os.path.join(temporary, _CHECKPOINT),
            tensor_names=list(tensors),
            shape_and_slices=[""] * len(tensors),
            tensors=list(tensors.values()),
        )
    return _not_held(weights)


def _check_writable(weights):
    config = weights.config
    if "masked_lm" in weights.parts() and not config.tie_word_embeddings:
        raise UserError(
            f"{weights.origin}: its masked_lm head has a table of its own; google_tf1 can store only a head that "
            "uses the word embeddings; give --tie_word_embeddings=true"
        )
    if config.hidden_act not in _ACTIVATIONS:
        raise UserError(
            f"{weights.origin}: hidden_act {config.hidden_act!r} is not known to Google's code; expected "
            f"one of {', '.join(_ACTIVATIONS)}"
        )
    if absent := weights.missing(("encoder",)):
        raise UserError(f"{weights.origin}: has no whole encoder: {absent[0]} and {len(absent) - 1} more are missing")


def _google_tensors(weights):
    """Returns the tensors with Google's names and shapes."""
    tensors = {
        google_name(path): tensor
        for path, tensor in split_attention(weights.tensors).items()
        if not path.startswith("classifier/")
    }
    if weights.task in _OUTPUT_LAYERS:
        scope = _OUTPUT_LAYERS[weights.task]
        tensors |= {
            f"{scope}output_weights": weights.tensors["classifier/kernel"],
            f"{scope}output_bias": weights.tensors["classifier/bias"],
        }
    return {name: tensor.T if is_transposed(name) else tensor for name, tensor in tensors.items()}


def _tensors(checkpoint, config):
    """Reads an open checkpoint. Returns (tensors by our paths, task, unused, unexpected)."""
    task = next(
        (
            task
            for task, scope in _OUTPUT_LAYERS.items()
            if len(checkpoint.shapes.get(f"{scope}output_weights", ())) == 2
        ),
        "",
    )
    output_layer = (
        {
            f"{_OUTPUT_LAYERS[task]}output_weights": "classifier/kernel",
            f"{_OUTPUT_LAYERS[task]}output_bias": "classifier/bias",
        }
        if task
        else {}
    )
    tensors, slots, unused, unexpected = {}, [], {}, {}
    for name, shape in checkpoint.shapes.items():
        path, layer = our_path(name)
        path = output_layer.get(name, path)
        if path and layer < config.num_hidden_layers and checkpoint.dtypes[name].is_floating:
            # join_attention needs query, key and value of this size.
            if "/attention/self/" in name and shape != (config.hidden_size,) * (2 if name.endswith("kernel") else 1):
                raise UserError(
                    f"{checkpoint.prefix}: does not fit {_CONFIG}: {name} is {list(shape)}, hidden_size is "
                    f"{config.hidden_size}"
                )
            tensor = checkpoint.tensor(name)
            tensors[path] = np.ascontiguousarray(tensor.T) if is_transposed(name) else tensor
        elif name.rsplit("/", 1)[-1] in _SLOTS:
            slots.append(name.rsplit("/", 1)[-1])
        elif name in _COUNTERS:
            unused[name] = "a counter of the run that wrote the checkpoint"
        else:
            unexpected[name] = shape
    if slots:
        unused[f"{len(slots)} optimizer slots"] = ", ".join(sorted(set(slots)))
    return join_attention(tensors), task, unused, unexpected


def _casing_of(vocabulary):
    """Guesses do_lower_case from the content of vocab.txt. Returns (do_lower_case, reason)."""
    if vocabulary is None:
        return True, f"the default of Google's scripts; there is no {_VOCABULARY}"
    pieces = [piece for piece in parse_vocabulary(vocabulary)[0] if piece is not None]
    for do_lower_case, reason in ((False, "the vocabulary has capitals"), (True, "the vocabulary is lower-cased")):
        try:
            casing.verify(pieces, not do_lower_case, _VOCABULARY)
        except DataError:
            return do_lower_case, reason
    return True, "the default of Google's scripts; the vocabulary does not show it"


def _not_held(weights):
    """Lists the properties of the weights that Google's layout cannot store, one line for each."""
    config, parts = weights.config, weights.parts()
    lines = [
        f"no {part}: the source has none, and Google's code starts it at random"
        for part in config.parts
        if part not in parts and not (weights.task and part in ("masked_lm", "next_sentence"))
    ]
    if config.hidden_act == "gelu_exact":
        lines.append(
            "hidden_act gelu_exact is written as gelu, which means the tanh form in Google's code: the two forms "
            "differ by up to 4.7e-4, and the outputs of a model differ by more"
        )
    if config.layer_norm_eps != _LAYER_NORM_EPS:
        lines.append(f"layer_norm_eps {config.layer_norm_eps} is left out: Google's code has {_LAYER_NORM_EPS}")
    if not config.do_lower_case:
        lines.append(f"{_CONFIG} cannot say that the vocabulary is cased: give Google's scripts --do_lower_case=false")
    if weights.vocabulary is None:
        lines.append(f"no {_VOCABULARY}: the source had none")
    if weights.task and weights.task not in _OUTPUT_LAYERS:
        lines.append(f"classifier is left out: Google's code has no output layer for {weights.task}")
    elif weights.labels:
        lines.append(f"the names of the classifier's outputs are left out: {', '.join(weights.labels)}")
    return lines
