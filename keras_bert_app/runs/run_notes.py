"""Checks the keys of config.json that are not keys of the model.

The check is strict, because the work directory may come from a stranger.
"""

import math
from collections.abc import Callable, Mapping
from typing import Any

from keras_bert_app.errors import UserError

_MOST_OUTPUTS = 1_000_000  # limit of a head; more outputs would only exhaust the memory
_SHOWN = 60  # number of characters of a wrong value that a message shows


def check(path: str, values: Mapping[str, Any]) -> None:
    """Checks that the values of config.json have the types that a run writes.

    Readers of config.json then need no checks of their own.

    Args:
        path: the file, for the message.
        values: its content.

    Raises:
        UserError: the message names the first wrong key, its value and the expected value.
    """
    for name, (is_right, expected) in _NOTES.items():
        if name in values and not is_right(values[name]):
            raise UserError(f"{path}: {name} is {repr(values[name])[:_SHOWN]}; expected {expected}")
    if "head" in values:
        _check_head(path, values["head"])


def _check_head(path, head):
    fields = _DECODER if "decoder" in head else _VECTOR_HEAD if "vector_pooling" in head else _HEAD
    for name, (is_right, expected) in fields.items():
        if not is_right(head.get(name, _ABSENT.get(name))):
            raise UserError(f"{path}: {name} of the head is {repr(head.get(name))[:_SHOWN]}; expected {expected}")
    if unknown := sorted(head.keys() - fields.keys()):
        raise UserError(f"{path}: the head has the unknown key {unknown[0][:_SHOWN]!r}; expected {', '.join(fields)}")


def _is_text(value):
    return isinstance(value, str)


def _is_table(value):
    return isinstance(value, dict)


def _are_texts(value):
    return isinstance(value, list) and all(map(_is_text, value))


def _are_labels(value):
    return (
        isinstance(value, dict) and value.keys() == set(map(str, range(len(value)))) and _are_texts([*value.values()])
    )


def _is_finite(value):
    return type(value) in (int, float) and math.isfinite(value)


def _is_whole(low: int, high: int) -> tuple[Callable[[Any], bool], str]:
    return lambda value: type(value) is int and low <= value <= high, f"a whole number from {low} to {high:,}"


def _is_one_of(*names: str) -> tuple[Callable[[Any], bool], str]:
    return lambda value: value in names, f"one of {', '.join(map(repr, names))}"


_TABLE, _TEXT, _TEXTS = (_is_table, "an object"), (_is_text, "a text"), (_are_texts, "a list of texts")
# Key of config.json -> (function that says whether a value is valid, description of valid values).
_NOTES = {
    "vocab_sha256": _TEXT,
    "pretraining": _TABLE,
    "finetuning": _TABLE,
    "examples_sha256": _TABLE,
    "head": _TABLE,
    "labels": _TEXTS,
    "inputs": _TEXTS,
    "teachers": _TEXTS,
    "init_vectors": _TABLE,
    "id2label": (_are_labels, "an object whose keys are the numbers from 0 and whose values are texts"),
    "task": _TEXT,
    "problem_type": _TEXT,
    "converted_from": _TEXT,
    "pruned_from": _TEXT,
}
# Fields of modeling.task_head.Head. _ABSENT has the values of the fields that config.json may lack.
_HEAD = {
    "stands_on": _is_one_of("text", "choices", "tokens"),
    "num_outputs": _is_whole(1, _MOST_OUTPUTS),
    "layers": _is_one_of("last", "last_four", "scalar_mix"),
    "pooling": _is_one_of("cls", "mean", "max", "concat", "last", "concat_last"),
    "windows": _is_one_of("", "logits", "lstm"),
    "bilstm_units": _is_whole(0, 100_000),
    "dropout": (lambda value: _is_finite(value) and 0 <= value < 1, "a number from 0 to below 1"),
    "scale": (_is_finite, "a finite number"),
    "offset": (_is_finite, "a finite number"),
    "context_units": _is_whole(0, 100_000),
    "token_vector_size": _is_whole(0, 100_000),
    "states_at": _is_one_of("input", "output", "both"),
    "has_layer_norm": (lambda value: type(value) is bool, "true or false"),
    "has_crf": (lambda value: type(value) is bool, "true or false"),
}
# Fields of modeling.text_to_text_model.Decoder.
_DECODER = {
    "decoder": _is_one_of("transformer", "rnn_state", "rnn_context", "rnn_feedback"),
    "num_layers": _is_whole(0, 1_000),
    "shares": _is_one_of("nothing", "embeddings", "all"),
    "begin_id": _is_whole(0, _MOST_OUTPUTS),
    "end_id": _is_whole(0, _MOST_OUTPUTS),
    "never_ids": (
        lambda value: isinstance(value, list) and all(type(each) is int and each >= 0 for each in value),
        "a list of whole numbers",
    ),
    "num_pieces": _is_whole(0, _MOST_OUTPUTS),
    "vocab_size": _is_whole(0, _MOST_OUTPUTS),
    "vocab_sha256": (lambda value: isinstance(value, str), "text"),
    "attention": _is_one_of("none", "additive", "dot"),
    "context": _is_one_of("last", "projection", "mean"),
    "bilstm_units": _is_whole(0, 100_000),
    "recurrent_encoder": _is_one_of("lstm", "gru"),
}
# Fields of modeling.vector_model.VectorHead.
_VECTOR_HEAD = {"vector_pooling": _is_one_of("cls", "mean", "max")}
_ABSENT = {
    "layers": "last",
    "pooling": "cls",
    "windows": "",
    "bilstm_units": 0,
    "dropout": 0.1,
    "scale": 1.0,
    "offset": 0.0,
    "context_units": 0,
    "token_vector_size": 0,
    "states_at": "input",
    "has_layer_norm": False,
    "has_crf": False,
    "num_pieces": 0,
    "vocab_size": 0,
    "vocab_sha256": "",
    "attention": "none",
    "context": "last",
    "recurrent_encoder": "lstm",
}
