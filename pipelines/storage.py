"""Queries, hashes and atomic writes for local and remote files and directories.

A path with "://" is remote and goes through tf.io.gfile. TensorFlow is loaded for remote paths only.
"""

import contextlib
import errno
import hashlib
import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

_CHUNK_BYTES = 1 << 22
_WILDCARDS = frozenset("*?[\\")


def is_remote(path: str | os.PathLike) -> bool:
    """Returns whether a path needs tf.io.gfile, such as gs://bucket/name."""
    return "://" in str(path)


def _gfile() -> Any:
    import tensorflow as tf

    return tf.io.gfile


def exists(path: str | os.PathLike) -> bool:
    """Returns whether a file or directory exists."""
    return _gfile().exists(str(path)) if is_remote(path) else os.path.exists(path)


def is_file(path: str | os.PathLike) -> bool:
    """Returns whether a path is a file; symbolic links are followed."""
    if is_remote(path):
        return _gfile().exists(str(path)) and not _gfile().isdir(str(path))
    return os.path.isfile(path)


def is_directory(path: str | os.PathLike) -> bool:
    """Returns whether a path is a directory."""
    return _gfile().isdir(str(path)) if is_remote(path) else os.path.isdir(path)


def list_directory(path: str | os.PathLike) -> list[str]:
    """Lists the names in a directory.

    Object stores end the names of directories with "/"; this function removes the slash.

    Args:
        path: a directory.

    Returns:
        Sorted names; [] if the directory does not exist.
    """
    if not is_directory(path):
        return []
    names = _gfile().listdir(str(path)) if is_remote(path) else os.listdir(path)
    return sorted(name.rstrip("/") for name in names)


def size_of(path: str | os.PathLike) -> int:
    """Returns the size of a file in bytes."""
    return _gfile().stat(str(path)).length if is_remote(path) else os.path.getsize(path)


def absolute(path: str) -> str:
    """Makes a local path absolute; a remote path and "" stay the same.

    Args:
        path: str.

    Returns:
        str.
    """
    return path if not path or is_remote(path) else os.path.abspath(path)


def has_wildcards(path: str | os.PathLike) -> bool:
    """Returns whether TensorFlow treats a local path as a pattern when it reads a checkpoint."""
    return not is_remote(path) and not _WILDCARDS.isdisjoint(str(path))


@contextlib.contextmanager
def linked(targets: Mapping[str, str]) -> Iterator[str]:
    """Makes a temporary directory of links, so that TensorFlow can read local paths that have wildcards.

    TensorFlow also uses the path of a checkpoint or a SavedModel as a pattern, which must match a file. A path with "["
    matches other paths. An escaped "[" does not help, because TensorFlow also opens the path as written.

    Args:
        targets: dict from the name of a link to the path that it leads to.

    Yields:
        str. The directory. It exists until the block ends.

    Raises:
        OSError: the path of the directory for temporary files also has wildcards.
    """
    with tempfile.TemporaryDirectory(prefix="links-") as directory:
        if has_wildcards(directory):
            raise OSError(errno.EINVAL, "has one of * ? [ \\ in its path; set TMPDIR to another directory", directory)
        for name, target in targets.items():
            os.symlink(os.path.abspath(target), os.path.join(directory, name))
        yield directory


def make_directories(path: str | os.PathLike) -> None:
    """Makes a directory and its parents; existing directories are no error."""
    _gfile().makedirs(str(path)) if is_remote(path) else os.makedirs(path, exist_ok=True)


def remove_tree(path: str | os.PathLike) -> None:
    """Removes a directory and everything below it."""
    _gfile().rmtree(str(path)) if is_remote(path) else shutil.rmtree(path)


def remove_file(path: str | os.PathLike) -> None:
    """Removes a file."""
    _gfile().remove(str(path)) if is_remote(path) else os.remove(path)


def open_file(path: str | os.PathLike, mode: str = "rb") -> Any:
    """Opens a file for reading or writing bytes.

    Args:
        path: the file.
        mode: "rb" or "wb", as for the built-in open.

    Returns:
        A binary file object.
    """
    return _gfile().GFile(str(path), mode) if is_remote(path) else open(path, mode)


def read_range(path: str | os.PathLike, offset: int, size: int) -> bytes:
    """Reads a part of a file.

    Args:
        path: the file.
        offset: the first byte to read.
        size: the number of bytes to read.

    Returns:
        bytes; fewer than `size` if the file ends earlier.
    """
    with open_file(path) as file:
        file.seek(offset)
        return file.read(size)


def sha256_of(path: str | os.PathLike) -> str:
    """Computes the SHA-256 of a file's content, as hexadecimal digits.

    Args:
        path: the file.

    Returns:
        str of 64 digits.
    """
    digest = hashlib.sha256()
    with open_file(path) as file:
        while chunk := file.read(_CHUNK_BYTES):
            digest.update(chunk)
    return digest.hexdigest()


@contextlib.contextmanager
def whole_file(path: str | os.PathLike) -> Iterator[Any]:
    """Opens a file for writing bytes, and lets readers see only the complete file.

    The bytes go to a temporary file, which is renamed to `path` when the block ends without an error. If the block
    fails, an earlier file stays unchanged and the temporary file is removed.

    Args:
        path: the file to write.

    Yields:
        A binary file object.
    """
    temporary = f"{path}.tmp"
    try:
        with open_file(temporary, "wb") as file:
            yield file
        if is_remote(path):
            _gfile().rename(temporary, str(path), overwrite=True)
        else:
            os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(Exception):
            remove_file(temporary)
        raise


def write_whole(path: str | os.PathLike, content: str | bytes | Iterable[bytes]) -> None:
    """Writes a file whole or not at all; see whole_file.

    Args:
        path: the file to write.
        content: text (written as UTF-8), bytes, or an iterable of bytes.
    """
    if isinstance(content, str):
        content = content.encode("utf-8")
    with whole_file(path) as file:
        for part in [content] if isinstance(content, bytes) else content:
            file.write(part)


@contextlib.contextmanager
def whole_directory(directory: str, temporary: str, durable: bool = False) -> Iterator[str]:
    """Gives a temporary directory that replaces `directory` when the block ends without an error.

    An object store renames a directory by copying its files one by one. For a remote path the block therefore gets
    `directory` itself. A file that is written last, such as a manifest, then tells a reader that all files are there.

    Args:
        directory: the directory to write.
        temporary: the name for a local directory while it is written, on the same file system. An earlier directory of
            this name is removed.
        durable: whether all files reach the disk before the rename, so that a power failure leaves no partial
            directory.

    Yields:
        The path to write to.
    """
    writable = directory if is_remote(directory) else temporary
    if exists(writable):
        remove_tree(writable)
    make_directories(writable)
    try:
        yield writable
        if writable == directory:
            return
        if durable:
            _to_disk(*(os.path.join(writable, name) for name in os.listdir(writable)), writable)
        if os.path.exists(directory):
            shutil.rmtree(directory)
        os.rename(writable, directory)
        if durable:
            _to_disk(os.path.dirname(os.path.abspath(directory)))
    except BaseException:
        with contextlib.suppress(Exception):
            remove_tree(writable)
        raise


def _to_disk(*paths: str) -> None:
    """Waits until the content of files or directories has reached the disk."""
    for path in paths:
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
