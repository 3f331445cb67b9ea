r"""Many tests of conditional independence among the columns of one sample, each in closed form.

Searches for causal graphs ask thousands of times whether two columns are independent given others. The statistics are
those of `condcs.independence_test` with null="signs"; two things make them affordable here. Regressions are kept: of
tests with the same conditioning set, all share its designs, and those with a column in common its residuals. And
p-values need no resamples. Under random signs s a view of pairs of rows is :math:`Q = \sum_{i \ne j} s_i s_j k_{ij}`,
with

.. math:: E Q = 0, \qquad E Q^2 = 2 \sum_{i \ne j} k_{ij}^2, \qquad E Q^3 = 8 \operatorname{tr} k^3,

and its tail is taken as that of the gamma distribution with these moments. A sum over rows, in units of its standard
deviation, is normal; the largest of m has m times the p-value. The views are combined by the harmonic mean of their
p-values, as in `condcs.independence_test`; its distribution is about Landau's, whatever their dependence (Wilson 2019).
"""

from __future__ import annotations

from collections import OrderedDict
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from condcs._core.settings import one_blas_thread
from condcs._inference.smoothing import _GAIN, _LEAST_LEFT, _PENALTIES, MOST_FREEDOM, Smoother, squared_distances
from condcs._inference.views import WEIGHTS, Contrasts, adjusted_response, dependence_contrasts, wave_features

FloatArray = np.ndarray[Any, Any]

_KEPT = 64
"""Conditioning sets whose regressions are kept; the least recently used one makes room."""

_SMALLEST = 1e-300

_FEW_ROWS, _FEW_COLUMNS = 2000, 16
"""Size up to which the fits of all penalties are held at once; beyond, they no longer fit in the cache."""


