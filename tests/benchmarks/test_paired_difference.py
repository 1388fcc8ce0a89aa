"""The interval that paired_difference gives for two rows of several seeds."""

import numpy as np
import pytest

from benchmarks.finetuning.paired_difference import paired_difference


def answers(share, seed, count=800):
    """For each of `count` examples, 1 if a run answers it right, else 0. The probability of 1 is `share`."""
    return (np.random.default_rng(seed).random(count) < share).astype(float)


def test_the_interval_excludes_zero_for_ten_points_and_includes_zero_for_equal_rows():
    better, base, same = (
        [answers(share, 10 * row + seed) for seed in range(5)] for row, share in enumerate((0.9, 0.8, 0.8))
    )
    result = paired_difference(better, base, range(800))
    assert (
        result["difference"] == pytest.approx(np.mean(better) - np.mean(base), abs=1e-6)
        and result["interval"][0] > 0.05
    )
    low, high = paired_difference(same, base, range(800))["interval"]
    assert low < 0 < high


def test_seeds_that_differ_widen_the_interval():
    alike = [answers(0.8, seed) for seed in range(5)]
    apart = [answers(share, seed) for seed, share in enumerate((0.6, 0.7, 0.8, 0.9, 1.0))]
    widths = [
        high - low for low, high in (paired_difference(ours, alike, range(800))["interval"] for ours in (alike, apart))
    ]
    assert widths[1] > 3 * widths[0]
