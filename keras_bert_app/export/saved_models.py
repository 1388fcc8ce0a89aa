"""Writes and reads exports.

An export is a directory NAME/VERSION/ with saved_model.pb, the variables and more.

config.json and vocab.txt describe the model. export.json describes the export for programs, and README.md for people.
Servers warm up with the requests in assets.extra. manifest.json has the sha256 of all these files.
"""

import contextlib
import dataclasses
import json
import os
import platform
import re
import tempfile
import time
import weakref
from collections.abc import Iterable

import tensorflow as tf
import tensorflow_text  # noqa: F401  registers the tokenizer's ops, which raw-text exports need
from tensorflow.core.protobuf import saved_model_pb2
from tensorflow_serving.apis import model_pb2, predict_pb2, prediction_log_pb2

from keras_bert_app.errors import UserError, first_line
from keras_bert_app.export.model_card import card
from keras_bert_app.files import read_json
from keras_bert_app.serving import saved_model_files
from pipelines import storage

_DESCRIPTION = "export.json"
_A_DAY = 86_400.0  # seconds
_WARM_UP = os.path.join("assets.extra", "tf_serving_warmup_requests")  # TensorFlow Serving's name


@dataclasses.dataclass(frozen=True)
class Export:
    """One of the SavedModels that write_together writes.

    Attributes:
        module: tf.Module with `exported`, a dict from signature name to tf.function with an input_signature, and with
            `about`, a specs.About.
        export_dir: str. The directory of the versions.
        files: dict from name to bytes of files to write next to saved_model.pb.
        facts: dict from heading to lines of the model card.
    """

    module: tf.Module
    export_dir: str
    files: dict[str, bytes]
    facts: dict[str, list[str]]


def write_saved_model(
    module: tf.Module, export_dir: str, version: int, files: dict[str, bytes], facts: dict | None = None
) -> str:
    """Writes EXPORT_DIR/VERSION/ completely or not at all. See write_together.

    Args:
        module: tf.Module. See Export.
        export_dir: str. The directory of the versions.
        version: int. The number of the version.
        files: dict. See Export.
        facts: dict. See Export.

    Returns:
        str: the directory of the version.

    Raises:
        UserError: EXPORT_DIR has versions of another kind.
    """
    refuse_another_kind(export_dir, module.about.kind, module.about.task)
    return write_together([export_dir], version, [Export(module, export_dir, files, facts or {})])[0]


def write_together(export_dirs: Iterable[str], version: int, exports: Iterable[Export]) -> list[str]:
    """Writes EXPORT_DIR/VERSION/ for each export: all of them or none.

    An existing version is an error and stays unchanged. Local directories get their names when all of them are
    complete. If the process is killed between two renames, the next export of the same model does the other renames.
    An object store (gs://) renames a directory by copying its files. For a store the function writes each export to a
    local directory and copies it. saved_model.pb comes last, because no program loads a version without this file.

    Args:
        export_dirs: iterable of str. All directories of the model's versions.
        version: int. The number of the version.
        exports: iterable of Export. They may be made one by one.

    Returns:
        list of str: the directory of each version, in the order of `exports`.
    """
    export_dirs = list(export_dirs)
    if storage.is_remote(export_dirs[0]):
        return [_write_remote(export, version) for export in exports]
    _finish_abandoned(export_dirs)
    staged, named = [], []
    try:
        for export in exports:
            # Another process may write the same version, so the name contains the number of this process. The rename
            # refuses an existing directory, so the second process fails. storage.whole_directory would replace it.
            name = f"writing-{version}-{os.getpid()}-{platform.node()}"
            staged.append((os.path.join(export.export_dir, name), os.path.join(export.export_dir, str(version))))
            _write_files(export, staged[-1][0])
        for temporary, directory in staged:
            tf.io.gfile.rename(temporary, directory)
            named.append(directory)
    except BaseException:
        for path in (*(temporary for temporary, _ in staged), *named):
            if tf.io.gfile.exists(path):
                tf.io.gfile.rmtree(path)
        raise
    return named


def _write_remote(export, version):
    directory = os.path.join(export.export_dir, str(version))
    with tempfile.TemporaryDirectory() as temporary:
        _write_files(export, temporary)
        _copy(temporary, directory)
    return directory


def _finish_abandoned(export_dirs):
    """Completes or removes the directories that ended processes left.

    A complete directory gets its final name if another directory in export_dirs has this version. Otherwise the
    function removes it. The function cannot see the processes of another machine or container, so a directory from
    there counts as abandoned after a day.
    """
    for path, version in [each for export_dir in export_dirs for each in _abandoned(export_dir)]:
        directory = os.path.join(os.path.dirname(path), version)
        is_named_elsewhere = any(os.path.isdir(os.path.join(other, version)) for other in export_dirs)
        if is_named_elsewhere and not os.path.exists(directory) and _is_whole(path):
            os.rename(path, directory)
        else:
            tf.io.gfile.rmtree(path)


def _abandoned(export_dir):
    """Lists (directory of an ended process, its version)."""
    abandoned = []
    for name in os.listdir(export_dir) if os.path.isdir(export_dir) else ():
        if match := re.fullmatch(r"writing-(\d+)-(\d+)-(.*)", name):
            path, is_here = os.path.join(export_dir, name), match[3] == platform.node()
            if not _is_alive(int(match[2])) if is_here else time.time() - os.stat(path).st_mtime > _A_DAY:
                abandoned.append((path, match[1]))
    return abandoned


def _is_whole(directory):
    try:
        saved_model_files.check_manifest(directory)
    except UserError:
        return False
    return True


