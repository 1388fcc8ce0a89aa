"""The files of an exported model: its versions, and the manifest with the hash of every file."""

import json
import os

import tensorflow as tf

from keras_bert_app.errors import UserError
from pipelines import storage

MANIFEST = "manifest.json"
# TensorFlow Serving keeps a version as a signed 64-bit integer.
_LARGEST_VERSION = 2**63 - 1


def version_directories(base_path: str) -> dict[int, str]:
    """Lists the versions below a base path. Leading zeros of a directory's name do not count.

    Args:
        base_path: str. The directory of the versions, local or remote.

    Returns:
        dict from version number to directory, ascending.
    """
    names = [name for name in storage.list_directory(base_path) if name.isascii() and name.isdigit()]
    directories = {int(name): os.path.join(base_path, name) for name in names}
    return {number: directories[number] for number in sorted(directories) if number <= _LARGEST_VERSION}


def files_below(directory: str) -> list[str]:
    """Lists all files below a directory.

    Args:
        directory: str. A directory, local or remote.

    Returns:
        list of str: sorted paths, relative to the directory.
    """
    paths = []
    for folder, _, names in tf.io.gfile.walk(directory):
        paths += [os.path.relpath(os.path.join(folder, name), directory) for name in names]
    return sorted(paths)


def write_manifest(directory: str) -> None:
    """Writes manifest.json, which holds the sha256 of every other file, into a directory.

    Args:
        directory: str. The directory of one version.
    """
    names = [name for name in files_below(directory) if name != MANIFEST]
    content = {"sha256": {name: storage.sha256_of(os.path.join(directory, name)) for name in names}}
    with tf.io.gfile.GFile(os.path.join(directory, MANIFEST), "w") as file:
        file.write(json.dumps(content, indent=1) + "\n")


def check_manifest(directory: str) -> None:
    """Compares every file below a directory with manifest.json.

    A TensorFlow model is a program, so a file that someone changed must not run.

    Args:
        directory: str. The directory of one version.

    Raises:
        UserError: the manifest is missing, a file is missing or changed, or the manifest does not name a file.
    """
    path = os.path.join(directory, MANIFEST)
    try:
        with tf.io.gfile.GFile(path) as file:
            expected = dict(json.loads(file.read())["sha256"])
    except (tf.errors.OpError, ValueError, KeyError, TypeError):
        raise UserError(f"{path}: missing or damaged; expected the hashes that `export` writes; export again") from None
    for name in sorted({*expected, *files_below(directory)} - {MANIFEST}):
        file_path = os.path.join(directory, name)
        actual = storage.sha256_of(file_path) if storage.exists(file_path) else "missing"
        if actual != expected.get(name):
            raise UserError(
                f"{file_path}: is not as it was exported (sha256 {str(expected.get(name, 'none'))[:12]} "
                f"expected, {actual[:12]} found); export again or restore the file"
            )
