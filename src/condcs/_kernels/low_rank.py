"""Gram matrices of low rank: a factor of few columns, and inverses along the directions that are there."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from condcs._core.arrays import FloatArray, RealArray


def pivoted_cholesky(
    column: Callable[[int], RealArray], diagonal: FloatArray, *, most: int, enough: Callable[[FloatArray], bool]
) -> tuple[FloatArray, FloatArray]:
    """Return a factor F of a Gram matrix, F F' being close to it, and what is left of the diagonal.

    `column` takes the place of a row and returns that column of the matrix. The next one is always that of the row of
    which most is left, until there are `most` or what is left of the diagonal is `enough`. Cost O(n r^2) for rank r.
    """
    rest = np.array(diagonal, np.float64)
    n, k = len(rest), 0
    factor = np.zeros((n, min(most, 64)))
    while k < most and not enough(rest):
        pivot = int(np.argmax(rest))
        if k == factor.shape[1]:
            factor = np.hstack([factor, np.zeros((n, min(most - k, k)))])
        factor[:, k] = (column(pivot) - factor[:, :k] @ factor[pivot, :k]) / math.sqrt(rest[pivot])
        rest = np.maximum(rest - factor[:, k] ** 2, 0.0)
        rest[pivot] = 0.0
        k += 1
    return np.ascontiguousarray(factor[:, :k]), rest


def pseudo_inverse(gram: FloatArray, tolerance: float) -> FloatArray:
    """Return the inverse of a Gram matrix along the eigenvectors whose values are above this part of the largest."""
    values, vectors = np.linalg.eigh(0.5 * (gram + gram.T))
    kept = values > tolerance * values[-1]
    return np.asarray((vectors[:, kept] / values[kept]) @ vectors[:, kept].T)
