"""Means of several seeds, and differences of two kinds of model with their intervals."""

import numpy as np
import scipy.stats


def spread(values, decimals=4):
    """The mean, with the lowest and the highest of several seeds."""
    mean, low, high = (f"{value:.{decimals}f}" for value in (np.mean(values), min(values), max(values)))
    return mean if len(values) == 1 else f"{mean} ({low} to {high})"


def difference(one, other, decimals=4):
    """The difference of two means, with its 95 % interval over seeds (Welch)."""
    mean = f"{np.mean(one) - np.mean(other):+.{decimals}f}"
    if min(len(one), len(other)) < 2 or np.ptp(one) + np.ptp(other) == 0:
        return mean
    low, high = scipy.stats.ttest_ind(one, other, equal_var=False).confidence_interval()
    return f"{mean} ({low:+.{decimals}f} to {high:+.{decimals}f})"


def over_examples(one, other, groups=None):
    """[low, high] of the difference of two kinds: 95 % interval over examples, by the bootstrap of the seeds' mean.

    Args:
        one: [seeds, examples] or [seeds, examples, figures]. A figure of each example, such as whether it is right.
        other: the same of the other kind. It may have another number of seeds.
        groups: [examples]. The numbers of their articles, which are drawn as a whole; by default each is alone.
    """
    gains = np.mean(np.asarray(one, float), axis=0) - np.mean(np.asarray(other, float), axis=0)
    groups = np.unique(np.arange(len(gains)) if groups is None else groups, return_inverse=True)[1]
    counts = np.bincount(groups)
    sums = np.zeros((len(counts), *gains.shape[1:]))
    np.add.at(sums, groups, gains)
    draws = np.random.default_rng(0).integers(0, len(counts), (1000, len(counts)))
    means = [sums[draw].sum(axis=0) / counts[draw].sum() for draw in draws]
    return np.percentile(means, [2.5, 97.5], axis=0)
