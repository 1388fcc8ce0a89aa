"""Writing and reading exports: NAME/VERSION/ with saved_model.pb, variables and what tells of them.

That is config.json, vocab.txt, export.json (for programs), README.md (for people), warm-up requests for servers, and
manifest.json with the sha256 of all.
"""

import dataclasses
import json
import os
import platform
import re
import tempfile
import time

import tensorflow as tf
import tensorflow_text  # noqa: F401  registers the tokenizer's ops, which loading a raw-text export needs
from tensorflow.core.protobuf import saved_model_pb2
from tensorflow_serving.apis import model_pb2, predict_pb2, prediction_log_pb2

from keras_bert_app.errors import UserError
from keras_bert_app.export.model_card import card
from keras_bert_app.serving import saved_model_files

_GRAPH = "saved_model.pb"
_A_DAY = 86_400.0  # seconds
_WARM_UP = os.path.join("assets.extra", "tf_serving_warmup_requests")  # TensorFlow Serving's name


def write_saved_model(module, export_dir, version, files, facts=None):
    """Writes EXPORT_DIR/VERSION/ whole or not at all: under a temporary name first, then renamed.

    To an object store (gs://), where renaming a directory copies its files one by one, it is copied from a local directory;
    saved_model.pb, without which no program loads a version, comes last.

    Args:
        module: tf.Module with
            exported: dict signature name -> tf.function with an input_signature; about: specs.About.
        version: int. files: dict name -> bytes of files to lay beside saved_model.pb.
        facts: dict heading -> lines of the model card.

    Returns:
        the directory written.
    """
    directory, name = os.path.join(export_dir, str(version)), os.path.basename(export_dir)
    if "://" in export_dir:
        with tempfile.TemporaryDirectory() as temporary:
            _write_files(module, temporary, name, files, facts)
            _copy(temporary, directory)
        return directory
    _remove_broken_off(export_dir)
    # Its own: another process may write there at the same time. Who comes second to a version's name is told so.
    temporary = os.path.join(export_dir, f"writing-{version}-{os.getpid()}-{platform.node()}")
    try:
        _write_files(module, temporary, name, files, facts)
        tf.io.gfile.rename(temporary, directory)
    except BaseException:
        if tf.io.gfile.exists(temporary):
            tf.io.gfile.rmtree(temporary)
        raise
    return directory


def _remove_broken_off(export_dir):
    """Removes what exports left behind whose processes are no more; of another machine or container what is a day old."""
    for name in os.listdir(export_dir) if os.path.isdir(export_dir) else ():
        if found := re.fullmatch(r"writing-\d+-(\d+)(?:-(.*))?", name):
            path, is_here = os.path.join(export_dir, name), found[2] in (None, platform.node())
            if not _is_alive(int(found[1])) if is_here else time.time() - os.stat(path).st_mtime > _A_DAY:
                tf.io.gfile.rmtree(path)


def _is_alive(process):
    if process == os.getpid():
        return False  # what a killed one left: in a container every process may have the same number
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:
        pass  # of another user
    return True


def _copy(source, target):
    names = saved_model_files.files_below(source)
    for name in sorted(names, key=lambda name: name == _GRAPH):
        tf.io.gfile.makedirs(os.path.dirname(os.path.join(target, name)))
        tf.io.gfile.copy(os.path.join(source, name), os.path.join(target, name), overwrite=True)


def _write_files(module, directory, name, files, facts):
    """The SavedModel NAME, and what tells of it."""
    tf.saved_model.save(module, directory, signatures=module.exported)
    texts = {
        "export.json": json.dumps(dataclasses.asdict(module.about), indent=1, ensure_ascii=False) + "\n",
        "README.md": card(module.about, _signatures(directory), name, facts or {}),
    }
    for file_name, content in {**files, **{key: text.encode() for key, text in texts.items()}}.items():
        with tf.io.gfile.GFile(os.path.join(directory, file_name), "wb") as file:
            file.write(content)
    _write_warm_up(module, name, os.path.join(directory, _WARM_UP))
    saved_model_files.write_manifest(directory)


def _signatures(directory):
    """dict name -> SignatureDef of what a function can be called as: read from the file, since tracing takes seconds."""
    with tf.io.gfile.GFile(os.path.join(directory, _GRAPH), "rb") as file:
        model = saved_model_pb2.SavedModel.FromString(file.read())
    found = model.meta_graphs[0].signature_def
    return {name: found[name] for name in found if found[name].inputs}


def _write_warm_up(module, name, path):
    """Writes the examples as the requests with which TensorFlow Serving warms a model up; nothing where there are none."""
    if not module.about.examples:
        return
    tf.io.gfile.makedirs(os.path.dirname(path))
    with tf.io.TFRecordWriter(path) as writer:
        for signature, inputs in module.about.examples.items():
            request = predict_pb2.PredictRequest(model_spec=model_pb2.ModelSpec(name=name, signature_name=signature))
            for spec in module.exported[signature].input_signature:
                request.inputs[spec.name].CopyFrom(tf.make_tensor_proto(inputs[spec.name], spec.dtype))
            log = prediction_log_pb2.PredictionLog(predict_log=prediction_log_pb2.PredictLog(request=request))
            writer.write(log.SerializeToString())


def next_version(*export_dirs):
    """The first version number that is free below all of them."""
    return max([0, *(version for export_dir in export_dirs for version in versions(export_dir))]) + 1


def versions(export_dir):
    """The version numbers below EXPORT_DIR, ascending."""
    return list(saved_model_files.version_directories(export_dir))


def read_file(export_dir, version, name):
    """The bytes of a file that lies beside a version's saved_model.pb, or None."""
    path = os.path.join(export_dir, str(version), name)
    if not tf.io.gfile.exists(path):
        return None
    with tf.io.gfile.GFile(path, "rb") as file:
        return file.read()


def find(path):
    """The directory of one version: the path itself when it holds a saved_model.pb, else its largest version."""
    path = str(path).rstrip("/")
    if tf.io.gfile.exists(os.path.join(path, _GRAPH)):
        return path
    found = saved_model_files.version_directories(path)
    if not found:
        raise UserError(
            f"{path}: no SavedModel there; expected a directory that `export` wrote, with or without its version number"
        )
    return found[max(found)]


def load(path):
    """A loaded SavedModel whose files are all as they were written.

    Returns:
        the object of tf.saved_model.load, with `signatures`.

    Raises:
        UserError: nothing there, a file of the manifest is missing or changed, or one is there that it does not name.
    """
    directory = find(path)
    saved_model_files.check_manifest(directory)
    return tf.saved_model.load(directory)
