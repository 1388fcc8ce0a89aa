"""Reads and writes the configuration of Model Garden: bert_config.json, or params.yaml of a run."""

import os
from typing import Any

from keras_bert_app.config.bert_config import BertConfig
from keras_bert_app.config.published_keys import MODEL_GARDEN, gelu_remark
from keras_bert_app.errors import UserError
from keras_bert_app.files import read_json, read_whole
from pipelines import storage
from pipelines.data_error import DataError
from pipelines.wordpiece import casing
from pipelines.wordpiece.vocabulary import parse_vocabulary

_JSON, _YAML = "bert_config.json", "params.yaml"
_MAX_BYTES = 1_000_000
_JSON_KEYS = (
    "vocab_size",
    "hidden_size",
    "num_hidden_layers",
    "num_attention_heads",
    "hidden_act",
    "intermediate_size",
    "hidden_dropout_prob",
    "attention_probs_dropout_prob",
    "max_position_embeddings",
    "type_vocab_size",
    "initializer_range",
    "do_lower_case",
)
# Field of encoders.BertEncoderConfig -> key of bert_config.json.
_YAML_KEYS = {
    "num_layers": "num_hidden_layers",
    "hidden_activation": "hidden_act",
    "dropout_rate": "hidden_dropout_prob",
    "attention_dropout_rate": "attention_probs_dropout_prob",
    **{
        key: key
        for key in (
            "vocab_size",
            "hidden_size",
            "num_attention_heads",
            "intermediate_size",
            "max_position_embeddings",
            "type_vocab_size",
            "initializer_range",
        )
    },
}
# Settings that do not change what the encoder computes.
_NEUTRAL = ("return_all_encoder_outputs", "return_attention_scores", "return_word_embeddings")
_ENCODERS = ("bert", "bert_v2")
# Our name -> the name in official/modeling/tf_utils.get_activation, if they differ. Its gelu is the tanh form.
_ACTIVATIONS = {"gelu_tanh": "gelu", "gelu_exact": "gelu", "silu": "swish"}


def read_config(
    directory: str, vocabulary: bytes | None, num_tensors: int
) -> tuple[BertConfig, bool, dict[str, str], tuple[str, ...]]:
    """Reads the configuration in the directory of a checkpoint.

    Args:
        directory: str. Directory of the checkpoint.
        vocabulary: bytes or None. Content of vocab.txt. If no file states do_lower_case, the vocabulary decides it.
        num_tensors: int. Tensors in the checkpoint. The model cannot have more layers.

    Returns:
        Tuple (BertConfig, has_next_sentence, notes, remarks). has_next_sentence: the first classification head is for
        the next sentence. notes: dict of ignored settings with the reasons. remarks: see Weights.

    Raises:
        UserError: The directory has no configuration, or the configuration of another encoder than BERT.
    """
    json_path, yaml_path = os.path.join(directory, _JSON), os.path.join(directory, _YAML)
    has_next_sentence, notes = True, {}
    if storage.exists(json_path):
        path, values = json_path, read_json(json_path, _MAX_BYTES, directory)
        width = values.pop("embedding_size", None)
        values.pop("backward_compatible", None)
        _check_width(path, width, values.get("hidden_size"))
    elif storage.exists(yaml_path):
        path = yaml_path
        values, has_next_sentence, notes = _from_yaml(path)
    else:
        raise UserError(f"{directory}: has no {_JSON} and no {_YAML}; put the configuration of the checkpoint there")
    try:
        config = BertConfig.from_dict(values, MODEL_GARDEN)
    except UserError as error:
        raise UserError(f"{path}: {str(error)[:200]}") from None
    if config.num_hidden_layers > num_tensors:
        raise UserError(
            f"{path}: has {config.num_hidden_layers:,} layers, but the checkpoint only {num_tensors:,} "
            "tensors; put the configuration of this checkpoint there"
        )
    try:
        do_lower_case = casing.from_configuration(directory)
    except DataError:
        do_lower_case = _is_lower_cased(vocabulary)
    remarks = tuple(filter(None, [gelu_remark(values, MODEL_GARDEN)]))
    return config.replace(do_lower_case=do_lower_case), has_next_sentence, notes, remarks


