"""Dynamic masking follows its rules, and its statistics are as expected."""

import numpy as np
import pytest
import tensorflow as tf

from pipelines.examples import masking

CLS, SEP, MASK, VOCAB_SIZE = 2, 3, 4, 1009
ROWS, SEQ_LENGTH, MAX_PREDICTIONS = 3001, 37, 6


def rows(generator=None):
    """Makes (ids, input_mask) of rows [CLS] pieces [SEP] pieces [SEP] padding. The rows have many lengths."""
    generator = generator or np.random.RandomState(5)
    ids = np.zeros((ROWS, SEQ_LENGTH), np.int32)
    lengths = generator.randint(5, SEQ_LENGTH + 1, size=ROWS)
    for row, length in zip(ids, lengths, strict=True):
        row[:length] = generator.randint(5, VOCAB_SIZE, size=length)
        row[0], row[length // 2], row[length - 1] = CLS, SEP, SEP
    return ids, (np.arange(SEQ_LENGTH) < lengths[:, None]).astype(np.int32)


def mask(ids, input_mask, seed=(1, 2), **changes):
    arguments = dict(
        max_predictions_per_seq=MAX_PREDICTIONS,
        masked_lm_prob=0.15,
        vocab_size=VOCAB_SIZE,
        mask_id=MASK,
        never_masked=(CLS, SEP),
    )
    masked = masking.mask_tokens(
        tf.constant(ids), tf.constant(input_mask), tf.constant(seed), **{**arguments, **changes}
    )
    return {name: values.numpy() for name, values in masked.items()}


def test_the_number_of_predictions_is_python_s_round_of_the_share_from_one_to_the_maximum():
    lengths = np.arange(1, 513)
    actual = masking.num_to_predict(tf.constant(lengths), 20, 0.15).numpy()
    assert actual.tolist() == [min(20, max(1, round(int(length) * 0.15))) for length in lengths]


def test_labels_are_the_original_pieces_at_ascending_positions_and_no_special_pieces():
    ids, input_mask = rows()
    masked = mask(ids, input_mask)
    used = masked["masked_lm_weights"] > 0
    original = np.take_along_axis(ids, masked["masked_lm_positions"], axis=1)
    np.testing.assert_array_equal(original[used], masked["masked_lm_ids"][used])
    assert not np.isin(original[used], (0, CLS, SEP)).any()
    for positions, flags in zip(masked["masked_lm_positions"], used, strict=True):
        assert (np.diff(positions[flags]) > 0).all()
    for name in ("masked_lm_positions", "masked_lm_ids"):
        assert not masked[name][~used].any()


def test_only_labelled_positions_change():
    ids, input_mask = rows()
    masked = mask(ids, input_mask)
    changed = masked["input_word_ids"] != ids
    labelled = np.zeros_like(changed)
    used = masked["masked_lm_weights"] > 0
    labelled[np.nonzero(used)[0], masked["masked_lm_positions"][used]] = True
    assert not (changed & ~labelled).any()
    assert not (masked["input_word_ids"] == MASK)[~labelled].any()


def test_counts_follow_the_length_of_each_row():
    ids, input_mask = rows()
    expected = [min(MAX_PREDICTIONS, max(1, round(int(n) * 0.15))) for n in input_mask.sum(axis=1)]
    assert mask(ids, input_mask)["masked_lm_weights"].sum(axis=1).astype(int).tolist() == expected


def test_eight_in_ten_are_hidden_one_in_ten_kept_one_in_ten_random_over_the_whole_vocabulary():
    ids, input_mask = rows()
    masked = mask(ids, input_mask)
    used = masked["masked_lm_weights"] > 0
    shown = np.take_along_axis(masked["input_word_ids"], masked["masked_lm_positions"], axis=1)[used]
    labels = masked["masked_lm_ids"][used]
    count = used.sum()
    for share, expected in (((shown == MASK).mean(), 0.8), ((shown == labels).mean(), 0.1)):
        assert abs(share - expected) < 4 * np.sqrt(expected * (1 - expected) / count)
    random_pieces = shown[(shown != MASK) & (shown != labels)]
    assert random_pieces.min() < 30 and random_pieces.max() >= VOCAB_SIZE - 30
    assert abs(random_pieces.mean() / (VOCAB_SIZE - 1) - 0.5) < 4 * np.sqrt(1 / 12 / len(random_pieces))


def test_every_position_is_chosen_equally_often():
    ids = np.full((20011, 13), 7, np.int32)
    ids[:, 0], ids[:, 5], ids[:, 12] = CLS, SEP, SEP
    chosen = mask(ids, np.ones_like(ids))["masked_lm_positions"][:, :2].ravel()
    counts = np.bincount(chosen, minlength=13)[[1, 2, 3, 4, 6, 7, 8, 9, 10, 11]]
    expected = len(chosen) / 10
    assert ((counts - expected) ** 2 / expected).sum() < 27.9  # chi-square, 9 degrees of freedom, p = 0.001


@pytest.mark.parametrize("seed", [(1, 3), (7, 2)])
def test_masks_are_a_function_of_the_seed_alone(seed):
    ids, input_mask = rows()
    first, again, other = mask(ids, input_mask), mask(ids, input_mask), mask(ids, input_mask, seed=seed)
    np.testing.assert_array_equal(first["masked_lm_positions"], again["masked_lm_positions"])
    np.testing.assert_array_equal(first["input_word_ids"], again["input_word_ids"])
    assert (first["masked_lm_positions"] != other["masked_lm_positions"]).any()
