"""Finds the files of a task's splits in a directory, or takes the one file that --data_dir names."""

import glob
import os
from collections.abc import Mapping, Sequence

from keras_bert_app.errors import UserError


def path_of(
    task: str,
    files: Mapping[str, Sequence[str]],
    data_dir: str,
    split: str,
    language: str = "",
    dev_fraction: float = 0.0,
) -> str:
    """The path of a split's file, or a glob pattern if the split has several files.

    Args:
        task: the name of the task, for error messages.
        files: Task.files.
        data_dir: the directory of the task's files, or the file of its training examples.
        split: a key of files.
        language: the language in the file name, for files that have one; "" for all languages.
        dev_fraction: the share of the training examples that is "dev"; 0 if dev has files of its own.

    Raises:
        UserError: no file fits, or several files fit one pattern.
    """
    names = files.get(split)
    if names is None:
        raise UserError(f"--split={split}: task {task} has {', '.join(files)}")
    if split == "dev" and dev_fraction:
        names = files["train"]
    if os.path.isfile(data_dir):
        return _one_file(data_dir, split, dev_fraction)
    patterns = [_filled(name, language) for name in names]
    for name, pattern in zip(names, patterns, strict=True):
        paths = _fitting(data_dir, pattern)
        if len(paths) > 1 and name == pattern:
            raise UserError(
                f"--data_dir={data_dir}: {', '.join(map(os.path.basename, paths))} all fit {name}; keep only one"
            )
        if paths:
            return paths[0] if len(paths) == 1 else os.path.join(glob.escape(data_dir), pattern)
    names_there = sorted(os.listdir(data_dir)) if os.path.isdir(data_dir) else []
    present = ", ".join(names_there[:10]) if os.path.isdir(data_dir) else "no such directory"
    advice = "; --dev_fraction=0.1 holds out a share of the training examples" * (
        split == "dev" and has_file(files, data_dir, "train")
    )
    if split == "train" and len(names_there) == 1:
        path = os.path.join(data_dir, names_there[0])
        advice = f"; if this one file has all examples, give --data_dir={path} --dev_fraction=0.1"
    raise UserError(
        f"--data_dir={data_dir}: task {task} expects {' or '.join(patterns)} there (found: {present}){advice}"
    )


def has_file(files: Mapping[str, Sequence[str]], data_dir: str, split: str) -> bool:
    """Whether a directory has a file of a split.

    Args:
        files: Task.files.
        data_dir: the directory.
        split: the split.
    """
    return any(_fitting(data_dir, _filled(name)) for name in files.get(split, ()))


def _one_file(path, split, dev_fraction):
    """The file of --data_dir, which has the training examples and, with --dev_fraction, the dev examples."""
    if split == "train" or split == "dev" and dev_fraction:
        return path
    if split == "dev":
        raise UserError(
            f"--data_dir={path}: is one file; give --dev_fraction=0.1, which holds out a tenth of its examples, or "
            "the directory that has files for training and dev"
        )
    raise UserError(f"--data_dir={path}: is one file, of training examples; give the file of {split} by --input_file")


def _filled(name, language=""):
    """The glob pattern for a name in Task.files."""
    return name.replace("{language}", language or "*").replace("{all}", "*")


def _fitting(data_dir, pattern):
    """The sorted paths in a directory that fit a pattern."""
    return sorted(glob.glob(os.path.join(glob.escape(data_dir), pattern)))
