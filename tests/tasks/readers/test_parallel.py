"""Pairs of texts: parallel files with one text a line, and tables with two columns."""

import gzip

import pytest

from keras_bert_app.config.finetuning_config import FinetuningConfig
from keras_bert_app.errors import UserError
from keras_bert_app.tasks import registry


def run_of(directory, **settings):
    return FinetuningConfig(task="translation", data_dir=str(directory), source="de", target="en", **settings)


def read(directory, split="train", has_labels=True, **settings):
    run = run_of(directory, **settings)
    return registry.find(run.task).bound(run).read_split(str(directory), split, run, has_labels)


def test_line_n_of_both_files_is_a_pair(tmp_path):
    (tmp_path / "train.de").write_text("Ein Hund.\nZwei Katzen.\n", encoding="utf-8")
    (tmp_path / "train.en").write_text("A dog.\r\nTwo cats.\n", encoding="utf-8")
    examples = read(tmp_path)
    assert [(example.text, example.target) for example in examples] == [
        ("Ein Hund.", "A dog."),
        ("Zwei Katzen.", "Two cats."),
    ]
    assert examples[1].place == f"{tmp_path}/train.de:2"


def test_compressed_files_and_the_names_val_and_test_are_found(tmp_path):
    for name in ("val", "test_2016"):
        for language, text in (("de", "Ein Hund.\n"), ("en", "A dog.\n")):
            (tmp_path / f"{name}.{language}.gz").write_bytes(gzip.compress(text.encode()))
    for split in ("dev", "test"):
        assert [example.target for example in read(tmp_path, split)] == ["A dog."]
    (tmp_path / "val.en.gz").write_bytes(gzip.compress(b"A dog.\n" * 99, mtime=0)[:-9])
    with pytest.raises(UserError, match=r"val.en.gz: is not whole gzip .*copy the file again"):
        read(tmp_path, "dev")


def test_pairs_with_an_empty_text_are_left_out_and_counted(tmp_path):
    (tmp_path / "train.de").write_text("a\n\nc\n", encoding="utf-8")
    (tmp_path / "train.en").write_text("A\nB\n \n", encoding="utf-8")
    examples = read(tmp_path)
    assert [example.target for example in examples] == ["A"]
    assert examples.notes() == ["2 pairs with an empty text were left out"]


def test_a_file_without_translations_keeps_every_line(tmp_path):
    path = tmp_path / "new.txt"
    path.write_text("a\n\nc\n", encoding="utf-8")
    run = run_of(tmp_path)
    examples = registry.find("translation").bound(run).read_file(str(path), run, has_labels=False)
    assert [(example.text, example.target) for example in examples] == [("a", None), ("", None), ("c", None)]


def test_a_table_has_its_texts_in_two_columns(tmp_path):
    (tmp_path / "train.tsv").write_text("question\tanswer\nWhy?\tSo.\n", encoding="utf-8")
    for task in ("translation", "rewrite"):
        run = FinetuningConfig(task=task, data_dir=str(tmp_path), text_columns=("question",), label_column="answer")
        (example,) = registry.find(task).bound(run).read_split(str(tmp_path), "train", run)
        assert (example.text, example.target) == ("Why?", "So.")


@pytest.mark.parametrize(
    "files, settings, message",
    [
        (
            {"train.de": "a\nb\n", "train.en": "A\n"},
            {},
            "train.de has 2 lines, but .*train.en has 1; expected one line",
        ),
        ({"train.de": "a\n"}, {}, "train.en: there is no such file; it must have the translations"),
        ({"train.de": "a\n", "train.en": "A\n"}, {"target": ""}, "--target is missing; give the ending of the file"),
        ({"train.de": "a\n", "train.en": "A\n"}, {"source": ""}, "^--source and --target are missing; give the end"),
        ({"train.de": "a\n", "train.en": "A\n"}, {"source": "fr"}, r"expects train.fr or .*found: train.de, train.en"),
        (
            {"train.tsv": "a\tb\nx\ty\n"},
            {"source": "", "text_columns": ("a",)},
            "has no column 'label' with the answers",
        ),
        ({"train.de": "\n", "train.en": "A\n"}, {}, "holds no example of task translation"),
        ({"train.tsv": "a\tb\nx\ty\n"}, {}, "train.tsv:2: --text_columns is missing; the columns are a, b"),
        (
            {"train.tsv": "a\tb\nx\ty\n"},
            {"source": "", "text_columns": ("a", "b")},
            "names 2 columns; expected the one column of",
        ),
    ],
)
def test_faults_of_the_files_are_named(tmp_path, files, settings, message):
    for name, text in files.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    run = FinetuningConfig(
        **{"task": "translation", "data_dir": str(tmp_path), "source": "de", "target": "en", **settings}
    )
    with pytest.raises(UserError, match=message):
        registry.find("translation").bound(run).read_split(str(tmp_path), "train", run)
