"""Models as they are handed round: a .zip (Google's releases) or a .tar.gz, unpacked with nothing believed."""

import contextlib
import os
import shutil
import tarfile
import tempfile
import zipfile

from keras_bert_app.errors import UserError

_SUFFIXES = (".zip", ".tar", ".tar.gz", ".tgz", ".tar.xz")
_MOST_FILES = 1_000
# Weights hardly compress; what grows more than this is no model.
_MOST_GROWTH = 50
_FREE_GROWTH = 1 << 24


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
        except (OSError, EOFError, ValueError, NotImplementedError, RuntimeError, zipfile.BadZipFile, tarfile.TarError) as error:
            raise UserError(f"{path}: cannot be unpacked ({type(error).__name__}: {str(error)[:120]}); expected a .zip or "
                            ".tar.gz of a model's files; unpack it yourself and give the directory") from None
        names = os.listdir(directory)
        only = os.path.join(directory, names[0]) if len(names) == 1 else directory
        yield only if os.path.isdir(only) else directory


def _unpack_zip(path, directory):
    with zipfile.ZipFile(path) as archive:
        members = [member for member in archive.infolist() if not member.is_dir()]
        _check(path, [(member.filename, member.file_size, (member.external_attr >> 16) & 0o170000 in (0, 0o100000))
                      for member in members])
        for member in members:
            with archive.open(member) as source:
                _copy(source, os.path.join(directory, member.filename), member.file_size)


def _unpack_tar(path, directory):
    with tarfile.open(path) as archive:
        members = []
        for member in archive:  # in turn, so that a bomb of members is noticed on the way
            if not member.isdir():
                members.append((member.name, member.size, member.isreg()))
                _check(path, members)
                _copy(archive.extractfile(member), os.path.join(directory, member.name), member.size)


def _check(path, members):
    """Refuses members (name, bytes, whether it is a plain file) that no model has."""
    for name, _, is_file in members:
        parts = name.replace("\\", "/").split("/")
        if not is_file or name.startswith(("/", "\\")) or ".." in parts or ":" in parts[0] or "\0" in name:
            raise UserError(f"{path}: member {name!r} is a link or lies outside of the archive; nothing of it was kept")
    total, packed = sum(size for _, size, _ in members), os.path.getsize(path)
    if len(members) > _MOST_FILES or total > _MOST_GROWTH * packed + _FREE_GROWTH:
        raise UserError(f"{path}: {len(members):,} files of {total:,} bytes in an archive of {packed:,}; that is no model's")


def _copy(source, path, size):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "xb") as file:
        shutil.copyfileobj(source, file)
    if os.path.getsize(path) != size:
        raise ValueError(f"{os.path.basename(path)} is {os.path.getsize(path):,} bytes, not {size:,}")
