"""The sentence pairs of a task without the sentences of another task's dev and test set.

A sixth of STS-B's pairs come from the source of MRPC. A run that goes from STS-B to MRPC would otherwise train on
sentences of MRPC's dev and test set.
"""

import os
import re

from keras_bert_app.config.finetuning_config import FinetuningConfig
from keras_bert_app.tasks import registry


def write_without(task: str, data_dir: str, other: str, other_dir: str, directory: str) -> dict[str, tuple[int, int]]:
    """Writes a task's train and dev file without the examples whose sentences are in another task's dev or test set.

    Two sentences are the same if their letters and digits are the same in lower case.

    Args:
        task: str. Name of a task over pairs, with a file for each split.
        data_dir: str. Directory of its files.
        other: str. Name of the other task.
        other_dir: str. Directory of its files.
        directory: str. Where the files go.

    Returns:
        dict. Split -> (number of examples, number of examples left out).
    """
    judged = {
        _key(text)
        for split in ("dev", "test")
        for example in _examples(other, other_dir, split)
        for text in _texts(example)
    }
    os.makedirs(directory, exist_ok=True)
    counts = {}
    for split in ("train", "dev"):
        examples = _examples(task, data_dir, split)
        left_out = {
            int(example.place.rsplit(":", 1)[1])
            for example in examples
            if not judged.isdisjoint(map(_key, _texts(example)))
        }
        path = registry.find(task).path(data_dir, split, "")
        with open(path, encoding="utf-8", newline="\n") as file:
            kept = [line for number, line in enumerate(file, 1) if number not in left_out]
        with open(os.path.join(directory, os.path.basename(path)), "w", encoding="utf-8", newline="\n") as file:
            file.writelines(kept)
        counts[split] = len(examples), len(left_out)
    return counts


def _examples(task, data_dir, split):
    return registry.find(task).read_split(
        data_dir, split, FinetuningConfig(task=task, data_dir=data_dir), has_labels=split != "test"
    )


def _texts(example):
    return example.text_a, example.text_b


def _key(text):
    return re.sub(r"\W", "", text.lower())
