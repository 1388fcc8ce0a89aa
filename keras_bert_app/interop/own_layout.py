"""Reads and writes this application's own layout: a work directory of a run, or one checkpoint of it.

`convert --to=workdir` writes a directory with config.json, vocab.txt and checkpoints/step-00000000/. This directory
belongs to no run: its config.json has no key "pretraining". For a fine-tuned model config.json has the task and labels.
"""

import hashlib
import json
import os

import numpy as np
import tensorflow as tf

from keras_bert_app.config.bert_config import PARTS, BertConfig
from keras_bert_app.config.weight_shapes import part_of
from keras_bert_app.errors import UserError
from keras_bert_app.files import read_json
from keras_bert_app.interop import directories
from keras_bert_app.interop.weights import PROBLEM_TYPES, TASKS, OwnHead, Weights
from keras_bert_app.runs import checkpoints, work_directory
from pipelines import storage


def recognizes(path: str) -> bool:
    """Checks whether a path is a work directory or one checkpoint of it.

    Args:
        path: str. Local or remote path.

    Returns:
        bool. True if `read` is the right reader for this path.
    """
    if checkpoints.is_checkpoint_name(path):
        return True
    config = os.path.join(path, "config.json")
    return storage.exists(config) and "vocab_sha256" in read_json(config, folder=path)


def read(path: str) -> Weights:
    """Reads one checkpoint, or the checkpoint of a work directory that `checkpoints.find` chooses.

    Args:
        path: str. Work directory or checkpoint directory, local or remote.

    Returns:
        Weights. Tensors are float32.

    Raises:
        UserError: The path has no checkpoint, or a file differs from the one that was written.
    """
    run_directory, checkpoint = checkpoints.find(path)
    existing = work_directory.ExistingRun.read(run_directory)
    values = existing.values
    try:
        config = BertConfig.from_dict(values)
    except UserError as error:
        raise UserError(f"{run_directory}/config.json: {error}") from None
    task, labels = values.get("task", ""), values.get("id2label", {})
    if task not in ("", *TASKS):
        raise UserError(f"{run_directory}/config.json: task {task[:80]!r} is none of {', '.join(TASKS)}")
    tensors, num_slots = checkpoints.read_tensors(checkpoint)
    unused = {"optimizer slots": f"{num_slots} tensors"} if num_slots else {}
    tensors = _scaled_output_layer(tensors, values)
    sentence_objective = values.get("pretraining", {}).get("sentence_objective")
    if sentence_objective == "sop" and any(part_of(path) == "next_sentence" for path in tensors):
        unused["the objective of next_sentence"] = (
            "this head learned the order of two texts (sop), for which no layout has a name"
        )
    own_head, of_encoder = None, set(PARTS)
    if values.get("head", {}).get("vocab_size"):  # the output layer has the pieces of the decoder's own vocabulary
        of_encoder.remove("masked_lm")
    if (
        head_tensors := {}
        if task
        else {path: tensor for path, tensor in tensors.items() if part_of(path) not in of_encoder}
    ):
        if "head" not in values or "labels" not in values:
            raise UserError(
                f"{run_directory}/config.json: has no head and labels, which belong to {min(head_tensors)[:80]}; "
                "restore the config.json that the run wrote"
            )
        own_head = OwnHead({**values["head"], "scale": 1.0, "offset": 0.0}, tuple(values["labels"]), head_tensors)
        tensors = {path: tensor for path, tensor in tensors.items() if path not in head_tensors}
    problem_type = values.get("problem_type", "")
    return Weights(
        config,
        tensors,
        existing.vocabulary(),
        task,
        tuple(labels[str(index)] for index in range(len(labels))),
        problem_type if problem_type in PROBLEM_TYPES else "",
        unused={**unused, **(_units_of_grades(values) if task else {})},
        origin=f"workdir {checkpoint}",
        # The manifest shows that the checkpoint is complete, so the run never wrote the parts that it lacks.
        absent={part: "the work directory was made without one" for part in PARTS[1:]},
        untrained=("pooler", "next_sentence") if sentence_objective == "none" else (),
        own_head=own_head,
    )


def _is_graded(values):
    """Whether a reranker's answer is offset + scale * sigmoid(output). Other programs apply the sigmoid themselves."""
    return values.get("finetuning", {}).get("ranking_loss") == "graded"


def _units_of_grades(values):
    """The line about the units of a reranker that learned grades, which no other layout can store."""
    if not _is_graded(values):
        return {}
    head = values.get("head", {})
    lowest = head.get("offset", 0.0)
    highest = lowest + head.get("scale", 1.0)
    line = f"the sigmoid of the output is a share of the range: 0 for grade {lowest:g}, 1 for grade {highest:g}"
    return {"the units of the grades": line}


def _scaled_output_layer(tensors, values):
    """Applies a regression head's scale and offset to its output layer: answer = scale * output + offset."""
    head = values.get("head", {})
    scale, offset = head.get("scale", 1.0), head.get("offset", 0.0)
    if (
        _is_graded(values)
        or (scale, offset) == (1.0, 0.0)
        or not {"classifier/kernel", "classifier/bias"} <= tensors.keys()
    ):
        return tensors
    return {
        **tensors,
        "classifier/kernel": tensors["classifier/kernel"] * np.float32(scale),
        "classifier/bias": (tensors["classifier/bias"] * scale + offset).astype(np.float32),
    }


def write(weights: Weights, directory: str) -> list[str]:
    """Writes a directory that every command accepts as --init_checkpoint, completely or not at all.

    Args:
        weights: Weights. Must include a vocabulary.
        directory: str. Local directory that does not exist yet or is empty.

    Returns:
        list of str. Lines about properties that are lost. Always empty, because this layout can store everything.

    Raises:
        UserError: The directory exists and is not empty, or the weights have no vocabulary.
    """
    if weights.vocabulary is None:
        raise UserError(f"{weights.origin}: has no vocab.txt; give --vocab_file")
    config = {
        **weights.config.to_dict(),
        "vocab_sha256": hashlib.sha256(weights.vocabulary).hexdigest(),
        "converted_from": weights.origin,
    }
    if weights.task:
        config |= {"problem_type": weights.problem_type} if weights.problem_type else {}
        config |= {"task": weights.task, "id2label": {str(index): label for index, label in enumerate(weights.labels)}}
    with directories.written_whole(directory) as temporary:
        storage.write_whole(os.path.join(temporary, "vocab.txt"), weights.vocabulary)
        storage.write_whole(os.path.join(temporary, "config.json"), json.dumps(config, indent=2) + "\n")
        checkpoints.save_variables(
            temporary, {path: tf.Variable(tensor) for path, tensor in weights.tensors.items()}, step=0
        )
    return []
