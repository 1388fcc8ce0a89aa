"""Changes to a BERT's shape that keep what can be kept bit for bit: positions, layers, heads, tables, parts.

Every function, and vocabulary_surgery's, takes Weights and gives (new Weights, one line for the user), and changes nothing
in what it was given.
"""

import collections
import dataclasses
import re

import numpy as np

from keras_bert_app.errors import UserError
from keras_bert_app.interop.weights import PARTS, POOLED_TASKS, part_of

_WORD_TABLE = "encoder/embeddings/word_embeddings"
_POSITION_TABLE = "encoder/embeddings/position_embeddings"
_OUTPUT_TABLE = "masked_lm/output_embeddings"


def grow_positions(weights, num_positions):
    """Weights for longer sequences, or for shorter ones.

    The learned rows stay; beyond them they are copied over and over, row p from row p modulo their number (Beltagy et
    al. 2020, Longformer, section 5), so that neighbours stand to each other as learned everywhere but at the seams.

    Args:
        num_positions: the new max_position_embeddings; a smaller one cuts the table.

    Raises:
        UserError: it is no number of positions.
    """
    if num_positions < 1:
        raise UserError(f"{num_positions} is no number of positions; give 1 or more")
    table = weights.tensors[_POSITION_TABLE]
    before = len(table)
    line = f"positions {before:,} -> {num_positions:,}: "
    if num_positions > before:
        line += f"the rows from {before:,} on are copies of the first {before:,}, in turn; train before relying on them"
    elif num_positions < before:
        line += f"{before - num_positions:,} rows cut"
    else:
        line += "as they were"
    tensors = {**weights.tensors, _POSITION_TABLE: table[np.arange(num_positions) % before]}
    return weights.changed(tensors, max_position_embeddings=num_positions), line


def keep_layers(weights, indices):
    """Weights of some layers of a model, numbered anew; with every other one DistilBERT starts (Sanh et al. 2019).

    Args:
        indices: of the layers that stay, from 0, ascending.

    Raises:
        UserError: an index is out of range, or they do not ascend.
    """
    indices, layers = list(indices), weights.config.num_hidden_layers
    if not indices or indices != sorted(set(indices)) or indices[0] < 0 or indices[-1] >= layers:
        shown = ",".join(map(str, indices)) or "nothing"
        raise UserError(
            f"layers to keep: {shown}; expected ascending numbers from 0 to {layers - 1}, such as "
            f"{','.join(map(str, range(0, layers, 2)))}"
        )
    return _with_layers(weights, indices)


def lowest_layers(weights, count):
    """Weights of the lowest layers alone; of none the embeddings are left.

    Raises:
        UserError: the model has fewer.
    """
    layers = weights.config.num_hidden_layers
    if count > layers:
        raise UserError(f"--encoder_layers={count}: {weights.origin} has {layers}; give so many at most")
    return _with_layers(weights, list(range(count)))


def _with_layers(weights, indices):
    layers, tensors = weights.config.num_hidden_layers, {}
    for path, tensor in weights.tensors.items():
        layer = re.match(r"encoder/layer_(\d+)/", path)
        if not layer:
            tensors[path] = tensor
        elif int(layer[1]) in indices:
            tensors[f"encoder/layer_{indices.index(int(layer[1]))}/{path[layer.end() :]}"] = tensor
    line = f"layers {layers} -> {len(indices)}: kept {', '.join(map(str, indices)) or 'none'}"
    counts = weights.config.num_heads_by_layer and tuple(weights.config.num_heads_by_layer[index] for index in indices)
    return weights.changed(tensors, num_hidden_layers=len(indices), num_heads_by_layer=counts), line


