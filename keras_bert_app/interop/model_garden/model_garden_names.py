"""Maps our paths to the keys of TensorFlow Model Garden's object-based checkpoints.

Source: official/nlp of tf-models-official 2.20.0 (modeling/networks/bert_encoder.py, models/bert_pretrainer.py,
layers/masked_lm.py, cls_head.py), and checkpoints that it saved. The key of a tensor is a shortest path of attributes
to its variable. The key thus depends on the other objects in the checkpoint:
- The encoder is the root's `encoder`, `model` or `model/encoder_network`. A shared embedding table may have the key of
  the masked-LM head.
- BertEncoder is a functional model, and its layers have numbers. The layers of BertEncoderV2 have attribute names.
- In checkpoints of 2020 the attention's output projection is one level higher. An example is the released uncased
  BERT-base.
"""

import re
from collections.abc import Callable

from keras_bert_app.config.bert_config import BertConfig
from keras_bert_app.config.weight_shapes import shapes
from keras_bert_app.interop.weights import split_attention

_SUFFIX = "/.ATTRIBUTES/VARIABLE_VALUE"
_OWNERS = {
    "encoder/embeddings/layer_norm": "_embedding_norm_layer",
    "encoder/pooler": "_pooler_layer",
}
_TABLES = {
    "encoder/embeddings/word_embeddings": "_embedding_layer",
    "encoder/embeddings/position_embeddings": "_position_embedding_layer",
    "encoder/embeddings/token_type_embeddings": "_type_embedding_layer",
}
_LAYER_OWNERS = {
    "attention/query": "_attention_layer/_query_dense",
    "attention/key": "_attention_layer/_key_dense",
    "attention/value": "_attention_layer/_value_dense",
    "attention/output": "_attention_layer/_output_dense",
    "attention_layer_norm": "_attention_layer_norm",
    "intermediate": "_intermediate_dense",
    "output": "_output_dense",
    "output_layer_norm": "_output_layer_norm",
}
_EMBEDDINGS = ("_embedding_layer", "_position_embedding_layer", "_type_embedding_layer", "_embedding_norm_layer")
# Our path -> attributes of layers.MaskedLM. A checkpoint writes "/" within a name as ".S".
MASKED_LM = {
    "masked_lm/transform/kernel": "dense/kernel",
    "masked_lm/transform/bias": "dense/bias",
    "masked_lm/layer_norm/gamma": "layer_norm/gamma",
    "masked_lm/layer_norm/beta": "layer_norm/beta",
    "masked_lm/output_bias": "output_bias.Sbias",
    "encoder/embeddings/word_embeddings": "embedding_table",
}
# Our path -> attributes of layers.ClassificationHead, which has its own pooler.
NEXT_SENTENCE = {
    "encoder/pooler/kernel": "dense/kernel",
    "encoder/pooler/bias": "dense/bias",
    "next_sentence/projection/kernel": "out_proj/kernel",
    "next_sentence/projection/bias": "out_proj/bias",
}
_MASKED_LM_PATHS = {name: path for path, name in MASKED_LM.items()} | {"bias": "masked_lm/output_bias"}
_NEXT_SENTENCE_PATHS = {name: path for path, name in NEXT_SENTENCE.items()}


def encoder_attributes(num_layers: int) -> dict[str, str]:
    """Lists the attributes of BertEncoderV2 that lead to its variables.

    Args:
        num_layers: int. Number of layers of the encoder.

    Returns:
        dict path -> attributes, joined by "/". Query, key and value are separate.
    """
    attributes = {}
    for path in split_attention(shapes(BertConfig(num_hidden_layers=num_layers), ("encoder", "pooler"))):
        owner, part = path.rsplit("/", 1)
        layer = re.fullmatch(r"encoder/layer_([0-9]+)/(.*)", owner)
        if path in _TABLES:
            attributes[path] = f"{_TABLES[path]}/embeddings"
        elif layer:
            attributes[path] = f"_transformer_layers/{layer[1]}/{_LAYER_OWNERS[layer[2]]}/{part}"
        else:
            attributes[path] = f"{_OWNERS[owner]}/{part}"
    return attributes


def numbered_layers(num_layers: int) -> tuple[str, ...]:
    """Lists the attributes of BertEncoderV2's layers in the order in which BertEncoder numbers them.

    Args:
        num_layers: int. Number of layers of the encoder.

    Returns:
        tuple of str. Item i is the layer with number i.
    """
    return (*_EMBEDDINGS, *(f"_transformer_layers/{i}" for i in range(num_layers)), "_pooler_layer")


def path_finder(num_layers: int, has_next_sentence: bool = True) -> Callable[[str], tuple[str, bool] | None]:
    """Makes a function that maps a key of a checkpoint to our path.

    Args:
        num_layers: int. Number of layers of the encoder.
        has_next_sentence: bool. Whether the first classification head is for the next sentence.

    Returns:
        Function of a key. It returns (path, whether the next-sentence head owns the variable), or None for an unknown
        key.
    """
    paths_in_encoder = {attributes: path for path, attributes in encoder_attributes(num_layers).items()}
    numbered = numbered_layers(num_layers)

    def find(key):
        if not key.endswith(_SUFFIX):
            return None
        name = key.removesuffix(_SUFFIX).removeprefix("model/")
        head = re.fullmatch(r"(?:classification_heads/0/|next_sentence\.\.pooler_(?=dense/))(.*)", name)
        if head:
            path = _NEXT_SENTENCE_PATHS.get(head[1]) if has_next_sentence else None
        elif name.startswith("masked_lm/"):
            path = _MASKED_LM_PATHS.get(name.removeprefix("masked_lm/"))
        else:
            name = re.sub(r"^(encoder_network|encoder)/", "", name)
            number = re.match(r"layer_with_weights-([0-9]{1,5})(?=/)", name)
            if number and int(number[1]) < len(numbered):
                name = numbered[int(number[1])] + name[number.end() :]
            path = paths_in_encoder.get(name.replace("/_attention_output_dense/", "/_attention_layer/_output_dense/"))
        return path and (path, bool(head))

    return find
