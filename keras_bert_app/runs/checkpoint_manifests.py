"""The manifest of a checkpoint: step, position in the data, and size and sha256 of every file."""

import hashlib
import json
import os
from typing import Any

import tensorflow as tf

from keras_bert_app.errors import UserError
from keras_bert_app.files import check_in_folder, read_whole
from keras_bert_app.runs.work_directory import CHECKPOINT_MANIFEST
from pipelines import storage

_MAX_BYTES = 1 << 26  # The manifest has a row for each step since the last line of metrics.jsonl.


def manifest_text(manifest: dict[str, Any]) -> str:
    """Makes the JSON text of a manifest, with a sha256 of its content.

    The sha256 reveals a changed digit of the step or the position.

    Args:
        manifest: the values, without the sha256.
    """
    digest = hashlib.sha256(json.dumps(manifest).encode()).hexdigest()
    return json.dumps({**manifest, "sha256": digest}, indent=1) + "\n"


def read_manifest(directory: str, verify: bool = True) -> dict[str, Any]:
    """Reads the manifest of a checkpoint, and compares the files with it.

    Args:
        directory: the checkpoint.
        verify: whether the function reads all files and compares their sizes and hashes.

    Raises:
        UserError: the manifest is damaged, or a file differs. The message names the first such file, and the expected
            and found values.
    """
    path = os.path.join(directory, CHECKPOINT_MANIFEST)
    try:
        text = read_whole(path, _MAX_BYTES, directory).decode("utf-8")
        manifest = json.loads(text)
        del manifest["sha256"]
        if text != manifest_text(manifest):
            raise ValueError("the file has changed since a run wrote it")
        _check_manifest(manifest)
    except (OSError, tf.errors.OpError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise UserError(
            f"checkpoint {directory}: {CHECKPOINT_MANIFEST} is missing or damaged ({type(error).__name__}: "
            f"{str(error)[:300]}); delete this directory to continue from the checkpoint before it"
        ) from None
    for name, expected in manifest["files"].items() if verify else ():
        _check_file(directory, name, expected)
    return manifest


def _check_manifest(manifest):
    """Checks the types of a manifest's values, because its source may be unknown.

    Raises:
        ValueError: a value is not of the kind that `save` and `save_best` write.
    """

    def are_numbers(values):
        return isinstance(values, list) and all(type(value) in (int, float) for value in values)

    files, figures = manifest.get("files"), manifest.get("figures", {})
    checks = {
        "step": type(manifest.get("step")) is int and manifest["step"] >= 0,
        "files": isinstance(files, dict) and all(map(_is_file_entry, files.keys(), files.values())),
        "seconds": type(manifest.get("seconds", 0.0)) in (int, float),
        "clock": type(manifest.get("clock", 0.0)) in (int, float),
        "mean_of_steps": are_numbers(manifest.get("mean_of_steps", [])),
        "position": are_numbers(manifest.get("position", [])),
        "evaluation_due": isinstance(manifest.get("evaluation_due", False), bool),
        "unlogged": isinstance(manifest.get("unlogged", []), list)
        and all(map(are_numbers, manifest.get("unlogged", []))),
        "figures": isinstance(figures, dict) and are_numbers(list(figures.values())),
    }
    for name, is_right in checks.items():
        if not is_right:
            raise ValueError(f"{name} is not what a run writes")


def _is_file_entry(name, entry):
    return (
        os.path.basename(name) == name
        and isinstance(entry, dict)
        and entry.keys() == {"bytes", "sha256"}
        and type(entry["bytes"]) is int
        and isinstance(entry["sha256"], str)
    )


def _check_file(directory, name, expected):
    """Compares a file of a checkpoint with its entry in the manifest."""
    path = os.path.join(directory, name)
    check_in_folder(path, directory)
    size = storage.size_of(path) if storage.exists(path) else 0
    # The function does not read a file of another size, because the file may be very large.
    sha256 = fingerprint(path)["sha256"] if size == expected["bytes"] else "another size"
    if {"bytes": size, "sha256": sha256} != expected:
        raise UserError(
            f"checkpoint {directory}: {name} is damaged (expected {expected['bytes']} bytes, sha256 "
            f"{expected['sha256'][:12]}; found {size} bytes, {sha256[:12]}); "
            "delete this directory to continue from the checkpoint before it"
        )


def fingerprint(path: str) -> dict[str, Any]:
    """Size and sha256 of a file, as a manifest has them.

    Args:
        path: the file.
    """
    if not storage.exists(path):
        return {"bytes": 0, "sha256": "no such file"}
    return {"bytes": storage.size_of(path), "sha256": storage.sha256_of(path)}
