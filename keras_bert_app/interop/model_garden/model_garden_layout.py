"""TensorFlow Model Garden's layout: an object-based checkpoint, bert_config.json or params.yaml, and vocab.txt.

What the checkpoints hold is in model_garden_names.py. Written is a tree of plain variables under the attribute names of
Model Garden's objects, each under all the names that those of any of its encoders may ask for.
"""

import json
import os

import numpy as np
import tensorflow as tf

from keras_bert_app.errors import UserError
from keras_bert_app.interop import attention_heads, directories, tf_checkpoints
from keras_bert_app.interop.model_garden.model_garden_config import read_config, written_config
from keras_bert_app.interop.model_garden.model_garden_names import (
    MASKED_LM,
    NEXT_SENTENCE,
    encoder_attributes,
    numbered_layers,
    path_finder,
)
from keras_bert_app.interop.weights import Weights, join_attention, split_attention
from pipelines.wordpiece.vocabulary import read_bytes

_CONFIG, _VOCABULARY, _CHECKPOINT = "bert_config.json", "vocab.txt", "bert_model.ckpt"
_OBJECT_GRAPH = "_CHECKPOINTABLE_OBJECT_GRAPH"
_SLOT = "/.OPTIMIZER_SLOT/"
_OF_TRAINING = ("optimizer", "save_counter", "global_step")
_LAYER_NORM_EPS = 1e-12
# Under one name each in every layout, so that they tell a BERT encoder.
_SURELY_THERE = {"encoder/embeddings/layer_norm/gamma", "encoder/layer_0/intermediate/kernel"}


def recognizes(path):
    """Whether a path is a sound checkpoint with a BERT encoder of Model Garden's, or a directory of one."""
    try:
        prefix = tf_checkpoints.find_prefix(path)
        names = tf_checkpoints.tensor_names(prefix) if prefix else ()
    except UserError:
        return False  # google_tf1 answers for what cannot be read
    find = path_finder(num_layers=1)
    found = {find(name)[0] for name in names if find(name)}
    return _OBJECT_GRAPH in names and _SURELY_THERE <= found


def read(path):
    """A checkpoint of Model Garden's as Weights; tensors of another float type become float32.

    Where there is a next-sentence head, the pooler read is that head's own, since only that one was trained.

    Args:
        path: a directory, or a checkpoint's prefix with its configuration and vocab.txt beside it. Of the
            checkpoints of one run the newest is read.

    Raises:
        UserError: a file is missing or damaged, there are several checkpoints, or the encoder is none of BERT's.
    """
    prefix = tf_checkpoints.find_prefix(path)
    if prefix is None:
        raise UserError(
            f"{path}: there is no checkpoint; expected a directory with {_CHECKPOINT}.index, or the path "
            "of a checkpoint without .index"
        )
    directory = os.path.dirname(prefix) or "."
    vocabulary = None
    if tf.io.gfile.exists(os.path.join(directory, _VOCABULARY)):
        vocabulary = read_bytes(os.path.join(directory, _VOCABULARY))
    checkpoint = tf_checkpoints.open_checkpoint(prefix)
    config, has_next_sentence, notes = read_config(directory, vocabulary, len(checkpoint.shapes))
    tensors, unused, unexpected = _tensors(checkpoint, config, has_next_sentence)
    if "next_sentence/projection/kernel" in tensors:
        notes["the order of the next-sentence labels"] = (
            "taken for google-research/bert's, 0 = next; Model Garden's loader of plain text has it in reverse"
        )
    return Weights(
        config, tensors, vocabulary, unused={**unused, **notes}, unexpected=unexpected, origin=f"model_garden {prefix}"
    )


