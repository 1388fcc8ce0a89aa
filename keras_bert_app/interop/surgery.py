"""Changes the shape of a BERT: positions, layers, heads, tables and parts.

Remaining values are the same bit for bit. Every function, also in vocabulary_surgery, takes Weights and returns (new
Weights, one line for the user). The given Weights are not changed.
"""

import collections
import dataclasses
import re
from collections.abc import Collection, Iterable, Mapping

import numpy as np

from keras_bert_app.config.bert_config import PARTS
from keras_bert_app.config.weight_shapes import part_of
from keras_bert_app.errors import UserError
from keras_bert_app.interop.weights import POOLED_TASKS, Weights

_WORD_TABLE = "encoder/embeddings/word_embeddings"
_POSITION_TABLE = "encoder/embeddings/position_embeddings"
# Architecture -> the head that predicts pieces, which may have its own table.
_HEADS = {"bert": "masked_lm", "gpt": "language_model", "lstm_lm": "language_model"}


def grow_positions(weights: Weights, num_positions: int) -> tuple[Weights, str]:
    """Changes the number of positions, for longer or shorter sequences.

    The learned rows are unchanged. Each new row p is a copy of row (p modulo the number of learned rows), as in Beltagy
    et al. 2020, Longformer, section 5. Neighbouring rows thus keep their learned relation, except at the start of a
    copy.

    Args:
        weights: Weights. Weights of any model.
        num_positions: int. The new max_position_embeddings. A smaller number cuts the table.

    Returns:
        Tuple (Weights, line for the user).

    Raises:
        UserError: num_positions is less than 1.
    """
    if num_positions < 1:
        raise UserError(f"{num_positions} is not a number of positions; give 1 or more")
    if weights.config.architecture == "lstm_lm":
        line = (
            f"positions {weights.config.max_position_embeddings:,} -> {num_positions:,}: an LSTM has no table of them"
        )
        return weights.changed(weights.tensors, max_position_embeddings=num_positions), line
    table = weights.tensors[_POSITION_TABLE]
    num_learned = len(table)
    line = f"positions {num_learned:,} -> {num_positions:,}: "
    if num_positions > num_learned:
        line += (
            f"the rows from {num_learned:,} on are copies of the first {num_learned:,}, in the same order; "
            "train the model before you use the new positions"
        )
    elif num_positions < num_learned:
        line += f"{num_learned - num_positions:,} rows cut"
    else:
        line += "unchanged"
    tensors = {**weights.tensors, _POSITION_TABLE: table[np.arange(num_positions) % num_learned]}
    return weights.changed(tensors, max_position_embeddings=num_positions), line


def keep_layers(weights: Weights, indices: Iterable[int]) -> tuple[Weights, str]:
    """Keeps some layers and numbers them again from 0.

    DistilBERT starts from every second layer of BERT (Sanh et al. 2019).

    Args:
        weights: Weights. Weights of any model.
        indices: iterable of int. Ascending numbers of the layers to keep. The first layer has number 0.

    Returns:
        Tuple (Weights, line for the user).

    Raises:
        UserError: An index is out of range, or the indices do not ascend.
    """
    indices, layers = list(indices), weights.config.num_hidden_layers
    if not indices or indices != sorted(set(indices)) or indices[0] < 0 or indices[-1] >= layers:
        shown = ",".join(map(str, indices)) or "nothing"
        raise UserError(
            f"layers to keep: {shown}; expected ascending numbers from 0 to {layers - 1}, such as "
            f"{','.join(map(str, range(0, layers, 2)))}"
        )
    return _with_layers(weights, indices)


def lowest_layers(weights: Weights, count: int) -> tuple[Weights, str]:
    """Keeps the lowest layers.

    Args:
        weights: Weights. Weights of any model.
        count: int. Number of layers to keep. With 0 only the embeddings remain of the encoder.

    Returns:
        Tuple (Weights, line for the user).

    Raises:
        UserError: The model has fewer layers.
    """
    layers = weights.config.num_hidden_layers
    if count > layers:
        raise UserError(f"--encoder_layers={count}: {weights.origin} has {layers}; give at most that many")
    return _with_layers(weights, list(range(count)))


