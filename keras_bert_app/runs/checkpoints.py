"""Checkpoints: one directory each, written under a temporary name, renamed when whole, verified when read.

WORKDIR/checkpoints/step-00000100/ holds TensorFlow's checkpoint files and manifest.json: the step, the position in the
data, and size and sha256 of every file. In an object store (gs://), where renaming a directory copies its files one by one, it
is the manifest, written last, that makes a checkpoint whole.
"""

import hashlib
import json
import os
import re

import tensorflow as tf

from keras_bert_app.errors import UserError
from keras_bert_app.runs import work_directory
from pipelines.examples.dataset import STREAM_VERSION

_PREFIX = "checkpoint"
_MANIFEST = "manifest.json"
_NAME = re.compile(r"(step|best)-(\d+)/?$")


def model_variables(model):
    """dict path -> tf.Variable of all weights, in the order in which they were made."""
    return {variable.path: variable.value for variable in model.weights}


def save(workdir, model, optimizer, step, position, keep, keep_every=0, unlogged=(), seconds=0.0, evaluation_due=False):
    """Writes a checkpoint and deletes the oldest beyond `keep`. Returns its directory.

    Files reach the disk before the directory gets its name, so that not even a power failure leaves half a checkpoint.

    Args:
        step, position: after how many steps, and where the data goes on. keep_every: steps whose multiples are never
            deleted; 0 for none. unlogged: rows of the steps since the last line of metrics.jsonl, so that a resumed run's
            next line is that of an uninterrupted one. seconds: that the run has taken so far. evaluation_due: whether an
            evaluation comes next.
    """
    directory = _write(
        workdir,
        f"step-{step:08d}",
        step,
        _tracked(model, optimizer),
        {
            "seconds": float(seconds),
            "position": [int(number) for number in position],
            "evaluation_due": bool(evaluation_due),
            "unlogged": [[float(value) for value in row] for row in unlogged],
        },
    )
    for old in list_checkpoints(workdir)[:-keep]:
        if not keep_every or int(_NAME.search(old)[2]) % keep_every:
            tf.io.gfile.rmtree(old)
    return directory


def save_variables(workdir, variables, step=0, kind="step"):
    """Writes a checkpoint of a model alone, which no run goes on from. Args: variables: dict path -> tf.Variable. kind: "step", or
    "best" for what answers are made with."""
    return _write(workdir, f"{kind}-{step:08d}", step, tf.train.Checkpoint(model=variables), {})


def save_best(workdir, model, step, figures):
    """Writes the weights that have scored best so far, in place of those before. Args: figures: the scores, noted there."""
    earlier, name = best_checkpoints(workdir), f"best-{step:08d}"
    # A step that is taken again by the clock ends in another state. What a finished run evaluates again stays as it is.
    is_another = any(
        path.endswith(name) and _is_whole(path) and read_manifest(path, verify=False).get("figures") != figures
        for path in earlier
    )
    directory = _write(workdir, name, step, _tracked(model, None), {"figures": figures}, replaces=is_another)
    for old in earlier:
        if old != directory:
            tf.io.gfile.rmtree(old)


def forget_best(workdir):
    """Removes the best weights of a run that is begun anew: they are of an earlier start."""
    for directory in best_checkpoints(workdir):
        tf.io.gfile.rmtree(directory)


def _write(workdir, name, step, tracked, notes, replaces=False):
    """Writes CHECKPOINTS/NAME with what is tracked, and the notes in its manifest. Returns the directory.

    Args:
        replaces: whether one that is there whole is written anew, which leaves a moment without.
    """
    root = work_directory.path_in(workdir, "checkpoints")
    directory = os.path.join(root, name)
    temporary = directory if _is_remote(root) else os.path.join(root, f"writing-{name}")
    if not replaces and _is_whole(directory):
        return directory  # a step has one state
    if temporary == directory and tf.io.gfile.exists(directory):
        tf.io.gfile.rmtree(directory)
    for broken_off in unfinished(workdir):
        tf.io.gfile.rmtree(broken_off)
    tf.io.gfile.makedirs(temporary)
    tracked.write(os.path.join(temporary, _PREFIX), _options())
    manifest = {
        "step": int(step),
        "stream": STREAM_VERSION,
        **notes,
        "files": {name: _fingerprint(os.path.join(temporary, name)) for name in sorted(tf.io.gfile.listdir(temporary))},
    }
    with tf.io.gfile.GFile(os.path.join(temporary, _MANIFEST), "w") as file:
        file.write(_manifest_text(manifest))
    _to_disk(*(os.path.join(temporary, name) for name in tf.io.gfile.listdir(temporary)), temporary)
    if temporary != directory:
        if tf.io.gfile.exists(directory):
            tf.io.gfile.rmtree(directory)
        tf.io.gfile.rename(temporary, directory)
        _to_disk(root)
    return directory


def unfinished(workdir):
    """Directories of checkpoints whose saving was broken off."""
    root = work_directory.path_in(workdir, "checkpoints")
    names = [name.rstrip("/") for name in tf.io.gfile.listdir(root)] if tf.io.gfile.isdir(root) else []
    return [
        os.path.join(root, name)
        for name in names
        if name.startswith("writing-")
        or (_is_remote(root) and _NAME.match(name) and not _has_manifest(os.path.join(root, name)))
    ]


def _is_remote(path):
    return "://" in path


def _has_manifest(directory):
    return tf.io.gfile.exists(os.path.join(directory, _MANIFEST))


