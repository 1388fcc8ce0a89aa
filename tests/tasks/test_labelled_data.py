"""Texts without labels are refused if the run also scores them, whatever the name of their file."""

import pytest

from keras_bert_app.config.finetuning_config import FinetuningConfig
from keras_bert_app.errors import UserError
from keras_bert_app.tasks.labelled_data import load_data
from tests.tasks.texts import tokenizer, written

TRAIN = "text\tlabel\na b\tx\nc d\ty\ne f\tx\n"


def load(directory, content, **settings):
    """The data of a run that learns from a file without labels."""
    path = written(directory, "more/texts.tsv", content)
    run = FinetuningConfig(
        task="classification", data_dir=str(directory), teacher="any", unlabelled_files=(path,), **settings
    )
    return load_data(run, tokenizer())


@pytest.mark.parametrize(
    "content, shared, place, scored",
    [
        ("text\ng h\ni  J\n", "1 of 2", "texts.tsv:3", "dev.tsv:2 of dev"),
        ("text\nk l\n", "1 of 1", "texts.tsv:2", "test.tsv:2 of test"),
    ],
)
def test_texts_that_are_scored_too_are_refused_whatever_their_file_is_called(tmp_path, content, shared, place, scored):
    for name, text in (("train.tsv", TRAIN), ("dev.tsv", "text\tlabel\ni j\tx\nj i\tx\n"), ("test.tsv", "text\nk l\n")):
        written(tmp_path, name, text)
    with pytest.raises(UserError) as refused:
        load(tmp_path, content)
    message = str(refused.value).replace(f"{tmp_path}/", "").replace("more/", "")
    assert message == (
        f"--unlabelled_files: {shared} texts are scored, too; the first is {place}, the same text as {scored}; "
        "remove the texts of dev and test"
    )


def test_texts_of_the_test_file_are_refused(tmp_path):
    for name, text in (
        ("train.tsv", TRAIN),
        ("dev.tsv", "text\tlabel\ni j\tx\nj i\tx\n"),
        ("a.tsv", "text\tlabel\nm n\tx\n"),
    ):
        written(tmp_path, name, text)
    with pytest.raises(UserError, match="1 of 1 texts are scored, too; .* the same text as .*a.tsv:2 of test;"):
        load(tmp_path, "text\nm n\n", test_file=str(tmp_path / "a.tsv"))


def test_texts_that_are_held_out_of_the_training_are_scored_too(tmp_path):
    written(tmp_path, "train.tsv", "text\tlabel\n" + "".join(f"a {n}\t{'xy'[n % 2]}\n" for n in range(20)))
    with pytest.raises(UserError, match="--unlabelled_files: 2 of 20 texts are scored, too; the first is .* of dev;"):
        load(tmp_path, "text\n" + "".join(f"a {n}\n" for n in range(20)), dev_fraction=0.1)


def test_training_texts_and_new_texts_are_accepted_even_if_the_test_file_has_another_layout(tmp_path):
    dev = "text\tlabel\ni j\tx\nj i\tx\n"
    for name, text in (("train.tsv", TRAIN), ("dev.tsv", dev), ("test.tsv", "nothing\nk l\n")):
        written(tmp_path, name, text)
    assert len(load(tmp_path, "text\na b\nm n\n\nk l\n").unlabelled_examples) == 4
