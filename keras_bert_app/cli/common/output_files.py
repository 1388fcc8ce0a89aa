"""Output files of a command: checks before the work begins, and complete writes at its end."""

import os
import pathlib
from collections.abc import Iterable, Mapping, Sequence

from keras_bert_app.errors import UserError
from keras_bert_app.files import lies_below
from pipelines import storage


def check_apart(path: str, flag: str, input_files: Sequence[str], files: Iterable[str]) -> None:
    """Refuses an output file that is an input file, or that a later run would read as input.

    Args:
        path: str. The output file.
        flag: str. The name of its flag.
        input_files: sequence of str. Patterns and directories of the input.
        files: iterable of str. The files that input_files name.

    Raises:
        UserError: the path is one of the files, or the patterns and directories would include it.
    """
    if storage.is_remote(path):
        return
    place = os.path.realpath(path)
    if place in map(os.path.realpath, files):
        raise UserError(f"--{flag}={path}: is one of --input_files, whose text would be lost; give another name")
    for pattern in input_files:
        if lies_below(path, pattern) or pathlib.PurePath(place).match(os.path.abspath(pattern)):
            raise UserError(
                f"--{flag}={path}: the next run would read it as text of --input_files={pattern}; give another place"
            )


def make_place_for(path: str, flag: str) -> None:
    """Makes the directory of an output file. Call it before the work, so that a fault appears early.

    Args:
        path: str. The output file.
        flag: str. The name of its flag.

    Raises:
        UserError: the path is a directory.
    """
    if storage.is_remote(path):
        return
    if os.path.isdir(path):
        raise UserError(f"--{flag}={path} is a directory; give the name of a file in it")
    storage.make_directories(os.path.dirname(os.path.abspath(path)))


def write_files(output_dir: str, contents: Mapping[str, bytes | Iterable[bytes]]) -> None:
    """Writes files into a directory, each whole or not at all, and prints their names.

    Args:
        output_dir: str. A local or remote directory.
        contents: dict name -> bytes or iterable of bytes.
    """
    for name, content in contents.items():
        storage.write_whole(os.path.join(output_dir, name), content)
    print(f"\n{output_dir}: {', '.join(contents)}")
