"""Hugging Face's layout: config.json, model.safetensors (or shards of it), and the tokenizer's files.

Read and written are BERT's own classes of the transformers library. Nothing is ever unpickled.
"""

import json
import os

from keras_bert_app.errors import UserError
from keras_bert_app.interop import directories
from keras_bert_app.interop.huggingface import (
    huggingface_files,
    huggingface_tensors,
    huggingface_tokenizer,
    safetensors_files,
)
from keras_bert_app.interop.huggingface.huggingface_names import ARCHITECTURES, huggingface_name, transposed
from keras_bert_app.interop.weights import PROBLEM_TYPES, Weights, part_of, shapes, split_attention

_KERNEL, _BIAS = "classifier/kernel", "classifier/bias"


def recognizes(path):
    """Whether it is a directory with weights under a name of transformers', also of a format that is refused then."""
    return huggingface_files.has_weights(str(path).rstrip("/"))


def read(path):
    """The weights of a directory, as Weights; float64, float16 and bfloat16 become float32.

    Raises:
        UserError: another architecture, weights in a format that is not read, files that are damaged or hostile, or
            that contradict each other.
    """
    directory = str(path).rstrip("/")
    values = huggingface_files.read_config(directory)
    config = huggingface_files.bert_config(directory, values)
    entries = huggingface_files.read_entries(directory)
    architecture = next(iter(values.get("architectures") or ()), "")
    task = ARCHITECTURES[architecture][0] if architecture else ""
    found = huggingface_tensors.read(directory, entries, config, task)
    unused = found.unused
    if task and _KERNEL not in found.tensors:
        unused[f"config.json architectures={architecture}"] = "its output layer is not in the file"
        task = ""
    labels = _labels(directory, values, found.tensors[_KERNEL].shape[-1]) if task not in ("", "multiple_choice") else ()
    problem_type = values.get("problem_type") if task == "sequence_classification" else ""
    if task and values.get("problem_type") and problem_type not in PROBLEM_TYPES:
        unused[f"config.json problem_type={str(values['problem_type'])[:50]!r}"] = (
            f"is none of {', '.join(PROBLEM_TYPES)}"
            if task == "sequence_classification"
            else "is for classifiers of texts"
        )
        problem_type = ""
    vocabulary, do_lower_case, says_casing, not_followed = huggingface_tokenizer.read(
        directory, config, values.get("do_lower_case")
    )
    return Weights(
        config.replace(do_lower_case=do_lower_case),
        found.tensors,
        vocabulary,
        task,
        labels,
        problem_type or "",
        {**unused, **not_followed},
        found.unexpected,
        origin=f"huggingface {directory}",
        says_casing=says_casing,
    )


def write(weights, directory):
    """Writes what transformers 5 loads with no missing and no unexpected keys; whole or not at all.

    The class is the one that holds most of the weights. A pooler beside a masked-LM head but without next-sentence
    head is left out: no class has just these three, and BertForPreTraining would draw the fourth at random.

    Returns:
        lines that say what is left out, or missing.

    Raises:
        UserError: the directory is there already, or the weights are not whole.
    """
    architecture, lines = _choose(weights)
    tensors = _named(weights, architecture)
    values = {"architectures": [architecture], **weights.config.to_dict(), "dtype": "float32", "pad_token_id": 0}
    if weights.task:
        outputs = weights.tensors[_KERNEL].shape[-1]
        # transformers' own placeholders; without id2label it takes two outputs for granted.
        labels = weights.labels or [f"LABEL_{i}" for i in range(outputs)]
        if len(labels) != outputs:
            raise UserError(f"{weights.origin}: has {len(labels)} labels for {outputs} outputs; give one for each")
        if weights.problem_type:
            values["problem_type"] = weights.problem_type
        values |= {
            "id2label": {str(i): label for i, label in enumerate(labels)},
            "label2id": {label: i for i, label in enumerate(labels)},
        }
    if weights.vocabulary is None:
        lines.append("no vocabulary: transformers will find no tokenizer there")
    with directories.written_whole(directory) as temporary:
        safetensors_files.write(os.path.join(temporary, huggingface_files.WEIGHTS), tensors)
        with open(os.path.join(temporary, huggingface_files.CONFIG), "w", encoding="utf-8") as file:
            file.write(json.dumps(values, indent=2) + "\n")
        if weights.vocabulary is not None:
            huggingface_tokenizer.write(temporary, weights.vocabulary, weights.config)
    return lines


def _choose(weights):
    """(transformers' class, lines that say what it leaves out or lacks)."""
    if weights.missing(["encoder"]):
        raise UserError(f"{weights.origin}: has no whole encoder ({weights.missing(['encoder'])[0]} is missing)")
    held = {*weights.parts(), *(["classifier"] if weights.task else [])}
    fitting = (name for name, (task, parts) in ARCHITECTURES.items() if task == weights.task and held.issuperset(parts))
    architecture = next(fitting, None)
    lines = []
    if architecture is None and weights.task:
        raise UserError(f"{weights.origin}: a model of task {weights.task} has a pooler, which is missing")
    if architecture is None:
        architecture = "BertModel"
        lines.append(
            "pooler: missing; transformers draws one at random, unless BertModel is loaded with add_pooling_layer=False"
        )
    parts = ARCHITECTURES[architecture][1]
    lines += [
        f"{part}: left out; transformers' {architecture} has none"
        for part in sorted({part_of(path) for path in weights.tensors}.difference(parts))
    ]
    return architecture, lines


def _named(weights, architecture):
    """The tensors that a class of transformers has, under its names."""
    parts = ARCHITECTURES[architecture][1]
    paths = [*shapes(weights.config, parts), *([_KERNEL, _BIAS] if "classifier" in parts else [])]
    split = split_attention({path: weights.tensors[path] for path in paths if path in weights.tensors})
    tensors = {huggingface_name(path): transposed(path, tensor) for path, tensor in split.items()}
    if not weights.config.tie_word_embeddings and "masked_lm" in parts:
        # Without ties a bias that is never used is part of the class too.
        tensors["cls.predictions.decoder.bias"] = tensors["cls.predictions.bias"]
    if architecture == "BertModel":
        return {name.removeprefix("bert."): tensor for name, tensor in tensors.items()}
    if architecture == "BertForQuestionAnswering":
        return {name.replace("classifier.", "qa_outputs."): tensor for name, tensor in tensors.items()}
    return tensors


def _labels(directory, values, num_outputs):
    """The names of the outputs, () where config.json has none or transformers' placeholders."""
    names = values.get("id2label")
    if names is None:
        return ()
    keys = [str(i) for i in range(num_outputs)]
    if not isinstance(names, dict) or sorted(names) != sorted(keys):
        raise UserError(
            f"{directory}/config.json: id2label is {repr(names)[:80]}, but the output layer has "
            f"{num_outputs} outputs; expected a name for each"
        )
    labels = tuple(str(names[key]) for key in keys)
    return () if labels == tuple(f"LABEL_{key}" for key in keys) else labels
