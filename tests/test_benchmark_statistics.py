"""How pretraining_statistics compares builders: tests that hold for clusters, segments found again, faults named."""

import numpy as np
import pytest

from benchmarks.data import example_statistics, segment_locations, two_sample_tests
from benchmarks.data.segment_locations import Corpus

NUM_CLUSTERS, PER_CLUSTER = 300, 11


def clustered_sample(rng, shift=0.0):
    """Values 0 to 9; all of a cluster lie near one value, as do examples of a document with one target length."""
    centres = rng.integers(0, 8, NUM_CLUSTERS).repeat(PER_CLUSTER)
    values = centres + rng.integers(0, 3, len(centres)) + (rng.random(len(centres)) < shift)
    return values, np.arange(NUM_CLUSTERS).repeat(PER_CLUSTER)


def test_p_values_of_one_distribution_are_even_although_clusters_hang_together():
    rng = np.random.default_rng(0)
    found = [two_sample_tests.compare(*clustered_sample(rng), *clustered_sample(rng), NUM_CLUSTERS) for _ in range(200)]
    assert 0.01 <= np.mean([one.clustered_p < 0.05 for one in found]) <= 0.11
    assert 0.4 <= np.mean([one.clustered_p for one in found]) <= 0.6
    assert np.mean([one.chi_square_p < 0.05 for one in found]) > 0.5  # what documents as units are for


def test_a_difference_is_found():
    rng = np.random.default_rng(1)
    found = two_sample_tests.compare(*clustered_sample(rng), *clustered_sample(rng, shift=1.0), NUM_CLUSTERS)
    assert found.clustered_p < 1e-3
    assert found.distance > 0.03


def test_samples_of_one_value_are_equal():
    ones, clusters = np.ones(6, int), np.arange(6)
    assert two_sample_tests.compare(ones, clusters, ones, clusters, 6) == (0.0, 0.0, 0, 1.0, 1.0)


# Two documents: sentences [5 6 7] [8 9], and [5 6] [10 11 12 13].
CORPUS = Corpus(
    np.array([5, 6, 7, 8, 9, 5, 6, 10, 11, 12, 13], np.int32),
    np.array([0, 3, 5, 7, 11]),
    np.array([0, 5, 11]),
    np.array([0, 1]),
)


@pytest.mark.parametrize(
    "segment, start, is_located, is_wrong",
    [
        ([6, 7, 8], 1, True, False),
        ([10, 11, 12, 13], 7, True, False),
        ([5, 6], 0, False, False),  # stands there twice
        ([9, 5], 0, False, True),  # runs over the end of a document
        ([8, 9, 5], 3, False, True),
        ([7, 8, 10], 2, False, True),
        ([12, 10], 0, False, True),
    ],
)
def test_segments_are_found_again_or_found_wrong(segment, start, is_located, is_wrong):
    row = np.array([[101, *segment, 102, 0, 0]], np.int32)
    found = segment_locations.locate(CORPUS, row, np.array([1]), np.array([len(segment)]))
    assert [values.tolist() for values in found] == [[start], [is_located], [is_wrong]]


class Tokenizer:
    pad_id, cls_id, sep_id, mask_id = 0, 101, 102, 103


# [CLS] 6 7 8 [SEP] 10 11 [SEP] [PAD], 7 masked
ARRAYS = {
    "input_word_ids": np.array([[101, 6, 103, 8, 102, 10, 11, 102, 0]]),
    "lengths": np.array([8]),
    "input_type_ids": np.array([[0, 0, 0, 0, 0, 1, 1, 1, 0]]),
    "masked_lm_positions": np.array([[2, 0]]),
    "masked_lm_ids": np.array([[7, 0]]),
    "num_masked": np.array([1]),
    "next_sentence_labels": np.array([1]),
}


def faults_of(**changes):
    examples = example_statistics.examples_from({**ARRAYS, **{name: np.array([row]) for name, row in changes.items()}})
    locations = example_statistics.locate_segments(CORPUS, examples)
    found = example_statistics.faults(examples, locations, Tokenizer, 0.15, 2)
    return [name for name, count in found.items() if count]


def test_a_right_example_has_no_fault():
    assert faults_of() == []


@pytest.mark.parametrize(
    "changes, fault",
    [
        ({"input_word_ids": [101, 6, 103, 8, 9, 10, 11, 102, 0]}, "not [CLS] A [SEP] B [SEP]"),
        ({"input_word_ids": [101, 6, 103, 8, 102, 10, 11, 102, 1]}, "not padding after it"),
        ({"masked_lm_ids": [9, 0]}, "A is no run of a document's pieces"),
        ({"input_word_ids": [101, 6, 103, 8, 102, 11, 10, 102, 0]}, "B is no run of a document's pieces"),
        (
            {"masked_lm_positions": [2, 3], "masked_lm_ids": [7, 8], "num_masked": 2},
            "number of predictions is not min(P, max(1, round(0.15 length)))",
        ),
        ({"masked_lm_positions": [2, 2], "masked_lm_ids": [7, 7], "num_masked": 2}, "positions that do not ascend"),
        ({"masked_lm_positions": [4, 0], "masked_lm_ids": [102, 0]}, "[CLS] or [SEP] to predict"),
        ({"input_word_ids": [101, 6, 103, 103, 102, 10, 11, 102, 0]}, "[MASK] without a label"),
    ],
)
def test_every_fault_is_named(changes, fault):
    assert fault in faults_of(**changes)
