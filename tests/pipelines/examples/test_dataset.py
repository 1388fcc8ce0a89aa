"""The dataset is one stream of fixed shapes, a function of seed and position. No example is lost or repeated."""

import numpy as np
import pytest
import tensorflow as tf

from pipelines import BertTokenizer, pretraining_dataset
from pipelines.examples.mixing import mixed_pretraining_dataset
from tests.training.conftest import VOCABULARY, shards  # noqa: F401  a fixture

SEQ_LENGTH, MAX_PREDICTIONS, BATCH_SIZE = 31, 5, 7


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory):
    path = tmp_path_factory.mktemp("vocab") / "vocab.txt"
    path.write_text("".join(f"{piece}\n" for piece in VOCABULARY))
    return BertTokenizer(str(path))


@pytest.fixture
def make(shards, tokenizer):  # noqa: F811
    def make_dataset(**changes):
        arguments = dict(
            global_batch_size=BATCH_SIZE, max_seq_length=SEQ_LENGTH, seed=5, max_predictions_per_seq=MAX_PREDICTIONS
        )
        return pretraining_dataset(shards[0], tokenizer, **{**arguments, **changes})

    return make_dataset


def rows_of(dataset, name="input_word_ids"):
    return np.concatenate([batch[name].numpy() for batch in dataset])


def test_shapes_are_static_and_types_are_int32(make):
    spec = make().element_spec
    expected = {
        "input_word_ids": SEQ_LENGTH,
        "input_mask": SEQ_LENGTH,
        "input_type_ids": SEQ_LENGTH,
        "masked_lm_positions": MAX_PREDICTIONS,
        "masked_lm_ids": MAX_PREDICTIONS,
        "masked_lm_weights": MAX_PREDICTIONS,
        "next_sentence_labels": None,
    }
    assert {name: value.shape.as_list() for name, value in spec.items()} == {
        name: [BATCH_SIZE] + ([width] if width else []) for name, width in expected.items()
    }
    assert {name for name, value in spec.items() if value.dtype.name != "int32"} == {"masked_lm_weights"}


def test_rows_read_as_cls_a_sep_b_sep_with_labels_under_the_masks(make, tokenizer):
    for batch in make(epochs=1):
        for i in range(BATCH_SIZE):
            length = int(batch["input_mask"][i].numpy().sum())
            if not length:
                continue
            ids = batch["input_word_ids"][i].numpy()
            used = batch["masked_lm_weights"][i].numpy() > 0
            ids[batch["masked_lm_positions"][i].numpy()[used]] = batch["masked_lm_ids"][i].numpy()[used]
            separators = np.flatnonzero(ids == tokenizer.sep_id)
            assert ids[0] == tokenizer.cls_id and separators[-1] == length - 1 and len(separators) == 2
            assert not ids[length:].any() and tokenizer.mask_id not in ids
            assert batch["input_type_ids"][i].numpy().sum() == length - 1 - separators[0]


def test_the_stream_continues_from_any_position_bit_for_bit(make):
    whole = [(batch, tuple(position.numpy().tolist())) for batch, position in make(with_position=True).take(80)]
    assert whole[-1][1][0] >= 1  # the stream is beyond the first epoch
    for taken in (0, 17, 78):
        resumed = make(with_position=True, position=whole[taken][1]).take(2)
        for (actual, position), (expected, expected_position) in zip(resumed, whole[taken + 1 :], strict=False):
            assert tuple(position.numpy().tolist()) == expected_position
            for name, values in expected.items():
                np.testing.assert_array_equal(actual[name], values)


def test_the_examples_do_not_depend_on_the_batch_size(make):
    small = rows_of(make(global_batch_size=3, epochs=1))
    large = rows_of(make(global_batch_size=16, epochs=1))
    count = int((small[:, 0] > 0).sum())
    assert count == int((large[:, 0] > 0).sum())
    np.testing.assert_array_equal(small[:count], large[:count])


def test_pairs_masks_and_order_are_new_in_every_epoch_and_with_every_seed(make):
    first = rows_of(make(epochs=1))
    both = rows_of(make(epochs=2))
    assert len(both) > 1.5 * len(first)
    assert {row.tobytes() for row in first if row.any()}.isdisjoint(
        row.tobytes() for row in both[len(first) :] if row.any()
    )
    other = rows_of(make(epochs=1, seed=6))
    assert first.shape != other.shape or (first != other).any()


def test_every_sentence_of_every_document_occurs_in_an_epoch(make, tokenizer, shards):  # noqa: F811
    documents = [record.numpy().decode() for record in tf.data.TFRecordDataset(shards[0])]
    # Rows are long enough for the documents, so nothing is cut. B of an actual pair, or the next A, continues the text
    # of A.
    dataset = make(max_seq_length=512, epochs=1, masked_lm_prob=0.001, max_predictions_per_seq=1, short_seq_prob=0.0)
    text = []
    for batch in dataset:
        ids = batch["input_word_ids"].numpy()
        used = batch["masked_lm_weights"].numpy()[:, 0] > 0
        ids[used, batch["masked_lm_positions"].numpy()[used, 0]] = batch["masked_lm_ids"].numpy()[used, 0]
        text += [" ".join(VOCABULARY[i] for i in row if i) for row in ids]
    text = "\n".join(text)
    for document in documents:
        for sentence in document.split("\n"):
            assert sentence.replace(".", " .") in text


