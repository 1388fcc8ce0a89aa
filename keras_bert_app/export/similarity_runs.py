"""Runs of sentence vectors (finetune --task=similarity), which say themselves how a text gets its vector."""

import os

from keras_bert_app.config.finetuning_config import FinetuningConfig
from keras_bert_app.interop.hub import is_handle
from keras_bert_app.interop.huggingface.sentence_transformers_files import SentenceTransformer
from keras_bert_app.runs import checkpoints, seeds, work_directory
from keras_bert_app.runs.work_directory import ExistingRun


def is_similarity_run(path: str | os.PathLike) -> bool:
    """Whether a directory holds a run of sentence vectors, or several seeds of one.

    Args:
        path: str. A directory, or a handle such as hf://.

    Returns:
        bool. False for a handle.
    """
    if is_handle(str(path)):
        return False
    head = seeds.configuration(_directory(path)).get("head")
    return isinstance(head, dict) and "vector_pooling" in head


def _directory(path):
    """The work directory of a run, of its best seed, or of a checkpoint."""
    path = str(path)
    if checkpoints.is_checkpoint_name(path) and not work_directory.is_started(path):
        return checkpoints.find(path)[0]
    return seeds.best(path)


def read(path: str) -> SentenceTransformer | None:
    """Reads how a run makes the vector of a text.

    Args:
        path: str. The work directory of a run, one of its checkpoints, or any other path.

    Returns:
        SentenceTransformer, or None if the path is no run of sentence vectors.
    """
    if not is_similarity_run(path):
        return None
    existing = ExistingRun.read(_directory(path))
    _, run = existing.config(FinetuningConfig)
    pooling = existing.note("head")["vector_pooling"]
    return SentenceTransformer(pooling, True, run.max_seq_length, "", ("config.json",), prompts=run.prompts)
