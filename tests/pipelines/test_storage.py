"""Files and directories are written whole or not at all, on the local disk and on file systems of tf.io.gfile."""

import hashlib
import os

import pytest
import tensorflow as tf

from pipelines import storage

# Kinds of directories. TensorFlow's in-memory file system represents object stores.
KINDS = ("local", "remote")


@pytest.fixture(params=KINDS)
def directory(request, tmp_path):
    """Makes an empty directory and returns its path."""
    if request.param == "local":
        return str(tmp_path)
    path = f"ram://storage/{request.node.name}"
    tf.io.gfile.makedirs(path)
    return path


def read(path):
    with storage.open_file(path) as file:
        return file.read()


class Failure(Exception):
    pass


@pytest.mark.parametrize(
    "path, expected",
    [("gs://bucket/name", True), ("ram://a", True), ("/a/b", False), ("a:b", False), ("", False)],
)
def test_a_path_with_a_scheme_is_remote(path, expected):
    assert storage.is_remote(path) is expected


def test_a_path_object_is_local(tmp_path):
    assert not storage.is_remote(tmp_path)


def test_a_local_path_becomes_absolute_and_a_remote_path_stays():
    assert storage.absolute("a/b") == os.path.abspath("a/b")
    assert [storage.absolute(path) for path in ("", "gs://bucket/a")] == ["", "gs://bucket/a"]


def test_existence_kind_and_size_of_a_path_are_reported(directory):
    storage.write_whole(f"{directory}/a", b"12345")
    storage.make_directories(f"{directory}/b/c")
    storage.make_directories(f"{directory}/b/c")  # an existing directory is no error
    assert [storage.exists(f"{directory}/{name}") for name in ("a", "b", "none")] == [True, True, False]
    assert [storage.is_file(f"{directory}/{name}") for name in ("a", "b", "none")] == [True, False, False]
    assert [storage.is_directory(f"{directory}/{name}") for name in ("a", "b", "none")] == [False, True, False]
    assert storage.size_of(f"{directory}/a") == 5
    storage.remove_tree(f"{directory}/b")
    assert not storage.exists(f"{directory}/b")


def test_names_in_a_directory_are_sorted_and_have_no_slash(directory):
    for name in ("c", "a"):
        storage.write_whole(f"{directory}/{name}", "")
    storage.make_directories(f"{directory}/b")
    assert storage.list_directory(directory) == ["a", "b", "c"]
    assert storage.list_directory(f"{directory}/b") == storage.list_directory(f"{directory}/none") == []


def test_a_range_of_a_file_is_read_and_stops_at_the_end_of_the_file(directory):
    storage.write_whole(f"{directory}/a", b"0123456789")
    assert storage.read_range(f"{directory}/a", 3, 4) == b"3456"
    assert storage.read_range(f"{directory}/a", 8, 4) == b"89"


def test_the_sha256_of_a_file_read_in_chunks_equals_that_of_its_content(directory, monkeypatch):
    monkeypatch.setattr(storage, "_CHUNK_BYTES", 7)
    for content in (b"", bytes(range(256)), b"1234567"):
        storage.write_whole(f"{directory}/a", content)
        assert storage.sha256_of(f"{directory}/a") == hashlib.sha256(content).hexdigest()


@pytest.mark.parametrize("content", ["é\n", "é\n".encode(), iter([b"\xc3", b"\xa9\n"])], ids=["str", "bytes", "parts"])
def test_text_bytes_and_parts_are_written(tmp_path, content):
    storage.write_whole(tmp_path / "a", content)
    assert read(tmp_path / "a") == "é\n".encode() and os.listdir(tmp_path) == ["a"]


def test_a_reader_sees_the_earlier_file_until_the_new_one_is_whole(directory):
    storage.write_whole(f"{directory}/a", b"earlier")
    with storage.whole_file(f"{directory}/a") as file:
        file.write(b"new")
        assert read(f"{directory}/a") == b"earlier"
    assert read(f"{directory}/a") == b"new" and storage.list_directory(directory) == ["a"]


@pytest.mark.parametrize("has_earlier", [True, False])
def test_a_block_that_fails_leaves_the_earlier_file_and_no_temporary_one(directory, has_earlier):
    if has_earlier:
        storage.write_whole(f"{directory}/a", b"earlier")
    with pytest.raises(Failure), storage.whole_file(f"{directory}/a") as file:
        file.write(b"half")
        raise Failure
    assert storage.list_directory(directory) == (["a"] if has_earlier else [])
    assert not has_earlier or read(f"{directory}/a") == b"earlier"


def test_content_that_fails_half_way_leaves_the_earlier_file_and_no_temporary_one(directory):
    def parts():
        yield b"half"
        raise Failure

    storage.write_whole(f"{directory}/a", b"earlier")
    with pytest.raises(Failure):
        storage.write_whole(f"{directory}/a", parts())
    assert read(f"{directory}/a") == b"earlier" and storage.list_directory(directory) == ["a"]


@pytest.mark.parametrize("durable", [True, False])
def test_a_directory_replaces_the_earlier_one_when_it_is_whole(tmp_path, durable):
    final, temporary = str(tmp_path / "final"), str(tmp_path / "temporary")
    for name in ("earlier", "new"):
        os.makedirs(temporary, exist_ok=True)  # a killed process leaves such a directory
        with storage.whole_directory(final, temporary, durable) as place:
            storage.write_whole(f"{place}/{name}", name)
            assert storage.list_directory(final) == ([] if name == "earlier" else ["earlier"])
        assert storage.list_directory(final) == [name] and os.listdir(tmp_path) == ["final"]


def test_a_durable_directory_may_have_a_relative_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with storage.whole_directory("final", "temporary", durable=True) as place:
        storage.write_whole(f"{place}/a", "")
    assert os.listdir(tmp_path) == ["final"]


def test_a_block_that_fails_leaves_the_earlier_directory_and_no_temporary_one(tmp_path):
    final = str(tmp_path / "final")
    os.makedirs(final)
    storage.write_whole(f"{final}/a", b"earlier")
    with pytest.raises(Failure), storage.whole_directory(final, str(tmp_path / "temporary")) as place:
        storage.write_whole(f"{place}/a", b"half")
        raise Failure
    assert read(f"{final}/a") == b"earlier" and os.listdir(tmp_path) == ["final"]


def test_a_remote_directory_is_written_in_place_and_removed_when_the_block_fails():
    final = "ram://storage/whole/final"
    with storage.whole_directory(final, "unused") as place:
        assert place == final
        storage.write_whole(f"{place}/a", b"")
    assert storage.list_directory(final) == ["a"]
    with pytest.raises(Failure), storage.whole_directory(final, "unused"):
        assert storage.list_directory(final) == []
        raise Failure
    assert not storage.exists(final)
