"""Our own layout: the work directory of a run, one of its checkpoints, or what `convert --to=workdir` made.

A converted directory has config.json, vocab.txt and checkpoints/step-00000000/, but no run: config.json has no key
"pretraining", and for a fine-tuned model the names of task and labels.
"""

import hashlib
import json
import os

import numpy as np
import tensorflow as tf

from keras_bert_app.config.bert_config import BertConfig
from keras_bert_app.errors import UserError
from keras_bert_app.files import read_json
from keras_bert_app.interop import directories
from keras_bert_app.interop.weights import PARTS, PROBLEM_TYPES, TASKS, OwnHead, Weights, part_of
from keras_bert_app.runs import checkpoints, work_directory


def recognizes(path):
    """Whether a path is a work directory or one checkpoint of it."""
    if checkpoints.is_checkpoint_name(path):
        return True
    config = os.path.join(path, "config.json")
    return work_directory.exists(config) and "vocab_sha256" in read_json(config)


def read(path):
    """The weights of a work directory's newest checkpoint, or of one checkpoint, as Weights.

    Raises:
        UserError: nothing to load there, or a file that is not as it was written.
    """
    run_directory, checkpoint = checkpoints.find(path)
    values = read_json(os.path.join(run_directory, "config.json"))
    try:
        config = BertConfig.from_dict(values)
    except UserError as error:
        raise UserError(f"{run_directory}/config.json: {error}") from None
    task, labels = values.get("task", ""), values.get("id2label", {})
    if task not in ("", *TASKS):
        raise UserError(f"{run_directory}/config.json: task {task!r} is none of {', '.join(TASKS)}")
    tensors, slots = checkpoints.read_tensors(checkpoint)
    unused = {"optimizer slots": f"{slots} tensors"} if slots else {}
    tensors = _of_numbers_as_they_are(tensors, values.get("head", {}))
    if values.get("pretraining", {}).get("sentence_objective") == "sop" and any(
        part_of(path) == "next_sentence" for path in tensors
    ):
        unused["what next_sentence has learned"] = (
            "two texts in their order from the same two swapped, which no layout has a name for"
        )
    own_head = None
    if of_head := {} if task else {path: tensor for path, tensor in tensors.items() if part_of(path) not in PARTS}:
        own_head = OwnHead({**values["head"], "scale": 1.0, "offset": 0.0}, tuple(values["labels"]), of_head)
        tensors = {path: tensor for path, tensor in tensors.items() if path not in of_head}
    problem_type = values.get("problem_type", "")
    return Weights(
        config,
        tensors,
        work_directory.read_vocabulary(run_directory),
        task,
        tuple(labels[str(index)] for index in range(len(labels))),
        problem_type if problem_type in PROBLEM_TYPES else "",
        unused=unused,
        origin=f"workdir {checkpoint}",
        own_head=own_head,
    )


def _of_numbers_as_they_are(tensors, head):
    """A copy of tensors by path in which an output layer over numbers gives them in the units of its task. Args: head: fields of Head."""
    scale, offset = head.get("scale", 1.0), head.get("offset", 0.0)
    if (scale, offset) == (1.0, 0.0) or "classifier/kernel" not in tensors:
        return tensors
    return {
        **tensors,
        "classifier/kernel": tensors["classifier/kernel"] * np.float32(scale),
        "classifier/bias": (tensors["classifier/bias"] * scale + offset).astype(np.float32),
    }


def write(weights, directory):
    """Writes a directory that every command takes as --init_checkpoint; whole or not at all.

    Returns:
        lines said to the user: none, since this layout holds everything.

    Raises:
        UserError: the directory is there already, or there is no vocabulary.
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
        with tf.io.gfile.GFile(os.path.join(temporary, "vocab.txt"), "wb") as file:
            file.write(weights.vocabulary)
        with tf.io.gfile.GFile(os.path.join(temporary, "config.json"), "w") as file:
            file.write(json.dumps(config, indent=2) + "\n")
        checkpoints.save_variables(
            temporary, {path: tf.Variable(tensor) for path, tensor in weights.tensors.items()}, step=0
        )
    return []
