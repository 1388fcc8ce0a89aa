"""Two-sample tests of binned values, for samples whose units come in clusters.

Examples of one document are not independent: they share sentences and a pass's target length, so that a plain
chi-square test finds differences between two runs of one program. Both samples here are of the same documents; given
the documents, the differences that each contributes are independent and, if both programs draw from one distribution,
of mean zero. Their sum is tested against the spread that they show (Hotelling's T squared, a Wald test with the
documents as clusters). The plain chi-square and the Kolmogorov-Smirnov distance are given beside it.
"""

import typing

import numpy as np

_MIN_SHARE = 0.01  # of all units, in every bin


class Comparison(typing.NamedTuple):
    """What came of one test; every figure is 0 and every p 1 where both samples hold one value only."""

    distance: float  # Kolmogorov-Smirnov: the largest difference of cumulative shares
    chi_square: float
    degrees: int
    chi_square_p: float  # as if units were independent
    clustered_p: float


def compare(values, clusters, other_values, other_clusters, num_clusters):
    """Tests whether two samples of integers have one distribution.

    Args:
        values, other_values: int [n], [m]. clusters, other_clusters: int [n], [m] in [0, num_clusters).
    """
    pooled = np.concatenate([values, other_values])
    edges = _bin_edges(pooled)
    num_bins = len(edges) + 1
    counts, other_counts = (
        _counts(np.searchsorted(edges, side, side="right"), of, num_clusters, num_bins)
        for side, of in ((values, clusters), (other_values, other_clusters))
    )
    distance = _distance(values, other_values, pooled)
    if num_bins == 1:
        return Comparison(distance, 0.0, 0, 1.0, 1.0)
    totals = np.stack([counts.sum(0), other_counts.sum(0)])
    expected = totals.sum(1, keepdims=True) * totals.sum(0) / totals.sum()
    chi_square = float(((totals - expected) ** 2 / expected).sum())
    # [K, bins] how far each cluster moves the two samples' shares apart; the rows sum to the difference.
    shares = totals.sum(0) / totals.sum()
    moved = sum(
        sign * (side - shares * side.sum(1, keepdims=True)) / side.sum()
        for sign, side in ((1, counts), (-1, other_counts))
    )
    return Comparison(
        distance, chi_square, num_bins - 1, _chi_square_p(chi_square, num_bins - 1), hotelling_p(moved[:, :-1])
    )


def hotelling_p(moved):
    """p of the hypothesis that the rows [K, d], independent of each other, have mean zero."""
    moved = moved[(moved != 0).any(1)]
    num_rows = len(moved)
    if num_rows < 2:
        return 1.0
    total, spread = moved.sum(0), moved - moved.mean(0)
    covariance = spread.T @ spread * (num_rows / (num_rows - 1))
    degrees = int(np.linalg.matrix_rank(covariance, hermitian=True))
    if not 0 < degrees < num_rows:
        return 1.0
    t_square = total @ np.linalg.pinv(covariance, hermitian=True) @ total
    f_value = t_square * (num_rows - degrees) / (degrees * (num_rows - 1))
    return _f_p(f_value, degrees, num_rows - degrees)


def _bin_edges(pooled):
    """The lowest value of every bin but the first: neighbouring values are joined until a bin holds its share."""
    distinct, counts = np.unique(pooled, return_counts=True)
    edges, held, rest = [], 0, len(pooled)
    least = _MIN_SHARE * len(pooled)
    for value, count in zip(distinct, counts):
        if held >= least and rest >= least:
            edges.append(value)
            held = 0
        held += count
        rest -= count
    return np.array(edges)


def _counts(bins, clusters, num_clusters, num_bins):
    return (
        np.bincount(clusters * num_bins + bins, minlength=num_clusters * num_bins)
        .reshape(num_clusters, num_bins)
        .astype(np.float64)
    )


def _distance(values, other_values, pooled):
    points = np.unique(pooled)
    cumulative = [np.searchsorted(np.sort(side), points, side="right") / len(side) for side in (values, other_values)]
    return float(np.abs(cumulative[0] - cumulative[1]).max())


def _chi_square_p(chi_square, degrees):
    import tensorflow as tf

    return float(tf.math.igammac(np.float64(degrees / 2), np.float64(chi_square / 2)))


def _f_p(f_value, degrees, other_degrees):
    import tensorflow as tf

    return float(
        tf.math.betainc(
            np.float64(other_degrees / 2),
            np.float64(degrees / 2),
            np.float64(other_degrees / (other_degrees + degrees * f_value)),
        )
    )
