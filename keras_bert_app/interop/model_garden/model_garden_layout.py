"""Reads and writes TensorFlow Model Garden's layout.

A directory has a checkpoint, bert_config.json or params.yaml, and vocab.txt. The checkpoints are object-based.
model_garden_names.py describes their keys. The writer saves a tree of plain variables with the attribute names of Model
Garden's objects. Each variable has the names of both encoder classes.
"""

import json
import os

import numpy as np
import tensorflow as tf

from keras_bert_app.errors import UserError
from keras_bert_app.files import read_whole
from keras_bert_app.interop import attention_heads, directories
from keras_bert_app.interop.model_garden.model_garden_config import read_config, written_config
from keras_bert_app.interop.model_garden.model_garden_names import (
    MASKED_LM,
    NEXT_SENTENCE,
    encoder_attributes,
    numbered_layers,
    path_finder,
)
from keras_bert_app.interop.weights import Weights, join_attention, split_attention
from keras_bert_app.runs import tf_checkpoints
from pipelines import storage

_CONFIG, _VOCABULARY, _CHECKPOINT = "bert_config.json", "vocab.txt", "bert_model.ckpt"
_MAX_VOCABULARY_BYTES = 100_000_000
_OBJECT_GRAPH = "_CHECKPOINTABLE_OBJECT_GRAPH"
_SLOT = "/.OPTIMIZER_SLOT/"
_TRAINING_STATE = ("optimizer", "save_counter", "global_step")
_LAYER_NORM_EPS = 1e-12
# These paths have the same names in all versions, so they identify a BERT encoder.
_ENCODER_PATHS = {"encoder/embeddings/layer_norm/gamma", "encoder/layer_0/intermediate/kernel"}


def recognizes(path: str | os.PathLike) -> bool:
    """Checks whether a path is Model Garden's checkpoint with a BERT encoder, or a directory with one.

    Args:
        path: str or os.PathLike. Checkpoint prefix or directory, local or remote.

    Returns:
        bool. False for a checkpoint with a damaged index.
    """
    try:
        prefix = tf_checkpoints.find_prefix(path)
        names = tf_checkpoints.tensor_names(prefix) if prefix else ()
    except UserError:
        return False  # google_layout recognizes unreadable checkpoints, and its read() names the fault.
    find = path_finder(num_layers=1)
    paths = {find(name)[0] for name in names if find(name)}
    return _OBJECT_GRAPH in names and _ENCODER_PATHS <= paths


def read(path: str | os.PathLike) -> Weights:
    """Reads Model Garden's checkpoint. Converts tensors of any float type to float32.

    A next-sentence head has its own pooler. If the checkpoint has such a head, the reader takes the head's pooler,
    because training changes only that pooler.

    Args:
        path: str or os.PathLike. Directory, or checkpoint prefix with the configuration and vocab.txt beside it. If a
            directory has several checkpoints of one run, the newest is read.

    Returns:
        Weights. Tensors are float32.

    Raises:
        UserError: A file is missing or damaged, the path has several checkpoints, or the encoder is not BERT's.
    """
    prefix = tf_checkpoints.find_prefix(path)
    if prefix is None:
        raise UserError(
            f"{path}: there is no checkpoint; expected a directory with {_CHECKPOINT}.index, or the path "
            "of a checkpoint without .index"
        )
    directory = os.path.dirname(prefix) or "."
    vocabulary = None
    if storage.exists(os.path.join(directory, _VOCABULARY)):
        vocabulary = read_whole(os.path.join(directory, _VOCABULARY), _MAX_VOCABULARY_BYTES, directory)
    checkpoint = tf_checkpoints.open_checkpoint(prefix)
    config, has_next_sentence, notes, remarks = read_config(directory, vocabulary, len(checkpoint.shapes))
    tensors, unused, unexpected = _tensors(checkpoint, config, has_next_sentence)
    if "next_sentence/projection/kernel" in tensors:
        notes["the order of the next-sentence labels"] = (
            "assumed as in google-research/bert, 0 = next; Model Garden's loader of plain text uses 1 = next"
        )
    return Weights(
        config,
        tensors,
        vocabulary,
        unused={**unused, **notes},
        unexpected=unexpected,
        origin=f"model_garden {prefix}",
        remarks=remarks,
    )


def write(weights: Weights, directory: str | os.PathLike) -> list[str]:
    """Writes bert_config.json, vocab.txt and bert_model.ckpt, completely or not at all.

    tf.train.Checkpoint(encoder=...), (model=...) and (**pretrainer.checkpoint_items) can restore the checkpoint with
    assert_existing_objects_matched. The objects may be BertEncoder or BertEncoderV2, alone or in a BertPretrainerV2
    with next_sentence as its only classification head.

    Args:
        weights: Weights. Must have the whole encoder.
        directory: str or os.PathLike. Local directory that does not exist yet or is empty.

    Returns:
        list of str. Lines that say which properties this layout cannot store.

    Raises:
        UserError: The directory exists and is not empty.
    """
    with directories.written_whole(directory) as temporary:
        storage.write_whole(
            os.path.join(temporary, _CONFIG), json.dumps(written_config(weights.config), indent=2) + "\n"
        )
        if weights.vocabulary is not None:
            storage.write_whole(os.path.join(temporary, _VOCABULARY), weights.vocabulary)
        checkpoint = _checkpoint(weights)
        checkpoint.save_counter.assign(1)  # restore() expects this variable.
        checkpoint.write(os.path.join(temporary, _CHECKPOINT))
    return _not_held(weights)