def _with_layers(weights, indices):
    layers, tensors = weights.config.num_hidden_layers, {}
    if not weights.config.has_equal_layers and len(indices) < layers:
        raise UserError(
            f"{weights.origin}: its LSTM layers have different widths, so none can be left out; keep all {layers}"
        )
    for path, tensor in weights.tensors.items():
        layer = re.match(r"encoder/layer_(\d+)/", path)
        if not layer:
            tensors[path] = tensor
        elif int(layer[1]) in indices:
            tensors[f"encoder/layer_{indices.index(int(layer[1]))}/{path[layer.end() :]}"] = tensor
    line = f"layers {layers} -> {len(indices)}: kept {', '.join(map(str, indices)) or 'none'}"
    counts = weights.config.num_heads_by_layer and tuple(weights.config.num_heads_by_layer[index] for index in indices)
    return weights.changed(tensors, num_hidden_layers=len(indices), num_heads_by_layer=counts), line


def prune_heads(weights: Weights, heads: Mapping[int, Collection[int]]) -> tuple[Weights, str]:
    """Removes attention heads (Michel et al. 2019, Are Sixteen Heads Really Better than One?).

    The pruned model computes the same as the whole model with gates of 0 on these heads, in less memory and time.

    Args:
        weights: Weights. Weights of any model.
        heads: dict layer -> collection of int. Numbers of the heads to remove. Layers and heads count from 0. In a
            pruned model the numbers count only the remaining heads.

    Returns:
        Tuple (Weights, line for the user).

    Raises:
        UserError: A layer or head does not exist, or a layer would have no head left.
    """
    config, tensors = weights.config, dict(weights.tensors)
    if config.architecture == "lstm_lm":
        raise UserError(f"{weights.origin}: is an LSTM, which has no attention heads to prune; give a bert or a gpt")
    counts = list(config.head_counts)
    for layer, pruned in heads.items():
        if not 0 <= layer < len(counts):
            raise UserError(f"heads to prune: there is no layer {layer}; expected 0 to {len(counts) - 1}")
        if wrong := sorted(head for head in pruned if not 0 <= head < counts[layer]):
            raise UserError(f"heads to prune: layer {layer} has no head {wrong[0]}; expected 0 to {counts[layer] - 1}")
        kept = [head for head in range(counts[layer]) if head not in pruned]
        if not kept:
            raise UserError(
                f"heads to prune: layer {layer} would have none left of {counts[layer]}; keep at least one head"
            )
        attention = f"encoder/layer_{layer}/attention"
        for path in (f"{attention}/query_key_value/kernel", f"{attention}/query_key_value/bias"):
            # [..., 3 * N * D] -> [..., 3, number of kept heads, D]
            by_head = tensors[path].reshape(-1, 3, counts[layer], config.head_size)[:, :, kept]
            tensors[path] = by_head.reshape(*tensors[path].shape[:-1], -1)
        path = f"{attention}/output/kernel"
        by_head = tensors[path].reshape(counts[layer], config.head_size, -1)[kept]
        tensors[path] = by_head.reshape(-1, config.hidden_size)
        counts[layer] = len(kept)
    line = f"heads {sum(config.head_counts)} -> {sum(counts)}: by layer {', '.join(map(str, counts))}"
    return weights.changed(tensors, num_heads_by_layer=tuple(counts)), line


def untie(weights: Weights) -> tuple[Weights, str]:
    """Gives the masked-LM head its own table, a copy of the word embeddings.

    Args:
        weights: Weights. Weights with a tied masked-LM head.

    Returns:
        Tuple (Weights, line for the user).

    Raises:
        UserError: The model has no masked-LM head, or the head has its own table already.
    """
    output_table = _checked_output_table(weights, is_tied=True)
    tensors = {**weights.tensors, output_table: weights.tensors[_WORD_TABLE].copy()}
    line = f"untied: {output_table} is a copy of {_WORD_TABLE}"
    return weights.changed(tensors, tie_word_embeddings=False), line


