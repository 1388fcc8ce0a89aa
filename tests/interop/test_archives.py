"""Tests that a model in an archive is read like its directory, and that a hostile archive leaves no files behind."""

import gzip
import io
import os
import pathlib
import shutil
import tarfile
import zipfile

import numpy as np
import pytest

from keras_bert_app.errors import UserError
from keras_bert_app.interop import archives, load

GOLDEN = pathlib.Path(__file__).parents[1] / "golden"


@pytest.mark.parametrize("kind", ["zip", "gztar"])
@pytest.mark.parametrize("top", ["a model", "."])
def test_a_model_in_an_archive_is_read_like_its_directory(tmp_path, kind, top):
    shutil.copytree(GOLDEN / "google_tf1_tiny", tmp_path / "source" / top, dirs_exist_ok=True)
    path = shutil.make_archive(str(tmp_path / "packed"), kind, tmp_path / "source")
    loaded, lines = load.load_weights(path)
    expected, _ = load.load_weights(str(GOLDEN / "google_tf1_tiny"))
    assert loaded.vocabulary == expected.vocabulary and loaded.tensors.keys() == expected.tensors.keys()
    for name, tensor in expected.tensors.items():
        np.testing.assert_array_equal(loaded.tensors[name], tensor)
    assert path in lines[0] and "/tmp" not in lines[0].replace(path, "")


def tar_of(path, *members):
    """Writes a tar file. Each member is a tuple (name, content of a file, or the type of any other TarInfo)."""
    with tarfile.open(path, "w") as archive:
        for name, content in members:
            member = tarfile.TarInfo(name)
            if isinstance(content, bytes) and len(content) > 1:
                member.size = len(content)
                archive.addfile(member, io.BytesIO(content))
            else:
                member.type, member.linkname = content, "/etc/passwd"
                archive.addfile(member)
    return str(path)


@pytest.mark.parametrize(
    "name, content",
    [
        ("../outside.txt", b"text"),
        ("/tmp_outside.txt", b"text"),
        ("a/../../outside.txt", b"text"),
        ("C:\\outside.txt", b"text"),
        ("link", tarfile.SYMTYPE),
        ("hard", tarfile.LNKTYPE),
        ("pipe", tarfile.FIFOTYPE),
        ("device", tarfile.CHRTYPE),
    ],
)
def test_a_link_or_a_path_out_of_a_tar_file_is_refused_and_no_file_is_kept(tmp_path, monkeypatch, name, content):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "temporary"))
    os.mkdir(tmp_path / "temporary")
    with (
        pytest.raises(UserError, match="a link or lies outside"),
        archives.unpacked(tar_of(tmp_path / "a.tar", ("config.json", b"{}"), (name, content))),
    ):
        pass
    assert sorted(os.listdir(tmp_path)) == ["a.tar", "temporary"] and not os.listdir(tmp_path / "temporary")
    assert not os.path.exists("/tmp_outside.txt")


def test_a_link_or_a_path_out_of_a_zip_file_is_refused(tmp_path):
    for number, (name, mode) in enumerate([("../x", 0o100644), ("/x", 0o100644), ("link", 0o120777)]):
        path = str(tmp_path / f"{number}.zip")
        with zipfile.ZipFile(path, "w") as archive:
            member = zipfile.ZipInfo(name)
            member.external_attr = mode << 16
            archive.writestr(member, "/etc/passwd")
        with pytest.raises(UserError, match="a link or lies outside"), archives.unpacked(path):
            pass


def test_an_archive_that_grows_more_than_any_model_is_refused_before_it_is_unpacked(tmp_path, monkeypatch):
    monkeypatch.setattr(archives, "_FREE_GROWTH", 1 << 16)
    path = str(tmp_path / "bomb.zip")
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("model.safetensors", bytes(1 << 24))
    with pytest.raises(UserError, match="16,777,216 bytes in an archive"), archives.unpacked(path):
        pass


@pytest.mark.parametrize("suffix", [".zip", ".tar"])
def test_an_archive_with_too_many_directories_is_refused(tmp_path, suffix):
    path = str(tmp_path / f"many{suffix}")
    names = [f"d{number}/" for number in range(2_000)]
    if suffix == ".zip":
        with zipfile.ZipFile(path, "w") as archive:
            for name in names:
                archive.writestr(name, "")
    else:
        tar_of(path, *((name, tarfile.DIRTYPE) for name in names))
    with pytest.raises(UserError, match=r"(1,001|2,000) members of 0 bytes"), archives.unpacked(path):
        pass


@pytest.mark.parametrize(
    "damage", [lambda content: content[: len(content) // 2], lambda content: b"", lambda content: b"no archive"]
)
@pytest.mark.parametrize("kind, suffix", [("zip", ".zip"), ("gztar", ".tar.gz")])
def test_a_damaged_archive_is_refused(tmp_path, kind, suffix, damage):
    path = pathlib.Path(shutil.make_archive(str(tmp_path / "packed"), kind, GOLDEN / "google_tf1_tiny"))
    assert path.name.endswith(suffix)
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(UserError, match="cannot be unpacked"), archives.unpacked(str(path)):
        pass


@pytest.mark.parametrize("kind", ["zip", "gztar", "xztar"])
def test_a_flipped_bit_in_the_weights_is_never_loaded(tmp_path, kind):
    path = pathlib.Path(
        shutil.make_archive(str(tmp_path / "packed"), kind, GOLDEN / "huggingface_files" / "pretraining")
    )
    content = path.read_bytes()
    for position in range(len(content) // 7, len(content), len(content) // 7):
        path.write_bytes(content[:position] + bytes([content[position] ^ 4]) + content[position + 1 :])
        try:
            loaded, _ = load.load_weights(str(path))
        except UserError as error:
            assert "/tmp/tmp" not in str(error)
        else:
            expected, _ = load.load_weights(str(GOLDEN / "huggingface_files" / "pretraining"))
            for name, tensor in expected.tensors.items():
                np.testing.assert_array_equal(loaded.tensors[name], tensor)


def test_a_member_name_of_gigabytes_is_refused_before_it_is_read(tmp_path):
    path = tmp_path / "bomb.tar.gz"
    header = tarfile.TarInfo("././@LongLink")
    header.type, header.size = tarfile.GNUTYPE_LONGNAME, 1 << 31
    with gzip.open(path, "wb") as file:
        file.write(header.tobuf(tarfile.GNU_FORMAT))
        file.write(bytes(1 << 22))
    with pytest.raises(UserError, match="a header of 2,147,483,648 bytes"), archives.unpacked(str(path)):
        pass