def _tensors(checkpoint, config, has_next_sentence):
    """Reads an open checkpoint. Returns (tensors by our paths, unused, unexpected)."""
    find = path_finder(config.num_hidden_layers, has_next_sentence)
    tensors, unused, unexpected, keys_by_path, num_slots = {}, {}, {}, {}, 0
    for key, shape in checkpoint.shapes.items():
        match = find(key) if checkpoint.dtypes[key].is_floating else None
        if _SLOT in key:
            num_slots += 1
        elif key.removeprefix("model/").split("/")[0] in _TRAINING_STATE:
            unused[key.removeprefix("model/").split("/")[0]] = "belongs to the run that made it"
        elif match:
            path, is_in_next_sentence = match
            keys_by_path.setdefault(path, []).append((not is_in_next_sentence, key))
        elif key != _OBJECT_GRAPH:
            unexpected[key] = shape
    for path, keys in keys_by_path.items():
        (_, first), *others = sorted(keys)  # The variable of the next-sentence head sorts first.
        tensor = checkpoint.tensor(first)
        tensors[path] = attention_heads.without_heads(f"{checkpoint.prefix}: {first}", path, tensor, config)
        for _, key in others:
            if np.array_equal(checkpoint.tensor(key), tensor):
                continue
            if path.startswith("encoder/pooler/"):
                unused[key] = "the pooler of the next-sentence head is read, because training changed only that pooler"
            else:
                unexpected[key] = checkpoint.shapes[key]
    if num_slots:
        unused[f"{num_slots} optimizer slots"] = "belong to the run that made it"
    return join_attention(tensors), unused, unexpected


def _checkpoint(weights):
    """Builds a tf.train.Checkpoint of variables with these weights."""
    config, parts = weights.config, weights.parts()
    variables = {
        path: tf.Variable(attention_heads.with_heads(path, tensor, config))
        for path, tensor in split_attention(weights.tensors).items()
        if not path.startswith("classifier/")
    }
    encoder = _objects(encoder_attributes(config.num_hidden_layers), variables)
    for number, attributes in enumerate(numbered_layers(config.num_hidden_layers)):
        node = encoder
        for name in attributes.split("/"):
            node = node[int(name)] if name.isdigit() else getattr(node, name, None)
        if node is not None:
            setattr(encoder, f"layer_with_weights-{number}", node)
    model = tf.Module()
    model.encoder_network = encoder
    children = {"model": model, "encoder": encoder}
    if _has_masked_lm(weights):
        children["masked_lm"] = model.masked_lm = _objects(MASKED_LM, variables)
    if "next_sentence" in parts and "pooler" in parts:
        # Model Garden's head has its own pooler. One variable cannot restore two poolers, so the head gets a copy.
        head = _objects(NEXT_SENTENCE, {path: tf.Variable(variables[path]) for path in NEXT_SENTENCE})
        model.classification_heads = [head]
        children["next_sentence.pooler_dense"] = head.dense
    return tf.train.Checkpoint(**children)


def _objects(attributes, variables):
    """Builds a tree of objects with these variables. Both arguments are dicts by path. Variables may be missing."""
    root = {}
    for path, names in attributes.items():
        if path in variables:
            *owners, last = names.split("/")
            nodes = root
            for owner in owners:
                nodes = nodes.setdefault(owner, {})
            nodes[last.replace(".S", "/")] = variables[path]
    return _tracked(root)


def _tracked(nodes):
    """Turns nested dicts into objects that a checkpoint tracks: modules, or lists if the names are numbers."""
    if not isinstance(nodes, dict):
        return nodes
    if all(name.isdigit() for name in nodes):
        return [_tracked(nodes[str(number)]) for number in range(len(nodes))]
    module = tf.Module()
    for name, node in nodes.items():
        setattr(module, name, _tracked(node))
    return module


def _has_masked_lm(weights):
    return "masked_lm" in weights.parts() and weights.config.tie_word_embeddings


def _not_held(weights):
    """Lists properties of the weights that the checkpoint lacks or that Model Garden computes differently."""
    config, parts, lines = weights.config, weights.parts(), []
    if config.hidden_act == "gelu_exact":
        lines.append(
            "WARNING: hidden_act gelu_exact is written as gelu, which is the tanh form in Model Garden: its "
            "outputs will differ from this model's, by up to 4.7e-4 in each activation and more with each layer"
        )
    if config.layer_norm_eps != _LAYER_NORM_EPS:
        lines.append(
            f"WARNING: layer_norm_eps {config.layer_norm_eps} is left out: Model Garden computes "
            f"{_LAYER_NORM_EPS}, so its outputs will differ from this model's"
        )
    if "masked_lm" in parts and not _has_masked_lm(weights):
        lines.append(
            "masked_lm is left out: Model Garden's head has no table of its own; give --tie_word_embeddings=true"
        )
    if "next_sentence" in parts and "pooler" not in parts:
        lines.append("next_sentence is left out: there is no pooler for its head")
    if "pooler" not in parts:
        lines.append("there is no pooler: restore with expect_partial() instead of assert_existing_objects_matched()")
    if weights.task:
        lines.append(f"classifier is left out ({weights.task}): only encoder and pre-training heads are written")
    if weights.vocabulary is None:
        lines.append(f"no {_VOCABULARY}: the source had none")
    return lines
