"""KerasHub's own from_preset and save_to_preset: run by interop_keras_hub, not by hand.

    python benchmarks/interop/oracle_keras_hub.py

The interpreter is one with requirements.txt; nothing of this project is imported, which is checked. A line of JSON on
stdin is a request, a line of JSON on stdout its answer; the end of stdin ends it. First of all comes one line with the
versions.

A request has directory (a preset), task (BertMaskedLM, BertTextClassifier or "": only the backbone), inputs_file (.npz:
inputs/NAME as in parity.npz), outputs_file (gets outputs/NAME as keras_bert_app.interop.parity names them), texts,
save_to and max_shard_size (GB, of the backbone's weights). The task is saved again below save_to.
Answered are ids (of the texts, by the preset's tokenizer) and foreign (modules of this project in the process).
"""

import importlib.metadata
import json
import os
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
answers = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)  # what an import prints is no answer

import keras
import keras_hub
import numpy as np


def answer(request):
    """The answer to a request; see the module's docstring."""
    directory = request["directory"]
    with np.load(request["inputs_file"]) as arrays:
        batch = {name.removeprefix("inputs/"): arrays[name] for name in arrays.files}
    inputs = {
        "token_ids": batch["input_word_ids"],
        "segment_ids": batch["input_type_ids"],
        "padding_mask": batch["input_mask"],
    }
    backbone = keras_hub.models.Backbone.from_preset(directory)
    states = {
        "embedding_output": backbone.embeddings_dropout.output,
        **{f"layer_{i}": layer.output for i, layer in enumerate(backbone.transformer_layers)},
        "pooled_output": backbone.output["pooled_output"],
    }
    outputs = keras.Model(backbone.input, states)(inputs, training=False)
    model = backbone
    if request["task"] == "BertMaskedLM":
        model = keras_hub.models.BertMaskedLM.from_preset(directory)
        outputs["mlm_logits"] = model({**inputs, "mask_positions": batch["masked_lm_positions"]}, training=False)
    elif request["task"] == "BertTextClassifier":
        model = keras_hub.models.TextClassifier.from_preset(directory)
        outputs["classifier_logits"] = model(inputs, training=False)
    np.savez(
        request["outputs_file"],
        **{f"outputs/{name}": keras.ops.convert_to_numpy(values) for name, values in outputs.items()},
    )
    tokenizer = keras_hub.tokenizers.Tokenizer.from_preset(directory)
    model.save_to_preset(request["save_to"], max_shard_size=request["max_shard_size"])
    if model is backbone:
        tokenizer.save_to_preset(request["save_to"])
    return {
        "ids": [list(map(int, ids)) for ids in tokenizer(request["texts"])],
        "foreign": [name for name in sys.modules if name.split(".")[0] in ("keras_bert_app", "pipelines")],
    }


def main():
    versions = {name: importlib.metadata.version(name) for name in ("keras-hub", "keras")}
    print(json.dumps(versions), file=answers, flush=True)
    for line in sys.stdin:
        print(json.dumps(answer(json.loads(line))), file=answers, flush=True)


if __name__ == "__main__":
    main()