def prune_heads(weights, heads):
    """Weights without some attention heads: what those with a gate of 0 compute, in less memory and time (Michel et al. 2019,
    Are Sixteen Heads Really Better than One?).

    Args:
        heads: dict layer -> numbers of the heads that go, both from 0; of a pruned model the heads that are left are
            numbered.

    Raises:
        UserError: there is no such layer or head, or a layer would have none left.
    """
    config, tensors = weights.config, dict(weights.tensors)
    counts = list(config.head_counts)
    for layer, pruned in heads.items():
        if not 0 <= layer < len(counts):
            raise UserError(f"heads to prune: there is no layer {layer}; expected 0 to {len(counts) - 1}")
        if wrong := sorted(head for head in pruned if not 0 <= head < counts[layer]):
            raise UserError(f"heads to prune: layer {layer} has no head {wrong[0]}; expected 0 to {counts[layer] - 1}")
        kept = [head for head in range(counts[layer]) if head not in pruned]
        if not kept:
            raise UserError(
                f"heads to prune: layer {layer} would have none left of {counts[layer]}; leave it one at least"
            )
        attention = f"encoder/layer_{layer}/attention"
        for path in (f"{attention}/query_key_value/kernel", f"{attention}/query_key_value/bias"):
            # [..., 3 x N x D]
            by_head = tensors[path].reshape(-1, 3, counts[layer], config.head_size)[:, :, kept]
            tensors[path] = by_head.reshape(*tensors[path].shape[:-1], -1)
        path = f"{attention}/output/kernel"
        by_head = tensors[path].reshape(counts[layer], config.head_size, -1)[kept]
        tensors[path] = by_head.reshape(-1, config.hidden_size)
        counts[layer] = len(kept)
    line = f"heads {sum(config.head_counts)} -> {sum(counts)}: by layer {', '.join(map(str, counts))}"
    return weights.changed(tensors, num_heads_by_layer=tuple(counts)), line


def untie(weights):
    """Weights whose masked-LM head has a table of its own, to begin with a copy of the word embeddings.

    Raises:
        UserError: there is no masked-LM head, or it has its own table.
    """
    _check_head(weights, is_tied=True)
    tensors = {**weights.tensors, _OUTPUT_TABLE: weights.tensors[_WORD_TABLE].copy()}
    line = f"untied: {_OUTPUT_TABLE} is a copy of {_WORD_TABLE}"
    return weights.changed(tensors, tie_word_embeddings=False), line


def tie(weights, kept=""):
    """Weights whose masked-LM head multiplies with the word embeddings.

    Args:
        kept: where the two tables differ, which one stays for both: "word_embeddings" or "output_embeddings".

    Raises:
        UserError: the tables differ and kept does not say which stays, there is no masked-LM head, or it is tied.
    """
    tables = {"word_embeddings": _WORD_TABLE, "output_embeddings": _OUTPUT_TABLE}
    if kept not in ("", *tables):
        raise UserError(f"the table to keep is {kept!r}; expected one of {', '.join(tables)}")
    _check_head(weights, is_tied=False)
    words, outputs = weights.tensors[_WORD_TABLE], weights.tensors[_OUTPUT_TABLE]
    are_equal = np.array_equal(words, outputs)
    if not are_equal and not kept:
        raise UserError(
            f"{weights.origin}: {_OUTPUT_TABLE} differs from {_WORD_TABLE} by up to "
            f"{np.abs(words - outputs).max():.2g}, and a tied head has one; say which is kept: "
            f"{' or '.join(tables)}"
        )
    tensors = {**weights.tensors, _WORD_TABLE: weights.tensors[tables[kept or "word_embeddings"]]}
    del tensors[_OUTPUT_TABLE]
    line = "tied: both tables were the same" if are_equal else f"tied: {tables[kept]} kept, the other dropped"
    return weights.changed(tensors, tie_word_embeddings=True), line


def _check_head(weights, is_tied):
    if "masked_lm" not in weights.parts():
        raise UserError(f"{weights.origin}: has no masked_lm head, which alone could be tied or untied")
    if weights.config.tie_word_embeddings != is_tied:
        raise UserError(f"{weights.origin}: its masked_lm head is {'untied' if is_tied else 'tied'} as it is")


def drop_parts(weights, parts):
    """Weights without some parts: "pooler", "masked_lm", "next_sentence" or "classifier".

    Raises:
        UserError: a part that cannot be dropped, or one that a remaining part stands on.
    """
    droppable = (*PARTS[1:], "classifier")
    for part in parts:
        if part not in droppable:
            raise UserError(f"part {part!r} cannot be dropped; expected some of {', '.join(droppable)}")
    counts = collections.Counter(map(part_of, weights.tensors))
    standing = ["next_sentence", *(["classifier"] if weights.task in POOLED_TASKS else [])]
    for part in standing:
        if "pooler" in parts and part not in parts and counts[part]:
            raise UserError(f"pooler cannot be dropped alone: {part} stands on it; drop {part} too")
    tensors = {path: tensor for path, tensor in weights.tensors.items() if part_of(path) not in parts}
    line = "dropped: " + ", ".join(
        f"{part} ({counts[part]} tensors)" if counts[part] else f"{part} (there was none)" for part in parts
    )
    if "masked_lm" in parts:  # and with it a table of its own
        weights = dataclasses.replace(weights, config=weights.config.replace(tie_word_embeddings=True))
    if "classifier" in parts:
        weights = dataclasses.replace(weights, task="", labels=())
    return weights.changed(tensors), line
