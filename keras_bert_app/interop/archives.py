"""Models as they are handed round: a .zip (Google's releases) or a .tar.gz, unpacked with nothing believed."""

import contextlib
import gzip
import lzma
import os
import shutil
import tarfile
import tempfile
import zipfile
import zlib

from keras_bert_app.errors import UserError

_SUFFIXES = (".zip", ".tar", ".tar.gz", ".tgz", ".tar.xz")
_MOST_MEMBERS = 1_000
# Weights hardly compress; what grows more than this is no model.
_MOST_GROWTH = 50
_FREE_GROWTH = 1 << 24
_MOST_AT_ONCE = 1 << 20


def is_archive(path):
    """Whether a path names a file that unpacked() takes."""
    return str(path).endswith(_SUFFIXES) and os.path.isfile(path)


@contextlib.contextmanager
def unpacked(path):
    """The directory of an archive's files, below a temporary one; an only directory at the top is entered.

    Raises:
        UserError: it is damaged, a member is a link or would lie outside, or there is far more in it than its size allows.
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
        only = os.path.join(directory, names[0]) if len(names) == 1 else directory
        yield only if os.path.isdir(only) else directory


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
    with _decompressed(path) as stream, tarfile.open(fileobj=_Bounded(stream), mode="r:") as archive:
        members = []
        while member := archive.next():  # in turn, so that a bomb of members is noticed on the way
            archive.members.clear()  # what tarfile keeps of them grows without a limit
            members.append((member.name, member.size, member.isreg() or member.isdir()))
            _check(path, members)
            if member.isreg():
                _copy(archive.extractfile(member), os.path.join(directory, member.name), member.size)
        left = _FREE_GROWTH
        # The checksum of gzip and xz stands behind all data, which tarfile does not read to its end.
        while chunk := stream.read(_MOST_AT_ONCE):
            left -= len(chunk)
            if left < 0:
                raise ValueError("data goes on behind the last member")


def _decompressed(path):
    with open(path, "rb") as file:
        start = file.read(6)
    if start.startswith(b"\x1f\x8b"):
        return gzip.open(path)
    return lzma.open(path) if start == b"\xfd7zXZ\0" else open(path, "rb")


class _Bounded:
    """A stream for tarfile, which would read a name or header of any size that a file claims."""

    def __init__(self, stream):
        self._stream = stream
        self.seek, self.tell = stream.seek, stream.tell

    def read(self, size):
        if not 0 <= size <= _MOST_AT_ONCE:
            raise ValueError(f"a header of {size:,} bytes")
        return self._stream.read(size)


def _check(path, members):
    """Refuses members (name, bytes, whether it is a plain file) that no model has."""
    for name, _, is_file in members:
        parts = name.replace("\\", "/").split("/")
        if not is_file or name.startswith(("/", "\\")) or ".." in parts or ":" in parts[0] or "\0" in name:
            raise UserError(f"{path}: member {name!r} is a link or lies outside of the archive; nothing of it was kept")
    total, packed = sum(size for _, size, _ in members), os.path.getsize(path)
    if len(members) > _MOST_MEMBERS or total > _MOST_GROWTH * packed + _FREE_GROWTH:
        raise UserError(
            f"{path}: {len(members):,} members of {total:,} bytes in an archive of {packed:,}; that is no model's"
        )


def _copy(source, path, size):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "xb") as file:
        shutil.copyfileobj(source, file)
    if os.path.getsize(path) != size:
        raise ValueError(f"{os.path.basename(path)} is {os.path.getsize(path):,} bytes, not {size:,}")
