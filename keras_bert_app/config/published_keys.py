"""Keys of bert_config.json and config.json: which library wrote a file, and what its values mean.

The module does not load TensorFlow.
"""

from collections.abc import Mapping
from typing import Any

# "gelu" alone is ambiguous: in google-research/bert it is the tanh form, at Hugging Face the exact form (erf).
ACTIVATIONS = ("gelu_exact", "gelu_tanh", "relu", "silu", "tanh")
_ALIASES = {
    "gelu_python": "gelu_exact",
    "gelu_new": "gelu_tanh",
    "gelu_pytorch_tanh": "gelu_tanh",
    "swish": "silu",
}
WRITTEN_ACTIVATIONS = {"gelu_exact": "gelu", "gelu_tanh": "gelu_new"}

# Layouts of model files. The layout decides which form of gelu the name "gelu" means.
GOOGLE, HUGGINGFACE, MODEL_GARDEN = "google_tf1", "huggingface", "model_garden"
GOOGLE_FILE = "bert_config.json"
_FORMS = {
    GOOGLE: ("gelu_tanh", "Google's tanh form"),
    HUGGINGFACE: ("gelu_exact", "Hugging Face's exact form"),
    MODEL_GARDEN: ("gelu_tanh", "Google's tanh form"),
}

# Hugging Face's library writes at least one of these keys. Google's code writes none of them.
_HUGGINGFACE_ONLY_KEYS = frozenset(
    (
        "model_type",
        "architectures",
        "transformers_version",
        "layer_norm_eps",
        "torch_dtype",
        "dtype",
        "output_past",
        "torchscript",
        "position_embedding_type",
        "gradient_checkpointing",
    )
)

# Keys that do not change the outputs of an encoder. The reader drops them.
IGNORED_KEYS = _HUGGINGFACE_ONLY_KEYS - {"layer_norm_eps"} | frozenset(
    (
        "pad_token_id",
        "bos_token_id",
        "eos_token_id",
        "sep_token_id",
        "use_cache",
        "classifier_dropout",
        "output_attentions",
        "output_hidden_states",
        "pruned_heads",
        "use_bfloat16",
        "return_dict",
        "id2label",
        "label2id",
        "num_labels",
        "directionality",
        "pooler_fc_size",
        "pooler_num_attention_heads",
        "pooler_num_fc_layers",
        "pooler_size_per_head",
        "pooler_type",
        "problem_type",
        "finetuning_task",
        "_name_or_path",
        "attn_implementation",
        "_attn_implementation",
        "chunk_size_feed_forward",
        "is_encoder_decoder",
        "tie_encoder_decoder",
        "pretraining",
        "vocab_sha256",
        "target_vocab_sha256",
        "examples_sha256",
        "teachers",
        "init_vectors",
        "converted_from",
        "pruned_from",
        "task",
        "finetuning",
        "head",
        "labels",
        "inputs",
    )
)

# Keys that must have exactly this value. Any other value describes another architecture.
REQUIRED_VALUES = {
    "position_embedding_type": "absolute",
    "is_decoder": False,
    "add_cross_attention": False,
}


def activation(name: str, layout: str) -> str:
    """One of ACTIVATIONS for the name in a file; an unknown name stays the same.

    Args:
        name: the value of hidden_act.
        layout: GOOGLE, HUGGINGFACE or MODEL_GARDEN. It decides what "gelu" means.
    """
    if name == "gelu":
        return _FORMS[layout][0]
    return _ALIASES.get(name, name)


def gelu_remark(values: Mapping[str, Any], layout: str = "") -> str:
    """A line that says which form of gelu from_dict takes, and why.

    Args:
        values: the content of bert_config.json or config.json.
        layout: see from_dict.

    Returns:
        str: the line; "" if the values name another activation.
    """
    if values.get("hidden_act", "gelu") != "gelu":
        return ""
    keys = sorted(_HUGGINGFACE_ONLY_KEYS & values.keys())
    act, form = _FORMS[layout or layout_by_keys(values)]
    if not layout:
        reason = f"as its key {keys[0]!r} says" if keys else "since no key is from Hugging Face's library"
    else:
        reason = f"as in every model of layout {layout}"
        if layout != HUGGINGFACE and keys:
            reason += f"; its key {keys[0]!r} changes nothing"
    return f"hidden_act gelu is {act}, {form}, {reason}"


def layout_by_keys(values: Mapping[str, Any]) -> str:
    """GOOGLE or HUGGINGFACE, by the keys that only one of them writes.

    Args:
        values: the content of bert_config.json or config.json.
    """
    return HUGGINGFACE if _HUGGINGFACE_ONLY_KEYS & values.keys() else GOOGLE
