"""Builds KerasHub objects from our weights, and lists the properties that such objects cannot store."""

import numpy as np

from keras_bert_app.config.weight_shapes import part_of
from keras_bert_app.errors import UserError
from keras_bert_app.interop.keras_hub.keras_hub_names import backbone_names, classifier_names, masked_lm_names
from keras_bert_app.interop.weights import Weights, split_attention
from pipelines.wordpiece.vocabulary import parse_vocabulary

# Argument of BertBackbone -> field of BertConfig.
ARGUMENTS = {
    "vocabulary_size": "vocab_size",
    "num_layers": "num_hidden_layers",
    "num_heads": "num_attention_heads",
    "hidden_dim": "hidden_size",
    "intermediate_dim": "intermediate_size",
    "max_sequence_length": "max_position_embeddings",
    "num_segments": "type_vocab_size",
}
# Constants of BertBackbone and MaskedLMHead, which no preset can change.
BACKBONE_COMPUTES = {"hidden_act": "gelu_tanh", "layer_norm_eps": 1e-12}
HEAD_COMPUTES = {"hidden_act": "gelu_exact", "layer_norm_eps": 1e-5}
_INITIALIZER_RANGE = 0.02  # The constant of bert_kernel_initializer.
_MASK_SELECTION_LENGTH = 96  # The default of BertMaskedLMPreprocessor. It must not exceed the sequence length.


def build_model(weights: Weights):
    """Builds the KerasHub object that fits the parts of the weights, with these weights.

    Args:
        weights: Weights. Must have the whole encoder. A missing pooler becomes zeros.

    Returns:
        keras_hub.models.BertTextClassifier, BertMaskedLM or BertBackbone.

    Raises:
        UserError: BertBackbone cannot compute such a model, or KerasHub cannot use the vocabulary.
    """
    if weights.config.hidden_act not in (BACKBONE_COMPUTES["hidden_act"], HEAD_COMPUTES["hidden_act"]):
        raise UserError(
            f"{weights.origin}: hidden_act {weights.config.hidden_act!r} is not BertBackbone's, which is "
            f"{BACKBONE_COMPUTES['hidden_act']}; the model cannot become a KerasHub preset"
        )
    model = _model(weights)
    names = {**backbone_names(weights.config.num_hidden_layers), **masked_lm_names(), **classifier_names()}
    paths = {variable: path for path, (_, variable) in names.items()}
    tensors = split_attention(weights.tensors)
    for variable in model.weights:
        path = paths[variable.path]
        if path in tensors:
            variable.assign(tensors[path].reshape(variable.shape))
        elif part_of(path) == "pooler":
            variable.assign(np.zeros(variable.shape, np.float32))
        else:
            raise UserError(f"{weights.origin}: {path} is missing; a preset needs the whole encoder")
    return model


def build_tokenizer(weights: Weights):
    """Builds KerasHub's tokenizer.

    BERT strips accents whenever it lower-cases text. KerasHub strips them only with strip_accents.

    Args:
        weights: Weights. The vocabulary and do_lower_case are used.

    Returns:
        keras_hub.models.BertTokenizer, or None if the weights have no vocabulary.

    Raises:
        UserError: The vocabulary is not usable.
    """
    if weights.vocabulary is None:
        return None
    from keras_hub import models

    pieces, faults = parse_vocabulary(weights.vocabulary)
    if faults:
        raise UserError(
            f"{weights.origin}: the vocabulary cannot be written for KerasHub: {'; '.join(faults[:3])}; "
            "check_vocab says more"
        )
    do_lower_case = weights.config.do_lower_case
    return models.BertTokenizer(pieces, lowercase=do_lower_case, strip_accents=do_lower_case)


def not_held(weights: Weights, model) -> list[str]:
    """Lists the properties of the weights that a preset lacks or changes.

    Args:
        weights: Weights. The weights that were written.
        model: KerasHub's object, see build_model.

    Returns:
        list of str. One line for each property.
    """
    heads = {variable.path.split("/")[0] for variable in model.weights}
    return [
        *_computed_differently(weights.config),
        *_parts_not_held(weights, heads),
        *_settings_not_held(weights),
        *_vocabulary_not_held(weights),
    ]