def _is_alive(process):
    if process == os.getpid():
        return False  # A killed process with this number left the directory. Containers often reuse numbers.
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:
        pass  # The process belongs to another user.
    return True


def _copy(source, target):
    names = saved_model_files.files_below(source)
    for name in sorted(names, key=lambda name: name == saved_model_files.GRAPH):
        tf.io.gfile.makedirs(os.path.dirname(os.path.join(target, name)))
        tf.io.gfile.copy(os.path.join(source, name), os.path.join(target, name), overwrite=True)


def _write_files(export, directory):
    """Writes the SavedModel, the given files and their descriptions."""
    module, name = export.module, os.path.basename(export.export_dir)
    tf.saved_model.save(module, directory, signatures=module.exported)
    texts = {
        _DESCRIPTION: json.dumps(dataclasses.asdict(module.about), indent=1, ensure_ascii=False) + "\n",
        "README.md": card(module.about, _signatures(directory), name, export.facts),
    }
    for file_name, content in {**export.files, **{key: text.encode() for key, text in texts.items()}}.items():
        with tf.io.gfile.GFile(os.path.join(directory, file_name), "wb") as file:
            file.write(content)
    _write_warm_up(module, name, os.path.join(directory, _WARM_UP))
    saved_model_files.write_manifest(directory)


def _signatures(directory):
    """Reads the callable signatures from the file, dict name -> SignatureDef. Tracing them would take seconds."""
    with tf.io.gfile.GFile(os.path.join(directory, saved_model_files.GRAPH), "rb") as file:
        model = saved_model_pb2.SavedModel.FromString(file.read())
    definitions = model.meta_graphs[0].signature_def
    return {name: definitions[name] for name in definitions if definitions[name].inputs}


def _write_warm_up(module, name, path):
    """Writes the examples as warm-up requests for TensorFlow Serving. Without examples there is no file."""
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


def next_version(*export_dirs: str) -> int:
    """Finds the first version number that is free in all directories.

    Args:
        *export_dirs: str. Directories of versions.

    Returns:
        int, 1 or more.
    """
    return max([0, *(version for export_dir in export_dirs for version in versions(export_dir))]) + 1


def versions(export_dir: str) -> list[int]:
    """Lists the version numbers below EXPORT_DIR.

    Args:
        export_dir: str. The directory of the versions.

    Returns:
        list of int, ascending.
    """
    return list(saved_model_files.version_directories(export_dir))


def refuse_another_kind(export_dir: str, kind: str, task: str = "") -> None:
    """Refuses to add a version to versions of another kind or task.

    Servers and commands take the newest version, so the new version would replace the others. The export.json of the
    newest version decides. If export.json cannot be read, the new version is allowed.

    Args:
        export_dir: str. The directory of the versions.
        kind: str. The kind of the new version. See specs.About.
        task: str. The task of the new version, or "".

    Raises:
        UserError: the newest version is of another kind or task.
    """
    directories = saved_model_files.version_directories(export_dir)
    if not directories:
        return
    newest = directories[max(directories)]
    try:
        about = read_json(os.path.join(newest, _DESCRIPTION), folder=newest)
    except (UserError, tf.errors.OpError):
        return
    existing = about.get("kind"), about.get("task", "")
    if all(isinstance(value, str) for value in existing) and existing[0] and existing != (kind, task):
        raise UserError(
            f"--export_dir: {newest} is {_kind_words(*existing)}, and the new version would be "
            f"{_kind_words(kind, task)}; "
            "give another --export_dir"
        )


def _kind_words(kind, task):
    return f"of kind {kind[:40]!r}" + (f" for task {task[:40]!r}" if task else "")


def read_file(export_dir: str, version: int, name: str) -> bytes | None:
    """Reads a file of a version.

    Args:
        export_dir: str. The directory of the versions.
        version: int. The number of the version.
        name: str. The name of the file.

    Returns:
        bytes, or None if there is no such file.
    """
    path = os.path.join(export_dir, str(version), name)
    if not tf.io.gfile.exists(path):
        return None
    with tf.io.gfile.GFile(path, "rb") as file:
        return file.read()


def find(path: str | os.PathLike) -> str:
    """Finds the directory of one version.

    Args:
        path: str. A directory with a saved_model.pb, or a directory of versions.

    Returns:
        str: the directory of the version. If there are several versions, the directory of the largest one.

    Raises:
        UserError: there is no version.
    """
    path = str(path).rstrip("/")
    if tf.io.gfile.exists(os.path.join(path, saved_model_files.GRAPH)):
        return path
    directories = saved_model_files.version_directories(path)
    if not directories:
        raise UserError(
            f"{path}: no SavedModel there; expected a directory that `export` wrote, with or without its version number"
        )
    return directories[max(directories)]


def load(path: str | os.PathLike):
    """Verifies all files of a SavedModel and loads it.

    Args:
        path: str. See find.

    Returns:
        the result of tf.saved_model.load, an object with `signatures`.

    Raises:
        UserError: there is no version, a file is missing or changed, the manifest does not name a file, or TensorFlow
            cannot load the files.
    """
    directory = find(path)
    saved_model_files.check_manifest(directory)
    links = contextlib.ExitStack()
    try:
        loaded = tf.saved_model.load(saved_model_files.literal(directory, links))
    except Exception as error:  # A damaged SavedModel can raise any error in TensorFlow.
        reason = first_line(error)
        raise UserError(f"{directory}: TensorFlow cannot load it: {reason}; export again") from None
    weakref.finalize(loaded, links.close)
    return loaded
