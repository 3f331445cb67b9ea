"""What is left of a variable when its regression on another one is taken off."""

from __future__ import annotations

import numpy as np

from condcs.core.thread_limit import one_blas_thread
from condcs.inference.statistics import FloatArray
from condcs.kernels.log_kernels import LogKernel

LANDMARKS = 200
"""Rows that span the regression function; up to this many rows it is an ordinary kernel ridge regression."""

_RIDGES = 10.0 ** np.arange(-4.0, 2.5, 0.5)
_SMALLEST_EIGENVALUE = 1e-10
_NEGLIGIBLE = 1e-8


class PoolRegression:
    """Kernel ridge regressions on the pool of a kernel.

    The ridge is the one with the smallest leave-one-out error of a fixed grid, found in closed form. Cost O(n m^2) and
    memory O(n m) for m = min(n, 200) evenly spaced landmark rows.
    """

    def __init__(self, kernel: LogKernel, n: int) -> None:
        self.rows = n
        # Small matrices: more threads of BLAS gain nothing, round differently, and spin while ours compute.
        with one_blas_thread():
            self._basis, self._spectrum = _orthogonal_features(kernel, n)

    def residuals(self, targets: FloatArray) -> FloatArray:
        """Return targets minus their regression.

        Targets that it explains to the last digits are returned as they are: residuals would be rounding errors.
        """
        centred = targets - targets.mean(axis=0)
        best, residuals = np.inf, centred
        with one_blas_thread():
            along = self._basis.T @ centred
            for ridge in _RIDGES:
                shrinkage = 1 / (self._spectrum + ridge)
                left = centred - self._basis @ (shrinkage[:, None] * along)
                kept = 1 - (self._basis * self._basis) @ shrinkage
                error = float(np.sum((left / np.maximum(kept, np.finfo(float).eps)[:, None]) ** 2))
                if error < best:
                    best, residuals = error, left
        scale = centred.std(axis=0)
        return np.asarray(np.where(residuals.std(axis=0) > _NEGLIGIBLE * scale, residuals, targets))


def _orthogonal_features(kernel: LogKernel, n: int) -> tuple[FloatArray, FloatArray]:
    """Return features of all rows whose Gram matrix is diagonal, and that diagonal (a Nystrom factor of the kernel)."""
    landmarks = np.unique(np.linspace(0, n - 1, min(n, LANDMARKS)).astype(np.int64))
    gram = np.exp(np.asarray(kernel.block(slice(0, n), landmarks), dtype=np.float64))
    values, vectors = np.linalg.eigh(gram[landmarks])
    chosen = values > _SMALLEST_EIGENVALUE * values[-1]
    features = gram @ (vectors[:, chosen] / np.sqrt(values[chosen]))
    spectrum, turn = np.linalg.eigh(features.T @ features)
    return features @ turn, np.maximum(spectrum, 0.0)
