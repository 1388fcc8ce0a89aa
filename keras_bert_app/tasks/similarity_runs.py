"""How a model of sentence vectors makes a vector: as a run of finetune --task=similarity or its folder says itself."""

import contextlib
import os

from keras_bert_app.config.finetuning_config import FinetuningConfig
from keras_bert_app.errors import UserError
from keras_bert_app.interop import archives, hub
from keras_bert_app.interop.hub import is_handle
from keras_bert_app.interop.huggingface import sentence_transformers_files
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


def own_steps(path: str) -> SentenceTransformer | None:
    """Reads the SentenceTransformer of a model's folder, or of a run of sentence vectors.

    Args:
        path: str. See interop.load.load_weights.

    Returns:
        SentenceTransformer, or None for other models.

    Raises:
        UserError: a file is damaged, or the model of an archive is in a folder of its own.
    """
    fetched, _ = hub.fetch(str(path))
    is_archive = archives.is_archive(fetched)
    with archives.unpacked(fetched) if is_archive else contextlib.nullcontext(fetched) as place:
        own = sentence_transformers_files.read(place) or read(place)
    if own and own.folder and (is_archive or fetched != str(path)):
        raise UserError(
            f"{path}: has its model in the folder {own.folder}; download or unpack it, and give the directory"
        )
    return own
