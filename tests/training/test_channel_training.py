"""Two corpora of symbols with channels: two replicas get the weights of one device."""

import json
import random

import pytest

from keras_bert_app.config.bert_config import BertConfig
from keras_bert_app.runs import work_directory
from keras_bert_app.training.pretraining_corpora import PretrainingCorpora
from pipelines.corpus import preparation
from pipelines.wordpiece.vocabulary import SPECIAL_PIECES
from tests.training.conftest import RUN, train_on, two_replicas
from tests.training.runs import largest_difference

CODES = [f"C{number}" for number in range(12)]
VOCABULARY = "".join(f"{piece}\n" for piece in (*SPECIAL_PIECES, *CODES)).encode()
CONFIG = BertConfig(
    tokenizer="symbols",
    channels=("age:100", "dose:v2:masked"),
    positions="lines",
    vocab_size=VOCABULARY.count(b"\n"),
    hidden_size=16,
    num_hidden_layers=1,
    num_attention_heads=2,
    intermediate_size=32,
    max_position_embeddings=32,
    hidden_dropout_prob=0.0,
    attention_probs_dropout_prob=0.0,
)


@pytest.fixture
def corpora(tmp_path):
    """Training shards of two corpora of simulated patients."""
    shards = []
    for name in ("one", "two"):
        draw, records = random.Random(name), []
        for _ in range(40):
            visits = [draw.sample(CODES, draw.randint(1, 4)) for _ in range(draw.randint(2, 4))]
            doses = [[[draw.random(), 1] if draw.random() < 0.5 else None for _ in visit] for visit in visits]
            ages = [draw.randrange(100) for _ in visits]
            records.append({"text": [" ".join(visit) for visit in visits], "age": ages, "dose": doses})
        path = tmp_path / f"{name}.jsonl"
        path.write_text("".join(json.dumps(record) + "\n" for record in records))
        manifest = preparation.prepare_corpus(
            str(tmp_path / name),
            input_files=[str(path)],
            input_format="symbols",
            channels=CONFIG.channels,
            holdout_fraction=0.0,
            num_shards=2,
        )
        shards.append(tuple(preparation.shard_paths(str(tmp_path / name), manifest, "train")))
    return PretrainingCorpora(tuple(shards))


@pytest.mark.slow
def test_two_replicas_give_the_weights_of_one(corpora, tmp_path):
    for name, strategy in (("plain", None), ("two", two_replicas())):
        work_directory.write_config(str(tmp_path / name), CONFIG, RUN, VOCABULARY)
        train_on(corpora, str(tmp_path / name), strategy)
    assert largest_difference(str(tmp_path / "plain"), str(tmp_path / "two")) < 1e-6
