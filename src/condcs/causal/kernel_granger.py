r"""Kernel Granger causality (Marinazzo, Pellicoro and Stramaglia, 2008).

The target is projected on the range of the Gram matrix K of its own past. What the joint past adds lives in the range
of :math:`\tilde K = (1 - P) K' (1 - P)`, with K' the Gram matrix of both pasts and P the projector on the range of K.
The score is the sum of squared correlations of what is left of the target with those eigenvectors of
:math:`\tilde K` whose correlation is significant (5%, Bonferroni).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from condcs.core.checks import check_choice, check_positive
from condcs.kernels.bandwidths import bandwidth as median_width
from condcs.kernels.row_sums import exp_in_place

FloatArray = np.ndarray[Any, Any]

EIGENSOLVERS = ("low_rank", "full")

_SIGNIFICANCE = 0.05


def kernel_granger(
    target: FloatArray,
    condition: FloatArray,
    source: FloatArray,
    *,
    bandwidth: Any = "median",
    tolerance: float = 1e-6,
    eigensolver: str = "low_rank",
) -> float:
    """Return the filtered causality index: the share of what is left of the target that the source's past explains.

    `bandwidth` is "median", a number, or a pair of numbers: for the own past and for both pasts. Eigenvalues below
    `tolerance` times the largest count as 0. "full" decomposes n x n matrices, O(n^3); "low_rank" first finds a factor
    K = F F' by pivoted Cholesky down to the same tolerance, O(n r^2).
    """
    check_choice("eigensolver", eigensolver, EIGENSOLVERS)
    check_positive("tolerance", tolerance)
    both = np.hstack([condition, source])
    own_width, both_width = kernel_widths(condition, source, bandwidth)
    spectrum = _full_spectrum if eigensolver == "full" else _low_rank_spectrum
    V = spectrum(condition, own_width, tolerance, None)
    W = spectrum(both, both_width, tolerance, V)
    best = 0.0
    for column in target.T:
        y = column - column.mean()
        y = y - V @ (V.T @ y)
        norm = float(np.linalg.norm(y))
        if norm == 0 or not W.shape[1]:
            continue
        r = W.T @ (y / norm)
        best = max(best, float(np.sum(r[_significant(r, len(y))] ** 2)))
    return best


def _significant(r: FloatArray, n: int) -> Any:
    """Which correlations differ from 0 by Student's t at 5%, Bonferroni-corrected."""
    from scipy.stats import t as student

    critical = float(student.ppf(1 - _SIGNIFICANCE / (2 * len(r)), n - 2))
    return np.abs(r) > critical / np.sqrt(n - 2 + critical**2)


def kernel_widths(condition: FloatArray, source: FloatArray, bandwidth: Any) -> tuple[float, float]:
    """Return the widths on the own past and on both pasts."""
    if isinstance(bandwidth, tuple):
        return bandwidth
    if isinstance(bandwidth, str):
        check_choice("bandwidth", bandwidth, ("median",))
        tables = condition, np.hstack([condition, source])
        own, both = (float(median_width(table, rule="joint_median")) for table in tables)
        return own, both
    width = check_positive("bandwidth", bandwidth)
    return width, width


def _full_spectrum(points: FloatArray, width: float, tolerance: float, removed: FloatArray | None) -> FloatArray:
    """Eigenvectors of the centred Gram matrix, after the span of `removed` is taken out of both sides."""
    from scipy.spatial.distance import pdist, squareform

    K = squareform(pdist(points, "sqeuclidean"))
    K *= -1 / (2 * width**2)
    exp_in_place(K)
    mean = K.mean(axis=0)
    K += mean.mean() - mean - mean[:, None]
    largest = None
    if removed is not None:
        largest = float(np.linalg.norm(K, 2)) if len(K) < 3 else _largest_eigenvalue(K)
        K = K - removed @ (removed.T @ K)
        K = K - (K @ removed) @ removed.T
        K = (K + K.T) / 2
    values, vectors = np.linalg.eigh(K)
    kept = values > tolerance * (values[-1] if largest is None else largest)
    return np.asarray(vectors[:, kept])


def _largest_eigenvalue(K: FloatArray) -> float:
    from scipy.sparse.linalg import eigsh

    return float(eigsh(K, k=1, v0=np.linspace(1, 2, len(K)), return_eigenvectors=False)[0])


def _low_rank_spectrum(points: FloatArray, width: float, tolerance: float, removed: FloatArray | None) -> FloatArray:
    """As `_full_spectrum`, from a pivoted Cholesky factor."""
    from condcs.causal.compiled import pivoted_cholesky

    n = len(points)
    scale = 1 / (2 * width**2)
    # The trace of what is left bounds the error of every eigenvalue; the largest eigenvalue is at least trace / rank.
    F = pivoted_cholesky(np.ascontiguousarray(points, np.float64), scale, 0.1 * tolerance * n, n)
    F = F - F.mean(axis=0)
    largest = None
    if removed is not None:
        largest = float(np.linalg.eigvalsh(F.T @ F)[-1])
        F = F - removed @ (removed.T @ F)
    # Eigenvectors of F F' from those of the small F' F.
    values, vectors = np.linalg.eigh(F.T @ F)
    kept = values > tolerance * (values[-1] if largest is None else largest)
    return np.asarray(F @ vectors[:, kept] / np.sqrt(values[kept]))
