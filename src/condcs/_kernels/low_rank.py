"""Gram matrices of low rank: a factor of few columns, and inverses and their roots along directions that are there."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from condcs._core.arrays import FloatArray, RealArray

# Columns that a factor has room for at first; it doubles when they are used up.
_FIRST_COLUMNS = 64


def pivoted_cholesky(
    column: Callable[[int], RealArray], diagonal: FloatArray, *, most: int, enough: Callable[[FloatArray], bool]
) -> tuple[FloatArray, FloatArray]:
    """Return a factor F of a Gram matrix, F F' being close to it, and the diagonal of the remainder.

    `column` takes the index of a row and returns that column of the matrix. The next one is always that of the row with
    the largest remainder, until there are `most` or the remaining diagonal is `enough`. Cost O(n r^2) for rank r.
    """
    rest = np.array(diagonal, np.float64)  # (n,)
    n, k = len(rest), 0
    factor = np.zeros((n, min(most, _FIRST_COLUMNS)))
    while k < most and not enough(rest):
        pivot = int(np.argmax(rest))
        if k == factor.shape[1]:
            factor = np.hstack([factor, np.zeros((n, min(most - k, k)))])
        factor[:, k] = (column(pivot) - factor[:, :k] @ factor[pivot, :k]) / math.sqrt(rest[pivot])
        rest = np.maximum(rest - factor[:, k] ** 2, 0.0)
        rest[pivot] = 0.0
        k += 1
    return np.ascontiguousarray(factor[:, :k]), rest


def inverse_root(gram: RealArray, tolerance: float) -> FloatArray:
    """Return a root R (m, r) of the inverse of a Gram matrix (m, m): R R' inverts it.

    Eigenvectors are left out whose values are at most `tolerance` times the largest. With the Gram matrix K of landmark
    rows, products of the features k(x, landmarks) R are the Nystrom kernel of two rows, exact at the landmarks.
    """
    values, vectors = np.linalg.eigh(gram)
    is_resolved = values > tolerance * values[-1]
    return np.asarray(vectors[:, is_resolved] / np.sqrt(values[is_resolved]))


def pseudo_inverse(gram: FloatArray, tolerance: float) -> FloatArray:
    """Return the inverse of a Gram matrix along the eigenvectors whose values are above this part of the largest."""
    values, vectors = np.linalg.eigh(0.5 * (gram + gram.T))
    is_resolved = values > tolerance * values[-1]
    return np.asarray((vectors[:, is_resolved] / values[is_resolved]) @ vectors[:, is_resolved].T)
