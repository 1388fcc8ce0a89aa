"""Text that gives no example. A run reports such text and does not wait for an example."""

import shutil

import pytest
import tensorflow as tf

from keras_bert_app.errors import UserError
from pipelines import BertTokenizer, pretraining_dataset
from pipelines.examples import mixing
from tests.training.conftest import VOCABULARY, train

ARGUMENTS = dict(global_batch_size=4, max_seq_length=16, max_predictions_per_seq=3)


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory):
    path = tmp_path_factory.mktemp("vocab") / "vocab.txt"
    path.write_text("".join(f"{piece}\n" for piece in VOCABULARY))
    return BertTokenizer(str(path))


@pytest.fixture
def write(tmp_path):
    """A function that writes documents to a shard and returns its path."""

    def write_shard(name, documents):
        path = str(tmp_path / "corpus" / name)
        tf.io.gfile.makedirs(str(tmp_path / "corpus"))
        with tf.io.TFRecordWriter(path) as writer:
            for document in documents:
                writer.write(document.encode())
        return path

    return write_shard


@pytest.fixture
def empty_shards(write):
    """Two shards whose text is empty after cleaning, and one without a document."""
    return [write("a", ["\x01\n\x02", "\x03"]), write("b", ["\u200b\x01"]), write("c", [])]


def test_a_mixture_with_an_empty_corpus_ends(empty_shards, write, tokenizer):
    good = [write("good", ["the cat sat.\nrain fell on old stones."])]
    mixed = mixing.mixed_pretraining_dataset([good, empty_shards], [0.9, 0.1], tokenizer, **ARGUMENTS)
    assert len(list(mixed)) < 100


def test_shards_without_an_example_are_skipped_even_if_the_first_block_is_used_up(empty_shards, write, tokenizer):
    shards = [*empty_shards, write("good", ["the cat sat.\nrain fell on old stones."])]
    dataset = pretraining_dataset(shards, tokenizer, position=(0, 3, 9), with_position=True, **ARGUMENTS)
    batches = list(dataset.take(4))
    assert all(batch["input_mask"].numpy()[:, 0].all() for batch, _ in batches)
    _, last_position = batches[-1]
    assert last_position[0] > 1


def test_a_run_without_an_example_is_refused_in_one_line_with_the_size_of_the_corpus(make_workdir, empty_shards):
    with pytest.raises(
        UserError, match=r"corpus \(3 documents, 4 sentences, 0 word pieces after cleaning\)"
    ) as refusal:
        train(make_workdir("run"), (empty_shards, []))
    assert "\n" not in str(refusal.value)


def test_held_out_text_without_an_example_is_not_evaluated(plain_run, tmp_path, empty_shards):
    workdir = str(tmp_path / "finished")
    shutil.copytree(plain_run[0], workdir)
    with open(f"{workdir}/metrics.jsonl", "rb") as file:
        metrics = file.read()
    figures, output = train(workdir, ([], empty_shards))
    assert figures == {} and "so nothing was evaluated" in output
    with open(f"{workdir}/metrics.jsonl", "rb") as file:
        assert file.read() == metrics
