"""Files are read up to a limit. In a folder from an unknown source, only plain files of the folder are read."""

import os
import threading

import pytest

from keras_bert_app.errors import UserError
from keras_bert_app.files import check_in_folder, read_json, read_whole


@pytest.mark.parametrize(
    "content, message",
    [
        (b'{"a": ' + b"1" * 5000 + b"}", "is not JSON that can be read (ValueError"),
        (b"[" * 100_000, "is not JSON that can be read (RecursionError"),
        (b"\xff", "is not JSON that can be read (UnicodeDecodeError"),
        (b"{", "is not JSON that can be read (JSONDecodeError"),
        (b"5", "holds a JSON int"),
        (None, "cannot be read (No such file or directory)"),
    ],
)
def test_a_path_without_a_json_object_is_refused_in_one_line(tmp_path, content, message):
    if content is not None:
        (tmp_path / "x.json").write_bytes(content)
    with pytest.raises(UserError) as refused:
        read_json(tmp_path / "x.json")
    assert message in str(refused.value) and "\n" not in str(refused.value) and len(str(refused.value)) < 400


def test_a_sparse_file_of_gigabytes_is_refused_before_it_is_read(tmp_path):
    (tmp_path / "x.json").touch()
    os.truncate(tmp_path / "x.json", 3 << 30)
    with pytest.raises(UserError, match="has 3,221,225,472 bytes; a file of this kind has at most"):
        read_json(tmp_path / "x.json")


@pytest.mark.parametrize("size, limit", [(7, 11), (13, 11)])
def test_a_pipe_that_the_user_named_is_read_up_to_the_limit(tmp_path, size, limit):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=pipe.write_bytes, args=[b"x" * size])
    writer.start()
    if size <= limit:
        assert read_whole(pipe, limit) == b"x" * size
    else:
        with pytest.raises(UserError, match="has more than 11 bytes"):
            read_whole(pipe, limit)
    writer.join()


def test_a_link_out_of_the_folder_and_a_path_that_is_no_plain_file_are_refused(tmp_path):
    folder = tmp_path / "models--X" / "snapshots" / "abc"
    blobs = tmp_path / "models--X" / "blobs"
    (folder / "assets").mkdir(parents=True)
    blobs.mkdir()
    for path in (folder / "plain", folder / "assets" / "inner", blobs / "123", tmp_path / "outside"):
        path.write_text("x")
    (folder / "within").symlink_to("plain")
    (folder / "cached").symlink_to(blobs / "123")  # as in the Hub's cache
    (folder / "out").symlink_to(tmp_path / "outside")
    (blobs / "456").symlink_to(tmp_path / "outside")
    (folder / "cached_out").symlink_to(blobs / "456")
    (folder / "dangling").symlink_to("nowhere")
    (folder / "circle").symlink_to("circle")
    os.mkfifo(folder / "pipe")
    (tmp_path / "latest").symlink_to(folder)
    for name in ("plain", "assets/inner", "within", "cached", "not there"):
        check_in_folder(folder / name, folder)
        check_in_folder(tmp_path / "latest" / name, tmp_path / "latest")
    for name, message in (
        ("out", "leads out of the directory"),
        ("cached_out", "leads out of the directory"),
        ("dangling", "is not a regular file"),
        ("circle", "is not a regular file"),
        ("pipe", "is not a regular file"),
        ("assets", "is not a regular file"),
    ):
        with pytest.raises(UserError, match=message):
            check_in_folder(folder / name, folder)
