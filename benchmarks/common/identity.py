"""What a kept result hangs on besides its flags: the program that was measured, and the files that it read."""

import hashlib
import pathlib

_PACKAGES = ("keras_bert_app", "pipelines")


def code_digest():
    """Of all Python files of the packages, twelve hexadecimal digits: other code is another contender."""
    root, found = pathlib.Path(__file__).parents[1], hashlib.sha256()
    for path in sorted(path for package in _PACKAGES for path in (root / package).rglob("*.py")):
        found.update(f"{path.relative_to(root)}\0".encode() + path.read_bytes())
    return found.hexdigest()[:12]


def files_digest(paths):
    """Of names and sizes of files, twelve hexadecimal digits, for texts too large to be read for it. Raises OSError."""
    sizes = [(str(path), pathlib.Path(path).stat().st_size) for path in paths]
    return hashlib.sha256(repr(sizes).encode()).hexdigest()[:12]


def file_digest(path):
    """Of a file, twelve hexadecimal digits. Raises OSError."""
    return hashlib.sha256(pathlib.Path(path).read_bytes()).hexdigest()[:12]
