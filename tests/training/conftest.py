"""A small corpus and model for tests of the trainer."""

import numpy as np
import pytest
import tensorflow as tf

from keras_bert_app.config import BertConfig
from keras_bert_app.run_config import PretrainingConfig
from keras_bert_app.training import workdir as workdirs
from pipelines import corpus, vocab

WORDS = ("the cat sat on a mat and dogs ran far over green hills while rain fell cold night came "
         "birds sang old songs of rivers stones bread salt").split()
VOCABULARY = [*vocab.SPECIAL_PIECES, ".", *WORDS]

CONFIG = BertConfig(vocab_size=len(VOCABULARY), hidden_size=22, num_attention_heads=2, num_hidden_layers=2,
                    intermediate_size=37, max_position_embeddings=41, hidden_dropout_prob=0.0,
                    attention_probs_dropout_prob=0.0)
RUN = PretrainingConfig(max_seq_length=29, global_batch_size=8, learning_rate=1e-4, num_train_steps=20,
                        num_warmup_steps=2, save_checkpoints_steps=1000, eval_steps=1000, log_steps=5, seed=3,
                        iterations_per_loop=3, strategy="one_device").resolved()


@pytest.fixture(scope="session")
def shards(tmp_path_factory):
    """(training shards, held-out shards) of 60 documents."""
    generator = np.random.RandomState(1)
    documents = [[" ".join(generator.choice(WORDS, generator.randint(3, 9))) + "."
                  for _ in range(generator.randint(2, 13))] for _ in range(60)]
    directory = str(tmp_path_factory.mktemp("corpus") / "shards")
    manifest = corpus.prepare_corpus(directory, documents=iter(documents), holdout_fraction=0.2, num_shards=3)
    return corpus.shard_paths(directory, manifest, "train"), corpus.shard_paths(directory, manifest, "heldout")


@pytest.fixture
def make_workdir(tmp_path):
    """A function that makes a work directory for a BertConfig and a PretrainingConfig."""
    def make(name, config=CONFIG, run=RUN):
        workdirs.write_config(str(tmp_path / name), config, run, "".join(f"{p}\n" for p in VOCABULARY).encode())
        return str(tmp_path / name)
    return make


def two_replicas():
    return tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
