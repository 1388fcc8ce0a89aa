"""Rows for a causal language model: [CLS] and consecutive pieces, every piece of the text once."""

import numpy as np
import pytest
import tensorflow as tf

from pipelines import BertTokenizer, pretraining_dataset
from pipelines.data_error import DataError
from pipelines.examples.block_examples import block_examples
from pipelines.wordpiece.vocabulary import SPECIAL_PIECES
from tests.training.conftest import VOCABULARY, shards  # noqa: F401  a fixture

LETTERS = "abcdefghijklmnop"
PAD, UNK, CLS, SEP, MASK = range(5)


@pytest.fixture(scope="module")
def tokenizer():
    return BertTokenizer("".join(f"{piece}\n" for piece in (*SPECIAL_PIECES, *LETTERS)).encode(), True)


def rows_of(documents, tokenizer, seed=0, length=8):
    documents = tf.constant(documents, tf.string)
    batch = block_examples(documents, tokenizer, [seed, 0], max_seq_length=length, language_model="causal")
    return {name: values.numpy() for name, values in batch.items()}


def stream_of(batch):
    """All pieces of rows after their [CLS], in order."""
    ids, mask = batch["input_word_ids"], batch["input_mask"] > 0
    return ids[:, 1:][mask[:, 1:]].tolist()


@pytest.mark.parametrize("seed", range(6))
def test_every_piece_is_in_one_row_in_the_order_of_the_text_and_sep_ends_each_document(tokenizer, seed):
    batch = rows_of(["a b c\nd e", "f g", "", "h i j k l m n o p a b c d"], tokenizer, seed)
    expected = [5 + LETTERS.index(each) if each in LETTERS else SEP for each in "abcde.fg.hijklmnopabcd."]
    assert stream_of(batch) == expected
    lengths = batch["input_mask"].sum(axis=1)
    assert (batch["input_word_ids"][:, 0] == CLS).all() and (lengths[1:-1] == 8).all() and lengths.min() >= 2
    assert not batch["input_type_ids"].any() and not (batch["input_word_ids"] * (1 - batch["input_mask"])).any()


def test_each_seed_cuts_the_text_at_other_places(tokenizer):
    firsts = {
        int(rows_of(["a b c d e f g h i j k l m n o p"], tokenizer, seed)["input_mask"][0].sum()) for seed in range(40)
    }
    assert firsts == set(range(2, 9))


@pytest.mark.parametrize("documents, num_rows", [(["", " "], 0), ([], 0), (["a"], None)])
def test_a_text_of_no_or_one_piece_gives_no_empty_row(tokenizer, documents, num_rows):
    batch = rows_of(documents, tokenizer)
    assert batch["input_word_ids"].shape[0] == num_rows if num_rows is not None else stream_of(batch) == [5, SEP]


def test_the_dataset_has_every_piece_once_in_an_epoch_and_resumes_at_a_position(shards):  # noqa: F811
    tokenizer = BertTokenizer("".join(f"{piece}\n" for piece in VOCABULARY).encode(), True)
    arguments = dict(global_batch_size=7, max_seq_length=13, seed=5, language_model="causal", with_position=True)
    whole = pretraining_dataset(shards[0], tokenizer, epochs=1, **arguments)
    batches, positions = zip(*whole, strict=True)
    num_pieces = sum(len(stream_of({name: values.numpy() for name, values in batch.items()})) for batch in batches)
    texts = [record.numpy() for path in shards[0] for record in tf.data.TFRecordDataset(path)]
    pieces = [tokenizer.tokenize(tf.strings.split(text, "\n")).flat_values for text in texts]
    assert num_pieces == sum(len(each) + 1 for each in pieces)
    endless = pretraining_dataset(shards[0], tokenizer, position=tuple(positions[2].numpy().tolist()), **arguments)
    resumed, _ = next(iter(endless))
    np.testing.assert_array_equal(resumed["input_word_ids"], batches[3]["input_word_ids"])


def test_an_unknown_language_model_is_refused(tokenizer):
    with pytest.raises(DataError, match="language_model is 'both'; expected one of masked, causal"):
        block_examples(tf.constant(["a"]), tokenizer, [0, 0], language_model="both")
