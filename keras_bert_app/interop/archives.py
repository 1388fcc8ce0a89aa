"""Unpacks .zip and .tar files of models, such as Google's releases.

The module trusts no archive and checks every member.
"""

import contextlib
import gzip
import lzma
import os
import shutil
import tarfile
import tempfile
import zipfile
import zlib
from collections.abc import Iterator

from keras_bert_app.errors import UserError

_SUFFIXES = (".zip", ".tar", ".tar.gz", ".tgz", ".tar.xz")
_MAX_MEMBERS = 1_000
# Weights hardly compress, so an archive that grows by a larger factor contains no model.
_MAX_GROWTH = 50
# Every archive may grow by this number of bytes.
_FREE_GROWTH = 1 << 24
_MAX_READ_BYTES = 1 << 20


def is_archive(path: str | os.PathLike) -> bool:
    """Checks whether a path names a local file that `unpacked` accepts.

    Args:
        path: str or os.PathLike. Any path.

    Returns:
        bool. True if the file exists and has the suffix of an archive.
    """
    return str(path).endswith(_SUFFIXES) and os.path.isfile(path)


@contextlib.contextmanager
def unpacked(path: str | os.PathLike) -> Iterator[str]:
    """Unpacks an archive into a temporary directory, which exists until the block ends.

    Args:
        path: str or os.PathLike. Local .zip or .tar file.

    Yields:
        str. Directory of the files. If the archive has a single directory at its top, the path of that directory.

    Raises:
        UserError: The archive is damaged, a member is a link or has a path outside of the archive, or the content is
            far larger than the archive.
    """
    with tempfile.TemporaryDirectory() as directory:
        try:
            (_unpack_zip if zipfile.is_zipfile(path) else _unpack_tar)(path, directory)
        except UserError:
            raise
        except (
            OSError,
            EOFError,
            ValueError,
            NotImplementedError,
            RuntimeError,
            zipfile.BadZipFile,
            tarfile.TarError,
            zlib.error,
            lzma.LZMAError,
        ) as error:
            raise UserError(
                f"{path}: cannot be unpacked ({type(error).__name__}: {str(error)[:120]}); expected a .zip or "
                ".tar.gz of a model's files; unpack it yourself and give the directory"
            ) from None
        names = [name for name in os.listdir(directory) if name not in ("__MACOSX", ".DS_Store")]
        top = os.path.join(directory, names[0]) if len(names) == 1 else directory
        yield top if os.path.isdir(top) else directory


def _unpack_zip(path, directory):
    with zipfile.ZipFile(path) as archive:
        members = archive.infolist()
        _check(
            path,
            [
                (
                    member.filename,
                    member.file_size,
                    member.is_dir() or (member.external_attr >> 16) & 0o170000 in (0, 0o100000),
                )
                for member in members
            ],
        )
        for member in members:
            if member.is_dir():
                continue
            with archive.open(member) as source:
                _copy(source, os.path.join(directory, member.filename), member.file_size)


def _unpack_tar(path, directory):
    with _decompressed(path) as stream, tarfile.open(fileobj=_BoundedStream(stream), mode="r:") as archive:
        members = []
        while member := archive.next():  # One by one, to stop early at an archive with too many members.
            archive.members.clear()  # tarfile keeps every member in this list, without a limit.
            members.append((member.name, member.size, member.isreg() or member.isdir()))
            _check(path, members)
            if member.isreg():
                _copy(archive.extractfile(member), os.path.join(directory, member.name), member.size)
        remaining = _FREE_GROWTH
        # gzip and xz store their checksum after the data. tarfile does not read to the end, so this loop does.
        while chunk := stream.read(_MAX_READ_BYTES):
            remaining -= len(chunk)
            if remaining < 0:
                raise ValueError("data continues after the last member")


def _decompressed(path):
    with open(path, "rb") as file:
        start = file.read(6)
    if start.startswith(b"\x1f\x8b"):
        return gzip.open(path)
    return lzma.open(path) if start == b"\xfd7zXZ\0" else open(path, "rb")


class _BoundedStream:
    """A stream for tarfile with limited reads. tarfile alone reads a header of any size that the file declares."""

    def __init__(self, stream):
        self._stream = stream
        self.seek, self.tell = stream.seek, stream.tell

    def read(self, size):
        if not 0 <= size <= _MAX_READ_BYTES:
            raise ValueError(f"a header of {size:,} bytes")
        return self._stream.read(size)


def _check(path, members):
    """Refuses members that no model has. Each member is a tuple (name, bytes, whether it is a file or directory)."""
    for name, _, is_plain in members:
        parts = name.replace("\\", "/").split("/")
        if not is_plain or name.startswith(("/", "\\")) or ".." in parts or ":" in parts[0] or "\0" in name:
            raise UserError(f"{path}: member {name!r} is a link or lies outside of the archive; no file was kept")
    total, packed = sum(size for _, size, _ in members), os.path.getsize(path)
    if len(members) > _MAX_MEMBERS or total > _MAX_GROWTH * packed + _FREE_GROWTH:
        raise UserError(
            f"{path}: {len(members):,} members of {total:,} bytes in an archive of {packed:,} bytes; "
            "no archive of a model is like this; fetch it again"
        )


def _copy(source, path, size):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "xb") as file:
        shutil.copyfileobj(source, file)
    if os.path.getsize(path) != size:
        raise ValueError(f"{os.path.basename(path)} is {os.path.getsize(path):,} bytes, not {size:,}")
