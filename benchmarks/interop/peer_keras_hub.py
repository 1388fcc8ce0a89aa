"""Loads a preset by KerasHub's from_preset and saves it again by save_to_preset, for interop_keras_hub.

reference_answers runs this script in an environment with requirements.txt. The script imports nothing of this project.

A request has directory (a preset), task (BertMaskedLM, BertTextClassifier, or "" for the bare backbone), texts,
save_to and max_shard_size (GB, of the backbone's weights). The script saves the model again in save_to.

The answer has ids (of the texts, by the preset's tokenizer) and foreign (modules of this project in the process).
"""

import os
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import keras_hub

PACKAGES = ("keras-hub", "keras")


def answer(request):
    """The answer to a request; see the module's docstring."""
    directory = request["directory"]
    model_class = {
        "BertMaskedLM": keras_hub.models.BertMaskedLM,
        "BertTextClassifier": keras_hub.models.TextClassifier,
        "": keras_hub.models.Backbone,
    }[request["task"]]
    model = model_class.from_preset(directory)
    tokenizer = keras_hub.tokenizers.Tokenizer.from_preset(directory)
    model.save_to_preset(request["save_to"], max_shard_size=request["max_shard_size"])
    if not request["task"]:
        tokenizer.save_to_preset(request["save_to"])
    return {
        "ids": [list(map(int, ids)) for ids in tokenizer(request["texts"])],
        "foreign": [name for name in sys.modules if name.split(".")[0] in ("keras_bert_app", "pipelines")],
    }