def test_static_masks_repeat_after_dupe_factor_epochs(make):
    def rows(epoch):
        start = sum(len(epochs[i]) for i in range(epoch))
        return {row.tobytes() for row in everything[start : start + len(epochs[epoch])]}

    epochs = [
        [row for row in rows_of(make(epochs=1 + n, position=(n, 0, 0), dupe_factor=2)) if row.any()] for n in range(4)
    ]
    everything = [row for rows in epochs for row in rows]
    assert rows(0) == rows(2) and rows(1) == rows(3) and rows(0).isdisjoint(rows(1))


def test_a_text_file_gives_the_same_examples_as_records_of_its_documents(tokenizer, tmp_path):
    documents = ["the cat sat.\nrain fell on old stones.\nbirds sang.", "dogs ran far.\nbread and salt.\nnight came."]
    (tmp_path / "a.txt").write_text("\n \n" + "\n\n  \n".join(documents) + "\n\n")
    with tf.io.TFRecordWriter(str(tmp_path / "a.tfrecord")) as writer:
        for document in documents:
            writer.write(document.encode())
    actual, expected = (
        rows_of(
            pretraining_dataset(
                [str(tmp_path / name)],
                tokenizer,
                global_batch_size=4,
                epochs=2,
                seed=5,
                max_seq_length=SEQ_LENGTH,
                max_predictions_per_seq=3,
            )
        )
        for name in ("a.txt", "a.tfrecord")
    )
    assert len(actual) and actual[:, 0].any()
    np.testing.assert_array_equal(actual, expected)


def words_of_sides(dataset):
    """Returns [(words of A, words of B, label)] for the rows of a dataset without masks. Empty rows are left out."""
    sides = []
    for batch in dataset:
        arrays = (batch[name].numpy() for name in ("input_word_ids", "input_type_ids", "next_sentence_labels"))
        for ids, types, label in zip(*arrays, strict=True):
            words = [{VOCABULARY[i] for i in ids[(types == side) & (ids > 4)]} - {"."} for side in (0, 1)]
            sides.append((*words, int(label)))
    return [side for side in sides if side[0]]


def lone_document_shards(directory, words, name="{}.tfrecord"):
    """Writes a shard for each word and returns the paths. The only document of a shard repeats the word."""
    paths = [str(directory / name.format(word)) for word in words]
    for path, word in zip(paths, words, strict=True):
        document = "\n".join([f"{word} {word} {word}."] * 30)
        if path.endswith(".txt"):
            (directory / path).write_text(document)
        else:
            with tf.io.TFRecordWriter(path) as writer:
                writer.write(document.encode())
    return paths


@pytest.mark.parametrize("name", ["{}.tfrecord", "{}.txt"])
def test_a_shard_of_one_document_draws_random_segments_from_the_documents_of_other_shards(tokenizer, tmp_path, name):
    """An earlier dataset took all random segments for shards of one document from the same document."""
    words = "cat dogs hills rain night songs".split()
    shards = lone_document_shards(tmp_path, words, name)  # noqa: F811
    arguments = dict(global_batch_size=8, max_seq_length=SEQ_LENGTH, max_predictions_per_seq=1, masked_lm_prob=1e-6)
    dataset = pretraining_dataset(
        shards, tokenizer, epochs=2, seed=5, mask_token_rate=0.0, random_token_rate=0.0, **arguments
    )
    sides = words_of_sides(dataset)
    random_sides = [(a, b) for a, b, label in sides if label]
    assert 0.3 < len(random_sides) / len(sides) < 0.8
    assert all(a.isdisjoint(b) and b for a, b in random_sides)
    assert all(a == b for a, b, label in sides if not label)
    assert len({(*a, *b) for a, b in random_sides}) > 2 * len(words)  # the random segments come from several documents


def test_the_one_document_of_a_text_has_no_random_segment(tokenizer, tmp_path):
    shards = lone_document_shards(tmp_path, ["cat"])  # noqa: F811
    dataset = pretraining_dataset(shards, tokenizer, global_batch_size=8, epochs=1, max_seq_length=SEQ_LENGTH)
    assert rows_of(dataset)[:, 0].any() and not rows_of(dataset, "next_sentence_labels").any()


def test_a_corpus_of_one_document_draws_random_segments_from_the_other_corpora_of_a_mixture(tokenizer, tmp_path):
    corpora = [[path] for path in lone_document_shards(tmp_path, ["cat", "rain", "songs"])]
    arguments = dict(global_batch_size=8, max_seq_length=SEQ_LENGTH, max_predictions_per_seq=1, masked_lm_prob=1e-6)
    dataset = mixed_pretraining_dataset(
        corpora, [0.4, 0.3, 0.3], tokenizer, mask_token_rate=0.0, random_token_rate=0.0, **arguments
    )
    sides = words_of_sides(dataset.take(10))
    assert any(label for *_, label in sides) and all(a.isdisjoint(b) == bool(label) for a, b, label in sides if b)


def test_the_dataset_has_no_tuning_thread(make):
    # The tuning thread sleeps for up to a minute, and deleting an iterator may wait for it.
    assert make().options().autotune.enabled is False
