"""Fixtures of the examples: commands in this process, and a small model."""

import pytest

from tests.cli.conftest import run  # noqa: F401  a fixture
from tests.random_models import write_random_model

LETTERS = "abcdefghijklmnopqrstuvwxyz"


@pytest.fixture
def command(run):  # noqa: F811
    """A function that runs a command in this process. The examples start a new process."""

    def call(name, **values):
        values |= {"jit_compile": "none"} if name == "pretrain" else {}
        done = run(name, *(f"--{key}={value}" for key, value in values.items()))
        assert done.returncode == 0, done.stderr

    return call


@pytest.fixture(scope="session")
def tiny_model(tmp_path_factory):
    """The directory of a model with random weights and pieces of single letters."""
    pieces = (*"$#.", *LETTERS, *(f"##{letter}" for letter in LETTERS))
    directory = tmp_path_factory.mktemp("tiny") / "a model"
    write_random_model(directory, pieces, 0.1, intermediate_size=32, max_position_embeddings=128)
    return directory
