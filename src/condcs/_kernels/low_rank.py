"""Gram matrices of low rank: factors from a few columns, and spectra without directions that are rounding errors."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

FloatArray = np.ndarray[Any, Any]


def pivoted_cholesky(
    column: Callable[[int], FloatArray], diagonal: FloatArray, *, most: int, enough: Callable[[FloatArray], bool]
) -> tuple[FloatArray, FloatArray]:
    """Return a factor F of a Gram matrix, F F' being close to it, and what is left of the diagonal.

    The next column is always the one of the row of which most is left. Cost O(n r^2) and r columns for rank r.

    Parameters
    ----------
    column : callable
        Takes the place of a row, and returns that column of the Gram matrix.
    diagonal : array, shape (n,)
        Its diagonal.
    most : int
        The largest rank.
    enough : callable
        Takes what is left of the diagonal, and says whether that is little enough.
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


def main_directions(gram: FloatArray, tolerance: float) -> tuple[FloatArray, FloatArray]:
    """Return the eigenvalues of a Gram matrix above this part of the largest one, and their eigenvectors."""
    values, vectors = np.linalg.eigh(0.5 * (gram + gram.T))
    kept = values > tolerance * values[-1]
    return values[kept], vectors[:, kept]


def pseudo_inverse(gram: FloatArray, tolerance: float) -> FloatArray:
    """Return the inverse of a Gram matrix along its main directions."""
    values, vectors = main_directions(gram, tolerance)
    return np.asarray((vectors / values) @ vectors.T)
