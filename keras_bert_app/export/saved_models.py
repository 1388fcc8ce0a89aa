"""Writing and reading exports: NAME/VERSION/ with saved_model.pb, variables, config.json, vocab.txt, manifest.json."""

import hashlib
import json
import os

import tensorflow as tf
import tensorflow_text  # noqa: F401  registers the tokenizer's ops, which loading a raw-text export needs

from keras_bert_app.errors import UserError

MANIFEST = "manifest.json"


def write_saved_model(module, export_dir, version, files):
    """Writes EXPORT_DIR/VERSION/ whole or not at all: under a temporary name first, then renamed.

    Args:
        module: tf.Module with a dict `exported`, signature name -> tf.function. version: int.
        files: dict name -> bytes of files to lay beside saved_model.pb.

    Returns:
        the directory written.
    """
    directory = os.path.join(export_dir, str(version))
    temporary = os.path.join(export_dir, f"writing-{version}")
    if tf.io.gfile.exists(temporary):
        tf.io.gfile.rmtree(temporary)
    try:
        tf.saved_model.save(module, temporary, signatures=module.exported)
        for name, content in files.items():
            with tf.io.gfile.GFile(os.path.join(temporary, name), "wb") as file:
                file.write(content)
        hashes = {name: _sha256(os.path.join(temporary, name)) for name in _files_below(temporary)}
        with tf.io.gfile.GFile(os.path.join(temporary, MANIFEST), "w") as file:
            file.write(json.dumps({"sha256": hashes}, indent=1) + "\n")
        tf.io.gfile.rename(temporary, directory)
    except BaseException:
        if tf.io.gfile.exists(temporary):
            tf.io.gfile.rmtree(temporary)
        raise
    return directory


def versions(export_dir):
    """The version numbers below EXPORT_DIR, ascending."""
    if not tf.io.gfile.isdir(export_dir):
        return []
    names = (name.rstrip("/") for name in tf.io.gfile.listdir(export_dir))
    return sorted(int(name) for name in names if name.isdigit())


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
    if tf.io.gfile.exists(os.path.join(path, "saved_model.pb")):
        return path
    found = versions(path)
    if not found:
        raise UserError(f"{path}: no SavedModel there; expected a directory that `export` wrote, with or without its "
                        "version number")
    return os.path.join(path, str(found[-1]))


def load(path):
    """A loaded SavedModel whose files are all as they were written.

    Returns:
        the object of tf.saved_model.load, with `signatures`.

    Raises:
        UserError: nothing there, a file of the manifest is missing or changed, or one is there that it does not name.
    """
    directory = find(path)
    manifest = os.path.join(directory, MANIFEST)
    try:
        with tf.io.gfile.GFile(manifest) as file:
            expected = json.loads(file.read())["sha256"]
    except (tf.errors.OpError, ValueError, KeyError, TypeError):
        raise UserError(f"{manifest}: missing or damaged; expected the hashes that `export` writes; export again") \
            from None
    # A TensorFlow model is a program: what is not as it was written does not run.
    for name in sorted(set(expected) | {name for name in _files_below(directory) if name != MANIFEST}):
        file_path = os.path.join(directory, name)
        found = _sha256(file_path) if tf.io.gfile.exists(file_path) else "missing"
        if found != expected.get(name):
            raise UserError(f"{file_path}: is not as it was exported (sha256 {str(expected.get(name, 'none'))[:12]} "
                            f"expected, {found[:12]} found); export again or restore the file")
    return tf.saved_model.load(directory)


def _files_below(directory):
    found = []
    for folder, _, names in tf.io.gfile.walk(directory):
        found += [os.path.relpath(os.path.join(folder, name), directory) for name in names]
    return sorted(found)


def _sha256(path):
    digest = hashlib.sha256()
    with tf.io.gfile.GFile(path, "rb") as file:
        while chunk := file.read(1 << 22):
            digest.update(chunk)
    return digest.hexdigest()