def _computed_differently(config):
    lines = []
    for key, value in BACKBONE_COMPUTES.items():
        if getattr(config, key) != value:
            by = ", by up to 4.7e-4 in each activation and more with each layer" if key == "hidden_act" else ""
            lines.append(
                f"WARNING: {key} {getattr(config, key)} cannot be stored: KerasHub's BertBackbone uses "
                f"{value}, so its outputs will differ from this model's{by}"
            )
    return lines


def _parts_not_held(weights, heads):
    config, lines = weights.config, []
    if "mlm_head" in heads:
        changed = [f"{key} {value}" for key, value in HEAD_COMPUTES.items() if getattr(config, key) != value]
        if changed:
            lines.append(
                f"KerasHub's masked-LM head always computes {' and '.join(changed)}: its logits will differ a "
                f"little from this model's ({config.hidden_act}, {config.layer_norm_eps:g})"
            )
    elif "masked_lm" in weights.parts():
        lines.append(
            "masked_lm is left out: "
            + (
                "a preset with a classifier cannot have it"
                if config.tie_word_embeddings
                else "KerasHub's head has no table of its own; give --tie_word_embeddings=true"
            )
        )
    if "next_sentence" in weights.parts():
        lines.append("next_sentence is left out: KerasHub has no such head")
    if "pooler" not in weights.parts():
        lines.append("there is no pooler: pooled_dense is written as zeros, and pooled_output means nothing")
    if weights.task and "logits" not in heads:
        lines.append(f"classifier is left out: KerasHub has none for {weights.task}")
    elif weights.labels:
        lines.append(f"the names of the classifier's outputs are left out: {', '.join(weights.labels)}")
    return lines


def _settings_not_held(weights):
    config, lines = weights.config, []
    if config.attention_probs_dropout_prob != config.hidden_dropout_prob:
        lines.append(
            f"attention_probs_dropout_prob {config.attention_probs_dropout_prob} is left out: KerasHub drops "
            f"{config.hidden_dropout_prob} everywhere (hidden_dropout_prob)"
        )
    if config.initializer_range != _INITIALIZER_RANGE:
        lines.append(f"initializer_range {config.initializer_range} is left out: KerasHub has {_INITIALIZER_RANGE}")
    return lines


def _vocabulary_not_held(weights):
    lines = []
    if weights.vocabulary is None:
        lines.append("no vocabulary: KerasHub will find no tokenizer there")
    pieces = parse_vocabulary(weights.vocabulary or b"")[0]
    stripped = [number for number, piece in enumerate(pieces, start=1) if piece != piece.rstrip() or "\r" in piece]
    if stripped:
        lines.append(
            "KerasHub strips white space from the ends of the vocabulary's lines: it will not know the entry "
            f"in line {stripped[0]}" + (f", nor {len(stripped) - 1} more" if stripped[1:] else "")
        )
    return lines


def _model(weights):
    """Builds the object with its initial weights."""
    from keras_hub import models

    config, length = weights.config, weights.config.max_position_embeddings
    backbone = models.BertBackbone(
        **{theirs: getattr(config, ours) for theirs, ours in ARGUMENTS.items()},
        dropout=config.hidden_dropout_prob,
        dtype="float32",
    )
    tokenizer = build_tokenizer(weights)
    if weights.task == "sequence_classification" and "pooler" in weights.parts():
        return models.BertTextClassifier(
            backbone,
            num_classes=weights.tensors["classifier/kernel"].shape[-1],
            preprocessor=tokenizer and models.BertTextClassifierPreprocessor(tokenizer, sequence_length=length),
        )
    if "masked_lm" in weights.parts() and config.tie_word_embeddings:
        return models.BertMaskedLM(
            backbone,
            preprocessor=tokenizer
            and models.BertMaskedLMPreprocessor(
                tokenizer, sequence_length=length, mask_selection_length=min(_MASK_SELECTION_LENGTH, length)
            ),
        )
    return backbone
