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
    """
    shrinkages = spectrum[:, None] / (spectrum[:, None] + penalties)
    return np.asarray(shrinkages[:, shrinkages.sum(axis=0) <= MOST_FREEDOM * units])


class ClusterMeans:
    """Means over the rows of each cluster.

    Parameters
    ----------
    clusters : array of int, shape (n,)
        Cluster of each row, by any numbers.
    """

    def __init__(self, clusters: IntArray) -> None:
        from scipy.sparse import csr_array

        _, self.first, self.of_rows, self.sizes = np.unique(
            clusters, return_index=True, return_inverse=True, return_counts=True
        )
        n = len(clusters)
        self.sums = csr_array((np.ones(n), (self.of_rows, np.arange(n))), shape=(len(self.sizes), n))

    def __call__(self, columns: RealArray) -> FloatArray:
        """Return the means of columns (clusters x columns)."""
        return np.asarray(self.sums @ columns) / self.sizes[:, None]


def left_out(
    residuals: FloatArray, leverage: FloatArray, clusters: ClusterMeans | None = None, common: FloatArray | float = 0.0
) -> FloatArray:
    """Return residuals of linear smoothers with each row, or cluster of rows, left out of the fit.

    The hat matrix of a cluster is taken as its mean (`common`, clusters x columns), which acts on the mean residual,
    and what its diagonal (`leverage`, rows x columns) has more than that, which acts on the rest: exact for a cluster
    of one row, and for rows that have the same x.
    """
    if clusters is None:
        return np.asarray(residuals / np.maximum(1 - leverage, LEAST_ONE_MINUS_LEVERAGE))
    mean, common = clusters(residuals), np.asarray(common)
    deviations = residuals - mean[clusters.of_rows]
    deviations /= np.maximum(1 - leverage + common[clusters.of_rows], LEAST_ONE_MINUS_LEVERAGE)
    means_left_out = mean / np.maximum(1 - clusters.sizes[:, None] * common, LEAST_ONE_MINUS_LEVERAGE)
    return np.asarray(deviations + means_left_out[clusters.of_rows])
