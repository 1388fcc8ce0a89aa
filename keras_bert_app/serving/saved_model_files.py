"""The files of an exported model: which versions lie below a base path, and whether each file is as it was written."""

import hashlib
import json
import os

import tensorflow as tf

from keras_bert_app.errors import UserError

MANIFEST = "manifest.json"
# TensorFlow Serving keeps a version as a signed 64-bit integer.
_LARGEST_VERSION = 2**63 - 1


def version_directories(base_path):
    """The versions below a base path: dict from number to directory, ascending; leading zeros do not count."""
    if not tf.io.gfile.isdir(base_path):
        return {}
    names = (name.rstrip("/") for name in tf.io.gfile.listdir(base_path))
    found = {int(name): os.path.join(base_path, name) for name in sorted(names) if name.isascii() and name.isdigit()}
    return {number: found[number] for number in sorted(found) if number <= _LARGEST_VERSION}


def files_below(directory):
    """Paths of all files below a directory, relative to it, sorted."""
    found = []
    for folder, _, names in tf.io.gfile.walk(directory):
        found += [os.path.relpath(os.path.join(folder, name), directory) for name in names]
    return sorted(found)


def write_manifest(directory):
    """Lays manifest.json with the sha256 of every other file into a directory."""
    content = {
        "sha256": {name: _sha256(os.path.join(directory, name)) for name in files_below(directory) if name != MANIFEST}
    }
    with tf.io.gfile.GFile(os.path.join(directory, MANIFEST), "w") as file:
        file.write(json.dumps(content, indent=1) + "\n")


def check_manifest(directory):
    """Compares every file below a directory with manifest.json.

    A TensorFlow model is a program: what is not as it was written must not run.

    Raises:
        UserError: there is no manifest, a file is missing or changed, or one is there that it does not name.
    """
    path = os.path.join(directory, MANIFEST)
    try:
        with tf.io.gfile.GFile(path) as file:
            expected = dict(json.loads(file.read())["sha256"])
    except (tf.errors.OpError, ValueError, KeyError, TypeError):
        raise UserError(f"{path}: missing or damaged; expected the hashes that `export` writes; export again") from None
    for name in sorted({*expected, *files_below(directory)} - {MANIFEST}):
        file_path = os.path.join(directory, name)
        found = _sha256(file_path) if tf.io.gfile.exists(file_path) else "missing"
        if found != expected.get(name):
            raise UserError(
                f"{file_path}: is not as it was exported (sha256 {str(expected.get(name, 'none'))[:12]} "
                f"expected, {found[:12]} found); export again or restore the file"
            )


def _sha256(path):
    digest = hashlib.sha256()
    with tf.io.gfile.GFile(path, "rb") as file:
        while chunk := file.read(1 << 22):
            digest.update(chunk)
    return digest.hexdigest()
