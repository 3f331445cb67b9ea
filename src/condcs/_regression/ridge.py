"""Ridge regression in closed form: what a penalty keeps of each direction, and errors with rows or clusters left out.

Every linear fit of the library is one of these: orthonormal directions of some functions of x, each shrunk by a
penalty, judged by the error of rows (or whole clusters) that had no part in their own fit.
"""

from __future__ import annotations

import numpy as np

from condcs._core.arrays import FloatArray, IntArray, RealArray

RIDGE_PENALTIES = 10.0 ** np.arange(-3.0, 4.01)
"""Penalties of least squares, in ascending order, from hardly any shrinkage to nearly nothing kept, for functions in
units of their deviations. They are a decade apart: a factor of three in a penalty changes a test in nothing."""

MOST_FREEDOM = 1 / 3
"""Largest degrees of freedom of a fit, as a share of the rows. Where a fit all but passes through every row, what the
closed form says of a row left out is a quotient of rounding errors."""

LEAST_ONE_MINUS_LEVERAGE = 0.05
"""Smallest value of 1 - leverage: a row that decides its own fit is not blown up by more than 20."""


def ridge_shrinkages(spectrum: FloatArray, penalties: RealArray, units: int) -> FloatArray:
    """Return what ridge penalties keep along each direction (p x penalties), of fits that are not too flexible.

    A direction of squared length s is multiplied by s / (s + penalty); their sum is the fit's degrees of freedom.
    Penalties with more of these than `MOST_FREEDOM` times the units have no column.
    """
    shrinkages = spectrum[:, None] / (spectrum[:, None] + penalties)  # (p, penalties)
    freedom = shrinkages.sum(axis=0)
    return np.asarray(shrinkages[:, freedom <= MOST_FREEDOM * units])


class ClusterMeans:
    """Means over the rows of each cluster.

    Parameters
    ----------
    clusters : array of int, shape (n,)
        Cluster of each row, by any numbers.
    """

    def __init__(self, clusters: IntArray) -> None:
        from scipy.sparse import csr_array

        # The first row of each cluster, the cluster of each row as 0, 1, ..., and the rows of each cluster.
        _, self.first_rows, self.cluster_of_row, self.row_counts = np.unique(
            clusters, return_index=True, return_inverse=True, return_counts=True
        )
        n = len(clusters)
        # As a matrix (clusters x n), whose product with columns sums them over the rows of each cluster.
        self.sums = csr_array((np.ones(n), (self.cluster_of_row, np.arange(n))), shape=(len(self.row_counts), n))

    def __call__(self, columns: RealArray) -> FloatArray:
        """Return the means of columns (clusters x columns)."""
        return np.asarray(self.sums @ columns) / self.row_counts[:, None]


def left_out(
    residuals: FloatArray,
    leverage: FloatArray,
    clusters: ClusterMeans | None = None,
    mean_of_hat: FloatArray | None = None,
) -> FloatArray:
    """Return residuals of linear smoothers with each row, or cluster of rows, left out of the fit.

    Residuals and leverages are (n x columns). Without clusters it is r / (1 - leverage).

    With clusters, the block of the hat matrix that belongs to a cluster is taken as its mean (`mean_of_hat`, clusters x
    columns), which acts on the mean residual, and what its diagonal (the leverage) has more than that, which acts on
    the rest: exact for a cluster of one row, and for rows that have the same x.
    """
    if clusters is None or mean_of_hat is None:
        return np.asarray(residuals / np.maximum(1 - leverage, LEAST_ONE_MINUS_LEVERAGE))
    means = clusters(residuals)  # (clusters, columns)
    deviations = residuals - means[clusters.cluster_of_row]  # (n, columns)
    deviations /= np.maximum(1 - leverage + mean_of_hat[clusters.cluster_of_row], LEAST_ONE_MINUS_LEVERAGE)
    # A block of m rows with the entry h throughout takes m h of a residual that they share.
    means_left_out = means / np.maximum(1 - clusters.row_counts[:, None] * mean_of_hat, LEAST_ONE_MINUS_LEVERAGE)
    return np.asarray(deviations + means_left_out[clusters.cluster_of_row])
