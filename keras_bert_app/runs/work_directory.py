"""The work directory of a run: config.json, vocab.txt, corpus/, checkpoints/, metrics.jsonl, events/.

config.json holds the model's keys at the top, as Google and Hugging Face write them, and the run's under "pretraining" or
"finetuning".
"""

import dataclasses
import hashlib
import json
import os

from keras_bert_app.config.bert_config import BertConfig
from keras_bert_app.config.pretraining_config import PretrainingConfig
from keras_bert_app.errors import UserError
from keras_bert_app.files import read_json


def path_in(workdir, *names):
    """A path below the work directory, which may be anything tf.io.gfile opens."""
    return os.path.join(str(workdir), *names)


def exists(path):
    """Whether a file or directory is there; TensorFlow is loaded only for remote paths."""
    if "://" in str(path):
        import tensorflow as tf

        return tf.io.gfile.exists(str(path))
    return os.path.exists(path)


def write_whole(path, content):
    """Writes a file under another name and renames it: it is there whole or not at all.

    Args:
        path: anything tf.io.gfile opens. content: str or bytes.
    """
    import tensorflow as tf

    with tf.io.gfile.GFile(f"{path}.tmp", "wb" if isinstance(content, bytes) else "w") as file:
        file.write(content)
    tf.io.gfile.rename(f"{path}.tmp", path, overwrite=True)


def is_started(workdir):
    """Whether a run lives in this directory."""
    return exists(path_in(workdir, "config.json"))


def read_config(workdir, run_class=PretrainingConfig):
    """(BertConfig, configuration of the run, sha256 of the vocabulary) of the run in a directory."""
    path = path_in(workdir, "config.json")
    values = read_json(path)
    if run_class.KEY not in values:
        raise UserError(
            f"{path}: has no key {run_class.KEY!r}, so no run lives there; start one in another --workdir, "
            f"with --init_checkpoint={workdir} for its weights"
        )
    try:
        return (BertConfig.from_dict(values), run_class.from_dict(values[run_class.KEY]), values.get("vocab_sha256"))
    except UserError as error:
        raise UserError(f"{path}: {error}") from None


def has_checkpoint(workdir):
    """Whether the run has saved anything yet; until then it may be begun anew with other values."""
    directory = path_in(workdir, "checkpoints")
    if "://" in str(workdir):
        import tensorflow as tf

        return tf.io.gfile.isdir(directory) and any("step-" in name for name in tf.io.gfile.listdir(directory))
    return os.path.isdir(directory) and any(name.startswith("step-") for name in os.listdir(directory))


def read_vocabulary(workdir):
    """The bytes of the run's vocab.txt.

    Raises:
        UserError: it is not the file that the run began with.
    """
    import tensorflow as tf

    path = path_in(workdir, "vocab.txt")
    expected = read_json(path_in(workdir, "config.json")).get("vocab_sha256")
    if not tf.io.gfile.exists(path):
        raise UserError(f"{path}: is missing; put back the vocabulary that the run began with")
    with tf.io.gfile.GFile(path, "rb") as file:
        content = file.read()
    found = hashlib.sha256(content).hexdigest()
    if found != expected:
        raise UserError(
            f"{path}: is not the vocabulary that the run began with (sha256 {str(expected)[:12]} expected, "
            f"{found[:12]} found); put that one back"
        )
    return content


def write_config(workdir, model_config, run, vocabulary_bytes, notes=None):
    """Writes vocab.txt and then config.json, which makes the directory a run's. Args: notes: dict of further keys.

    Raises:
        UserError: there is another vocab.txt, and no run that it belongs to.
    """
    import tensorflow as tf

    tf.io.gfile.makedirs(str(workdir))
    path, found = path_in(workdir, "vocab.txt"), None
    if tf.io.gfile.exists(path):
        with tf.io.gfile.GFile(path, "rb") as file:
            found = file.read()
        if found != vocabulary_bytes and not is_started(workdir):
            raise UserError(f"{path}: is there already and is another vocabulary; take another --workdir")
    if found != vocabulary_bytes:
        write_whole(path, vocabulary_bytes)
    values = {
        **model_config.to_dict(),
        "vocab_sha256": hashlib.sha256(vocabulary_bytes).hexdigest(),
        **(notes or {}),
        run.KEY: run.to_dict(),
    }
    write_whole(path_in(workdir, "config.json"), json.dumps(values, indent=2) + "\n")


def rewrite_run(workdir, run):
    """Writes a run's configuration into config.json, where what may change when it is resumed has changed."""
    path = path_in(workdir, "config.json")
    values = read_json(path)
    if values.get(run.KEY) != json.loads(json.dumps(run.to_dict())):
        write_whole(path, json.dumps({**values, run.KEY: run.to_dict()}, indent=2) + "\n")


def check_resumable(workdir, wanted_model, wanted_run, vocabulary_bytes=None, run_class=PretrainingConfig):
    """The configuration of the run in a directory, with those wanted values that may change on resume.

    Args:
        wanted_model: BertConfig or None (as the run has it). wanted_run: dict of the fields that were asked for.
        run_class: PretrainingConfig or FinetuningConfig.
        vocabulary_bytes: of the vocabulary that was asked for, or None.

    Returns:
        (BertConfig, configuration of the run)

    Raises:
        UserError: a wanted value contradicts the run's; both are named.
    """
    model_config, run, vocab_sha256 = read_config(workdir, run_class)
    advice = "take another --workdir, or leave the flag out to resume"
    if wanted_model is not None:
        for field in dataclasses.fields(BertConfig):
            ours, theirs = getattr(model_config, field.name), getattr(wanted_model, field.name)
            if ours != theirs:
                raise UserError(
                    f"--workdir={workdir} holds a run with {field.name} {ours!r}, "
                    f"but {theirs!r} was asked for; {advice}"
                )
    if vocabulary_bytes is not None and hashlib.sha256(vocabulary_bytes).hexdigest() != vocab_sha256:
        raise UserError(f"--workdir={workdir} holds a run with another vocabulary than --vocab_file; {advice}")
    for name in run.contradictions(wanted_run):
        raise UserError(
            f"--workdir={workdir} holds a run with {name}={getattr(run, name)}, "
            f"but --{name}={wanted_run[name]} was asked for; {advice}"
        )
    return model_config, run.changed_by(wanted_run)
