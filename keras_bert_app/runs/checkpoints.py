"""Checkpoints of a run, each in its own directory.

`save` writes a checkpoint under a temporary name and renames it when it is whole. `restore` verifies its files.

WORKDIR/checkpoints/step-00000100/ holds TensorFlow's checkpoint files and manifest.json. The manifest has the step, the
position in the data, and size and sha256 of every file. An object store (gs://) copies files one by one to rename a
directory. There the manifest, which is written last, marks a whole checkpoint.
"""

import math
import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
from google.protobuf.message import DecodeError

from keras_bert_app.config.bert_config import PARTS, BertConfig
from keras_bert_app.config.weight_shapes import shapes
from keras_bert_app.errors import UserError, first_line
from keras_bert_app.runs import tf_checkpoints, work_directory
from keras_bert_app.runs.checkpoint_manifests import fingerprint, manifest_text, read_manifest
from keras_bert_app.runs.work_directory import CHECKPOINT_MANIFEST, CHECKPOINT_NAME, checkpoint_directories
from pipelines import storage
from pipelines.examples.dataset import STREAM_VERSION

_PREFIX = "checkpoint"


def model_variables(model: Any) -> dict[str, tf.Variable]:
    """dict path -> tf.Variable of all weights, in the order in which they were made.

    Args:
        model: a Keras model.
    """
    return {variable.path: variable.value for variable in model.weights}


def save(
    workdir: str,
    model: Any,
    optimizer: Any,
    step: int,
    position: Sequence[int],
    keep: int,
    keep_every: int = 0,
    unlogged: Iterable[Sequence[float]] = (),
    seconds: float = 0.0,
    evaluation_due: bool = False,
    clock: float | None = None,
) -> str:
    """Writes a checkpoint and deletes the oldest ones.

    Files reach the disk before the directory gets its name, so that a power failure leaves no half checkpoint.

    Args:
        workdir: the work directory.
        model: a Keras model.
        optimizer: an Optimizer, whose slots are saved.
        step: number of steps that were taken.
        position: position in the data to go on from.
        keep: number of checkpoints that are kept.
        keep_every: checkpoints whose step is a multiple of this number are never deleted; 0 for none.
        unlogged: rows of the steps since the last line of metrics.jsonl. The next line of a resumed run then equals
            that of an uninterrupted one.
        seconds: time that the run has taken so far.
        evaluation_due: whether an evaluation comes next.
        clock: seconds that the schedule of the run counts, see training.pace; None if they equal `seconds`.

    Returns:
        the directory of the checkpoint.
    """
    directory = _write(
        workdir,
        f"step-{step:08d}",
        step,
        _tracked(model, optimizer),
        {
            "seconds": float(seconds),
            "clock": float(seconds if clock is None else clock),
            "position": [int(number) for number in position],
            "evaluation_due": bool(evaluation_due),
            "unlogged": [[float(value) for value in row] for row in unlogged],
        },
    )
    for old in list_checkpoints(workdir)[:-keep]:
        if not keep_every or step_of(old) % keep_every:
            _remove(old)
    _drop_replaced_best(workdir)
    return directory


def save_variables(workdir: str, variables: Mapping[str, tf.Variable], step: int = 0, kind: str = "step") -> str:
    """Writes a checkpoint that holds only a model. No run can go on from it.

    Args:
        workdir: the work directory.
        variables: dict path -> tf.Variable.
        step: number in the name.
        kind: "step", or "best" for the best weights of a run.

    Returns:
        the directory of the checkpoint.
    """
    return _write(workdir, f"{kind}-{step:08d}", step, tf.train.Checkpoint(model=variables), {})


def save_best(
    workdir: str, model: Any, step: int, figures: Mapping[str, float], mean_of_steps: Sequence[int] = ()
) -> None:
    """Keeps the weights as the best ones of a run.

    A run that continues from an earlier step forgets later weights. So the best weights up to the newest checkpoint
    stay until a later checkpoint of the run is saved.

    Args:
        workdir: the work directory.
        model: a Keras model.
        step: number of steps that were taken.
        figures: scores of the weights. The manifest keeps them.
        mean_of_steps: steps of the checkpoints whose mean the weights are; () for the weights of one step.
    """
    earlier, name = best_checkpoints(workdir), f"best-{step:08d}"
    # A mean of checkpoints replaces the weights of its last step. A finished run that evaluates again writes nothing.
    has_changed = any(
        path.endswith(name) and _is_whole(path) and read_manifest(path, verify=False).get("figures") != figures
        for path in earlier
    )
    notes = {"figures": figures, **({"mean_of_steps": [*mean_of_steps]} if mean_of_steps else {})}
    directory = _write(workdir, name, step, _tracked(model, None), notes, replaces=has_changed)
    for old in earlier:
        if step_of(old) > step_of(directory):
            _remove(old)
    _drop_replaced_best(workdir)


