"""Names of tensors in google-research/bert's checkpoints: modeling.py, run_pretraining.py."""

import re

from keras_bert_app.config.bert_config import BertConfig
from keras_bert_app.interop.weights import shapes, split_attention

# Ours -> Google's, of whatever has a kernel, a bias, a gamma or a beta.
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


def google_name(path):
    """Google's name of a tensor of ours, query, key and value apart.

    Raises:
        KeyError: it has none.
    """
    if path in _SINGLE:
        return _SINGLE[path]
    layer = _LAYER.search(path)
    owner, part = _LAYER.sub("0", path).rsplit("/", 1)
    name = f"{_OWNERS[owner]}/{part}"
    return _LAYER.sub(layer[0], name) if layer else name


_PATHS = {google_name(path): path for path in split_attention(shapes(BertConfig(num_hidden_layers=1)))}


def our_path(name):
    """(path, index of its layer) of a name of Google's; the path of a name that is none of BERT's is None."""
    layer = _LAYER.search(name)
    path = _PATHS.get(_LAYER.sub("0", name))
    return (_LAYER.sub(layer[0], path), int(layer[0])) if path and layer else (path, 0)


def is_transposed(name):
    """Whether a tensor is [output, input] at Google's and [input, output] here: an output layer's."""
    return name.endswith("output_weights")
