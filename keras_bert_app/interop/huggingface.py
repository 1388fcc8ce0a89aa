"""Hugging Face's BertForPreTraining tensors into a BertPretrainer.

torch stores dense kernels as [output, input]; ours are [input, output], with query, key and value side by side.
"""

import numpy as np

from keras_bert_app.errors import UserError


def load_tensors(model, tensors):
    """Copies every tensor of a BertForPreTraining state dict into the model's weights.

    Args:
        model: BertPretrainer. tensors: dict name -> numpy array, as BertForPreTraining.state_dict() names them.

    Raises:
        UserError: a tensor is missing or of another shape; every such one is listed: name, expected, found.
    """
    wanted, faults = {}, []
    for variable in model.weights:
        try:
            value = _tensor_for(variable.path, tensors)
        except KeyError as error:
            faults.append(f"{error.args[0]} is missing")
            continue
        if value.shape != tuple(variable.shape):
            faults.append(f"{variable.path} expects {tuple(variable.shape)}, found {value.shape}")
        wanted[variable.path] = value
    if faults:
        raise UserError("the tensors do not fit this config: " + "; ".join(faults))
    for variable in model.weights:
        variable.assign(wanted[variable.path])


_NAMES = {
    "encoder/embeddings/word_embeddings": "bert.embeddings.word_embeddings.weight",
    "encoder/embeddings/position_embeddings": "bert.embeddings.position_embeddings.weight",
    "encoder/embeddings/token_type_embeddings": "bert.embeddings.token_type_embeddings.weight",
    "encoder/embeddings/layer_norm": "bert.embeddings.LayerNorm",
    "encoder/pooler": "bert.pooler.dense",
    "masked_lm/transform": "cls.predictions.transform.dense",
    "masked_lm/layer_norm": "cls.predictions.transform.LayerNorm",
    "masked_lm/output_bias": "cls.predictions.bias",
    "next_sentence/projection": "cls.seq_relationship",
}
_LAYER_NAMES = {
    "attention/output": "attention.output.dense",
    "attention_layer_norm": "attention.output.LayerNorm",
    "intermediate": "intermediate.dense",
    "output": "output.dense",
    "output_layer_norm": "output.LayerNorm",
}
_PARTS = {"gamma": "weight", "beta": "bias", "kernel": "weight", "bias": "bias"}


def _tensor_for(path, tensors):
    path = path.removeprefix("bert/")
    if path in _NAMES:
        return tensors[_NAMES[path]]
    owner, part = path.rsplit("/", 1)
    if owner in _NAMES:
        names = [_NAMES[owner]]
    else:
        layer, inner = owner.removeprefix("encoder/").split("/", 1)
        prefix = f"bert.encoder.layer.{layer.removeprefix('layer_')}"
        if inner == "attention/query_key_value":
            names = [f"{prefix}.attention.self.{name}" for name in ("query", "key", "value")]
        else:
            names = [f"{prefix}.{_LAYER_NAMES[inner]}"]
    values = [tensors[f"{name}.{_PARTS[part]}"] for name in names]
    return np.concatenate([value.T for value in values] if part == "kernel" else values, axis=-1)
