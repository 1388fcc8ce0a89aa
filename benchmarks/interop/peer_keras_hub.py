"""Loads a preset with KerasHub's from_preset and saves it again with save_to_preset.

interop_keras_hub sends the requests and checks the answers.

reference_answers runs this script in an environment with the packages of requirements.txt. The script imports
nothing of this project.

A request has these keys:

- directory: the preset to load.
- task: BertMaskedLM, BertTextClassifier, or "" for the backbone alone.
- texts: the texts to tokenize.
- save_to: the directory of the new preset.
- max_shard_size: the largest file of the backbone's weights, in GB.

The answer has these keys:

- ids: the ids of each text, from the preset's tokenizer.
- foreign: the modules of this project that the process has imported. The list must be empty.
"""

import os
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import keras_hub

# reference_answers reports the versions of these packages.
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
    # A task saves its tokenizer with its preprocessor. A backbone has no tokenizer to save.
    if not request["task"]:
        tokenizer.save_to_preset(request["save_to"])
    return {
        "ids": [list(map(int, ids)) for ids in tokenizer(request["texts"])],
        "foreign": [name for name in sys.modules if name.split(".")[0] in ("keras_bert_app", "pipelines")],
    }
