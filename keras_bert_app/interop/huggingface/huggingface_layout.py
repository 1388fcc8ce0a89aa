"""Reads and writes Hugging Face's layout: config.json, model.safetensors and the tokenizer's files.

model.safetensors may consist of several shards. The module supports the BERT classes of the transformers library. It
never opens a pickle.
"""

import json
import os

from keras_bert_app.config.bert_config import PARTS
from keras_bert_app.config.published_keys import HUGGINGFACE, gelu_remark
from keras_bert_app.config.weight_shapes import part_of, shapes
from keras_bert_app.errors import UserError
from keras_bert_app.interop import directories
from keras_bert_app.interop.huggingface import (
    huggingface_files,
    huggingface_tensors,
    huggingface_tokenizer,
    safetensors_files,
)
from keras_bert_app.interop.huggingface.huggingface_names import ARCHITECTURES, huggingface_name, transposed
from keras_bert_app.interop.weights import PROBLEM_TYPES, Weights, split_attention
from pipelines import storage

_KERNEL, _BIAS = "classifier/kernel", "classifier/bias"


def recognizes(path: str | os.PathLike) -> bool:
    """Checks whether a directory has a file of weights with one of transformers' names.

    Args:
        path: str or os.PathLike. Local or remote directory.

    Returns:
        bool. Also True for formats that `read` refuses.
    """
    return huggingface_files.has_weights(str(path).rstrip("/"))


def read(path: str | os.PathLike) -> Weights:
    """Reads a model directory. Converts float64, float16 and bfloat16 to float32.

    Args:
        path: str or os.PathLike. Local or remote directory.

    Returns:
        Weights. Tensors are float32.

    Raises:
        UserError: The model has another architecture, its weights have an unsupported format, or the files are damaged,
            hostile or contradictory.
    """
    directory = str(path).rstrip("/")
    values = huggingface_files.read_config(directory)
    config = huggingface_files.bert_config(directory, values)
    entries = huggingface_files.read_entries(directory)
    architecture = next(iter(values.get("architectures") or ()), "")
    task = ARCHITECTURES[architecture][0] if architecture else ""
    state_dict = huggingface_tensors.read(directory, entries, config, task)
    tensors, unused = state_dict.tensors, state_dict.unused
    if task and _KERNEL not in tensors:
        unused[f"config.json architectures={architecture}"] = "its output layer is not in the file"
        task = ""
    labels = _labels(directory, values, tensors[_KERNEL].shape[-1]) if task not in ("", "multiple_choice") else ()
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
        tensors,
        vocabulary,
        task,
        labels,
        problem_type or "",
        {**unused, **not_followed},
        state_dict.unexpected,
        origin=f"huggingface {directory}",
        says_casing=says_casing,
        absent=_absent(architecture),
        remarks=tuple(filter(None, [gelu_remark(values, HUGGINGFACE)])),
    )


def write(weights: Weights, directory: str | os.PathLike) -> list[str]:
    """Writes a directory that transformers 5 loads without missing keys, completely or not at all.

    The load has no unexpected keys either. The writer chooses the class that has most of the weights. If there is a
    masked-LM head but no next-sentence head, the writer leaves out the pooler. No class has exactly these parts, and
    BertForPreTraining would draw a next-sentence head at random.

    Args:
        weights: Weights. Must have the whole encoder.
        directory: str or os.PathLike. Local directory that does not exist yet or is empty.

    Returns:
        list of str. Lines that say which parts are left out or missing.

    Raises:
        UserError: The directory exists and is not empty, or the weights are incomplete.
    """
    architecture, lines = _choose(weights)
    tensors = _named(weights, architecture)
    values = {
        "architectures": [architecture],
        **weights.config.to_dict(),
        "dtype": "float32",
        "pad_token_id": 0,
        **_task_settings(weights),
    }
    if weights.vocabulary is None:
        lines.append("no vocabulary: transformers will find no tokenizer there")
    with directories.written_whole(directory) as temporary:
        safetensors_files.write(os.path.join(temporary, huggingface_files.WEIGHTS), tensors)
        storage.write_whole(os.path.join(temporary, huggingface_files.CONFIG), json.dumps(values, indent=2) + "\n")
        if weights.vocabulary is not None:
            huggingface_tokenizer.write(temporary, weights.vocabulary, weights.config)
    return lines


def _absent(architecture):
    """Lists the parts that a class of transformers never has. Without a class all parts are expected."""
    parts = ARCHITECTURES[architecture][1] if architecture else PARTS
    return {part: f"{architecture} never has one" for part in PARTS if part not in parts}


def _task_settings(weights):
    """Returns the keys of config.json about the classifier."""
    if not weights.task:
        return {}
    num_outputs = weights.tensors[_KERNEL].shape[-1]
    # transformers has the same placeholders. Without id2label it assumes two outputs.
    labels = weights.labels or [f"LABEL_{i}" for i in range(num_outputs)]
    if len(labels) != num_outputs:
        raise UserError(f"{weights.origin}: has {len(labels)} labels for {num_outputs} outputs; give one for each")
    return {
        **({"problem_type": weights.problem_type} if weights.problem_type else {}),
        "id2label": {str(i): label for i, label in enumerate(labels)},
        "label2id": {label: i for i, label in enumerate(labels)},
    }


def _choose(weights):
    """Chooses the class of transformers. Returns (class, lines about parts that are left out or missing)."""
    if weights.missing(["encoder"]):
        raise UserError(f"{weights.origin}: has no whole encoder ({weights.missing(['encoder'])[0]} is missing)")
    available = {*weights.parts(), *(["classifier"] if weights.task else [])}
    fitting = (
        name for name, (task, parts) in ARCHITECTURES.items() if task == weights.task and available.issuperset(parts)
    )
    architecture = next(fitting, None)
    lines = []
    if architecture is None and weights.task:
        raise UserError(f"{weights.origin}: has no pooler, which a model of task {weights.task} needs")
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
    """Returns the tensors of a class of transformers, with the names of this class."""
    parts = ARCHITECTURES[architecture][1]
    paths = [*shapes(weights.config, parts), *([_KERNEL, _BIAS] if "classifier" in parts else [])]
    split = split_attention({path: weights.tensors[path] for path in paths if path in weights.tensors})
    tensors = {huggingface_name(path): transposed(path, tensor) for path, tensor in split.items()}
    if not weights.config.tie_word_embeddings and "masked_lm" in parts:
        # The untied class also has this second bias, and never uses cls.predictions.bias.
        tensors["cls.predictions.decoder.bias"] = tensors["cls.predictions.bias"]
    if architecture == "BertModel":
        return {name.removeprefix("bert."): tensor for name, tensor in tensors.items()}
    if architecture == "BertForQuestionAnswering":
        return {name.replace("classifier.", "qa_outputs."): tensor for name, tensor in tensors.items()}
    return tensors


def _labels(directory, values, num_outputs):
    """Returns the names of the outputs. Empty if config.json has no names, or the placeholders of transformers."""
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