def tie(weights: Weights, kept: str = "") -> tuple[Weights, str]:
    """Makes the masked-LM head use the table of the word embeddings.

    Args:
        weights: Weights. Weights with an untied masked-LM head.
        kept: str. The table that serves both purposes if the two differ: "word_embeddings" or "output_embeddings".

    Returns:
        Tuple (Weights, line for the user).

    Raises:
        UserError: The tables differ and `kept` is empty, the model has no masked-LM head, or the head is tied already.
    """
    if kept not in ("", "word_embeddings", "output_embeddings"):
        raise UserError(f"the table to keep is {kept!r}; expected one of word_embeddings, output_embeddings")
    output_table = _checked_output_table(weights, is_tied=False)
    tables = {"word_embeddings": _WORD_TABLE, "output_embeddings": output_table}
    words, outputs = weights.tensors[_WORD_TABLE], weights.tensors[output_table]
    are_equal = np.array_equal(words, outputs)
    if not are_equal and not kept:
        raise UserError(
            f"{weights.origin}: {output_table} differs from {_WORD_TABLE} by up to "
            f"{np.abs(words - outputs).max():.2g}, and a tied head has only one table; choose the table to keep: "
            f"{' or '.join(tables)}"
        )
    tensors = {**weights.tensors, _WORD_TABLE: weights.tensors[tables[kept or "word_embeddings"]]}
    del tensors[output_table]
    line = "tied: both tables were the same" if are_equal else f"tied: {tables[kept]} kept, the other dropped"
    return weights.changed(tensors, tie_word_embeddings=True), line


def _checked_output_table(weights, is_tied):
    """Checks the head that predicts pieces. Returns the path of its own table."""
    head = _HEADS[weights.config.architecture]
    if head not in weights.parts():
        raise UserError(f"{weights.origin}: has no {head} head to tie or untie")
    if getattr(weights.config, "character_filters", ()):
        raise UserError(f"{weights.origin}: makes its vectors of characters, so it has no table to tie or untie")
    if weights.config.token_vectors:
        raise UserError(
            f"{weights.origin}: its {head} head multiplies with vectors that also come from a file, so it has no table "
            "to tie or untie"
        )
    if weights.config.tie_word_embeddings != is_tied:
        raise UserError(f"{weights.origin}: its {head} head is already {'untied' if is_tied else 'tied'}")
    return f"{head}/output_embeddings"


def drop_parts(weights: Weights, parts: Collection[str]) -> tuple[Weights, str]:
    """Removes some parts.

    Args:
        weights: Weights. Weights of any model.
        parts: collection of str. Some of "pooler", "masked_lm", "next_sentence", "language_model" and "classifier".

    Returns:
        Tuple (Weights, line for the user).

    Raises:
        UserError: A part cannot be dropped, or a remaining part needs it.
    """
    droppable = (*PARTS[1:], "classifier")
    for part in parts:
        if part not in droppable:
            raise UserError(f"part {part!r} cannot be dropped; expected some of {', '.join(droppable)}")
    counts = collections.Counter(map(part_of, weights.tensors))
    users_of_pooler = ["next_sentence", *(["classifier"] if weights.task in POOLED_TASKS else [])]
    for part in users_of_pooler:
        if "pooler" in parts and part not in parts and counts[part]:
            raise UserError(f"pooler cannot be dropped alone: {part} reads its output; drop {part} too")
    tensors = {path: tensor for path, tensor in weights.tensors.items() if part_of(path) not in parts}
    line = "dropped: " + ", ".join(
        f"{part} ({counts[part]} tensors)" if counts[part] else f"{part} (there was none)" for part in parts
    )
    if _HEADS[weights.config.architecture] in parts:  # The separate table of an untied head is dropped too.
        weights = dataclasses.replace(weights, config=weights.config.replace(tie_word_embeddings=True))
    if "classifier" in parts:
        weights = dataclasses.replace(weights, task="", labels=())
    return weights.changed(tensors), line
