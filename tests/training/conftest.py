"""A small corpus and model for tests of the trainer."""

import dataclasses
import functools
import io
from unittest import mock

import numpy as np
import pytest
import tensorflow as tf

from keras_bert_app.config.bert_config import BertConfig
from keras_bert_app.config.pretraining_config import PretrainingConfig
from keras_bert_app.runs import work_directory
from keras_bert_app.training import pretrain as pretraining
from pipelines.corpus import preparation
from pipelines.wordpiece import vocabulary

WORDS = (
    "the cat sat on a mat and dogs ran far over green hills while rain fell cold night came "
    "birds sang old songs of rivers stones bread salt"
).split()
VOCABULARY = [*vocabulary.SPECIAL_PIECES, ".", *WORDS]

CONFIG = BertConfig(
    vocab_size=len(VOCABULARY),
    hidden_size=22,
    num_attention_heads=2,
    num_hidden_layers=2,
    intermediate_size=37,
    max_position_embeddings=41,
    hidden_dropout_prob=0.0,
    attention_probs_dropout_prob=0.0,
)
WITH_DROPOUT = CONFIG.replace(hidden_dropout_prob=0.1, attention_probs_dropout_prob=0.1)
RUN = PretrainingConfig(
    max_seq_length=29,
    global_batch_size=8,
    learning_rate=1e-4,
    num_train_steps=20,
    num_warmup_steps=2,
    save_checkpoints_steps=1000,
    eval_steps=1000,
    log_steps=5,
    seed=3,
    iterations_per_loop=3,
    strategy="one_device",
).resolved()


@pytest.fixture(scope="session")
def shards(tmp_path_factory):
    """(training shards, held-out shards) of 60 documents."""
    generator = np.random.RandomState(1)
    documents = [
        [" ".join(generator.choice(WORDS, generator.randint(3, 9))) + "." for _ in range(generator.randint(2, 13))]
        for _ in range(60)
    ]
    directory = str(tmp_path_factory.mktemp("corpus") / "shards")
    manifest = preparation.prepare_corpus(directory, documents=iter(documents), holdout_fraction=0.2, num_shards=3)
    return preparation.shard_paths(directory, manifest, "train"), preparation.shard_paths(
        directory, manifest, "heldout"
    )


@pytest.fixture
def training_shards(shards):
    """For what is looked for in the training alone: without held-out text a third of such a run is spared."""
    return shards[0], []


def write_workdir(directory, config=CONFIG, run=RUN):
    work_directory.write_config(str(directory), config, run, "".join(f"{piece}\n" for piece in VOCABULARY).encode())
    return str(directory)


@pytest.fixture
def make_workdir(tmp_path):
    """A function that makes a work directory for a BertConfig and a PretrainingConfig."""
    return lambda name, config=CONFIG, run=RUN: write_workdir(tmp_path / name, config, run)


def train(workdir, shards, strategy=None, draw=lambda rows, title: b""):
    """(last evaluation's figures, what was printed) of a run; a strategy of None is the configured one.

    The curves take as long as some hundred steps of such a model; only who asks for them gets them drawn.
    """
    output = io.StringIO()
    with mock.patch.object(pretraining, "draw_curves", draw):
        figures = pretraining.pretrain(workdir, [shards[0]], shards[1], strategy=strategy, stream=output)
    return figures, output.getvalue()


def finished(tmp_path_factory, shards, name, config=CONFIG, run=RUN):
    workdir = write_workdir(tmp_path_factory.mktemp("runs") / name, config, run)
    return (workdir, *train(workdir, shards))


# Whole runs that several tests compare with; none of them may change these directories.
@pytest.fixture(scope="session")
def plain_run(tmp_path_factory, shards):
    """(work directory, figures, output) of CONFIG and RUN on one device."""
    return finished(tmp_path_factory, shards, "plain")


@pytest.fixture(scope="session")
def dropout_run(tmp_path_factory, shards):
    """The same with dropout."""
    return finished(tmp_path_factory, shards, "dropout", WITH_DROPOUT)


@pytest.fixture(scope="session")
def untrained_run(tmp_path_factory, shards):
    """One step at a learning rate of 0: the initial weights."""
    return finished(
        tmp_path_factory,
        shards,
        "untrained",
        run=dataclasses.replace(RUN, learning_rate=0.0, num_train_steps=1, global_batch_size=4),
    )


@functools.cache
def two_replicas():
    """One strategy for all tests: several in a process number their collective ops alike, and TensorFlow mixes them up."""
    return tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
