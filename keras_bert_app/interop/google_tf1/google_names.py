"""Maps the tensor names of google-research/bert to our paths and back.

The names are those of modeling.py and run_pretraining.py.
"""

import re

from keras_bert_app.config.bert_config import BertConfig
from keras_bert_app.config.weight_shapes import shapes
from keras_bert_app.interop.weights import split_attention

# Our path -> Google's name, for each owner of a kernel, bias, gamma or beta.
_OWNERS = {
    "encoder/embeddings/layer_norm": "bert/embeddings/LayerNorm",
    "encoder/layer_0/attention/query": "bert/encoder/layer_0/attention/self/query",
    "encoder/layer_0/attention/key": "bert/encoder/layer_0/attention/self/key",
    "encoder/layer_0/attention/value": "bert/encoder/layer_0/attention/self/value",
    "encoder/layer_0/attention/output": "bert/encoder/layer_0/attention/output/dense",
    "encoder/layer_0/attention_layer_norm": "bert/encoder/layer_0/attention/output/LayerNorm",
    "encoder/layer_0/intermediate": "bert/encoder/layer_0/intermediate/dense",
    "encoder/layer_0/output": "bert/encoder/layer_0/output/dense",
    "encoder/layer_0/output_layer_norm": "bert/encoder/layer_0/output/LayerNorm",
    "encoder/pooler": "bert/pooler/dense",
    "masked_lm/transform": "cls/predictions/transform/dense",
    "masked_lm/layer_norm": "cls/predictions/transform/LayerNorm",
}
_SINGLE = {
    "encoder/embeddings/word_embeddings": "bert/embeddings/word_embeddings",
    "encoder/embeddings/position_embeddings": "bert/embeddings/position_embeddings",
    "encoder/embeddings/token_type_embeddings": "bert/embeddings/token_type_embeddings",
    "masked_lm/output_bias": "cls/predictions/output_bias",
    "next_sentence/projection/kernel": "cls/seq_relationship/output_weights",
    "next_sentence/projection/bias": "cls/seq_relationship/output_bias",
}
_LAYER = re.compile(r"(?<=/layer_)(0|[1-9][0-9]*)(?=/)")


def google_name(path: str) -> str:
    """Gives Google's name of a tensor.

    Args:
        path: str. Our path. Query, key and value are separate.

    Returns:
        str. The name in Google's checkpoints.

    Raises:
        KeyError: Google's checkpoints have no such tensor.
    """
    if path in _SINGLE:
        return _SINGLE[path]
    layer = _LAYER.search(path)
    owner, part = _LAYER.sub("0", path).rsplit("/", 1)
    name = f"{_OWNERS[owner]}/{part}"
    return _LAYER.sub(layer[0], name) if layer else name


_PATHS = {google_name(path): path for path in split_attention(shapes(BertConfig(num_hidden_layers=1)))}


def our_path(name: str) -> tuple[str | None, int]:
    """Gives our path of one of Google's names.

    Args:
        name: str. Name in a checkpoint.

    Returns:
        Tuple (path, index of the layer). The path is None if BERT has no such tensor. Outside of layers the index is 0.
    """
    layer = _LAYER.search(name)
    path = _PATHS.get(_LAYER.sub("0", name))
    return (_LAYER.sub(layer[0], path), int(layer[0])) if path and layer else (path, 0)


def is_transposed(name: str) -> bool:
    """Checks whether a tensor is [output, input] in Google's checkpoints and [input, output] here.

    Args:
        name: str. Google's name.

    Returns:
        bool. True for the kernel of an output layer.
    """
    return name.endswith("output_weights")
