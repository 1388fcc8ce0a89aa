"""Files and directories, local or remote: whole writes, hashes, and the few questions that both kinds answer.

A path with "://" is remote and goes through tf.io.gfile. TensorFlow is loaded for remote paths only.
"""

import contextlib
import hashlib
import os
import shutil
from collections.abc import Iterable, Iterator
from typing import Any

_CHUNK_BYTES = 1 << 22


def is_remote(path: str | os.PathLike) -> bool:
    """Whether tf.io.gfile must open a path, such as gs://bucket/name."""
    return "://" in str(path)


def _gfile() -> Any:
    import tensorflow as tf

    return tf.io.gfile


def exists(path: str | os.PathLike) -> bool:
    """Whether a file or directory is there."""
    return _gfile().exists(str(path)) if is_remote(path) else os.path.exists(path)


def is_file(path: str | os.PathLike) -> bool:
    """Whether a file is there, links followed."""
    if is_remote(path):
        return _gfile().exists(str(path)) and not _gfile().isdir(str(path))
    return os.path.isfile(path)


def is_directory(path: str | os.PathLike) -> bool:
    """Whether a directory is there."""
    return _gfile().isdir(str(path)) if is_remote(path) else os.path.isdir(path)


def list_directory(path: str | os.PathLike) -> list[str]:
    """Sorted names in a directory; [] where there is none. Object stores end names of directories in "/"; here they do not."""
    if not is_directory(path):
        return []
    names = _gfile().listdir(str(path)) if is_remote(path) else os.listdir(path)
    return sorted(name.rstrip("/") for name in names)


def size_of(path: str | os.PathLike) -> int:
    """The size of a file in bytes."""
    return _gfile().stat(str(path)).length if is_remote(path) else os.path.getsize(path)


def absolute(path: str) -> str:
    """A local path made absolute; a remote one, and "", as they are."""
    return path if not path or is_remote(path) else os.path.abspath(path)


def make_directories(path: str | os.PathLike) -> None:
    """Makes a directory and those above it; one that is there is no error."""
    _gfile().makedirs(str(path)) if is_remote(path) else os.makedirs(path, exist_ok=True)


def remove_tree(path: str | os.PathLike) -> None:
    """Removes a directory and all below it."""
    _gfile().rmtree(str(path)) if is_remote(path) else shutil.rmtree(path)


def open_file(path: str | os.PathLike, mode: str = "rb") -> Any:
    """A binary file object; modes are those of open, "rb" or "wb"."""
    return _gfile().GFile(str(path), mode) if is_remote(path) else open(path, mode)


def read_range(path: str | os.PathLike, offset: int, size: int) -> bytes:
    """At most `size` bytes of a file from `offset` on."""
    with open_file(path) as file:
        file.seek(offset)
        return file.read(size)


def sha256_of(path: str | os.PathLike) -> str:
    """The sha256 of a file's content, in hexadecimal digits."""
    digest = hashlib.sha256()
    with open_file(path) as file:
        while chunk := file.read(_CHUNK_BYTES):
            digest.update(chunk)
    return digest.hexdigest()


@contextlib.contextmanager
def whole_file(path: str | os.PathLike) -> Iterator[Any]:
    """Opens a file for writing bytes under a temporary name; it gets its own name when the block ends without an error.

    A reader never sees half a file. A block that fails leaves the earlier file as it was.
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
            _gfile().remove(temporary) if is_remote(path) else os.remove(temporary)
        raise


def write_whole(path: str | os.PathLike, content: str | bytes | Iterable[bytes]) -> None:
    """Writes a file whole or not at all, see whole_file.

    Args:
        content: text (written as UTF-8), bytes, or an iterable of bytes.
    """
    if isinstance(content, str):
        content = content.encode("utf-8")
    with whole_file(path) as file:
        for part in [content] if isinstance(content, bytes) else content:
            file.write(part)


@contextlib.contextmanager
def whole_directory(directory: str, temporary: str, durable: bool = False) -> Iterator[str]:
    """Gives a temporary directory that takes the place of `directory` when the block ends without an error.

    An object store copies files one by one to rename a directory. There the block gets `directory` itself, and whoever
    reads it needs a file that is written last, such as a manifest.

    Args:
        temporary: the name under which a local directory is written, on the same file system. What is there is removed.
        durable: whether all files reach the disk before the rename, so that a power failure leaves no half directory.
    """
    place = directory if is_remote(directory) else temporary
    if exists(place):
        remove_tree(place)
    make_directories(place)
    try:
        yield place
        if place == directory:
            return
        if durable:
            _to_disk(*(os.path.join(place, name) for name in os.listdir(place)), place)
        if os.path.exists(directory):
            shutil.rmtree(directory)
        os.rename(place, directory)
        if durable:
            _to_disk(os.path.dirname(directory))
    except BaseException:
        with contextlib.suppress(Exception):
            remove_tree(place)
        raise


def _to_disk(*paths: str) -> None:
    """Waits until files or directories are on the disk."""
    for path in paths:
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