def write(weights, directory):
    """Writes bert_config.json, vocab.txt and bert_model.ckpt, whole or not at all.

    It is what tf.train.Checkpoint(encoder=...), (model=...) and (**pretrainer.checkpoint_items) restore, with
    assert_existing_objects_matched: BertEncoder or BertEncoderV2 alone, or in a BertPretrainerV2 whose one
    classification head is next_sentence.

    Returns:
        lines that say what this layout cannot hold.

    Raises:
        UserError: the directory is there and not empty.
    """
    with directories.written_whole(directory) as temporary:
        with open(os.path.join(temporary, _CONFIG), "w", encoding="utf-8") as file:
            file.write(json.dumps(written_config(weights.config), indent=2) + "\n")
        if weights.vocabulary is not None:
            with open(os.path.join(temporary, _VOCABULARY), "wb") as file:
                file.write(weights.vocabulary)
        checkpoint = _checkpoint(weights)
        checkpoint.save_counter.assign(1)  # restore() asks for it
        checkpoint.write(os.path.join(temporary, _CHECKPOINT))
    return _not_held(weights)


def _tensors(checkpoint, config, has_next_sentence):
    """(tensors by our paths, unused, unexpected) of an open checkpoint."""
    find = path_finder(config.num_hidden_layers, has_next_sentence)
    tensors, unused, unexpected, places, slots = {}, {}, {}, {}, 0
    for key, shape in checkpoint.shapes.items():
        found = find(key) if checkpoint.dtypes[key].is_floating else None
        if _SLOT in key:
            slots += 1
        elif key.removeprefix("model/").split("/")[0] in _OF_TRAINING:
            unused[key.removeprefix("model/").split("/")[0]] = "belongs to the run that made it"
        elif found:
            places.setdefault(found[0], []).append((not found[1], key))
        elif key != _OBJECT_GRAPH:
            unexpected[key] = shape
    for path, keys in places.items():
        (_, best), *others = sorted(keys)
        tensor = checkpoint.tensor(best)
        tensors[path] = attention_heads.without_heads(f"{checkpoint.prefix}: {best}", path, tensor, config)
        for _, key in others:
            if np.array_equal(checkpoint.tensor(key), tensor):
                continue
            if path.startswith("encoder/pooler/"):
                unused[key] = "the next-sentence head's own pooler is read, since only that one was trained"
            else:
                unexpected[key] = checkpoint.shapes[key]
    if slots:
        unused[f"{slots} optimizer slots"] = "belong to the run that made it"
    return join_attention(tensors), unused, unexpected


def _checkpoint(weights):
    """A tf.train.Checkpoint over variables with these weights."""
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
        # The head's pooler is an object of its own in Model Garden, and no variable restores two.
        head = _objects(NEXT_SENTENCE, {path: tf.Variable(variables[path]) for path in NEXT_SENTENCE})
        model.classification_heads = [head]
        children["next_sentence.pooler_dense"] = head.dense
    return tf.train.Checkpoint(**children)


def _objects(attributes, variables):
    """Objects that hold variables (dict by path) under these attributes (dict by path), as far as they are there."""
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
    """Nested dicts as objects that a checkpoint follows: modules, or lists where the names are numbers."""
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
    """Lines about what was in the weights and is not in the checkpoint, or not the same to Model Garden."""
    config, parts, lines = weights.config, weights.parts(), []
    if config.hidden_act == "gelu_exact":
        lines.append(
            "BEWARE: hidden_act gelu_exact is written as gelu, which is the tanh form to Model Garden: its "
            "outputs will differ from this model's, by up to 4.7e-4 in each activation and the more the "
            "deeper it is"
        )
    if config.layer_norm_eps != _LAYER_NORM_EPS:
        lines.append(
            f"BEWARE: layer_norm_eps {config.layer_norm_eps} is left out: Model Garden computes "
            f"{_LAYER_NORM_EPS}, so its outputs will differ from this model's"
        )
    if "masked_lm" in parts and not _has_masked_lm(weights):
        lines.append("masked_lm is left out: Model Garden's head has no table of its own: tie it first")
    if "next_sentence" in parts and "pooler" not in parts:
        lines.append("next_sentence is left out: there is no pooler for its head")
    if "pooler" not in parts:
        lines.append("there is no pooler: restore with expect_partial() instead of assert_existing_objects_matched()")
    if weights.task:
        lines.append(f"classifier is left out ({weights.task}): only encoder and pre-training heads are written")
    if weights.vocabulary is None:
        lines.append(f"no {_VOCABULARY}: the source had none")
    return lines
