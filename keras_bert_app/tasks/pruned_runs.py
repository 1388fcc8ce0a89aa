"""Fine-tuned runs without some of their attention heads (Michel et al. 2019)."""

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
    """Writes a new run with the best weights of a run, without some heads.

    predict, evaluate, export and analyze accept the new run. It keeps the configuration, the labels and the values that
    were tuned on the dev examples. It does not keep the scores, because they belong to the model with all heads.

    Args:
        workdir: the work directory of the run. If it holds several seeds, the function takes the best seed.
        heads: see surgery.prune_heads.
        directory: a new directory to write.

    Returns:
        log lines about the weights, the heads and the new run.

    Raises:
        UserError: workdir has no fine-tuning run or no scored weights, a head does not exist, or `directory` exists and
            is not empty.
    """
    source = seeds.best_run(workdir)
    existing = ExistingRun.read(source)
    model_config, run = existing.config(FinetuningConfig)
    best = scoring.best_weights(source)
    weights = Weights(model_config, checkpoints.read_tensors(best)[0], origin=f"workdir {best}")
    weights, line = surgery.prune_heads(weights, heads)
    taken = {*weights.config.to_dict(), "vocab_sha256", FinetuningConfig.KEY}
    notes = {name: value for name, value in existing.values.items() if name not in taken}
    # The tuned values are in results.json, which the new run does not have.
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
    """Refuses to resume the training of a pruned run, because the run has no state of an optimizer.

    Raises:
        UserError: `write` made the run.
    """
    workdir = existing.directory
    if source := existing.values.get(_KEY):
        raise UserError(
            f"--workdir={workdir}: holds {source} without some of its heads, and such a run cannot be continued; "
            f"train it with --init_checkpoint={workdir} and another --workdir"
        )
