"""Computes the outputs of a local preset with KerasHub.

reference_answers runs this script in an environment of keras-hub. The script imports nothing of this project. The model
is the preset's directory. The script is for keras-hub 0.32 on keras 3.15.

The script builds KerasHub's classes from the numbers in config.json, and these classes load the weights. It does not
call from_preset, which builds any object that the JSON files name.
"""

import json
import os
import sys

import keras
import keras_hub
import numpy as np

PACKAGES = ("keras-hub", "keras")
BACKBONE_NUMBERS = (
    "vocabulary_size",
    "num_layers",
    "num_heads",
    "hidden_dim",
    "intermediate_dim",
    "dropout",
    "max_sequence_length",
    "num_segments",
)


def read_json(path: str, name: str) -> dict:
    """Reads the object in a JSON file of the preset.

    Args:
        path: str. Directory of the preset.
        name: str. Name of the file.

    Returns:
        dict. Empty if the file does not exist.
    """
    if not os.path.exists(os.path.join(path, name)):
        return {}
    with open(os.path.join(path, name), encoding="utf-8") as file:
        return json.load(file)


def compute(path: str, batch: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Computes the outputs of the parts whose weights are in the preset.

    Args:
        path: str. Directory of the preset.
        batch: dict of int32 arrays. The inputs by name.

    Returns:
        dict name -> float32 array.
    """
    preset = read_json(path, "config.json")
    if preset.get("class_name") != "BertBackbone":
        sys.exit(f"config.json names class {preset.get('class_name')!r}; only BertBackbone is compared")
    numbers = {name: preset["config"][name] for name in BACKBONE_NUMBERS if name in preset["config"]}
    backbone = keras_hub.models.BertBackbone(**numbers, dtype="float32")
    weights_file = next(
        name for name in ("model.weights.h5", "model.weights.json") if os.path.exists(os.path.join(path, name))
    )
    backbone.load_weights(os.path.join(path, weights_file))
    states = {
        "embedding_output": backbone.embeddings_dropout.output,
        **{f"layer_{i}": layer.output for i, layer in enumerate(backbone.transformer_layers)},
        "pooled_output": backbone.output["pooled_output"],
    }
    inputs = {
        "token_ids": batch["input_word_ids"],
        "segment_ids": batch["input_type_ids"],
        "padding_mask": batch["input_mask"],
    }
    outputs = keras.Model(backbone.input, states)(inputs, training=False)
    if not np.any(keras.ops.convert_to_numpy(backbone.pooled_dense.kernel)):
        del outputs["pooled_output"]  # A pooler of zeros replaces a missing one.
    task, task_weights = read_json(path, "task.json"), os.path.join(path, "task.weights.h5")
    if not os.path.exists(task_weights):
        task = {}
    if task.get("class_name") == "BertMaskedLM":
        model = keras_hub.models.BertMaskedLM(backbone, preprocessor=None)
        model.load_task_weights(task_weights)
        outputs["mlm_logits"] = model({**inputs, "mask_positions": batch["masked_lm_positions"]}, training=False)
    if task.get("class_name") in ("BertTextClassifier", "BertClassifier"):
        model = keras_hub.models.BertTextClassifier(backbone, int(task["config"]["num_classes"]), preprocessor=None)
        model.load_task_weights(task_weights)
        outputs["classifier_logits"] = model(inputs, training=False)
    return {name: keras.ops.convert_to_numpy(values) for name, values in outputs.items()}
