"""Fixtures: a function that runs commands in this process, where TensorFlow is loaded already, and a text."""

import runpy
import sys
from types import SimpleNamespace

import pytest
from absl import app as absl_app
from absl import flags

from pipelines.wordpiece import words
from pipelines.wordpiece.vocabulary import write_vocabulary
from pipelines.wordpiece.vocabulary_learning import learn_from_words

SENTENCES = (
    "The cat sat on the mat.",
    "A dog ran over the hill.",
    "Birds sang in the cold rain.",
    "Old stones lay in the river.",
    "Bread and salt stood on the table.",
)


@pytest.fixture
def run(monkeypatch, capsys):
    """A function that runs a command in this process and then removes its flags. Every command defines its own."""
    absl_app.define_help_flags()

    def call(verb, *arguments):
        capsys.readouterr()
        flags_before = set(flags.FLAGS)
        monkeypatch.setattr(sys, "argv", [verb, *map(str, arguments)])
        try:
            runpy.run_module(f"keras_bert_app.cli.{verb}", run_name="__main__")
        except SystemExit as stop:
            code = stop.code or 0
        finally:
            for name in set(flags.FLAGS) - flags_before:
                delattr(flags.FLAGS, name)
        out, err = capsys.readouterr()
        return SimpleNamespace(returncode=code, stdout=out, stderr=err)

    return call


@pytest.fixture(scope="session")
def texts(tmp_path_factory):
    """A directory with a text in Google's layout and a vocabulary of 90 pieces. The directory name has a space."""
    directory = tmp_path_factory.mktemp("my texts")
    documents = ["\n".join(f"{i} {sentence}" for sentence in SENTENCES) for i in range(20)]
    (directory / "text.txt").write_text("\n\n".join(documents) + "\n")
    counted = words.count_words((document.split("\n") for document in documents), do_lower_case=True)
    write_vocabulary(learn_from_words(counted.counts, 90), directory / "vocab.txt")
    return directory
