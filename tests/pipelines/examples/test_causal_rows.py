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


def test_a_stream_has_each_document_between_cls_and_sep_and_rows_overlap_by_one_piece(tokenizer):
    documents = tf.constant(["a b c\nd e", "f g", "", "h i j k l m n o p a b c d"])
    batch = block_examples(
        documents, tokenizer, [0, 0], max_seq_length=8, language_model="bidirectional", is_stream=True
    )
    ids, mask = batch["input_word_ids"].numpy(), batch["input_mask"].numpy() > 0
    pieces = [ids[0, 0], *ids[:, 1:][mask[:, 1:]].tolist()]
    expected = "<abcde.<fg.<hijklmnopabcd."
    assert pieces == [{"<": CLS, ".": SEP}.get(each) or 5 + LETTERS.index(each) for each in expected]
    assert (ids[1:, 0] == ids[:-1, -1]).all() and mask[:-1].all() and not ids[~mask].any()
    assert block_examples(tf.constant([""]), tokenizer, [0, 0], language_model="causal", is_stream=True)[
        "input_word_ids"
    ].shape == (0, 128)


@pytest.mark.parametrize("batch_size", [3, pytest.param(7, marks=pytest.mark.slow)])
def test_each_row_of_a_batch_continues_the_row_before_wherever_the_stream_begins(shards, batch_size):  # noqa: F811
    tokenizer = BertTokenizer("".join(f"{piece}\n" for piece in VOCABULARY).encode(), True)
    arguments = dict(global_batch_size=batch_size, max_seq_length=13, seed=5, language_model="causal", is_stream=True)
    whole = [batch for batch, _ in _taken(shards[0], tokenizer, 12, **arguments)]
    num_continued = 0
    for before, batch in zip(whole[:-1], whole[1:], strict=True):
        assert batch["stream_places"].tolist() == list(range(batch_size))
        continues = batch["continues"] > 0
        assert (batch["input_word_ids"][continues, 0] == before["input_word_ids"][continues, -1]).all()
        num_continued += continues.sum()
    assert not whole[0]["continues"].any() and num_continued > 0.3 * 11 * batch_size
    *_, (_, position) = _taken(shards[0], tokenizer, 5, **arguments)
    (resumed, _), *_ = _taken(shards[0], tokenizer, 1, position=tuple(position.tolist()), **arguments)
    assert all((resumed[name] == whole[5][name]).all() for name in resumed)


def test_a_stream_has_every_row_of_the_text_once_in_an_epoch(shards):  # noqa: F811
    tokenizer = BertTokenizer("".join(f"{piece}\n" for piece in VOCABULARY).encode(), True)
    arguments = dict(max_seq_length=13, language_model="causal", is_stream=True)
    dataset = pretraining_dataset(shards[0], tokenizer, global_batch_size=7, epochs=1, **arguments)
    rows = np.concatenate([batch["input_word_ids"].numpy() for batch in dataset])
    texts = [tf.constant([text.numpy() for text in tf.data.TFRecordDataset(path)]) for path in shards[0]]
    expected = [block_examples(each, tokenizer, [0, 0], **arguments)["input_word_ids"].numpy() for each in texts]
    assert sorted(rows[rows.any(axis=1)].tolist()) == sorted(np.concatenate(expected).tolist())


def _taken(paths, tokenizer, number, **arguments):
    """The first batches and positions as arrays."""
    dataset = pretraining_dataset(paths, tokenizer, with_position=True, **arguments).take(number)
    return [({name: each.numpy() for name, each in batch.items()}, after.numpy()) for batch, after in dataset]


def test_an_unknown_language_model_is_refused(tokenizer):
    with pytest.raises(DataError, match="language_model is 'both'; expected one of masked, causal, bidirectional"):
        block_examples(tf.constant(["a"]), tokenizer, [0, 0], language_model="both")