def forget_best(workdir: str, after: int = -1) -> None:
    """Removes the best weights of steps that a run takes again.

    Args:
        workdir: the work directory.
        after: the step from which the run continues; -1 for a run that begins.
    """
    for directory in best_checkpoints(workdir):
        if step_of(directory) > after:
            _remove(directory)


def step_of(directory: str) -> int:
    """The step in the name of a checkpoint.

    Args:
        directory: the checkpoint.
    """
    return int(CHECKPOINT_NAME.search(directory)[2])


def _drop_replaced_best(workdir):
    """Removes best weights that no start of the run needs: those with newer ones up to the newest checkpoint."""
    saved = list_checkpoints(workdir)
    best = best_checkpoints(workdir)
    needed = [old for old in best if saved and step_of(old) <= step_of(saved[-1])][-1:] + best[-1:]
    for old in best:
        if old not in needed:
            _remove(old)


def _remove(directory):
    """Removes a checkpoint, whose name first says that it is no longer whole."""
    if storage.is_remote(directory):
        storage.remove_file(os.path.join(directory, CHECKPOINT_MANIFEST))
        storage.remove_tree(directory)
        return
    root, name = os.path.split(directory)
    gone = os.path.join(root, f"writing-removed-{name}")
    if storage.exists(gone):
        storage.remove_tree(gone)
    os.rename(directory, gone)
    storage.remove_tree(gone)


def _write(workdir, name, step, tracked, notes, replaces=False):
    """Writes checkpoints/NAME with the tracked objects, and with notes in its manifest.

    Args:
        replaces: whether to write an existing whole checkpoint again. During the change, NAME is missing for a moment.

    Returns:
        the directory.
    """
    root = work_directory.path_in(workdir, "checkpoints")
    directory = os.path.join(root, name)
    if not replaces and _is_whole(directory):
        return directory  # a step has only one state
    for broken_off in work_directory.unfinished(workdir):
        storage.remove_tree(broken_off)
    with storage.whole_directory(directory, os.path.join(root, f"writing-{name}"), durable=True) as place:
        tracked.write(os.path.join(place, _PREFIX), _options())
        files = {name: fingerprint(os.path.join(place, name)) for name in storage.list_directory(place)}
        manifest = {"step": int(step), "stream": STREAM_VERSION, **notes, "files": files}
        with storage.open_file(os.path.join(place, CHECKPOINT_MANIFEST), "wb") as file:
            file.write(manifest_text(manifest).encode())
    return directory


def _options():
    """Options that make this process write the files, because other hosts of a TPU have their own disks."""
    return tf.train.CheckpointOptions(
        experimental_io_device="/job:localhost" if tf.config.list_logical_devices("TPU") else None
    )


def _is_whole(directory):
    try:
        return bool(storage.exists(directory) and read_manifest(directory))
    except UserError:
        return False


def list_checkpoints(workdir: str) -> list[str]:
    """Directories of the whole checkpoints that a run may go on from, oldest first.

    Args:
        workdir: the work directory.
    """
    return checkpoint_directories(workdir, "step")


def best_checkpoints(workdir: str) -> list[str]:
    """Directories of the best weights of a fine-tuning run, the best ones last.

    There are two if the best ones are newer than the newest checkpoint: a start that continues from there takes the
    first ones.

    Args:
        workdir: the work directory.
    """
    return checkpoint_directories(workdir, "best")


def restore(directory: str, model: Any, optimizer: Any = None) -> dict[str, Any]:
    """Reads a checkpoint into a model, and into the slots of an optimizer if one is given.

    Args:
        directory: the checkpoint.
        model: a Keras model.
        optimizer: Optimizer, or None.

    Returns:
        The manifest of the checkpoint.

    Raises:
        UserError: the checkpoint is damaged, or does not fit the model.
    """
    manifest = read_manifest(directory)
    if optimizer is not None and not {"position", "stream"} <= manifest.keys():
        raise UserError(
            f"checkpoint {directory}: holds only weights, from which no run can continue; start another --workdir "
            f"with --init_checkpoint={directory}"
        )
    tf_checkpoints.open_checkpoint(os.path.join(directory, _PREFIX))  # checks the index, which TensorFlow trusts
    tracked = _tracked(model, optimizer)
    try:
        status = _read(tracked, directory)
        status.assert_existing_objects_matched()
        if optimizer is None:
            status.expect_partial()
        else:
            status.assert_consumed()
    except (AssertionError, LookupError, TypeError, ValueError, tf.errors.OpError, DecodeError) as error:
        reason = first_line(error)
        raise UserError(
            f"checkpoint {directory}: does not fit this model ({reason}); give the config.json that it was trained with"
        ) from None
    return manifest


