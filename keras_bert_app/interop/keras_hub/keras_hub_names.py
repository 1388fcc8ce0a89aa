"""Where a BERT's tensors stand in KerasHub: in the HDF5 files of a preset, and among the variables of its objects.

Read from keras_hub 0.32, models/bert and layers/modeling. Dense kernels are [input, output] as here; of the attention
query, key and value are [H, N, D] with biases [N, D], the output projection is [N, D, H].
"""

import re

from keras_bert_app.config.bert_config import BertConfig
from keras_bert_app.interop.weights import shapes, split_attention

# Ours -> (HDF5 group, owner of the variables). Keras counts the layers of a class from none on: encoder, encoder_1.
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
# The order in which each kind of layer makes its variables is their number in the file.
_NUMBERS = {"kernel": "0", "bias": "1", "gamma": "0", "beta": "1"}
_OUTPUT_BIAS = "masked_lm/output_bias"


def backbone_names(num_layers):
    """dict path -> (name in model.weights.h5, path of the variable) of encoder and pooler; query, key, value apart."""
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


def masked_lm_names():
    """As backbone_names, of BertMaskedLM's head in task.weights.h5."""
    return {
        _OUTPUT_BIAS: ("layers/masked_lm_head/vars/0", "mlm_head/output_bias"),
        **_named([path for path in shapes(BertConfig(), ("masked_lm",)) if path != _OUTPUT_BIAS], _MASKED_LM),
    }


def classifier_names():
    """As backbone_names, of BertTextClassifier's output layer in task.weights.h5."""
    return _named(["classifier/kernel", "classifier/bias"], _CLASSIFIER)


def plain_name(name):
    """A name in a file without what differs between versions of Keras: `_query_dense` or `query_dense`, and the group of all
    layers, which Keras 2.13 called otherwise."""
    return re.sub(r"(^|/)_+", r"\1", re.sub(r"(^|/)_layer_checkpoint_dependencies[/\\]", r"\1layers/", name))


def _named(paths, owners):
    found = {}
    for path in paths:
        if path in owners:  # an embedding: one table, called embeddings
            group, owner = owners[path]
            found[path] = f"layers/{group}/vars/0", f"{owner}/embeddings"
        else:
            ours, part = path.rsplit("/", 1)
            group, owner = owners[ours]
            found[path] = f"layers/{group}/vars/{_NUMBERS[part]}", f"{owner}/{part}"
    return found
