"""Two-sample tests of binned values, for samples whose units belong to clusters.

Examples of one document are not independent, since they share sentences and a pass's target length. A plain chi-square
test therefore finds differences between two runs of one program. Both samples here come from the same documents. Given
the documents, the differences that they contribute are independent of each other. Their mean is zero if both programs
draw from one distribution. The test compares the sum of the differences with their spread (Hotelling's T squared, a
Wald test with the documents as clusters). The plain chi-square and the Kolmogorov-Smirnov distance are computed too.
"""

import typing

import numpy as np

_MIN_SHARE = 0.01  # every bin holds at least this share of all units


class Comparison(typing.NamedTuple):
    """The result of one test. If all values are in one bin, chi_square and degrees are 0 and every p is 1.

    Attributes:
        distance: float. Kolmogorov-Smirnov distance, the largest difference of cumulative shares.
        chi_square: float. Statistic of the plain test.
        degrees: int. Degrees of freedom of the plain test.
        chi_square_p: float. p of the plain test, which assumes that units are independent.
        clustered_p: float. p of the test with clusters.
    """

    distance: float
    chi_square: float
    degrees: int
    chi_square_p: float
    clustered_p: float


def compare(
    values: np.ndarray,
    clusters: np.ndarray,
    other_values: np.ndarray,
    other_clusters: np.ndarray,
    num_clusters: int,
) -> Comparison:
    """Tests whether two samples of integers come from one distribution.

    Args:
        values: int array [n]. The first sample.
        clusters: int array [n] in [0, num_clusters). The cluster of each value.
        other_values: int array [m]. The second sample.
        other_clusters: int array [m] in [0, num_clusters).
        num_clusters: int. Number of clusters.
    """
    pooled = np.concatenate([values, other_values])
    edges = _bin_edges(pooled)
    num_bins = len(edges) + 1
    counts, other_counts = (
        _counts(np.searchsorted(edges, sample, side="right"), cluster, num_clusters, num_bins)
        for sample, cluster in ((values, clusters), (other_values, other_clusters))
    )
    distance = _distance(values, other_values, pooled)
    if num_bins == 1:
        return Comparison(distance, 0.0, 0, 1.0, 1.0)
    totals = np.stack([counts.sum(0), other_counts.sum(0)])
    expected = totals.sum(1, keepdims=True) * totals.sum(0) / totals.sum()
    chi_square = float(((totals - expected) ** 2 / expected).sum())
    # [K, bins]: each cluster's contribution to the difference of the two samples' shares.
    shares = totals.sum(0) / totals.sum()
    contributions = sum(
        sign * (side - shares * side.sum(1, keepdims=True)) / side.sum()
        for sign, side in ((1, counts), (-1, other_counts))
    )
    return Comparison(
        distance, chi_square, num_bins - 1, _chi_square_p(chi_square, num_bins - 1), hotelling_p(contributions[:, :-1])
    )


def hotelling_p(differences: np.ndarray) -> float:
    """p of the hypothesis that independent rows have mean zero, by Hotelling's T squared.

    Args:
        differences: float array [K, d]. The rows: the difference of two samples in each cluster.
    """
    differences = differences[(differences != 0).any(1)]
    num_rows = len(differences)
    if num_rows < 2:
        return 1.0
    total, spread = differences.sum(0), differences - differences.mean(0)
    covariance = spread.T @ spread * (num_rows / (num_rows - 1))
    degrees = int(np.linalg.matrix_rank(covariance, hermitian=True))
    if not 0 < degrees < num_rows:
        return 1.0
    t_square = total @ np.linalg.pinv(covariance, hermitian=True) @ total
    f_value = t_square * (num_rows - degrees) / (degrees * (num_rows - 1))
    return _f_p(f_value, degrees, num_rows - degrees)


def _bin_edges(pooled):
    """The lowest value of every bin but the first. A bin joins neighbouring values until it holds its share."""
    distinct, counts = np.unique(pooled, return_counts=True)
    edges, in_bin, rest = [], 0, len(pooled)
    least = _MIN_SHARE * len(pooled)
    for value, count in zip(distinct, counts, strict=True):
        if in_bin >= least and rest >= least:
            edges.append(value)
            in_bin = 0
        in_bin += count
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
