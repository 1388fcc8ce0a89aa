"""Maps our paths to KerasHub's names.

In KerasHub a tensor has one name in the HDF5 files of a preset, and another name as a variable of an object.

Source: keras_hub 0.32, models/bert and layers/modeling. Dense kernels are [input, output], like ours. The attention
kernels of query, key and value are [H, N, D] with biases [N, D]. The kernel of the output projection is [N, D, H].
"""

import re
from collections.abc import Iterable

from keras_bert_app.config.bert_config import BertConfig
from keras_bert_app.config.weight_shapes import shapes
from keras_bert_app.interop.weights import split_attention

# Our path -> (HDF5 group, owner of the variables). Keras numbers the layers of a class: encoder, encoder_1, ...
_BACKBONE = {
    "encoder/embeddings/word_embeddings": ("reversible_embedding", "token_embedding"),
    "encoder/embeddings/position_embeddings": ("position_embedding", "position_embedding"),
    "encoder/embeddings/token_type_embeddings": ("embedding", "segment_embedding"),
    "encoder/embeddings/layer_norm": ("layer_normalization", "embeddings_layer_norm"),
    "encoder/pooler": ("dense", "pooled_dense"),
}
_LAYER = {
    "attention/query": ("self_attention_layer/query_dense", "self_attention_layer/query"),
    "attention/key": ("self_attention_layer/key_dense", "self_attention_layer/key"),
    "attention/value": ("self_attention_layer/value_dense", "self_attention_layer/value"),
    "attention/output": ("self_attention_layer/output_dense", "self_attention_layer/attention_output"),
    "attention_layer_norm": ("self_attention_layer_norm", "self_attention_layer_norm"),
    "intermediate": ("feedforward_intermediate_dense", "feedforward_intermediate_dense"),
    "output": ("feedforward_output_dense", "feedforward_output_dense"),
    "output_layer_norm": ("feedforward_layer_norm", "feedforward_layer_norm"),
}
_MASKED_LM = {
    "masked_lm/transform": ("masked_lm_head/intermediate_dense", "mlm_head/intermediate_dense"),
    "masked_lm/layer_norm": ("masked_lm_head/intermediate_layer_norm", "mlm_head/intermediate_layer_norm"),
}
_CLASSIFIER = {"classifier": ("dense", "logits")}
# The file numbers the variables of a layer in the order in which the layer creates them.
_NUMBERS = {"kernel": "0", "bias": "1", "gamma": "0", "beta": "1"}
_OUTPUT_BIAS = "masked_lm/output_bias"


def backbone_names(num_layers: int) -> dict[str, tuple[str, str]]:
    """Lists the names of the encoder and the pooler.

    Args:
        num_layers: int. Number of layers of the encoder.

    Returns:
        dict path -> (name in model.weights.h5, path of KerasHub's variable). Query, key and value are separate.
    """
    layers = {
        f"encoder/layer_{i}/{ours}": (
            f"transformer_encoder{f'_{i}' if i else ''}/{group}",
            f"transformer_layer_{i}/{owner}",
        )
        for i in range(num_layers)
        for ours, (group, owner) in _LAYER.items()
    }
    paths = split_attention(shapes(BertConfig(num_hidden_layers=num_layers), ("encoder", "pooler")))
    return _named(paths, {**_BACKBONE, **layers})


def masked_lm_names() -> dict[str, tuple[str, str]]:
    """Lists the names of BertMaskedLM's head.

    Returns:
        dict path -> (name in task.weights.h5, path of KerasHub's variable).
    """
    return {
        _OUTPUT_BIAS: ("layers/masked_lm_head/vars/0", "mlm_head/output_bias"),
        **_named([path for path in shapes(BertConfig(), ("masked_lm",)) if path != _OUTPUT_BIAS], _MASKED_LM),
    }


def classifier_names() -> dict[str, tuple[str, str]]:
    """Lists the names of BertTextClassifier's output layer.

    Returns:
        dict path -> (name in task.weights.h5, path of KerasHub's variable).
    """
    return _named(["classifier/kernel", "classifier/bias"], _CLASSIFIER)


def plain_name(name: str) -> str:
    """Brings a name into the form that is the same for all versions of Keras.

    Some versions write `_query_dense`, others `query_dense`. Keras 2.13 has another name for the group of all layers.

    Args:
        name: str. Name in an HDF5 file.

    Returns:
        str. The name as the newest version writes it.
    """
    return re.sub(r"(^|/)_+", r"\1", re.sub(r"(^|/)_layer_checkpoint_dependencies[/\\]", r"\1layers/", name))


def _named(paths: Iterable[str], owners: dict[str, tuple[str, str]]) -> dict[str, tuple[str, str]]:
    names = {}
    for path in paths:
        if path in owners:  # An embedding layer has one variable, "embeddings".
            group, owner = owners[path]
            names[path] = f"layers/{group}/vars/0", f"{owner}/embeddings"
        else:
            ours, part = path.rsplit("/", 1)
            group, owner = owners[ours]
            names[path] = f"layers/{group}/vars/{_NUMBERS[part]}", f"{owner}/{part}"
    return names
