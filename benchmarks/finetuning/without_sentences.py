"""A task's pairs without the sentences that another task is judged by.

STS-B has a sixth of its pairs from where MRPC's come from: a run that went from it to MRPC as they are would have learned sentences of
MRPC's dev and test set.
"""

import os
import re

from keras_bert_app.config.finetuning_config import FinetuningConfig
from keras_bert_app.tasks import registry


def write_without(task, data_dir, other, other_dir, directory):
    """Writes a task's train and dev file into a directory, without the lines of sentences in the dev and test set of another one.

    Sentences are the same where their letters and digits are, whatever their case.

    Args:
        task, other: names of tasks over pairs, with a file for each split. data_dir, other_dir: of their files.

    Returns:
        dict split -> (examples, how many of them were left out).
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
