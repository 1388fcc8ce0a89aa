"""A mixture gives each corpus its share, and the stream resumes from any position."""

import numpy as np
import pytest

from pipelines import BertTokenizer
from pipelines.examples.mixing import mixed_pretraining_dataset, smoothed_shares
from tests.training.conftest import VOCABULARY, shards  # noqa: F401  a fixture

BATCH_SIZE = 9


@pytest.fixture(scope="module")
def make(shards, tmp_path_factory):  # noqa: F811
    path = tmp_path_factory.mktemp("mixing") / "vocab.txt"
    path.write_text("".join(f"{piece}\n" for piece in VOCABULARY))
    tokenizer = BertTokenizer(str(path))

    def make_dataset(shares=(0.75, 0.25), **changes):
        arguments = dict(global_batch_size=BATCH_SIZE, max_seq_length=31, max_predictions_per_seq=5, seed=5)
        return mixed_pretraining_dataset((shards[0][:1], shards[0][1:]), shares, tokenizer, **{**arguments, **changes})

    return make_dataset


@pytest.fixture(scope="module")
def whole(make):
    """The first 60 batches of a mixture, with the position after each."""
    return [(batch, tuple(position.numpy().tolist())) for batch, position in make(with_position=True).take(60)]


def test_smoothing_lowers_large_shares_and_raises_small_shares():
    np.testing.assert_allclose(smoothed_shares([1, 1, 2], 1.0), [0.25, 0.25, 0.5])
    np.testing.assert_allclose(smoothed_shares([5, 1], 0.0), [0.5, 0.5])
    large, small = smoothed_shares([100, 1], 0.7)
    assert abs(large / small - 100**0.7) < 1e-9 and abs(large + small - 1) < 1e-12


def test_the_mixture_continues_from_any_position_bit_for_bit(make, whole):
    assert whole[-1][1][1] >= 1 and whole[-1][1][0] == 60 * BATCH_SIZE  # the first corpus is beyond its first epoch
    for taken in (7, 41):
        resumed = make(with_position=True, position=whole[taken][1]).take(2)
        for (actual, position), (expected, expected_position) in zip(resumed, whole[taken + 1 :], strict=False):
            assert tuple(position.numpy().tolist()) == expected_position
            for name, values in expected.items():
                np.testing.assert_array_equal(actual[name], values)


def test_each_corpus_gets_its_share_and_its_examples_come_in_its_own_order(make, whole):
    def rows(batches):
        return [row.tobytes() for batch in batches for row in batch["input_word_ids"].numpy()]

    mixed = rows(batch for batch, _ in whole)
    first, second = (rows(make(shares=shares).take(60)) for shares in ((1.0, 0.0), (0.0, 1.0)))
    from_first = [row for row in mixed if row in set(first)]
    from_second = [row for row in mixed if row in set(second)]
    assert len(from_first) + len(from_second) == len(mixed)
    assert from_first == first[: len(from_first)] and from_second == second[: len(from_second)]
    share = len(from_first) / len(mixed)
    assert abs(share - 0.75) < 4 * np.sqrt(0.75 * 0.25 / len(mixed))


def test_the_largest_int64_is_a_valid_seed(make, whole):
    (first,) = make(seed=(1 << 63) - 1).take(1)
    assert not np.array_equal(first["input_word_ids"], whole[0][0]["input_word_ids"])
