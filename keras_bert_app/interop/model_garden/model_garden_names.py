"""Where a BERT's tensors stand in TensorFlow Model Garden's object-based checkpoints.

Read from official/nlp of tf-models-official 2.20.0 (modeling/networks/bert_encoder.py, models/bert_pretrainer.py,
layers/masked_lm.py, cls_head.py) and from checkpoints that it saves. A tensor's key is a shortest path of attributes
that leads to it, so it depends on what else was saved:
- the encoder is at the root's `encoder`, `model` or `model/encoder_network`; a shared embedding table may be the
  masked-LM head's;
- in BertEncoder, a functional model, layers go by number; in BertEncoderV2 by attribute;
- checkpoints of 2020, the released uncased BERT-base among them, have the attention's output projection one level
  higher.
"""

import re

from keras_bert_app.config.bert_config import BertConfig
from keras_bert_app.interop.weights import shapes, split_attention

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
# Attributes of layers.MaskedLM; "/" within a name is written ".S".
MASKED_LM = {
    "masked_lm/transform/kernel": "dense/kernel",
    "masked_lm/transform/bias": "dense/bias",
    "masked_lm/layer_norm/gamma": "layer_norm/gamma",
    "masked_lm/layer_norm/beta": "layer_norm/beta",
    "masked_lm/output_bias": "output_bias.Sbias",
    "encoder/embeddings/word_embeddings": "embedding_table",
}
# Attributes of layers.ClassificationHead, whose pooler is its own.
NEXT_SENTENCE = {
    "encoder/pooler/kernel": "dense/kernel",
    "encoder/pooler/bias": "dense/bias",
    "next_sentence/projection/kernel": "out_proj/kernel",
    "next_sentence/projection/bias": "out_proj/bias",
}
_MASKED_LM_PATHS = {name: path for path, name in MASKED_LM.items()} | {"bias": "masked_lm/output_bias"}
_NEXT_SENTENCE_PATHS = {name: path for path, name in NEXT_SENTENCE.items()}


def encoder_attributes(num_layers):
    """dict path -> attributes of BertEncoderV2 that lead to its variable; query, key and value apart."""
    found = {}
    for path in split_attention(shapes(BertConfig(num_hidden_layers=num_layers), ("encoder", "pooler"))):
        owner, part = path.rsplit("/", 1)
        layer = re.fullmatch(r"encoder/layer_([0-9]+)/(.*)", owner)
        if path in _TABLES:
            found[path] = f"{_TABLES[path]}/embeddings"
        elif layer:
            found[path] = f"_transformer_layers/{layer[1]}/{_LAYER_OWNERS[layer[2]]}/{part}"
        else:
            found[path] = f"{_OWNERS[owner]}/{part}"
    return found


def numbered_layers(num_layers):
    """The attributes of BertEncoderV2's layers in the order in which BertEncoder numbers them."""
    return (*_EMBEDDINGS, *(f"_transformer_layers/{i}" for i in range(num_layers)), "_pooler_layer")


def path_finder(num_layers, has_next_sentence=True):
    """A function that gives what a key stands for: (path, whether the next-sentence head holds it), or None.

    Args:
        num_layers: of the encoder. has_next_sentence: whether the first classification head is for the next sentence.
    """
    encoder = {attributes: path for path, attributes in encoder_attributes(num_layers).items()}
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
            path = encoder.get(name.replace("/_attention_output_dense/", "/_attention_layer/_output_dense/"))
        return path and (path, bool(head))

    return find
