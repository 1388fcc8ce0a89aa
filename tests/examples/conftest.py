"""Fixtures of the examples: commands in this process, and a small model."""

import numpy as np
import pytest

from keras_bert_app.config.bert_config import BertConfig
from keras_bert_app.config.weight_shapes import shapes
from keras_bert_app.interop import load
from keras_bert_app.interop.weights import Weights
from pipelines.wordpiece.vocabulary import SPECIAL_PIECES
from tests.cli.conftest import run  # noqa: F401  a fixture

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
    pieces = (*SPECIAL_PIECES, *"$#.", *LETTERS, *(f"##{letter}" for letter in LETTERS))
    config = BertConfig(
        vocab_size=len(pieces),
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=32,
        max_position_embeddings=128,
    )
    generator = np.random.default_rng(0)
    tensors = {path: generator.normal(0.0, 0.1, shape).astype(np.float32) for path, shape in shapes(config).items()}
    vocabulary = "".join(f"{piece}\n" for piece in pieces).encode()
    directory = tmp_path_factory.mktemp("tiny") / "a model"
    load.write_weights(Weights(config, tensors, vocabulary=vocabulary, origin="a test"), "workdir", str(directory))
    return directory