def _read(tracked, directory):
    """Reads a checkpoint into tf.train.Checkpoint `tracked`. Returns the status of the reading."""
    if not storage.has_wildcards(directory):
        return tracked.read(os.path.join(directory, _PREFIX), _options())
    with storage.linked({"checkpoint": directory}) as links:
        return tracked.read(os.path.join(links, "checkpoint", _PREFIX), _options())


def read_tensors(directory: str) -> tuple[dict[str, np.ndarray], int]:
    """Reads the weights of a checkpoint without building the model.

    Args:
        directory: the checkpoint.

    Returns:
        (dict path -> array, number of other variables, such as optimizer slots).

    Raises:
        UserError: the checkpoint is damaged.
    """
    read_manifest(directory)
    checkpoint = tf_checkpoints.open_checkpoint(os.path.join(directory, _PREFIX))
    tensors, slots = {}, 0
    for key in checkpoint.shapes:
        owner, _, rest = key.partition("/")
        name, _, attribute = rest.partition("/")
        if attribute == ".ATTRIBUTES/VARIABLE_VALUE":
            if owner == "model":
                if not checkpoint.dtypes[key].is_floating:
                    raise UserError(
                        f"checkpoint {directory}: {name[:80]} is of type {checkpoint.dtypes[key].name}; expected "
                        "floating-point numbers; take a checkpoint that a run wrote"
                    )
                tensors[name.replace(".S", "/")] = checkpoint.tensor(key)  # ".S" stands for a slash within a name
            else:
                slots += 1
    return tensors, slots


def check_size(directory: str, config: BertConfig) -> None:
    """Checks that a checkpoint is large enough for a configuration, before the model is made.

    Args:
        directory: the checkpoint.
        config: BertConfig.

    Raises:
        UserError: the checkpoint has fewer numbers than the embeddings and layers of the configuration alone.
    """
    checkpoint = tf_checkpoints.open_checkpoint(os.path.join(directory, _PREFIX))
    stored = sum(math.prod(shape) for key, shape in checkpoint.shapes.items() if key.startswith("model/"))
    if config.architecture == "lstm_lm":
        needed = sum(math.prod(shape) for shape in shapes(config, PARTS[:1]).values())
    else:
        rows = config.vocab_size + config.max_position_embeddings + config.type_vocab_size
        # The sum leaves out the matrices of attention, because heads may have been pruned.
        needed = config.hidden_size * (rows + 2 * config.num_hidden_layers * config.intermediate_size)
    if needed > stored:
        raise UserError(
            f"checkpoint {directory}: does not fit this model: it has {stored:,} numbers, config.json asks for at "
            f"least {needed:,}; give the config.json that it was trained with"
        )


def is_checkpoint_name(path: str) -> bool:
    """Whether a path has the name of a checkpoint: .../checkpoints/step-N or best-N.

    Args:
        path: the path, which need not exist.
    """
    path = str(path).rstrip("/")
    return bool(CHECKPOINT_NAME.search(path)) and os.path.basename(os.path.dirname(path)) == "checkpoints"


def find(path: str) -> tuple[str, str]:
    """Finds the run and the checkpoint that a path names.

    The path names a run or a checkpoint. If a run has best weights, the function returns them, not the newest
    checkpoint.

    Args:
        path: the path.

    Returns:
        (run directory, checkpoint directory).

    Raises:
        UserError: the path is neither, or the run has saved nothing yet.
    """
    path = str(path).rstrip("/")
    if not work_directory.is_started(path):
        if is_checkpoint_name(path) and storage.is_directory(path):
            return os.path.dirname(os.path.dirname(path)), path
        raise UserError(
            f"{path}: neither a work directory nor a checkpoint; expected a directory with config.json and "
            "checkpoints/, as the pretrain command writes"
        )
    checkpoints = best_checkpoints(path) or list_checkpoints(path)
    if not checkpoints:
        raise UserError(f"{path}: its checkpoints/ holds no checkpoint yet; let the run save one first")
    return path, checkpoints[-1]


def _tracked(model, optimizer):
    if optimizer is None:
        return tf.train.Checkpoint(model=model_variables(model))
    carried = getattr(model, "carried_states", None)
    states = {} if carried is None else {"carried_states": carried}
    return tf.train.Checkpoint(model=model_variables(model), **optimizer.slots, **states)