class QuickSmoother(Smoother):
    """The same regressions, with the fits of all penalties in one matrix product: of few columns, calls cost most."""

    @cached_property
    def _penalised(self) -> list[tuple[FloatArray, FloatArray]]:
        """Shrinkages (p x penalties) and what residuals are multiplied by to leave a row out (n x penalties)."""
        found = []
        for design in self.designs:
            shrinkage = design.spectrum[:, None] / (design.spectrum[:, None] + _PENALTIES)
            shrinkage = shrinkage[:, shrinkage.sum(axis=0) <= MOST_FREEDOM * self.rows]
            leverage = 1 / self.rows + design.basis**2 @ shrinkage
            found.append((shrinkage, 1 / np.maximum(1 - leverage, _LEAST_LEFT)))
        return found

    def residuals(self, targets: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return what the best regression of each column leaves, and the same with each row left out of the fit."""
        n, m = targets.shape
        if n > _FEW_ROWS or m > _FEW_COLUMNS:
            return super().residuals(targets)
        targets = targets - targets.mean(axis=0)
        left, left_out = targets.copy(), targets * (n / (n - 1))
        smallest = (left_out**2).sum(axis=0)
        with one_blas_thread():
            for design, (shrinkage, factors) in zip(self.designs, self._penalised, strict=True):
                count = shrinkage.shape[1]
                slopes = shrinkage.T[:, :, None] * (design.basis.T @ targets)
                fitted = design.basis @ slopes.transpose(1, 0, 2).reshape(len(design.spectrum), count * m)
                here = targets[:, None, :] - fitted.reshape(n, count, m)
                deleted = here * factors[:, :, None]
                errors = np.einsum("ikj,ikj->kj", deleted, deleted)
                for k in range(count):
                    better = errors[k] < _GAIN * smallest
                    if better.any():
                        smallest[better] = errors[k, better]
                        left[:, better], left_out[:, better] = here[:, k, better], deleted[:, k, better]
        return left, left_out


class ClosedForm(NamedTuple):
    """The p-value of all views together, and that of each."""

    pvalue: float
    pvalues: dict[str, float]


class RepeatedIndependence:
    """Tests of independence that keep their regressions.

    Cost of a test O(n^3) with a small factor: about 60 ms for 300 rows, half of that with known regressions.
    """

    def __init__(self) -> None:
        self._kept: OrderedDict[bytes, tuple[Smoother, dict[tuple[str, bytes], Any]]] = OrderedDict()

    def __call__(self, x: FloatArray, y: FloatArray, z: FloatArray | None = None) -> ClosedForm:
        """Test whether x and y (n x d each) are independent given z (n x d, or None); all are numbers."""
        # Without a condition, what a regression on a constant leaves is the deviation from the mean.
        z = np.ascontiguousarray(np.zeros((len(x), 1)) if z is None else z, np.float64)
        key = z.tobytes()
        if key not in self._kept:
            self._kept[key] = QuickSmoother(z, (False,) * z.shape[1]), {}
            if len(self._kept) > _KEPT:
                self._kept.popitem(last=False)
        self._kept.move_to_end(key)
        smoother, known = self._kept[key]

        def of(make: Any, values: FloatArray) -> Any:
            values = np.ascontiguousarray(values, np.float64)
            name = make.__name__, values.tobytes()
            if name not in known:
                known[name] = make(values, (False,) * values.shape[1], smoother)
            return known[name]

        responses = of(adjusted_response, x), of(adjusted_response, y)
        return closed_form(dependence_contrasts(*responses, of(wave_features, x), smoother))


def closed_form(contrasts: Contrasts) -> ClosedForm:
    """Return the p-value of the views of random signs."""
    pvalues: dict[str, float] = {}
    for name, functions in contrasts.sums.items():
        pvalues[name] = _tail(*_moments_of_sums(functions))
    for name, functions in contrasts.largest.items():
        pvalues[name] = min(1.0, functions.shape[1] * _normal_tail(float(_studentised(functions).max())))
    numbers = contrasts.smoother.numbers
    squared = squared_distances(numbers, numbers) / (2 * contrasts.unit)
    with one_blas_thread():
        for name, (bandwidth, features) in contrasts.kernels.items():
            kernel = np.exp(-squared / bandwidth**2) if np.isfinite(bandwidth) else np.ones_like(squared)
            for own in features:
                kernel *= own @ own.T
            np.fill_diagonal(kernel, 0.0)
            pvalues[name] = _tail(float(kernel.sum()), *_moments(kernel))
    weights = np.array([WEIGHTS.get(name, 1.0) for name in pvalues])
    return ClosedForm(_combined(np.array(list(pvalues.values())), weights / weights.sum()), pvalues)


def _studentised(functions: FloatArray) -> FloatArray:
    """Squared sums of functions in units of their variance under random signs."""
    return np.asarray(functions.sum(axis=0) ** 2 / np.maximum((functions**2).sum(axis=0), np.finfo(float).tiny))


def _moments_of_sums(functions: FloatArray) -> tuple[float, float, float]:
    """Return a sum of squared sums without its mean, and its second and third moments under random signs."""
    scale = np.sqrt(np.maximum((functions**2).sum(axis=0), np.finfo(float).tiny))
    inner = (functions / scale).T @ (functions / scale)
    return float(_studentised(functions).sum() - np.trace(inner)), 2 * float((inner**2).sum()), _cube(inner)


def _moments(kernel: FloatArray) -> tuple[float, float]:
    return 2 * float((kernel**2).sum()), _cube(kernel)


def _cube(matrix: FloatArray) -> float:
    return 8 * float(np.einsum("ij,ji->", matrix @ matrix, matrix))


def _tail(value: float, variance: float, third: float) -> float:
    """Chance of a value at least as large under a gamma distribution with mean 0 and these moments."""
    from scipy.special import gammaincc, ndtr

    if variance <= np.finfo(float).tiny:
        return 1.0
    deviation = np.sqrt(variance)
    skewness = third / deviation**3
    if skewness < 1e-3:
        return float(ndtr(-value / deviation))
    shape = 4 / skewness**2
    return float(gammaincc(shape, max(0.0, shape + np.sqrt(shape) * value / deviation)))


def _normal_tail(square: float) -> float:
    from scipy.special import ndtr

    return float(2 * ndtr(-np.sqrt(square)))


def _combined(pvalues: FloatArray, weights: FloatArray) -> float:
    """Combine p-values by their weighted harmonic mean.

    1 / mean has Landau's distribution with scale pi / 2 and location log L + 0.874, where L is the number of p-values
    (here the perplexity of their weights); its tail at x is close to 1 / (x - log x - location + 1).
    """
    x = float(weights @ (1 / np.maximum(pvalues, _SMALLEST)))
    location = 0.874 - float(weights @ np.log(weights))
    return float(1 / max(1.0, x - np.log(x) - location + 1))
