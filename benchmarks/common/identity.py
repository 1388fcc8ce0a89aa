"""Digests of the program that a benchmark measures and of the files that it reads."""

import hashlib
import os
import pathlib
from collections.abc import Iterable

from pipelines import storage

_PACKAGES = ("keras_bert_app", "pipelines")
_ROOT = pathlib.Path(__file__).parents[2]


def code_digest() -> str:
    """The digest of all Python files of the packages, twelve hexadecimal digits.

    Results that were measured with different code have different digests.
    """
    digest = hashlib.sha256()
    for path in sorted(path for package in _PACKAGES for path in (_ROOT / package).rglob("*.py")):
        digest.update(f"{path.relative_to(_ROOT)}\0".encode() + path.read_bytes())
    return digest.hexdigest()[:12]


def files_digest(paths: Iterable[str | os.PathLike]) -> str:
    """The digest of the paths and sizes of files, twelve hexadecimal digits. The function does not read the files.

    Args:
        paths: paths of the files.

    Raises:
        OSError: a file does not exist or cannot be read.
    """
    sizes = [(str(path), pathlib.Path(path).stat().st_size) for path in paths]
    return hashlib.sha256(repr(sizes).encode()).hexdigest()[:12]


def file_digest(path: str | os.PathLike) -> str:
    """The digest of the content of a file, twelve hexadecimal digits.

    Args:
        path: path of the file.

    Raises:
        OSError: the file does not exist or cannot be read.
    """
    return storage.sha256_of(path)[:12]
