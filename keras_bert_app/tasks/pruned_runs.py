"""Fine-tuned runs without some of their attention heads (Michel et al. 2019), which every command still takes."""

import dataclasses
from typing import Any

import tensorflow as tf

from keras_bert_app.config.finetuning_config import FinetuningConfig
from keras_bert_app.errors import UserError
from keras_bert_app.interop import directories, surgery
from keras_bert_app.interop.weights import Weights
from keras_bert_app.runs import checkpoints, seeds, work_directory
from keras_bert_app.runs.work_directory import ExistingRun
from keras_bert_app.tasks import results, scoring

_KEY = "pruned_from"  # in config.json


def write(workdir: str, heads: Any, directory: str) -> list[str]:
    """Writes a run of the best weights without some heads, which predict, evaluate, export and analyze take.

    The new run keeps the configuration, the labels and the values that were tuned on the dev examples. It does not keep
    the scores, since the whole model reached them.

    Args:
        workdir: the work directory of the run; of several seeds the best one is used.
        heads: see surgery.prune_heads.
        directory: a new directory to write.

    Returns:
        lines that say what was done.

    Raises:
        UserError: no fine-tuning run lives there, it has saved nothing yet, a head does not exist, or the directory
            does.
    """
    source = seeds.best_run(workdir)
    existing = ExistingRun.read(source)
    model_config, run = existing.config(FinetuningConfig)
    best = scoring.best_weights(source)
    weights = Weights(model_config, checkpoints.read_tensors(best)[0], origin=f"workdir {best}")
    weights, line = surgery.prune_heads(weights, heads)
    taken = {*weights.config.to_dict(), "vocab_sha256", FinetuningConfig.KEY}
    notes = {name: value for name, value in existing.values.items() if name not in taken}
    # The tuned values stand in results.json, which the new run does not have.
    run = dataclasses.replace(run, **results.tuned(source))
    with directories.written_whole(directory) as temporary:
        work_directory.write_config(temporary, weights.config, run, existing.vocabulary(), {**notes, _KEY: source})
        checkpoints.save_variables(
            temporary,
            {path: tf.Variable(tensor) for path, tensor in weights.tensors.items()},
            checkpoints.read_manifest(best)["step"],
            "best",
        )
    return [
        f"{weights.origin}: {len(weights.tensors)} tensors",
        line,
        f"wrote {directory}, a run of {run.task}; evaluate --workdir={directory} scores it",
    ]


def check_not_pruned(existing: ExistingRun) -> None:
    """Refuses to train a pruned run on, since its optimizer is gone.

    Raises:
        UserError: write made the run.
    """
    workdir = existing.directory
    if source := existing.values.get(_KEY):
        raise UserError(
            f"--workdir={workdir}: holds {source} without some of its heads, which cannot be gone on with; train it on "
            f"with --init_checkpoint={workdir} and another --workdir"
        )