def written_config(config: BertConfig) -> dict[str, Any]:
    """Gives the content of bert_config.json.

    Args:
        config: BertConfig. Configuration of the model.

    Returns:
        dict. It has one additional key, do_lower_case, which Model Garden ignores.
    """
    act = config.hidden_act
    return {key: getattr(config, key) for key in _JSON_KEYS} | {"hidden_act": _ACTIVATIONS.get(act, act)}


def _from_yaml(path):
    """Reads params.yaml. Returns (values by the keys of bert_config.json, has_next_sentence, notes)."""
    import yaml

    try:
        params = yaml.safe_load(read_whole(path, _MAX_BYTES, os.path.dirname(path) or ".").decode("utf-8"))
    except UserError:  # UserError is a ValueError and would match the next clause.
        raise
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise UserError(f"{path}: is not YAML ({type(error).__name__}); fetch it again") from None
    model = _part(path, _part(path, params, "task"), "model")
    encoder = _part(path, model, "encoder")
    kind = encoder.get("type")
    if kind not in _ENCODERS:
        raise UserError(
            f"{path}: its encoder is of type {_scalar(path, 'type', kind)!r}; only {' and '.join(_ENCODERS)} are read"
        )
    settings = {key: _scalar(path, key, value) for key, value in _part(path, encoder, kind).items()}
    _check_width(path, settings.pop("embedding_size", None), settings.get("hidden_size"))
    for key, required in (("norm_first", False), ("output_range", None)):
        if settings.pop(key, required) != required:
            raise UserError(f"{path}: {key} is not {required}; that is another encoder than BERT")
    unknown = settings.keys() - _YAML_KEYS.keys() - set(_NEUTRAL)
    if unknown:
        raise UserError(
            f"{path}: the encoder has the unknown setting {str(min(unknown, key=str))[:80]!r}; expected "
            f"{', '.join(_YAML_KEYS)}"
        )
    values = {_YAML_KEYS[key]: value for key, value in settings.items() if key not in _NEUTRAL}
    notes = {}
    activation = _scalar(path, "mlm_activation", model.get("mlm_activation", values.get("hidden_act")))
    if activation != values.get("hidden_act"):
        notes[f"mlm_activation {str(activation)[:50]} of the masked-LM head"] = "it computes here as the encoder does"
    return values, _has_next_sentence(model.get("cls_heads")), notes


def _has_next_sentence(heads):
    """Checks whether the first classification head is a next-sentence head that computes the same as ours."""
    head = heads[0] if isinstance(heads, list) and heads else {}
    return isinstance(head, dict) and (
        head.get("name", "next_sentence"),
        head.get("activation", "tanh"),
        head.get("cls_token_idx", 0),
    ) == ("next_sentence", "tanh", 0)


def _part(path, values, name):
    part = values.get(name) if isinstance(values, dict) else None
    if not isinstance(part, dict):
        raise UserError(
            f"{path}: has no {name}; expected the parameters of a Model Garden experiment, with task.model.encoder"
        )
    return part


def _scalar(path, key, value):
    """Refuses lists and dicts. With YAML aliases a file of a few bytes can describe a list that fills the memory."""
    if value is not None and not isinstance(value, (str, int, float)):
        raise UserError(f"{path}: {str(key)[:80]!r} is a {type(value).__name__}; expected one value")
    return value


def _check_width(path, width, hidden_size):
    if width not in (None, hidden_size):
        raise UserError(
            f"{path}: embedding_size is {width!r}, hidden_size is {hidden_size!r}; expected equal sizes, as BERT has"
        )


def _is_lower_cased(vocabulary):
    pieces = [piece for piece in parse_vocabulary(vocabulary or b"")[0] if piece is not None]
    try:
        casing.verify(pieces, True, "vocab.txt")
    except DataError:
        return False
    return True
