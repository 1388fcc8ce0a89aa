"""A small corpus, model and run for tests of the trainer."""

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
from keras_bert_app.runs.work_directory import ExistingRun
from keras_bert_app.training import pretrain, pretraining_start
from keras_bert_app.training.pretraining_corpora import PretrainingCorpora
from pipelines.corpus import preparation
from pipelines.wordpiece import vocabulary

WORDS = (
    "the cat sat on a mat and dogs ran far over green hills while rain fell cold night came "
    "birds sang old songs of rivers stones bread salt"
).split()
VOCABULARY = [*vocabulary.SPECIAL_PIECES, ".", *WORDS]

# A run of one layer takes a third less time than a run of two. The run with dropout has two layers, so that the tests
# which compare every bit also see an exchange of layers.
CONFIG = BertConfig(
    vocab_size=len(VOCABULARY),
    hidden_size=22,
    num_attention_heads=2,
    num_hidden_layers=1,
    intermediate_size=37,
    max_position_embeddings=41,
    hidden_dropout_prob=0.0,
    attention_probs_dropout_prob=0.0,
)
WITH_DROPOUT = CONFIG.replace(num_hidden_layers=2, hidden_dropout_prob=0.1, attention_probs_dropout_prob=0.1)
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
    """(training shards, no held-out shards). A run without an evaluation takes a third less time."""
    return shards[0], []


def write_workdir(directory, config=CONFIG, run=RUN):
    work_directory.write_config(str(directory), config, run, "".join(f"{piece}\n" for piece in VOCABULARY).encode())
    return str(directory)


@pytest.fixture
def make_workdir(tmp_path):
    """A function that makes a work directory for a BertConfig and a PretrainingConfig."""
    return lambda name, config=CONFIG, run=RUN: write_workdir(tmp_path / name, config, run)


def train(workdir, shards, strategy=None, draw=lambda rows, title: b"", num_documents=(None, None)):
    """Trains the run of a work directory.

    Args:
        workdir: the work directory.
        shards: (training shards, held-out shards).
        strategy: tf.distribute.Strategy; None for the one that the run names.
        draw: function that draws the curves. The default draws nothing, because drawing takes as long as some hundred
            steps of this small model.
        num_documents: (documents to train on, held-out documents); None where their number does not matter.

    Returns:
        (figures of the last evaluation, printed text).
    """
    return train_on(PretrainingCorpora((tuple(shards[0]),), tuple(shards[1]), *num_documents), workdir, strategy, draw)


def train_on(corpora, workdir, strategy=None, draw=lambda rows, title: b""):
    """`train` on PretrainingCorpora."""
    output, existing = io.StringIO(), ExistingRun.read(workdir)
    start = pretraining_start.make_start(
        workdir, *existing.config(), strategy=strategy, stream=output, existing=existing
    )
    with mock.patch.object(pretrain, "_draw", draw):
        figures = pretrain.pretrain(dataclasses.replace(start, data=corpora))
    return figures, output.getvalue()


def finished(tmp_path_factory, shards, name, config=CONFIG, run=RUN):
    """Trains a new run. Returns (work directory, figures, output)."""
    workdir = write_workdir(tmp_path_factory.mktemp("runs") / name, config, run)
    return (workdir, *train(workdir, shards))


# Several tests compare with these runs. No test may change their directories.
@pytest.fixture(scope="session")
def plain_run(tmp_path_factory, shards):
    """(work directory, figures, output) of CONFIG and RUN on one device."""
    return finished(tmp_path_factory, shards, "plain")


@pytest.fixture(scope="session")
def dropout_run(tmp_path_factory, shards):
    """(work directory, figures, output) of the same run with dropout and two layers, without an evaluation."""
    return finished(tmp_path_factory, (shards[0], []), "dropout", WITH_DROPOUT)


@pytest.fixture(scope="session")
def untrained_run(tmp_path_factory, shards):
    """(work directory, figures, output) of one step at a learning rate of 0. It keeps the initial weights."""
    return finished(
        tmp_path_factory,
        shards,
        "untrained",
        run=dataclasses.replace(RUN, learning_rate=0.0, num_train_steps=1, global_batch_size=4),
    )


@functools.cache
def two_replicas():
    """The strategy of two CPUs that all tests share.

    Several strategies in a process give their collective ops the same numbers, and TensorFlow confuses the ops.
    """
    return tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
