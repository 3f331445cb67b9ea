r"""How similar two rows are whose labels differ: the bandwidth of the kernel of Aitchison and Aitken, by rule.

Their kernel gives a share :math:`\lambda_c` of its mass to the other labels of a column c, evenly. In units of its
value for equal labels it is 1 where labels are equal and

.. math:: r_c = \frac{\lambda_c}{(C_c - 1) (1 - \lambda_c)}

where they differ, with :math:`C_c` the number of labels. The share is
:math:`\lambda_c = \frac{1}{1 + m} \frac{C_c - 1}{C_c}`, so that

.. math:: r_c = \frac{1}{1 + C_c m},

with m the mean number of other rows of the pool that have the same labels in all columns. Where each combination of
labels has many rows, these are compared among themselves, as by equality: r is about 1 / n for one column. Where no
row has a counterpart, m = 0, and rows count alike whatever their labels.
"""

from __future__ import annotations

import numpy as np

from condcs._core.arrays import FloatArray, IntArray, RealArray


def combination_of_row(labels: RealArray) -> IntArray:
    """Return which combination of labels each row (n x d) has: numbers 0, 1, ... (n,)."""
    rows = np.ascontiguousarray(labels, np.float64) + 0.0  # no negative zeros
    n, n_columns = rows.shape
    if not n_columns:
        return np.zeros(n, np.int64)
    # Rows are compared by their bytes: sorting them column by column takes several times as long.
    keys = rows.view(f"V{rows.itemsize * n_columns}").reshape(-1)
    return np.asarray(np.unique(keys, return_inverse=True)[1].reshape(-1))


def label_similarities(labels: RealArray) -> FloatArray:
    """Return the similarity r of two labels of each column (d,), from the labels of all pooled rows (n x d).

    Samples are not told apart, so that it is the same when rows change samples. Cost O(n log n).
    """
    rows_by_combination = np.bincount(combination_of_row(labels))  # (k,)
    n = len(labels)
    # The mean over rows of how many others have the same combination.
    counterparts = float(rows_by_combination @ (rows_by_combination - 1.0)) / n
    n_labels = np.array([len(np.unique(column)) for column in labels.T], np.float64)  # (d,)
    return 1.0 / (1.0 + n_labels * counterparts)
