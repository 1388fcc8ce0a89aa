"""Commands write output files as a whole, and never over the input text."""

import pytest

from keras_bert_app.cli.common import output_files
from keras_bert_app.errors import UserError
from keras_bert_app.files import lies_below


def test_a_path_lies_below_a_directory_also_through_a_link(tmp_path):
    (tmp_path / "texts" / "deep").mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "texts")
    assert lies_below(tmp_path / "link" / "deep" / "a.txt", tmp_path / "texts")
    assert lies_below(tmp_path / "texts" / "a.txt", tmp_path / "link")
    assert not lies_below(tmp_path / "texts", tmp_path / "texts")
    assert not lies_below(tmp_path / "texts2" / "a.txt", tmp_path / "texts")


@pytest.mark.parametrize(
    "name, pattern, message",
    [
        ("texts/a.txt", "texts/*.txt", "is one of --input_files"),
        ("texts/new.vocab", "texts", "the next run would read it as text of --input_files"),
        ("texts/new.txt", "texts/*.txt", "the next run would read it as text of --input_files"),
    ],
)
def test_output_among_the_input_files_is_refused(tmp_path, name, pattern, message):
    (tmp_path / "texts").mkdir()
    (tmp_path / "texts" / "a.txt").write_text("One.\n")
    files = [str(tmp_path / "texts" / "a.txt")]
    with pytest.raises(UserError, match=message):
        output_files.check_apart(str(tmp_path / name), "vocab_file", [str(tmp_path / pattern)], files)
    output_files.check_apart(str(tmp_path / "vocab.txt"), "vocab_file", [str(tmp_path / pattern)], files)


def test_a_write_that_fails_halfway_leaves_the_earlier_file(tmp_path, capsys):
    def parts():
        yield b"half"
        raise OSError("no space")

    output_files.write_files(str(tmp_path), {"report.txt": b"whole"})
    assert "report.txt" in capsys.readouterr().out
    with pytest.raises(OSError, match="no space"):
        output_files.write_files(str(tmp_path), {"report.txt": parts()})
    assert [path.name for path in tmp_path.iterdir()] == ["report.txt"]
    assert (tmp_path / "report.txt").read_bytes() == b"whole"
