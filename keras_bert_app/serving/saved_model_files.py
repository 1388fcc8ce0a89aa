"""The files of an exported model: its versions, and a manifest with the size and hash of each file."""

import contextlib
import hashlib
import json
import os

import numpy as np
import tensorflow as tf

from keras_bert_app.errors import UserError
from keras_bert_app.files import read_json
from keras_bert_app.runs import tf_checkpoints
from pipelines import storage

MANIFEST = "manifest.json"
GRAPH = "saved_model.pb"
# TensorFlow Serving keeps a version as a signed 64-bit integer.
_LARGEST_VERSION = 2**63 - 1
_MAX_MANIFEST_BYTES = 1 << 24
_CHUNK_BYTES = 1 << 22
_VARIABLES = os.path.join("variables", "variables")  # prefix of the checkpoint in a SavedModel


def version_directories(base_path: str) -> dict[int, str]:
    """Lists the versions below a base path.

    A version is a directory, or a link to one, whose name is a whole number. Leading zeros do not count: if 1 and 01
    exist, the result has the directory 1. Files, and links that lead nowhere, do not count.

    Args:
        base_path: str. The directory of the versions, local or remote.

    Returns:
        dict from version number to directory, ascending.
    """
    names = [name for name in storage.list_directory(base_path) if name.isascii() and name.isdigit()]
    directories = {}
    for name in sorted(names, key=len):
        number, path = int(name), os.path.join(base_path, name)
        if number <= _LARGEST_VERSION and number not in directories and storage.is_directory(path):
            directories[number] = path
    return dict(sorted(directories.items()))


def holds_export(path: str) -> bool:
    """Says whether a directory is a SavedModel, or has versions that are SavedModels.

    Args:
        path: str. The directory, local or remote. It need not exist.
    """
    if not storage.is_directory(path):
        return False
    return any(storage.exists(os.path.join(place, GRAPH)) for place in (path, *version_directories(path).values()))


def files_below(directory: str) -> list[str]:
    """Lists all files below a directory.

    A local link to a directory counts as a file, because it may lead in a circle.

    Args:
        directory: str. A directory, local or remote.

    Returns:
        list of str: sorted paths, relative to the directory.
    """
    paths = []
    for folder, folders, names in tf.io.gfile.walk(directory) if storage.is_remote(directory) else os.walk(directory):
        names = [*names, *(name for name in folders if os.path.islink(os.path.join(folder, name)))]
        paths += [os.path.relpath(os.path.join(folder, name), directory) for name in names]
    return sorted(paths)


def check_plain(directory: str) -> list[str]:
    """Refuses a directory with anything but plain files.

    A pipe, for example, would block its reader for ever.

    Args:
        directory: str. The directory of one version.

    Returns:
        list of str: the result of files_below.

    Raises:
        UserError: an entry is a pipe, a device, a link to a directory, or a link that leads nowhere.
    """
    names = files_below(directory)
    for name in names:
        path = os.path.join(directory, name)
        if not storage.is_file(path):
            raise UserError(f"{path}: is not a regular file; remove it, or export again")
    return names


def literal(directory: str, links: contextlib.ExitStack) -> str:
    """Returns a path to a directory that TensorFlow does not read as a pattern.

    Args:
        directory: str. The directory of one version.
        links: contextlib.ExitStack. The path is valid until this stack closes.

    Returns:
        str: the directory itself, or a link to it if its path has wildcards.
    """
    if not storage.has_wildcards(directory):
        return directory
    return os.path.join(links.enter_context(storage.linked({"saved_model": directory})), "saved_model")


def write_manifest(directory: str) -> None:
    """Writes manifest.json, which holds the size and the sha256 of every other file, into a directory.

    Args:
        directory: str. The directory of one version.
    """
    names = [name for name in files_below(directory) if name != MANIFEST]
    paths = {name: os.path.join(directory, name) for name in names}
    content = {
        "sha256": {name: storage.sha256_of(path) for name, path in paths.items()},
        "bytes": {name: storage.size_of(path) for name, path in paths.items()},
    }
    with tf.io.gfile.GFile(os.path.join(directory, MANIFEST), "w") as file:
        file.write(json.dumps(content, indent=1) + "\n")


def check_manifest(directory: str) -> None:
    """Compares every file below a directory with manifest.json.

    A TensorFlow model is a program, so a file that someone changed must not run. TensorFlow trusts the index of the
    variables, so the function checks that index, too. Manifests of earlier exports have no sizes.

    Args:
        directory: str. The directory of one version.

    Raises:
        UserError: the manifest or a file is missing, a file is changed, or the manifest does not name a file. Other
            causes are an entry that is not a regular file, a file that gives more bytes than its size, and a variable
            with numbers that are not finite.
    """
    names = check_plain(directory)
    path = os.path.join(directory, MANIFEST)
    try:
        content = read_json(path, _MAX_MANIFEST_BYTES)
        expected, sizes = dict(content["sha256"]), content.get("bytes")
        sizes = sizes if sizes is None else {name: int(sizes[name]) for name in expected}
    except (tf.errors.OpError, ValueError, KeyError, TypeError, OverflowError):
        raise UserError(f"{path}: missing or damaged; expected the hashes that `export` writes; export again") from None
    # A file that the manifest does not name may be of any size, so it is refused before any file is read.
    for name in sorted({*expected, *names} - {MANIFEST}, key=lambda name: (name in expected, name)):
        file_path = os.path.join(directory, name)
        if name not in expected:
            actual = "another file"
        else:
            actual = _sha256_of(file_path, sizes and sizes[name]) if storage.is_file(file_path) else "missing"
        if actual != expected.get(name):
            raise UserError(
                f"{file_path}: is not as it was exported (sha256 {str(expected.get(name, 'none'))[:12]} "
                f"expected, {actual[:12]} found); export again or restore the file"
            )
    _check_variables(directory)


def _sha256_of(path, expected_size=None):
    """Returns the hash of a file. It reads no more than the file's size, since a link may lead to an endless file."""
    size = storage.size_of(path)
    if expected_size is not None and size != expected_size:
        raise UserError(
            f"{path}: is not as it was exported ({expected_size:,} bytes expected, {size:,} found); export again or "
            "restore the file"
        )
    digest, left = hashlib.sha256(), size
    with _open_without_waiting(path) as file:
        while left and (chunk := file.read(min(left, _CHUNK_BYTES))):
            digest.update(chunk)
            left -= len(chunk)
        if left or file.read(1) != b"":  # None: a special file has no data yet
            raise UserError(
                f"{path}: gives more or less than its {size:,} bytes; put a plain file there, or export again"
            )
    return digest.hexdigest()


def _open_without_waiting(path):
    if storage.is_remote(path):
        return storage.open_file(path)
    return open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK))


def _check_variables(directory):
    """Refuses variables that would crash TensorFlow, and variables with numbers that are not finite."""
    prefix = os.path.join(directory, _VARIABLES)
    if not storage.exists(f"{prefix}.index"):
        return
    # The hashes are right, so the place to which a link leads does not matter.
    checkpoint = tf_checkpoints.open_checkpoint(prefix, folder=os.sep)
    for name, dtype in checkpoint.dtypes.items():
        if dtype.is_floating and not np.isfinite(checkpoint.tensor(name)).all():
            raise UserError(
                f"{directory}: the variable {name.removesuffix('/.ATTRIBUTES/VARIABLE_VALUE')} holds numbers that are "
                "not finite (NaN or infinite); export another checkpoint"
            )
