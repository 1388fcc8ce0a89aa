"""Computes the outputs of a checkpoint with TensorFlow Model Garden.

reference_answers runs this script in an environment of tf-models-official, tf-keras and pyyaml. The script imports
nothing of this project. The model is a prefix, such as uncased_L-12_H-768_A-12/bert_model.ckpt. The file
bert_config.json or params.yaml lies beside it. The script is for tf-models-official 2.20.0.
"""

import json
import os
import sys

import numpy as np
import tensorflow as tf
from official.modeling import tf_utils
from official.nlp.modeling import layers, models, networks

PACKAGES = ("tf-models-official", "tensorflow")
# Key of bert_config.json -> key of params.yaml, from encoders.BertEncoderConfig.
KEYS = {"num_hidden_layers": "num_layers", "hidden_act": "hidden_activation"}


def read_settings(directory: str) -> tuple[dict, str, bool]:
    """Reads the configuration of a checkpoint.

    Args:
        directory: str. Directory of the checkpoint.

    Returns:
        Tuple (settings, mlm_activation, has_next_sentence). The settings of the encoder have the keys of params.yaml.
        mlm_activation belongs to the masked-LM head. has_next_sentence: the first classification head may be for the
        next sentence.
    """
    path = os.path.join(directory, "bert_config.json")
    if os.path.exists(path):
        with open(path, encoding="utf-8") as file:
            settings = {KEYS.get(key, key): value for key, value in json.load(file).items()}
        return settings, settings["hidden_activation"], True
    import yaml

    with open(os.path.join(directory, "params.yaml"), encoding="utf-8") as file:
        model = yaml.safe_load(file)["task"]["model"]
    settings = model["encoder"][model["encoder"]["type"]]
    heads = model.get("cls_heads") or [{}]
    # The default of bert.PretrainerConfig is "gelu".
    return settings, model.get("mlm_activation", "gelu"), heads[0].get("name", "next_sentence") == "next_sentence"


def build(settings: dict, mlm_activation: str, has_next_sentence: bool, is_functional: bool):
    """Builds a model whose variables are all nan.

    If the checkpoint lacks a tensor, its variable stays nan, and so do the outputs that need it.

    Args:
        settings: dict. Settings of the encoder, see read_settings.
        mlm_activation: str. Activation of the masked-LM head.
        has_next_sentence: bool. Whether the model gets a next-sentence head.
        is_functional: bool. True for BertEncoder, False for BertEncoderV2.

    Returns:
        models.BertPretrainerV2.
    """
    encoder = (networks.BertEncoder if is_functional else networks.BertEncoderV2)(
        vocab_size=settings["vocab_size"],
        hidden_size=settings["hidden_size"],
        num_layers=settings["num_layers"],
        num_attention_heads=settings["num_attention_heads"],
        inner_dim=settings["intermediate_size"],
        inner_activation=tf_utils.get_activation(settings.get("hidden_activation", "gelu")),
        max_sequence_length=settings["max_position_embeddings"],
        type_vocab_size=settings["type_vocab_size"],
        return_word_embeddings=True,
        **({"dict_outputs": True} if is_functional else {}),
    )
    head = layers.ClassificationHead(inner_dim=settings["hidden_size"], num_classes=2, name="next_sentence")
    pretrainer = models.BertPretrainerV2(
        encoder,
        mlm_activation=tf_utils.get_activation(mlm_activation),
        classification_heads=[head] if has_next_sentence else [],
    )
    ids = np.zeros([1, 1], np.int32)
    pretrainer({"input_word_ids": ids, "input_mask": ids, "input_type_ids": ids, "masked_lm_positions": ids})
    for variable in pretrainer.variables:
        variable.assign(tf.fill(variable.shape, np.nan))
    return pretrainer


def compute(prefix: str, batch: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Computes the outputs of the parts whose tensors are in the checkpoint.

    Args:
        prefix: str. Prefix of the checkpoint.
        batch: dict of int32 arrays. The inputs by name.

    Returns:
        dict name -> float32 array.
    """
    keys = [key for key, _ in tf.train.list_variables(prefix)]
    pretrainer = build(
        *read_settings(os.path.dirname(prefix)), is_functional=any("layer_with_weights-" in key for key in keys)
    )
    has_pretrainer = any(
        key.startswith(("model/encoder_network/", "model/masked_lm/", "model/classification_heads/")) for key in keys
    )
    items = {**pretrainer.checkpoint_items, "model": pretrainer if has_pretrainer else pretrainer.encoder_network}
    tf.train.Checkpoint(**items).read(prefix).expect_partial()
    model_outputs = pretrainer(batch)
    outputs = {
        "embedding_output": model_outputs["word_embeddings"],
        **{f"layer_{i}": state for i, state in enumerate(model_outputs["encoder_outputs"])},
        "pooled_output": model_outputs["pooled_output"],
        "mlm_logits": model_outputs["mlm_logits"],
    }
    for head in pretrainer.classification_heads:
        outputs["nsp_logits"] = model_outputs["next_sentence"]
        pooled = head(model_outputs["sequence_output"], only_project=True)
        if not np.isnan(pooled).any():
            outputs["pooled_output"] = pooled  # Training changed only the head's own pooler.
    outputs = {name: values.numpy() for name, values in outputs.items()}
    missing = [name for name, values in outputs.items() if np.isnan(values).any()]
    for name in missing:
        if name not in ("pooled_output", "mlm_logits", "nsp_logits"):
            sys.exit(f"the objects of tf-models-official restore no {name} from this checkpoint")
    return {name: values for name, values in outputs.items() if name not in missing}
