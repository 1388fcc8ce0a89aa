"""Tests that a new directory is written completely or not at all."""

import os

import pytest

from keras_bert_app.errors import UserError
from keras_bert_app.interop.directories import written_whole


def write_one_file(directory):
    with written_whole(directory) as temporary:
        assert os.path.dirname(temporary) == os.path.dirname(directory) and temporary != directory
        with open(os.path.join(temporary, "weights"), "w") as file:
            file.write("text")


@pytest.mark.parametrize("exists", [False, True])
def test_a_new_or_empty_directory_gets_the_files_and_the_mode_of_the_umask(exists, tmp_path):
    directory = tmp_path / "above" / "model"
    if exists:
        directory.mkdir(parents=True)
    earlier = os.umask(0o027)
    try:
        write_one_file(str(directory))
    finally:
        os.umask(earlier)
    assert (directory / "weights").read_text() == "text"
    assert directory.stat().st_mode & 0o777 == 0o750
    assert os.listdir(directory.parent) == ["model"]


def test_a_block_that_fails_leaves_no_files_behind(tmp_path):
    with pytest.raises(ZeroDivisionError), written_whole(tmp_path / "model") as temporary:
        open(os.path.join(temporary, "weights"), "w").close()
        raise ZeroDivisionError
    assert os.listdir(tmp_path) == []


def test_a_directory_that_is_not_empty_and_a_remote_one_are_refused(tmp_path):
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "mine").touch()
    with pytest.raises(UserError, match="is there already and not empty"):
        write_one_file(str(tmp_path / "model"))
    with pytest.raises(UserError, match="is not a local directory"):
        write_one_file("gs://bucket/model")
    assert os.listdir(tmp_path) == ["model"]


def test_files_that_another_program_puts_into_the_directory_in_the_meantime_are_kept(tmp_path):
    directory = tmp_path / "model"
    directory.mkdir()
    with pytest.raises(OSError), written_whole(directory):
        (directory / "mine").touch()
    assert os.listdir(tmp_path) == ["model"] and os.listdir(directory) == ["mine"]