def _options():
    """Files are written by this process: a TPU's other hosts have disks of their own."""
    return tf.train.CheckpointOptions(
        experimental_io_device="/job:localhost" if tf.config.list_logical_devices("TPU") else None
    )


def _manifest_text(manifest):
    """JSON with a sha256 of itself, so that a flipped digit of the step or the position is noticed too."""
    digest = hashlib.sha256(json.dumps(manifest).encode()).hexdigest()
    return json.dumps({**manifest, "sha256": digest}, indent=1) + "\n"


def _is_whole(directory):
    try:
        return bool(tf.io.gfile.exists(directory) and read_manifest(directory))
    except UserError:
        return False


def _to_disk(*paths):
    """Waits until local files or directories are on the disk; other file systems do so when a file is closed."""
    for path in paths:
        if not _is_remote(path):
            descriptor = os.open(path, os.O_RDONLY)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)


def list_checkpoints(workdir):
    """Directories of the whole checkpoints that a run may go on from, oldest first."""
    return _named(workdir, "step")


def best_checkpoints(workdir):
    """Directory of the best weights of a fine-tuning run, [] for none; in the moment of a change there are two."""
    return _named(workdir, "best")


def _named(workdir, kind):
    root = work_directory.path_in(workdir, "checkpoints")
    if not tf.io.gfile.isdir(root):
        return []
    names = [
        name.rstrip("/") for name in tf.io.gfile.listdir(root) if (match := _NAME.match(name)) and match[1] == kind
    ]
    names.sort(key=lambda name: int(_NAME.match(name)[2]))  # steps beyond 99,999,999 have more digits
    found = [os.path.join(root, name) for name in names]
    return [directory for directory in found if _has_manifest(directory)] if _is_remote(root) else found


def read_manifest(directory, verify=True):
    """The manifest of a checkpoint whose files all have the size and sha256 that it names. Args: verify: whether those are read.

    Raises:
        UserError: the first file that does not; what was expected and found.
    """
    path = os.path.join(directory, _MANIFEST)
    try:
        with tf.io.gfile.GFile(path) as file:
            text = file.read()
        manifest = json.loads(text)
        files = manifest["files"]
        # One without a hash is of an earlier version of this program, which did not name its stream either.
        if manifest.pop("sha256", None) or "stream" in manifest:
            if text != _manifest_text(manifest):
                raise ValueError("not as it was written")
    except (tf.errors.OpError, ValueError, KeyError, TypeError) as error:
        raise UserError(
            f"checkpoint {directory}: {_MANIFEST} is missing or damaged ({type(error).__name__}); "
            "delete this directory to go on from the checkpoint before it"
        ) from None
    for name, expected in files.items() if verify else ():
        found = _fingerprint(os.path.join(directory, name))
        if found != expected:
            raise UserError(
                f"checkpoint {directory}: {name} is damaged (expected {expected['bytes']} bytes, sha256 "
                f"{expected['sha256'][:12]}; found {found['bytes']} bytes, {found['sha256'][:12]}); "
                "delete this directory to go on from the checkpoint before it"
            )
    return manifest


def restore(directory, model, optimizer=None):
    """Reads a checkpoint into a model, and into the optimizer's slots when one is given. Returns its manifest."""
    manifest = read_manifest(directory)
    tracked = _tracked(model, optimizer)
    try:
        status = tracked.read(os.path.join(directory, _PREFIX), _options())
        status.assert_existing_objects_matched()
        if optimizer is None:
            status.expect_partial()
        else:
            status.assert_consumed()
    except (AssertionError, ValueError, tf.errors.OpError) as error:
        reason = str(error).strip().splitlines()[0]
        raise UserError(
            f"checkpoint {directory}: does not fit this model ({reason}); give the config.json that it was trained with"
        ) from None
    return manifest


def read_tensors(directory):
    """(dict path -> array of a checkpoint's model, number of optimizer slots beside them), without building the model."""
    read_manifest(directory)
    reader = tf.compat.v1.train.NewCheckpointReader(os.path.join(directory, _PREFIX))
    tensors, slots = {}, 0
    for key in reader.get_variable_to_shape_map():
        owner, _, rest = key.partition("/")
        name, _, attribute = rest.partition("/")
        if attribute == ".ATTRIBUTES/VARIABLE_VALUE":
            if owner == "model":
                # A checkpoint's key has ".S" for a slash within a name; earlier versions put "bert" before the heads.
                tensors[name.replace(".S", "/").removeprefix("bert/")] = reader.get_tensor(key)
            else:
                slots += 1
    return tensors, slots


def is_checkpoint_name(path):
    """Whether a path is named as one checkpoint of a work directory: .../checkpoints/step-N, or best-N."""
    path = str(path).rstrip("/")
    return bool(_NAME.search(path)) and os.path.basename(os.path.dirname(path)) == "checkpoints"


def find(path):
    """(run directory, checkpoint directory) of a path that names either; of a run its best one, else its newest."""
    path = str(path).rstrip("/")
    if not work_directory.is_started(path):
        if is_checkpoint_name(path) and tf.io.gfile.isdir(path):
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
    return tf.train.Checkpoint(model=model_variables(model), **optimizer.slots)


def _fingerprint(path):
    digest, size = hashlib.sha256(), 0
    if not tf.io.gfile.exists(path):
        return {"bytes": 0, "sha256": "no such file"}
    with tf.io.gfile.GFile(path, "rb") as file:
        while chunk := file.read(1 << 22):
            digest.update(chunk)
            size += len(chunk)
    return {"bytes": size, "sha256": digest.hexdigest()}
