"""Fine-tuned runs without some of their attention heads (Michel et al. 2019): still runs, which answer as others do."""

import dataclasses

import tensorflow as tf

from keras_bert_app.config.finetuning_config import FinetuningConfig
from keras_bert_app.errors import UserError
from keras_bert_app.files import read_json
from keras_bert_app.interop import directories, surgery
from keras_bert_app.interop.weights import Weights
from keras_bert_app.runs import checkpoints, seeds, work_directory
from keras_bert_app.tasks import results, scoring

_KEY = "pruned_from"  # of config.json


def write(workdir, heads, directory):
    """Writes a run of the best weights without some heads, which predict, evaluate, export and analyze take.

    The configuration of the run, its labels and what was tuned on its dev examples are kept; its scores are not, since they are
    the whole model's.

    Args:
        workdir: of the run; of several seeds the one with the best score is taken. heads: see surgery.prune_heads.
        directory: to write, a new one.

    Returns:
        lines that say what was done.

    Raises:
        UserError: no fine-tuning run lives there or it has saved nothing yet, a head is not there, the directory is.
    """
    source = seeds.best_run(workdir)
    model_config, run, _ = work_directory.read_config(source, FinetuningConfig)
    best = scoring.best_weights(source)
    weights = Weights(model_config, checkpoints.read_tensors(best)[0], origin=f"workdir {best}")
    weights, line = surgery.prune_heads(weights, heads)
    taken = {*weights.config.to_dict(), "vocab_sha256", FinetuningConfig.KEY}
    notes = {
        name: value
        for name, value in read_json(work_directory.path_in(source, "config.json")).items()
        if name not in taken
    }
    # What was tuned stands in results.json, which is left behind.
    run = dataclasses.replace(run, **results.tuned(source))
    with directories.written_whole(directory) as temporary:
        work_directory.write_config(
            temporary, weights.config, run, work_directory.read_vocabulary(source), {**notes, _KEY: source}
        )
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


def check_not_pruned(workdir):
    """Raises UserError where training would go on in a run that was written here: its optimizer is gone."""
    if source := read_json(work_directory.path_in(workdir, "config.json")).get(_KEY):
        raise UserError(
            f"--workdir={workdir}: holds {source} without some of its heads, which cannot be gone on with; train it on "
            f"with --init_checkpoint={workdir} and another --workdir"
        )
